"""The card at the moment of the ledger, whichever engine ran on it: PyTorch's out-of-memory sentence and the GPU dumps.

Identities: gpu-errors.md, section 1.3. ``total = process + other_processes + free + unaccounted`` and
``process = torch_allocated + reserved_unallocated + process_non_torch``.
"""

from __future__ import annotations

from collections.abc import Sequence

from analyzer.engines.case import Case
from analyzer.engines.lines import Lines, spell
from analyzer.facts.observation import Event
from analyzer.model import Fact, Gpu, GpuSnapshot
from analyzer.model.units import MIB

#: Less than this is rounding of printed figures (two decimals of GiB), not memory that nobody names.
ROUNDING_BYTES = 6 * MIB


def out_of_memory(lines: Lines, facts: Sequence[Fact]) -> None:
    """The lines that one out-of-memory sentence gives; ``facts`` are its figures."""
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
        lines.derived("other_processes", size, " + ".join(f"process {fact.pid}" for fact in others), others[0].source)
    process = lines.get("process")
    if process is not None and allocated is not None:
        kept = lines.get("reserved_unallocated") or 0
        lines.derived(
            "process_non_torch",
            process - allocated - kept,
            spell("process − torch_allocated − reserved_unallocated = {p} − {a} − {r}", p=process, a=allocated, r=kept),
        )


def own_process(facts: Sequence[Fact]) -> tuple[Fact | None, list[Fact]]:
    """(what the failing process holds, the other processes) by the sentence's own list (see analyzer/facts/oom.py)."""
    own = next((fact for fact in facts if fact.name == "oom.process_in_use"), None)
    listed = [fact for fact in facts if fact.name == "process.used"]
    if own is None:
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


# --- dumps -------------------------------------------------------------------------------------------------------------------------


def physical_index(case: Case, gpu: int | None) -> int | None:
    """The index that nvidia-smi uses for the engine's GPU ``gpu``, through CUDA_VISIBLE_DEVICES where the inputs state it."""
    if gpu is None:
        return None
    visible = case.view.environment.get("CUDA_VISIBLE_DEVICES")
    if visible is None or visible.value is None:
        return gpu
    entries = [entry.strip() for entry in str(visible.value).split(",")]
    if gpu < len(entries) and entries[gpu].isdigit():
        return int(entries[gpu])
    return None if gpu < len(entries) else gpu


def dump_of(case: Case, gpu: int | None) -> tuple[GpuSnapshot, Gpu] | None:
    """The last dump that shows the engine's GPU, and its row. A dump of a single card is about it."""
    index = physical_index(case, gpu)
    for snapshot in reversed(case.view.snapshots):
        for card in snapshot.gpus:
            if card.index == index or (index in (None, 0) and len(snapshot.gpus) == 1):
                return snapshot, card
    return None


def own_pids(case: Case) -> frozenset[int]:
    """Process ids that the engine's own tags state."""
    return frozenset(process.pid for process in case.view.attempt.processes.values() if process.pid is not None)


def foreign_processes(case: Case, snapshot: GpuSnapshot, index: int | None) -> list[tuple[int | None, str | None, int]]:
    """(pid, name, bytes) of every process on the card that is not the engine's own."""
    mine = own_pids(case)
    return [
        (process.pid, process.name, round(process.used_mib * MIB))
        for process in snapshot.processes
        if process.used_mib is not None and (process.gpu == index or process.gpu is None) and process.pid not in mine
    ]


def before_the_start(case: Case, lines: Lines, gpu: int | None) -> None:
    """The card when the engine was refused or found it occupied: what dumps name as others."""
    found = dump_of(case, gpu)
    if found is None:
        return
    snapshot, card = found
    foreign = foreign_processes(case, snapshot, card.index)
    if foreign and "other_processes" not in lines:
        size = sum(used for _, _, used in foreign)
        lines.derived("other_processes", size, " + ".join(f"process {pid} ({name})" for pid, name, _ in foreign), snapshot.source)
