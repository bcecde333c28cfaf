"""nano-vllm, as diagnosis sees it (see analyzer/engines/__init__.py).

``blocks = (total × f − used − peak + current) / block bytes``; ``used`` is all memory in use on the card, other processes included
(reference/engines.md, section 8). None of it is printed, so the ledger is PyTorch's sentence or nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from analyzer.engines.case import Case
from analyzer.engines.computed import Computed
from analyzer.engines.generic import extra_figures, ledgers, notes, possible_versions, refine, rewrite, valid, versions, window
from analyzer.engines.neighbours import stop_process
from analyzer.facts.view import View

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


def compute(fix: str, case: Case) -> Computed | None:
    """The numbers of one named fix."""
    solver = SOLVERS.get(fix)
    return solver(case) if solver is not None else None


def default_utilization(view: View) -> float | None:
    """0.9 in its Config."""
    return 0.9


#: Only somebody else's process: the identity's terms are not printed.
SOLVERS: dict[str, Callable[[Case], Computed | None]] = {"stop_process": stop_process}
