"""SGLang, as diagnosis sees it (see analyzer/engines/__init__.py)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from analyzer.engines import settings
from analyzer.engines.case import Case
from analyzer.engines.computed import Computed
from analyzer.engines.generic import default_utilization
from analyzer.engines.layout import memory_layout, pool_note
from analyzer.engines.refinement import Refinement
from analyzer.engines.sglang import fixes
from analyzer.engines.sglang.ledger import ledgers
from analyzer.facts.view import View
from analyzer.model import Change, Confidence, Fix, Source, Text, Window
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
PAGES = "engine.version_bug.page_granular_decode_check"
#: Releases that count tokens where memory goes out in pages.
COUNTED_IN_TOKENS = Range.parse("<=0.4.4.post1")
#: Stages of a start whose printed figures belong to the proof of a failure after it.
PROOF = ("device.free_at_start", "device.free_after_kv_cache", "device.free_before_graphs", "kv_cache.tokens")


def refine(case: Case) -> Refinement | None:
    """A decode batch that failed with more tokens free than asked for ran out of pages; figures of the start are proof."""
    if case.cause is None and case.state == "failed":
        return _pages(case)
    if case.cause in ("cuda_oom.graph_capture", "cuda_oom.warmup"):
        sources = [fact.source for name in PROOF if (fact := case.view.fact(name, case.rank)) is not None]
        return Refinement(evidence=sources)
    return None


def _pages(case: Case) -> Refinement | None:
    view = case.view
    event = next((event for event in view.attempt.all_events() if event.pattern.id == "sglang.pool.decode_failed"), None)
    if event is None or (case.event is not None and event.order > case.event.order + 1):
        return None
    lines = [view.source(place) for place in event.places]
    named = {fact.name: float(fact.value) for fact in reversed(view.event_facts(event)) if isinstance(fact.value, (int, float))}
    needed, free = named.get("kv_cache.tokens_needed"), named.get("kv_cache.tokens_free")
    page = view.number("kv_cache.block_size")
    counted = bool(settings.possible(view) & COUNTED_IN_TOKENS)
    if counted and needed is not None and free is not None and free >= needed and page != 1:
        return Refinement(PAGES, stage="serving", confidence=Confidence.CERTAIN if page else Confidence.LIKELY, evidence=lines)
    return Refinement(stage="serving", evidence=lines)


SOLVERS = fixes.SOLVERS


def compute(fix: str, case: Case) -> Computed | None:
    """The numbers of one named fix."""
    solver = SOLVERS.get(fix)
    return solver(case) if solver is not None else None


def window(case: Case, given: Sequence[Fix]) -> Window | None:
    """The values of --mem-fraction-static with which the start works."""
    return fixes.window(case)


def valid(changes: tuple[Change, ...], view: View) -> bool:
    """Whether every flag that is set exists in a possible version."""
    return settings.valid(FLAGS, changes, view)


def versions(changes: tuple[Change, ...], view: View) -> str | None:
    """The versions that have all flags of ``changes``."""
    return settings.versions(FLAGS, changes)


def rewrite(changes: tuple[Change, ...], view: View) -> str | None:
    """The user's own command with ``changes``."""
    return settings.rewritten(changes, view)


def possible_versions(view: View) -> Range:
    """The stated version, else what the wordings leave."""
    return settings.possible(view)


def notes(case: Case) -> Sequence[tuple[str, list[Source]]]:
    """The pool keeps its memory whatever the load."""
    return pool_note(case)


def extra_figures(case: Case) -> Mapping[str, str | Text]:
    """How the memory is laid out."""
    return memory_layout(case)
