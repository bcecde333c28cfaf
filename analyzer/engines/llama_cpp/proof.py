"""What several lines of llama.cpp prove together, and which of them belong to the proof of a failed allocation."""

from __future__ import annotations

import re

from analyzer.engines.case import Case
from analyzer.engines.refinement import Refinement
from analyzer.facts.observation import Event
from analyzer.facts.view import View
from analyzer.model import Confidence, Fact, Source

SLOTS = "args.num_parallel_multiplies_context"
ALLOCATIONS = frozenset({"cuda_oom.weight_load", "cuda_oom.kv_init", "cuda_oom.compute_buffer", SLOTS})
#: From so many slots on, one in place of them gives back more than three quarters of the cache.
MANY_SLOTS = 4
#: Errors of a call to the driver that do not say what the memory was for.
STEPS = frozenset(
    {
        "llama.oom.step",
        "llama.oom.cublas",
        "llama.oom.metal",
        "llama.oom.metal_above_limit",
        "llama.oom.vulkan_thrown",
        "llama.oom.sycl_pool",
        "llama.sycl.native_api",
    }
)
#: What Metal says once a command buffer failed, and the failure that it follows from where memory was the reason.
ERROR_STATE, METAL = "llama.metal.error_state", ("llama.oom.metal", "llama.oom.metal_above_limit")
#: Refused buffers of which nothing tells what they were for. The first ones are the weights: a list of devices above them dates nothing.
BUFFERS = frozenset({"llama.oom.bare", "llama.oom.sycl"})
#: Any of these shows that the cache is there.
CACHES = ("kv_cache", "host.kv_cache", "kv_cache.total")
#: Functions that run in a step only: the kernels' pool (ggml_cuda_pool_leg::alloc and its names before), never the loading of weights.
POOL = re.compile(r"alloc|ggml_cuda_pool_\w+|cublas_handle")
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
    if event.pattern.id == ERROR_STATE and cause is None:
        return _error_state(case, event)
    if event.pattern.id in BUFFERS and cause == "cuda_oom.device_init":
        return Refinement(open=True)
    if event.pattern.id in STEPS:
        return _step(case, event)
    if cause not in ALLOCATIONS:
        return None
    if _slots_decide(case):
        return Refinement(SLOTS, confidence=Confidence.CERTAIN, evidence=evidence(case.view, SLOTS))
    return Refinement(evidence=evidence(case.view, cause or ""))


def _step(case: Case, event: Event) -> Refinement | None:
    """By how far the start had come. After the cache it is a step; before it, what runs in steps only cannot be dated by such lines.

    Before the weights nothing of llama.cpp's own lies on the card. Ollama's server goes on between two loads: its lines date nothing there.
    """
    stage = event.stage
    if stage is None:
        return None
    if stage == "warmup" or (stage == "kv_init" and any(case.view.all(name) for name in CACHES)):
        return Refinement("cuda_oom.warmup", stage="warmup")
    if stage in ("serving", "shutdown"):
        return Refinement(stage="serving")
    in_a_step = stage == "kv_init" or event.pattern.id != "llama.oom.step" or POOL.fullmatch(event.groups.get("function", "")) is not None
    if in_a_step or (stage != "weight_load" and case.view.engine == "ollama"):
        return Refinement(open=True)
    return Refinement(confidence=Confidence.LIKELY)


def _error_state(case: Case, event: Event) -> Refinement | None:
    """The backend stays in error after a step that failed for memory: one of the warm-up, where the server became ready only after it."""
    view = case.view
    failed = [seen for seen in view.attempt.all_events() if seen.pattern.id in METAL and seen.order < event.order]
    if not failed:
        return None
    ready = view.attempt.ready_order
    stage = "warmup" if ready is not None and failed[0].order < ready else "serving"
    return Refinement(f"cuda_oom.{stage}", stage=stage, evidence=[view.source(place) for place in failed[0].places])


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
