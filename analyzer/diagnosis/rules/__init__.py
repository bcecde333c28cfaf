"""Rules over several facts, where one line cannot tell. Each refines a verdict or leaves it; the first that does ends it."""

from __future__ import annotations

from collections.abc import Callable

from analyzer.diagnosis.rules import memory, service
from analyzer.diagnosis.verdict import Verdict
from analyzer.facts.view import View

Rule = Callable[[View, Verdict], Verdict | None]

#: In this order: what the failing sentence itself proves comes before what other inputs add.
RULES: tuple[Rule, ...] = (
    memory.process_limit,
    memory.fragmentation,
    memory.sleep_mode,
    memory.neighbour_while_serving,
    memory.holder_named,
    memory.unified_memory,
    service.prompt_exceeds_pool,
    service.capped_by_max_num_seqs,
)


def refine(view: View, verdict: Verdict) -> Verdict:
    """``verdict`` after the first rule that applies."""
    for rule in RULES:
        changed = rule(view, verdict)
        if changed is not None:
            return changed
    return verdict
