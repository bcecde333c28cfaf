"""vLLM, as diagnosis sees it (see analyzer/engines/__init__.py)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from analyzer.engines.base import Engine
from analyzer.engines.case import Case
from analyzer.engines.layout import pool_note
from analyzer.engines.refinement import Refinement
from analyzer.engines.vllm import changes as flag_changes
from analyzer.engines.vllm import eras, fixes, weights
from analyzer.engines.vllm.explain import explain
from analyzer.engines.vllm.ledger import ledgers
from analyzer.facts.view import View
from analyzer.model import Change, Confidence, Fix, Ledger, Source, Text, Window
from analyzer.model.versions import Range

#: What the engine loop printed as it ended. It runs from the first request on.
ENGINE_LOOP = "vllm.sign.engine_loop"


class VLLM(Engine):
    """Its flags are a table of every release, its identities change by era."""

    solvers = fixes.SOLVERS

    def ledgers(self, case: Case) -> list[Ledger]:
        return ledgers(case)

    def valid(self, changes: tuple[Change, ...], view: View) -> bool:
        return flag_changes.valid(changes, view)

    def versions(self, changes: tuple[Change, ...], view: View) -> str | None:
        return flag_changes.versions(changes, view)

    def rewrite(self, changes: tuple[Change, ...], view: View) -> str | None:
        return flag_changes.rewrite(changes, view)

    def default_utilization(self, view: View) -> float | None:
        """0.90, from 0.20.0 on 0.92; None where the possible versions differ."""
        return eras.default_utilization(flag_changes.where(view))

    def possible_versions(self, view: View) -> Range:
        """The stated version, else the range of the wordings."""
        return eras.as_range(flag_changes.where(view))

    def extra_figures(self, case: Case) -> Mapping[str, str | Text]:
        """Derived figures for sentences."""
        return {**fixes.figures(case), **explain(fixes.Plan(case))}

    def refine(self, case: Case) -> Refinement | None:
        """When it was that an allocation was refused which no line dates: by V0's engine loop, or by what PyTorch held.

        And flags that were refused though the version has them: then it is not the version that runs.
        """
        if fixes.refused_though_known(fixes.Plan(case)):
            return Refinement(confidence=Confidence.POSSIBLE)
        undated = case.cause is None and case.event is not None and case.event.cause == "cuda_oom"
        if undated and ENGINE_LOOP in case.view.attempt.signs:
            return Refinement("cuda_oom.serving", stage="serving")
        return weights.still_loading(case)

    def window(self, case: Case, given: Sequence[Fix]) -> Window | None:
        """The feasible window of the main setting of this cause."""
        return fixes.window(fixes.Plan(case), given)

    def notes(self, case: Case) -> Sequence[tuple[str, list[Source]]]:
        """High memory use without a request is the pool, made at the start."""
        return pool_note(case)


ENGINE = VLLM()
