"""SGLang, as diagnosis sees it (see analyzer/engines/__init__.py)."""

from __future__ import annotations

from collections.abc import Sequence

from analyzer.engines import settings
from analyzer.engines.base import PoolServer
from analyzer.engines.case import Case
from analyzer.engines.refinement import Refinement
from analyzer.engines.sglang import fixes
from analyzer.engines.sglang.ledger import ledgers
from analyzer.model import Confidence, Fix, Ledger, Window
from analyzer.model.versions import Range

PREFILL, DECODE = "sglang.pool.prefill_failed", "sglang.pool.decode_failed"
OVERCOMMIT, PAGES = "engine.version_bug.prefill_overcommit", "engine.version_bug.page_granular_decode_check"
#: Releases that count tokens where memory goes out in pages.
COUNTED_IN_TOKENS = Range.parse("<=0.4.4.post1")
#: Stages of a start whose printed figures belong to the proof of a failure after it.
PROOF = ("device.free_at_start", "device.free_after_kv_cache", "device.free_before_graphs", "kv_cache.tokens")


def _token_pool(case: Case) -> Refinement | None:
    view = case.view
    event = next((event for event in view.attempt.all_events() if event.pattern.id in (PREFILL, DECODE)), None)
    if event is None or (case.event is not None and event.order > case.event.order + 1):
        return None
    lines = [view.source(place) for place in event.places]
    named = {fact.name: float(fact.value) for fact in reversed(view.event_facts(event)) if isinstance(fact.value, (int, float))}
    needed, free = named.get("kv_cache.tokens_needed"), named.get("kv_cache.tokens_free")
    if event.pattern.id == PREFILL:
        if needed is None or free is None:
            return Refinement(OVERCOMMIT, stage="serving", confidence=Confidence.LIKELY, evidence=lines)
        if needed > free:
            return Refinement(OVERCOMMIT, stage="serving", confidence=Confidence.CERTAIN, evidence=lines)
        return Refinement(stage="serving", evidence=lines)  # pages, or a pool that is not in the sum: the line does not say which
    page = view.number("kv_cache.block_size")
    counted = bool(settings.possible(view) & COUNTED_IN_TOKENS)
    if counted and needed is not None and free is not None and free >= needed and page != 1:
        return Refinement(PAGES, stage="serving", confidence=Confidence.CERTAIN if page else Confidence.LIKELY, evidence=lines)
    return Refinement(stage="serving", evidence=lines)


FLAGS = {
    fixes.SHARE: "",
    fixes.CAP: "",
    fixes.CHUNK: "",
    fixes.GRAPHS: "",
    "--context-length": "",
    "--disable-cuda-graph": "",
    "--kv-cache-dtype": "",
    "--max-running-requests": "",
    "--page-size": "",
    "--schedule-conservativeness": "",
    "--tp-size": "",
}


class SGLang(PoolServer):
    """Its pool is a share of what was free before the weights."""

    flags = FLAGS
    solvers = fixes.SOLVERS

    def ledgers(self, case: Case) -> list[Ledger]:
        return ledgers(case)

    def refine(self, case: Case) -> Refinement | None:
        """What a batch that the token pool refused ran out of, by the figures beside it; figures of the start are proof."""
        if case.cause is None and case.state == "failed":
            return _token_pool(case)
        if case.cause in ("cuda_oom.graph_capture", "cuda_oom.warmup"):
            sources = [fact.source for name in PROOF if (fact := case.view.fact(name, case.rank)) is not None]
            return Refinement(evidence=sources)
        return None

    def window(self, case: Case, given: Sequence[Fix]) -> Window | None:
        """The values of --mem-fraction-static with which the start works."""
        return fixes.window(case)


ENGINE = SGLang()
