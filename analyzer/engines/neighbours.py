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
    """Stop the largest process that the out-of-memory sentence lists beside the failing one; None where it lists none worth it."""
    _, listed = device.own_process(case.figures)
    named = [fact for fact in listed if fact.pid is not None and (fact.bytes or 0) >= LEAST_BYTES]
    if not named:
        return None
    largest = max(named, key=lambda fact: fact.bytes or 0)
    size, gpu = human(largest.bytes or 0), largest.gpu or 0
    action = Text(f"stop process {largest.pid}, {size} on GPU {gpu}", f"停止进程 {largest.pid}，它在 GPU {gpu} 上占用 {size}")
    return Computed((Action(action),), {"pid": str(largest.pid), "name": "?", "size": size}, verified=True)
