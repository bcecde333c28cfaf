"""vLLM, as diagnosis sees it (see analyzer/engines/__init__.py)."""

from __future__ import annotations

from collections.abc import Mapping

from analyzer.engines.case import Case
from analyzer.engines.computed import Computed
from analyzer.engines.vllm import fixes
from analyzer.engines.vllm.changes import rewrite, valid, versions
from analyzer.engines.vllm.ledger import ledgers

__all__ = ["compute", "extra_figures", "ledgers", "rewrite", "valid", "versions"]


def compute(fix: str, case: Case) -> Computed | None:
    """The numbers of one named fix."""
    solver = fixes.SOLVERS.get(fix)
    return solver(case) if solver is not None else None


def extra_figures(case: Case) -> Mapping[str, str]:
    """Derived figures for sentences."""
    return fixes.figures(case)
