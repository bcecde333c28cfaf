"""What several lines of llama.cpp prove together, and which of them belong to the proof of a failed allocation."""

from __future__ import annotations

from analyzer.engines.case import Case
from analyzer.engines.refinement import Refinement
from analyzer.facts.view import View
from analyzer.model import Confidence, Fact, Source

SLOTS = "args.num_parallel_multiplies_context"
ALLOCATIONS = frozenset({"cuda_oom.weight_load", "cuda_oom.kv_init", "cuda_oom.compute_buffer", SLOTS})
#: From so many slots on, one in place of them gives back more than three quarters of the cache.
MANY_SLOTS = 4
#: Cause -> signs whose lines say what was asked for.
SIGNS = {
    "cuda_oom.weight_load": ("llama.fit.aborted", "llama.layers"),
    "cuda_oom.kv_init": ("llama.kv.plan", "llama.kv.widths", "llama.context.trained"),
    "cuda_oom.compute_buffer": ("llama.pipeline", "llama.layers"),
    SLOTS: ("llama.kv.plan", "ollama.runner"),
}
#: Cause -> facts whose lines belong to it.
FACTS = {
    "cuda_oom.weight_load": ("device.free_at_start",),
    "cuda_oom.compute_buffer": ("weights", "kv_cache"),
    SLOTS: ("kv_cache.tokens", "scheduler.slots", "kv_cache"),
}


def refine(case: Case) -> Refinement | None:
    """The cause behind a failed allocation, and the lines that prove it."""
    event, cause = case.event, case.cause
    if event is None:
        return None
    if event.pattern.id == "llama.kv.failed" and cause is None:
        return _host_cache(case)
    if event.pattern.id == "llama.oom.step" and cause == "cuda_oom.serving":
        starting = event.stage in ("kv_init", "warmup") and case.view.attempt.ready is None
        return Refinement("cuda_oom.warmup", stage="warmup") if starting else Refinement(stage="serving")
    if cause not in ALLOCATIONS:
        return None
    if _slots_decide(case):
        return Refinement(SLOTS, confidence=Confidence.CERTAIN, evidence=evidence(case.view, SLOTS))
    return Refinement(evidence=evidence(case.view, cause or ""))


def evidence(view: View, cause: str) -> list[Source]:
    """The lines of the cause's signs and facts."""
    found: list[Source] = []
    for name in SIGNS.get(cause, ()):
        sign = view.attempt.signs.get(name)
        if sign is not None:
            found.append(view.source(sign.first))
    for name in FACTS.get(cause, ()):
        fact = view.fact(name)
        if fact is not None:
            found.append(fact.source)
    return found


def _host_cache(case: Case) -> Refinement | None:
    """A cache that was refused without an error of the GPU: where no layer is on one, the cache lies in system memory."""
    view = case.view
    offloaded = view.number("offload.layers")
    asked = view.setting("--n-gpu-layers")
    if offloaded == 0 or (isinstance(asked, (int, str)) and str(asked) == "0"):
        named = [fact for name in ("kv_cache.needed", "offload.layers") if (fact := view.fact(name)) is not None]
        return Refinement("host_oom.kv_init", stage="kv_init", confidence=Confidence.LIKELY, evidence=[fact.source for fact in named])
    return Refinement(stage="kv_init")


def _slots_decide(case: Case) -> bool:
    """Whether the context is a multiple of one slot's, and one slot in place of all gives back what was refused."""
    view = case.view
    if case.cause not in ("cuda_oom.kv_init", "cuda_oom.compute_buffer"):
        return False
    slots, cells, each = (view.number(name) for name in ("scheduler.slots", "kv_cache.tokens", "model.max_len"))
    if not slots or not cells or not each or slots < 2 or slots * each != cells:
        return False
    refused = next((fact.bytes for fact in case.figures if fact.name == "oom.tried" and fact.bytes), None)
    held = sum(fact.bytes or 0 for fact in _caches(view))
    given_back = held * (1 - 1 / slots)
    if case.cause == "cuda_oom.compute_buffer":
        return refused is not None and given_back >= refused
    return slots >= MANY_SLOTS


def _caches(view: View) -> list[Fact]:
    return [fact for fact in view.facts if fact.name == "kv_cache"]


def shortened(view: View) -> list[Source]:
    """The line that shows a context below the trained one, which the automatic fit chose: nobody set it."""
    if "--ctx-size" in view.settings or not view.attempt.patterns & {"llama.fit.begin", "llama.fit.context_reduced"}:
        return []
    length, trained = view.number("model.max_len"), view.number("model.derived_max_len")
    fact = view.fact("model.max_len")
    return [fact.source] if fact is not None and length and trained and float(length) < float(trained) else []
