"""Memory of somebody else, for every engine: the process that a sentence or a dump names."""

from __future__ import annotations

from analyzer.engines import device
from analyzer.engines.case import Case
from analyzer.engines.computed import Computed
from analyzer.model import Action, Text
from analyzer.model.units import GIB, human

#: Less is a desktop or a driver, and not worth stopping.
LEAST_BYTES = GIB // 4


def stop_process(case: Case) -> Computed | None:
    """Stop the largest process beside the failing one: of the sentence; for a start that was refused, of a dump of the card."""
    _, listed = device.own_process(case.figures)
    gpu = case.ledger.gpu if case.ledger is not None else None
    found = [(fact.pid, "", fact.bytes or 0) for fact in listed if fact.pid is not None]
    dump = device.dump_of(case, gpu)
    if dump is not None:
        snapshot, card = dump
        dumped = [(pid, name or "", size) for pid, name, size in device.foreign_processes(case, snapshot, card.index) if pid is not None]
        names = {pid: name for pid, name, _ in dumped}
        found = [(pid, names.get(pid, ""), size) for pid, _, size in found]
        if not found and (case.cause or "").startswith("startup."):
            found = dumped
    pid, name, held = max(found, key=lambda entry: entry[2], default=(0, "", 0))
    if held < LEAST_BYTES:
        return None
    size, label, place = human(held), f"{pid} ({name})" if name else str(pid), gpu or 0
    action = Text(f"stop process {label}, {size} on GPU {place}", f"停止进程 {label}，它在 GPU {place} 上占用 {size}")
    return Computed((Action(action),), {"pid": str(pid), "who": f"{name}, " if name else "", "size": size}, verified=True)
