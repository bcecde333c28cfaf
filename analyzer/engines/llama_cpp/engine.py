"""llama.cpp, as diagnosis sees it (see analyzer/engines/__init__.py)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from analyzer.engines import settings
from analyzer.engines.case import Case
from analyzer.engines.computed import Computed
from analyzer.engines.generic import default_utilization, window
from analyzer.engines.layout import memory_layout
from analyzer.engines.llama_cpp import fixes, proof
from analyzer.engines.llama_cpp.ledger import ledgers
from analyzer.engines.llama_cpp.proof import refine
from analyzer.facts.view import View
from analyzer.model import Change, Source, Text
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

#: Long spellings; releases are builds without a version, so no bounds are kept.
FLAGS = dict.fromkeys(
    (
        "--n-gpu-layers", "--ctx-size", "--parallel", "--batch-size", "--ubatch-size", "--flash-attn", "--cache-type-k", "--cache-type-v",
        "--tensor-split", "--split-mode", "--n-cpu-moe", "--override-tensor", "--fit-target", "--fit-ctx",
    ),
    "",
)  # fmt: skip


SOLVERS = fixes.SOLVERS


def compute(fix: str, case: Case) -> Computed | None:
    """The numbers of one named fix."""
    solver = SOLVERS.get(fix)
    return solver(case) if solver is not None else None


def valid(changes: tuple[Change, ...], view: View) -> bool:
    """Whether every flag that is set is one of llama-server's."""
    return settings.valid(FLAGS, changes, view)


def versions(changes: tuple[Change, ...], view: View) -> str | None:
    """Builds have no versions."""
    return None


def rewrite(changes: tuple[Change, ...], view: View) -> str | None:
    """The user's own command with ``changes``."""
    return settings.rewritten(changes, view)


def possible_versions(view: View) -> Range:
    """Any: a build's number is no version."""
    return Range()


def notes(case: Case) -> Sequence[tuple[str, list[Source]]]:
    """A context that the automatic fit chose."""
    found = proof.shortened(case.view)
    return [("healthy.context_fitted", found)] if found else ()


def extra_figures(case: Case) -> Mapping[str, str | Text]:
    """How the memory is laid out."""
    return memory_layout(case)
