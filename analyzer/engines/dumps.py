"""The dumps beside one attempt: which card of them a rank runs on, and when they were taken. Between Case and reconcile.py."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from analyzer.engines.case import Case
from analyzer.engines.lines import Lines
from analyzer.engines.moment import Moment, Run, When, dump_time, place, run_of
from analyzer.engines.reconcile import Match, Wanted, alive, is_display, match, visible_devices
from analyzer.model import Fact, GpuProcess, GpuSnapshot, Source

#: Variables that choose cards; inside a container the second one is applied first, and the dump then shows what is left.
VISIBLE = "CUDA_VISIBLE_DEVICES"
#: A card that holds less than this share of weights and pool holds no engine.
OCCUPIED_SHARE, EMPTY_SHARE = 0.97, 0.6


@dataclass(frozen=True, slots=True)
class Dump:
    """One dump that shows the GPU in question."""

    match: Match
    moment: Moment

    @property
    def snapshot(self) -> GpuSnapshot:
        """The dump itself."""
        return self.match.snapshot


def wanted(case: Case, gpu: int | None, rank: int | None, lines: Lines | None = None) -> Wanted:
    """What the log says about the GPU ``gpu`` of ``rank``; ``lines`` is its ledger as far as the log alone gives it."""
    view = case.view
    processes = [process for process in view.attempt.processes.values() if process.pid is not None]
    family = frozenset(process.pid for process in processes if process.pid is not None)
    at = rank if rank is not None else gpu
    own = {process.pid for process in processes if process.pid is not None and at is not None and view.ranks.of(process) == at}
    # In a container the failing sentence lists the own process by its host pid.
    for event in view.attempt.all_events():
        if rank is None or view.ranks.of(event.process) in (rank, None):
            listed = [seen for seen in event.figures if seen.name == "oom.process_in_use" and gpu in (None, seen.gpu)]
            own |= {seen.pid for seen in listed if seen.pid is not None}
    process = lines.get("process") if lines is not None else None
    parts = [lines.get(name) for name in ("weights", "kv_cache")] if lines is not None else []
    floor = sum(part for part in parts if part is not None) if parts and all(part is not None and part > 0 for part in parts) else None
    stated = lines.get("total") if lines is not None else None
    total = stated or view.bytes("device.total", rank) or view.bytes("oom.total", rank)
    return Wanted(gpu, rank, total, process, floor, frozenset(pid for pid in own if pid is not None), family | own)


def run(case: Case, year: int) -> Run:
    """The attempt on its own clock; lines without a year are read as of ``year``."""
    view = case.view
    times: list[str | None] = [*view.attempt.stage_times.values(), *(fact.time for fact in view.facts)]
    for series in view.series():
        times += [time for time, _ in series.points[:1] + series.points[-1:]]
    ended = case.state == "failed" or view.attempt.shutdown is not None
    ending = case.event.time if case.event is not None and case.state == "failed" else None
    return run_of(times, ending, ended=ended, year=year)


def dumps(case: Case, gpu: int | None, rank: int | None, lines: Lines | None = None) -> Iterator[Dump]:
    """Every dump that shows the card of this rank, in the order of the inputs."""
    side = wanted(case, gpu, rank, lines)
    setting = case.view.environment.get(VISIBLE)
    visible = visible_devices(str(setting.value)) if setting is not None and setting.value is not None else None
    runs: dict[int, Run] = {}
    for snapshot in case.view.snapshots:
        # A desktop's process whose number happens to be that of a container's process is not the engine.
        desktop = {row.pid for row in snapshot.processes if is_display(row) and row.pid is not None}
        here = replace(side, pids=side.pids - desktop, family=side.family - desktop)
        found = match(snapshot, here, visible)
        if found is None:
            continue
        taken = dump_time(snapshot.time)
        year = taken.year if taken else 2000
        if year not in runs:
            runs[year] = run(case, year)
        moment = place(taken, runs[year], alive=alive(snapshot, here), occupied=_occupied(found, side))
        if moment.when in (When.BEFORE, When.AFTER) and found.own_by in ("name", "amount"):
            found = replace(found, own=(), own_by=None, others=(*found.own, *found.others))
        yield Dump(found, moment)


def _occupied(found: Match, side: Wanted) -> bool | None:
    if side.floor is None or found.used is None:
        return None
    if found.used >= OCCUPIED_SHARE * side.floor:
        return True
    return False if found.used < EMPTY_SHARE * side.floor else None


def in_service(case: Case, gpu: int | None, rank: int | None, lines: Lines) -> Dump | None:
    """The last dump that shows the engine at work on this card."""
    fitting = [dump for dump in dumps(case, gpu, rank, lines) if not dump.match.doubt]
    during = [dump for dump in fitting if dump.moment.when is When.DURING]
    told = [dump for dump in fitting if dump.moment.when is When.UNKNOWN and dump.match.own_by is not None]
    return (during or told or [None])[-1]  # type: ignore[list-item]


def at_start(case: Case, gpu: int | None, rank: int | None) -> Dump | None:
    """The dump that shows best who else was on the card when the engine came: one of before or during, else any that names somebody."""
    fitting = [dump for dump in dumps(case, gpu, rank) if not dump.match.doubt]
    order = (When.DURING, When.BEFORE, When.UNKNOWN, When.AFTER)
    fitting.sort(key=lambda dump: (dump.match.foreign is not None, -order.index(dump.moment.when)))
    return fitting[-1] if fitting else None


def row_source(case: Case, snapshot: GpuSnapshot, row: GpuProcess) -> Source:
    """The line of the dump that names the process, where it was kept; else the dump's first."""
    for fact in case.view.documents:
        here = fact.source.input == snapshot.source.input and fact.source.line == row.line
        if here and fact.name == "process.used" and fact.pid == row.pid:
            return fact.source
    return snapshot.source


def row_fact(case: Case, snapshot: GpuSnapshot, row: GpuProcess) -> Fact | None:
    """What a process holds, as a fact of its row; None where the dump does not print it."""
    if row.used_mib is None:
        return None
    gpu = row.gpu if isinstance(row.gpu, int) else None
    return Fact("process.used", row.used_mib, "MiB", row_source(case, snapshot, row), gpu=gpu, pid=row.pid, time=snapshot.time)


def called(row: GpuProcess) -> str:
    """A process for a formula: its pid, and its name where the dump prints one."""
    who = f"process {row.pid}" if row.pid is not None else "a process"
    return f"{who} ({row.name})" if row.name else who
