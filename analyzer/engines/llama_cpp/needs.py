"""What to ask for where llama.cpp ran: what is asked of a user's machine has to exist there."""

from __future__ import annotations

import re

from analyzer.facts.view import View

#: Devices, functions and libraries of backends other than CUDA. Vulkan runs on every vendor's GPUs.
_OTHERS = re.compile(
    r"\b(?:ROCm|Vulkan|SYCL|MTL)\d|\bROCm error|\bggml_(?:vulkan|metal|sycl|backend_sycl)|\bkIOGPU|\bgfx\d{3,4}\b|\bhipMalloc|"
    r"library=(?:ROCm|rocm|Vulkan|vulkan|Metal|metal)\b"
)


def need(name: str, view: View) -> str:
    """The need ``name``, or the one that asks the same of this engine: it has no workers, and other vendors' tools show their GPUs."""
    if name == "first_worker_error":
        return "loader_lines"
    if name == "nvidia_smi_now" and any(_OTHERS.search(text) for text in _texts(view)):
        return "gpu_holders_now"
    return name


def _texts(view: View) -> list[str]:
    attempt = view.attempt
    return [
        *(fact.source.text for fact in view.facts),
        *(place.text for event in attempt.all_events() for place in event.places),
        *(place.text for sign in attempt.signs.values() for place, _ in sign.seen),
    ]
