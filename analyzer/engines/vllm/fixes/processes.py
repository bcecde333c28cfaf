"""Fixes that are somebody else's memory: stop the process that holds it."""

from __future__ import annotations

from analyzer.engines import device
from analyzer.engines.computed import Computed
from analyzer.engines.vllm.fixes.plan import Plan
from analyzer.model import Action, Text
from analyzer.model.units import GIB, human


def stop_process(plan: Plan) -> Computed | None:
    """Name the largest process that is not the engine's own: from the failing sentence, else from a dump of the card."""
    _, listed = device.own_process(plan.case.figures)
    candidates = [(fact.pid, "", fact.bytes or 0) for fact in listed if fact.pid is not None]
    gpu = plan.ledger.gpu if plan.ledger is not None else 0
    found = device.dump_of(plan.case, gpu)
    if found is not None:
        snapshot, card = found
        dumped = device.foreign_processes(plan.case, snapshot, card.index)
        names = {pid: name for pid, name, _ in dumped}
        if candidates:
            candidates = [(pid, names.get(pid) or "", size) for pid, _, size in candidates]
        elif plan.case.cause is not None and plan.case.cause.startswith("startup."):
            candidates = [(pid, name or "", size) for pid, name, size in dumped if pid is not None]
    candidates = [entry for entry in candidates if entry[2] >= GIB // 4]
    if not candidates:
        return None
    pid, name, size = max(candidates, key=lambda entry: entry[2])
    label = f"{pid} ({name})" if name else str(pid)
    action = Action(
        Text(f"stop process {label}, {human(size)} on GPU {gpu or 0}", f"停止进程 {label}，它在 GPU {gpu or 0} 上占用 {human(size)}")
    )
    return Computed((action,), {"pid": str(pid), "who": f"{name}, " if name else "", "size": human(size)}, verified=True)
