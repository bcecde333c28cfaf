"""The card at the moment of the ledger, whichever engine ran on it: PyTorch's out-of-memory sentence and the GPU dumps.

Identities: gpu-errors.md, section 1.3. ``total = process + other_processes + free + unaccounted`` and
``process = torch_allocated + reserved_unallocated + process_non_torch``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

from analyzer.engines import dumps, reconcile
from analyzer.engines.case import Case
from analyzer.engines.lines import Lines, spell
from analyzer.engines.moment import When
from analyzer.engines.reconcile import cards_of, held, on_card
from analyzer.facts.observation import Event
from analyzer.facts.view import View
from analyzer.model import Fact, Gpu, GpuSnapshot, Ledger
from analyzer.model.units import MIB

#: Less than this is rounding of printed figures (two decimals of GiB), not memory that nobody names.
ROUNDING_BYTES = 6 * MIB
#: Free memory beyond a refused request that says that the card was not full: more than one block of the driver or of the allocator.
ROOM_BYTES = 256 * MIB
#: A dump this near to a failure may stand for it.
NEAR = timedelta(minutes=10)


def out_of_memory(lines: Lines, facts: Sequence[Fact], names: Mapping[int, str] | None = None) -> None:
    """The lines that one out-of-memory sentence gives; ``facts`` are its figures, ``names`` what dumps call the processes."""
    names = names or {}
    named = {fact.name: fact for fact in facts}
    lines.measured("total", named.get("oom.total"))
    lines.measured("torch_allocated", named.get("oom.torch_allocated"))
    reserved = named.get("oom.reserved_unallocated")
    allocated = lines.get("torch_allocated")
    torch_reserved = named.get("torch_reserved")
    if reserved is not None:
        lines.measured("reserved_unallocated", reserved)
    elif torch_reserved is not None and torch_reserved.bytes is not None and allocated is not None:
        # PyTorch up to 2.0 prints what it has reserved in all.
        size = max(torch_reserved.bytes - allocated, 0)
        lines.derived("reserved_unallocated", size, "reserved in total − allocated", torch_reserved.source)
    lines.measured("free", named.get("oom.free"))
    own, others = own_process(facts)
    lines.measured("process", own)
    if others:
        size = sum(fact.bytes or 0 for fact in others)
        lines.derived("other_processes", size, " + ".join(_called(fact.pid, names) for fact in others), others[0].source)
    process = lines.get("process")
    if process is not None and allocated is not None:
        kept = lines.get("reserved_unallocated") or 0
        lines.derived(
            "process_non_torch",
            process - allocated - kept,
            spell("process − torch_allocated − reserved_unallocated = {p} − {a} − {r}", p=process, a=allocated, r=kept),
        )


def room(facts: Sequence[Fact]) -> int | None:
    """Bytes that were free beyond what was refused, where that is more than rounding and no limit of the process explains it.

    FREE is read after the allocator gave back its caches (gpu-errors.md, section 1.2): of a full card it is below the request.
    """
    named = {fact.name: fact.bytes for fact in facts}
    tried, free = named.get("oom.tried"), named.get("oom.free")
    if tried is None or free is None or named.get("oom.limit") is not None or free - tried < ROOM_BYTES:
        return None
    return free - tried


def _called(pid: int | None, names: Mapping[int, str]) -> str:
    return f"process {pid} ({names[pid]})" if pid is not None and pid in names else f"process {pid}"


def dump_names(case: Case) -> dict[int, str]:
    """What the dumps call their processes, by pid."""
    return {row.pid: row.name for snapshot in case.view.snapshots for row in snapshot.processes if row.pid is not None and row.name}


def own_process(facts: Sequence[Fact]) -> tuple[Fact | None, list[Fact]]:
    """(what the failing process holds, the other processes) by the sentence's own list (see analyzer/facts/oom.py).

    A process cannot hold less than PyTorch holds in it: NVML did not know it then (by its pid in a container), and who the listed ones are
    is open as well.
    """
    named = {fact.name: fact.bytes or 0 for fact in facts}
    own = next((fact for fact in facts if fact.name == "oom.process_in_use"), None)
    listed = [fact for fact in facts if fact.name == "process.used"]
    held = named.get("oom.torch_allocated", 0) + named.get("oom.reserved_unallocated", 0)
    if own is None or (own.bytes or 0) < held - ROUNDING_BYTES:
        return None, []
    return own, [fact for fact in listed if own.pid is None or fact.pid != own.pid]


def balance(lines: Lines) -> None:
    """What the device identity leaves over, where both its sides are known."""
    total, free = lines.get("total"), lines.get("free")
    if total is None or free is None or "unaccounted" in lines:
        return
    process, others = lines.get("process"), lines.get("other_processes")
    if process is None and others is None:
        return
    rest = total - free - (process or 0) - (others or 0)
    if abs(rest) >= ROUNDING_BYTES:
        lines.derived("unaccounted", rest, "total − process − other_processes − free")


def sentence_events(case: Case) -> list[tuple[int | None, int | None, Event]]:
    """(rank, gpu, event) of every out-of-memory sentence of the attempt; the first of each GPU."""
    found: dict[tuple[int | None, int | None], Event] = {}
    for event in case.view.attempt.all_events():
        if any(seen.name.startswith("oom.") for seen in event.figures):
            gpu = next((seen.gpu for seen in event.figures if seen.gpu is not None), None)
            found.setdefault((case.view.ranks.of(event.process), gpu), event)
    return [(rank, gpu, event) for (rank, gpu), event in found.items()]


def sentence_ledgers(case: Case, fill: Callable[[View, Lines], None]) -> list[Ledger]:
    """A ledger for each out-of-memory sentence, without one GPU 0's: for engines whose lines name no device. ``fill`` adds their lines."""
    units: list[tuple[int | None, int | None, Event | None]] = [*sentence_events(case)]
    found = []
    for rank, gpu, event in units or [(0, 0, None)]:
        lines = Lines()
        if event is not None:
            out_of_memory(lines, case.view.event_facts(event))
        fill(case.view, lines)
        balance(lines)
        if lines:
            found.append(lines.ledger(case.view.attempt.index, gpu if gpu is not None else rank, rank, case.moment))
    return found


# --- dumps -------------------------------------------------------------------------------------------------------------------------


def dump_of(case: Case, gpu: int | None) -> tuple[GpuSnapshot, Gpu] | None:
    """The dump that shows best who is on the engine's GPU, and its row there."""
    found = dumps.at_start(case, gpu, gpu)
    return None if found is None else (found.snapshot, found.match.card)


def foreign_processes(case: Case, snapshot: GpuSnapshot, index: int | None) -> list[tuple[int | None, str | None, int]]:
    """(pid, name, bytes) of every process on the card ``index`` of the dump that is not one of the engine's own."""
    mine = dumps.wanted(case, None, None).family
    card = next((card for card in cards_of(snapshot) if card.index == index), None)
    return [
        (row.pid, row.name, size)
        for row in snapshot.processes
        if (size := held(row)) is not None and card is not None and on_card(row, card, snapshot) and row.pid not in mine
    ]


def before_the_start(case: Case, lines: Lines, gpu: int | None, rank: int | None) -> None:
    """The card when the engine was refused or found it occupied: what dumps name as others, if it fits what was missing."""
    found = dumps.at_start(case, gpu, rank)
    if found is None or "other_processes" in lines:
        return
    rows = [row for row in found.match.others if held(row) is not None]
    size = sum(held(row) or 0 for row in rows)
    total, free = lines.get("total"), lines.get("free")
    if not rows or (total is not None and free is not None and size > total - free + reconcile.SAME_BYTES + reconcile.SAME_SHARE * total):
        return
    source = dumps.row_source(case, found.snapshot, max(rows, key=lambda row: held(row) or 0))
    lines.derived("other_processes", size, " + ".join(dumps.called(row) for row in rows), source)


def in_service(case: Case, lines: Lines, gpu: int | None, rank: int | None) -> None:
    """The card of a running engine by the last dump that shows it at work: own process, others, what is free."""
    found = dumps.in_service(case, gpu, rank, lines)
    if found is None:
        return
    seen = found.match
    _total(case, lines, found)
    if len(seen.own) == 1:
        lines.measured("process", dumps.row_fact(case, seen.snapshot, seen.own[0]))
    rows = [row for row in (*seen.siblings, *seen.others) if held(row)]
    if rows:
        source = dumps.row_source(case, seen.snapshot, rows[0])
        lines.derived("other_processes", seen.foreign, " + ".join(dumps.called(row) for row in rows), source)
    total = lines.get("total")
    if "free" in lines:
        return
    if seen.free is not None:
        lines.measured("free", Fact("device.free", seen.free, "B", seen.snapshot.source), "memory.free of the GPU dump")
    elif reconcile.is_unified(seen.card):
        lines.measured("free", _host(case, "host.available"), "what the host has available: one pool")
    elif total is not None and seen.used is not None and total >= seen.used:
        formula = spell("total − memory.used of the GPU dump = {t} − {u}", t=total, u=seen.used)
        lines.derived("free", total - seen.used, formula, seen.snapshot.source)


def total_of_dump(case: Case, lines: Lines, gpu: int | None, rank: int | None) -> None:
    """The card's size from a dump, where the log does not state it."""
    if "total" in lines:
        return
    found = next((dump for dump in reversed(list(dumps.dumps(case, gpu, rank, lines))) if not dump.match.doubt and _size(dump)), None)
    if found is not None:
        _total(case, lines, found)


def _size(dump: dumps.Dump) -> bool:
    return dump.match.total is not None or reconcile.is_unified(dump.match.card)


def _total(case: Case, lines: Lines, dump: dumps.Dump) -> None:
    seen = dump.match
    if seen.total is not None:
        what = "the MIG slice's total in the GPU dump" if seen.slice is not None else "memory.total of the GPU dump"
        lines.derived("total", seen.total, f"{what} (CUDA's own figure is a little below)", seen.snapshot.source)
    elif reconcile.is_unified(seen.card):
        host = _host(case, "host.total")
        if host is not None:
            lines.derived("total", host.bytes, "the host's memory: the card has none of its own", host.source)


def _host(case: Case, name: str) -> Fact | None:
    """The last figure of the host's own tools."""
    return next((fact for fact in reversed(case.view.documents) if fact.name == name), None)


def name_others(case: Case, lines: Lines, gpu: int | None, rank: int | None, listed: Sequence[Fact]) -> None:
    """What others hold by a dump made near the failure, where the sentence lists no process and leaves room for them."""
    if listed or "other_processes" in lines:
        return
    total, free, allocated = (lines.get(name) for name in ("total", "free", "torch_allocated"))
    if total is None or free is None or allocated is None or "process" in lines:
        return
    gap = total - free - allocated - (lines.get("reserved_unallocated") or 0)
    for dump in reversed(list(dumps.dumps(case, gpu, rank, lines))):
        near = dump.moment.when is When.DURING and dump.moment.distance is not None and dump.moment.distance <= NEAR
        rows = [row for row in dump.match.others if held(row)]
        size = sum(held(row) or 0 for row in rows)
        if near and rows and not dump.match.doubt and size <= gap + reconcile.SAME_BYTES:
            source = dumps.row_source(case, dump.snapshot, max(rows, key=lambda row: held(row) or 0))
            lines.derived("other_processes", size, " + ".join(dumps.called(row) for row in rows), source)
            return
