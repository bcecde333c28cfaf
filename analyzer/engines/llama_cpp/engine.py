"""llama.cpp, as diagnosis sees it (see analyzer/engines/__init__.py)."""

from __future__ import annotations

from collections.abc import Sequence

from analyzer.engines.base import Server
from analyzer.engines.case import Case
from analyzer.engines.llama_cpp import fixes, needs, proof
from analyzer.engines.llama_cpp.ledger import ledgers
from analyzer.engines.refinement import Refinement
from analyzer.facts.view import View
from analyzer.model import Ledger, Source
from analyzer.model.versions import Range

#: Long spellings; releases are builds without a version, so no bounds are kept.
FLAGS = dict.fromkeys(
    (
        "--n-gpu-layers", "--ctx-size", "--parallel", "--batch-size", "--ubatch-size", "--flash-attn", "--cache-type-k", "--cache-type-v",
        "--tensor-split", "--split-mode", "--n-cpu-moe", "--override-tensor", "--fit-target", "--fit-ctx",
    ),
    "",
)  # fmt: skip


class LlamaCpp(Server):
    """Buffers by device."""

    flags = FLAGS
    solvers = fixes.SOLVERS

    def ledgers(self, case: Case) -> list[Ledger]:
        return ledgers(case)

    def refine(self, case: Case) -> Refinement | None:
        return proof.refine(case)

    def need(self, name: str, view: View) -> str:
        return needs.need(name, view)

    def possible_versions(self, view: View) -> Range:
        """Any: a build's number is no version."""
        return Range()

    def notes(self, case: Case) -> Sequence[tuple[str, list[Source]]]:
        """A context that the automatic fit chose."""
        found = proof.shortened(case.view)
        return [("healthy.context_fitted", found)] if found else ()


ENGINE = LlamaCpp()
