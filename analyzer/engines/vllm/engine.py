"""vLLM, as diagnosis sees it (see analyzer/engines/__init__.py)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from analyzer.engines.case import Case
from analyzer.engines.computed import Computed
from analyzer.engines.generic import refine
from analyzer.engines.layout import pool_note
from analyzer.engines.vllm import eras, fixes
from analyzer.engines.vllm.changes import rewrite, valid, versions, where
from analyzer.engines.vllm.explain import explain
from analyzer.engines.vllm.ledger import ledgers
from analyzer.facts.view import View
from analyzer.model import Fix, Source, Text, Window
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


SOLVERS = fixes.SOLVERS


def compute(fix: str, case: Case) -> Computed | None:
    """The numbers of one named fix."""
    solver = SOLVERS.get(fix)
    return solver(case) if solver is not None else None


def default_utilization(view: View) -> float | None:
    """0.90, from 0.20.0 on 0.92; None where the possible versions differ."""
    return eras.default_utilization(where(view))


def possible_versions(view: View) -> Range:
    """The stated version, else the range of the wordings."""
    return eras.as_range(where(view))


def extra_figures(case: Case) -> Mapping[str, str | Text]:
    """Derived figures for sentences."""
    return {**fixes.figures(case), **explain(fixes.Plan(case))}


def window(case: Case, given: Sequence[Fix]) -> Window | None:
    """The feasible window of the main setting of this cause."""
    return fixes.window(fixes.Plan(case), given)


def notes(case: Case) -> Sequence[tuple[str, list[Source]]]:
    """High memory use without a request is the pool, made at the start."""
    return pool_note(case)
