"""Transformers, as diagnosis sees it (see analyzer/engines/__init__.py)."""

from __future__ import annotations

from collections.abc import Callable

from analyzer.engines.case import Case
from analyzer.engines.computed import Computed
from analyzer.engines.generic import default_utilization, extra_figures, ledgers, notes, possible_versions, rewrite, valid, versions, window
from analyzer.engines.neighbours import stop_process
from analyzer.engines.refinement import Refinement

__all__ = [
    "SOLVERS",
    "compute",
    "default_utilization",
    "extra_figures",
    "ledgers",
    "notes",
    "possible_versions",
    "refine",
    "rewrite",
    "valid",
    "versions",
    "window",
]

OFFLOADED = "transformers.offloaded"


def refine(case: Case) -> Refinement | None:
    """Layers that were put off the GPU: the load is over and the script runs, slowly."""
    if case.state != "unknown":
        return None
    for event in case.view.attempt.all_events():
        if event.pattern.id == OFFLOADED:
            source = case.view.source(event.places[0])
            return Refinement("engine.fallback.cpu_offload", "degraded", "weight_load", evidence=[source])
    return None


def compute(fix: str, case: Case) -> Computed | None:
    """The numbers of one named fix."""
    solver = SOLVERS.get(fix)
    return solver(case) if solver is not None else None


#: Only somebody else's process: a script has no settings of its own.
SOLVERS: dict[str, Callable[[Case], Computed | None]] = {"stop_process": stop_process}
