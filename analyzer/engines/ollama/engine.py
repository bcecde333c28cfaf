"""Ollama, as diagnosis sees it (see analyzer/engines/__init__.py). Its runner is llama.cpp, or prints the same parts by device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from analyzer.engines import settings
from analyzer.engines.case import Case
from analyzer.engines.computed import Computed
from analyzer.engines.generic import default_utilization, window
from analyzer.engines.layout import memory_layout
from analyzer.engines.llama_cpp import fixes, proof
from analyzer.engines.llama_cpp.ledger import ledgers
from analyzer.engines.refinement import Refinement
from analyzer.facts.view import View
from analyzer.model import Change, Confidence, FlagChange, Source, Text
from analyzer.model.versions import Range

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

LAYER_SIZE = "engine.version_bug.layer_size_estimate"
#: Weights alone this much above the estimate of weights, cache and graph together are no rounding.
FAR_ABOVE = 1.25
ESTIMATES = ("ollama.estimate.to_device", "ollama.estimate.library")


def refine(case: Case) -> Refinement | None:
    """Weights that were asked for far above the estimate were counted with other layers than were loaded; else what the runner proves."""
    view = case.view
    tried = max((fact.bytes or 0 for fact in case.figures if fact.name == "weights.needed"), default=0)
    planned = view.bytes("estimate.partial")
    if case.cause == "cuda_oom.weight_load" and planned and tried > FAR_ABOVE * planned:
        sources = [view.source(sign.first) for name in (*ESTIMATES, "llama.layers") if (sign := view.attempt.signs.get(name)) is not None]
        return Refinement(LAYER_SIZE, confidence=Confidence.LIKELY, evidence=sources)
    return proof.refine(case)


SOLVERS = fixes.SOLVERS


def compute(fix: str, case: Case) -> Computed | None:
    """The numbers of one named fix."""
    solver = SOLVERS.get(fix)
    return solver(case) if solver is not None else None


def valid(changes: tuple[Change, ...], view: View) -> bool:
    """Ollama has no flags for these: settings are variables, model parameters and options of a request."""
    return not any(isinstance(change, FlagChange) and change.to is not None for change in changes)


def versions(changes: tuple[Change, ...], view: View) -> str | None:
    """No bound is known."""
    return None


def rewrite(changes: tuple[Change, ...], view: View) -> str | None:
    """The user's own command with changed variables."""
    return settings.rewritten(changes, view)


def possible_versions(view: View) -> Range:
    """The stated version, else what the wordings leave."""
    return settings.possible(view)


def notes(case: Case) -> Sequence[tuple[str, list[Source]]]:
    """None."""
    return ()


def extra_figures(case: Case) -> Mapping[str, str | Text]:
    """How the memory is laid out."""
    return memory_layout(case)
