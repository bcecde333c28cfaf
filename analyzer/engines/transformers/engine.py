"""Transformers, as diagnosis sees it (see analyzer/engines/__init__.py)."""

from __future__ import annotations

from analyzer.engines.base import Engine
from analyzer.engines.case import Case
from analyzer.engines.neighbours import stop_process
from analyzer.engines.refinement import Refinement

OFFLOADED = "transformers.offloaded"

SOLVERS = {"stop_process": stop_process}


class Transformers(Engine):
    """Only somebody else's process can be computed: a script has no settings of its own."""

    solvers = SOLVERS

    def refine(self, case: Case) -> Refinement | None:
        """Layers that were put off the GPU: the load is over and the script runs, slowly."""
        if case.state != "unknown":
            return None
        for event in case.view.attempt.all_events():
            if event.pattern.id == OFFLOADED:
                source = case.view.source(event.places[0])
                return Refinement("engine.fallback.cpu_offload", "degraded", "weight_load", evidence=[source])
        return None


ENGINE = Transformers()
