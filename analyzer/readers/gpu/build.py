"""Snapshots and their facts → a Reading, bounded however long a dump was left running."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from analyzer.model import Fact, Gpu, GpuProcess, GpuSnapshot
from analyzer.model.units import Number
from analyzer.readers.base import Page, Reading
from analyzer.readers.gpu.cells import is_cut, name_of

#: Snapshots kept of one segment.
MAX_SNAPSHOTS = 500
#: Cards and processes kept of one snapshot; no machine has more, a hostile input may.
MAX_ROWS = 4096


@dataclass(slots=True)
class Dump:
    """One snapshot while it is read, with the facts of its lines ``first`` to ``last``."""

    page: Page
    snapshot: GpuSnapshot
    first: int
    last: int
    facts: list[Fact] = field(default_factory=list)

    def device(self, gpu: Gpu, index: int, text: str | None = None, printed: Mapping[str, tuple[Number, str]] | None = None) -> None:
        """Add a card's memory as facts; ``index`` is the page's line that states it, ``printed`` its figures that are not in MiB."""
        values = {"total": gpu.memory_total_mib, "used": gpu.memory_used_mib, "free": gpu.memory_free_mib}
        for name, value in values.items():
            if value is not None:
                size, unit = (printed or {}).get(name, (value, "MiB"))
                self.device_fact(f"device.{name}", size, unit, gpu.index, index, text)

    def device_fact(self, name: str, value: Number, unit: str, gpu: int | None, index: int, text: str | None = None) -> None:
        """One figure of a card, in the unit in which the line prints it."""
        self.facts.append(Fact(name, value, unit, self.page.source(index, text), gpu=gpu, time=self.snapshot.time))

    def process(self, process: GpuProcess, index: int, text: str | None = None, printed: tuple[Number, str] | None = None) -> None:
        """Add a process, and its memory as a fact (``printed``: value and unit, where it is not MiB). Its name is redacted here."""
        if len(self.snapshot.processes) >= MAX_ROWS:
            return
        if process.name is not None:
            process.name, process.name_status = name_of(process.name)
            process.name_truncated = is_cut(process.name)
            if process.name is not None:
                process.name = self.page.redact(process.name)
        process.line = self.page.first_line + index
        self.snapshot.processes.append(process)
        if process.used_mib is not None:
            source = self.page.source(index, text)
            gpu = process.gpu if isinstance(process.gpu, int) else None
            value, unit = printed or (process.used_mib, "MiB")
            self.facts.append(Fact("process.used", value, unit, source, gpu=gpu, pid=process.pid, time=self.snapshot.time))


def plausible(used: Number | None, total: Number | None) -> bool:
    """Whether the two can be use and size of one card: rounding aside, no card holds more than it has."""
    return used is None or total is None or (total > 0 and used <= total * 1.02 + 16)


def reading(kind: str, dumps: Sequence[Dump], *, open_end: bool = False) -> Reading:
    """One Reading of consecutive ``dumps`` (at least one)."""
    kept = thin(dumps)
    facts = [fact for dump in _telling(kept) for fact in dump.facts]
    return Reading(kind, dumps[0].first, dumps[-1].last, facts, [dump.snapshot for dump in kept], open=open_end)


def thin(dumps: Sequence[Dump], limit: int = MAX_SNAPSHOTS) -> list[Dump]:
    """At most ``limit`` of them, in order: first, last, every card's and process's fullest and emptiest moment, and evenly spaced ones."""
    if len(dumps) <= limit:
        return list(dumps)
    places = {0, len(dumps) - 1, *sorted(_extremes(dumps))[: limit // 2]}
    room = limit - len(places)
    places.update(step * (len(dumps) - 1) // room for step in range(room))
    return [dumps[place] for place in sorted(places)]


def _telling(dumps: Sequence[Dump]) -> Iterable[Dump]:
    """The dumps whose figures become facts: first, last and the extremes. The course between them is in the snapshots."""
    if len(dumps) <= 2:
        return dumps
    return [dumps[place] for place in sorted({0, len(dumps) - 1, *_extremes(dumps)})]


def _extremes(dumps: Sequence[Dump]) -> set[int]:
    highest: dict[object, tuple[float, int]] = {}
    lowest: dict[object, tuple[float, int]] = {}
    for place, dump in enumerate(dumps):
        figures: list[tuple[object, float | None]] = [
            *((("gpu", gpu.index, gpu.bus_id), gpu.memory_used_mib) for gpu in dump.snapshot.gpus),
            *((("process", process.gpu, process.pid), process.used_mib) for process in dump.snapshot.processes),
        ]
        for key, used in figures:
            if used is None:
                continue
            if key not in highest or used > highest[key][0]:
                highest[key] = (used, place)
            if key not in lowest or used < lowest[key][0]:
                lowest[key] = (used, place)
    return {place for _, place in (*highest.values(), *lowest.values())}
