"""Ollama, as diagnosis sees it (see analyzer/engines/__init__.py). Its runner is llama.cpp, or prints the same parts by device."""

from __future__ import annotations

from collections.abc import Mapping

from analyzer.engines.base import Server
from analyzer.engines.case import Case
from analyzer.engines.llama_cpp import fixes, needs, proof
from analyzer.engines.llama_cpp.ledger import ledgers
from analyzer.engines.refinement import Refinement
from analyzer.facts.view import View
from analyzer.model import Confidence, Ledger

LAYER_SIZE = "engine.version_bug.layer_size_estimate"
#: Weights alone this much above the estimate of weights, cache and graph together are no rounding.
FAR_ABOVE = 1.25
ESTIMATES = ("ollama.estimate.to_device", "ollama.estimate.library")


class Ollama(Server):
    """Settings are variables, model parameters and options of a request: it has no flags for these."""

    flags: Mapping[str, str] = {}
    solvers = fixes.SOLVERS

    def ledgers(self, case: Case) -> list[Ledger]:
        return ledgers(case)

    def refine(self, case: Case) -> Refinement | None:
        """Weights asked for far above the estimate were counted with other layers than were loaded; else what the runner proves."""
        view = case.view
        tried = max((fact.bytes or 0 for fact in case.figures if fact.name == "weights.needed"), default=0)
        planned = view.bytes("estimate.partial")
        if case.cause == "cuda_oom.weight_load" and planned and tried > FAR_ABOVE * planned:
            sources = [
                view.source(sign.first) for name in (*ESTIMATES, "llama.layers") if (sign := view.attempt.signs.get(name)) is not None
            ]
            return Refinement(LAYER_SIZE, confidence=Confidence.LIKELY, evidence=sources)
        return proof.refine(case)

    def need(self, name: str, view: View) -> str:
        return needs.need(name, view)


ENGINE = Ollama()
