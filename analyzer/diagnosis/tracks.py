"""Memory over time: the readings of one card, process or host, out of dumps, hand-kept tables and statistics, in order of time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from analyzer.diagnosis.growth import Growth, judge
from analyzer.engines.moment import dump_time, engine_time
from analyzer.facts.view import View
from analyzer.model import Source
from analyzer.model.units import BYTES_PER, MIB, to_bytes

CARD, PROCESS = "device.used", "process.used"
HOST = ("process.rss", "host.limit_used", "host.used")
#: Courses that are looked at; a hostile dump may list thousands of processes.
MOST = 64


@dataclass(frozen=True, slots=True)
class Reading:
    """One amount at one moment. ``place`` counts the dumps or rows it is from."""

    place: int
    moment: str | None
    size: int
    source: Source


@dataclass(frozen=True, slots=True)
class Track:
    """One course. ``times`` in seconds from the first reading; None where they are not all dated (then the order stands for them)."""

    name: str
    gpu: int | None
    pid: int | None
    who: str | None
    readings: tuple[Reading, ...]
    times: tuple[float, ...] | None
    total: int | None = None

    @property
    def values(self) -> list[int]:
        """The amounts, in bytes."""
        return [reading.size for reading in self.readings]

    def judged(self) -> Growth:
        """How it goes (growth.py)."""
        return judge(self.values, self.times)


def tracks(view: View) -> list[Track]:
    """Every course of two readings or more, cards first, then processes, then the host."""
    found = [*_of_dumps(view)]
    names = {track.name for track in found}
    kept: dict[tuple[str, int | None, int | None], list[Reading]] = {}
    for place, fact in enumerate(view.documents):
        if fact.name in (CARD, PROCESS, *HOST) and fact.name not in names and fact.bytes is not None:
            kept.setdefault((fact.name, fact.gpu, fact.pid), []).append(Reading(place, fact.time, fact.bytes, fact.source))
    for (name, gpu, pid), readings in kept.items():
        found.append(_track(name, gpu, pid, None, readings))
    for series in view.series():
        if series.unit in BYTES_PER and not series.name.startswith("kv_cache"):
            source = next((fact.source for fact in reversed(view.facts) if fact.name == series.name), None)
            if source is not None:
                points = [(place, time, to_bytes(value, series.unit) or 0) for place, (time, value) in enumerate(series.points)]
                found.append(_track(series.name, series.rank, None, None, [Reading(*point, source) for point in points]))
    order = {name: place for place, name in enumerate((CARD, PROCESS, *HOST))}
    found = [track for track in found if len(track.readings) > 1]
    return sorted(found, key=lambda track: order.get(track.name, len(order)))[:MOST]


def _of_dumps(view: View) -> Iterable[Track]:
    """Cards by index and total (another total is another machine), processes by card and pid."""
    texts = {(fact.source.input, fact.source.line, fact.name, fact.pid): fact.source for fact in view.documents}
    cards: dict[tuple[int | None, float | None], list[Reading]] = {}
    rows: dict[tuple[int | str | None, int | None, str | None], list[Reading]] = {}
    for place, snapshot in enumerate(view.snapshots):
        where = snapshot.source

        def source(line: int | None, name: str, pid: int | None, where: Source = where) -> Source:
            return texts.get((where.input, line or where.line, name, pid), where)

        for card in snapshot.gpus:
            if card.memory_used_mib is not None:
                reading = Reading(place, snapshot.time, round(card.memory_used_mib * MIB), source(card.line, CARD, None))
                cards.setdefault((card.index, card.memory_total_mib), []).append(reading)
        for row in snapshot.processes:
            if row.used_mib is not None:
                reading = Reading(place, snapshot.time, round(row.used_mib * MIB), source(row.line, PROCESS, row.pid))
                rows.setdefault((row.gpu, row.pid, row.name), []).append(reading)
    for (index, total), readings in cards.items():
        yield _track(CARD, index, None, None, readings, round(total * MIB) if total is not None else None)
    totals = {index: round(total * MIB) for index, total in cards if total is not None}
    largest = sorted(rows.items(), key=lambda item: -max(reading.size for reading in item[1]))[:MOST]
    for (gpu, pid, who), readings in largest:
        index = gpu if isinstance(gpu, int) else None
        yield _track(PROCESS, index, pid, who, readings, totals.get(index) if index is not None else None)


def _track(name: str, gpu: int | None, pid: int | None, who: str | None, readings: list[Reading], total: int | None = None) -> Track:
    moments = [_moment(reading.moment) for reading in readings]
    dated = [moment for moment in moments if moment is not None]
    if len(dated) == len(readings) and dated:
        order = sorted(range(len(readings)), key=lambda place: (dated[place], place))
        readings, dated = [readings[place] for place in order], [dated[place] for place in order]
        times = tuple((moment - dated[0]).total_seconds() for moment in dated)
        if times[-1] > 0:
            return Track(name, gpu, pid, who, tuple(readings), times, total)
    return Track(name, gpu, pid, who, tuple(readings), None, total)


def _moment(text: str | None) -> datetime | None:
    return dump_time(text) or engine_time(text)
