"""The interface's words, from the Babel catalogues in analyzer/locale; English is the message itself."""

from __future__ import annotations

import gettext
from collections.abc import Callable
from functools import cache
from pathlib import Path

from analyzer.model.message import Message, MessageError

LOCALE = Path(__file__).resolve().parent.parent / "locale"
DOMAIN = "vramledger"

Translate = Callable[[str], str]


@cache
def translator(language: str) -> Translate:
    """The function that puts an English message of the interface into ``language``; English for a language without a catalogue."""
    if language == "en":
        return str
    return gettext.translation(DOMAIN, LOCALE, [language], fallback=True).gettext


def tell(said: Message | MessageError, language: str) -> str:
    """A message, or that of an error, in ``language``."""
    return (said.message if isinstance(said, MessageError) else said).told(translator(language))


def N_(message: str) -> str:  # noqa: N802 - gettext's own name for a message that is translated where it is used
    """Marks a message for the catalogue."""
    return message


#: Shown where no cause is known: the same failure has the same one.
FINGERPRINT = N_("fingerprint {fingerprint}: the same failure will be counted under it")
STATES = {"failed": N_("FAILED"), "healthy": N_("HEALTHY"), "degraded": N_("DEGRADED"), "unknown": N_("UNDECIDED")}
STAGES = {
    "launch": N_("launch"),
    "device_init": N_("device initialisation"),
    "weight_load": N_("loading weights"),
    "profiling": N_("profiling"),
    "kv_init": N_("KV cache setup"),
    "graph_capture": N_("graph capture"),
    "warmup": N_("warm-up"),
    "serving": N_("serving"),
    "shutdown": N_("shutdown"),
    "ready": N_("ready"),
}
SEVERITY = {"error": N_("error"), "warning": N_("warning"), "info": N_("info")}
CONFIDENCE = {"certain": N_("certain"), "likely": N_("likely"), "possible": N_("possible")}
#: How far a stored analysis without a report is.
PROGRESS = (N_("receiving"), N_("queued"), N_("running"), N_("failed"))
BASIS = {"measured": N_("measured"), "derived": N_("derived"), "estimated": N_("estimated")}
LINES = {
    "total": N_("total"),
    "budget": N_("budget"),
    "weights": N_("weights"),
    "draft_weights": N_("draft weights"),
    "kv_cache": N_("KV cache"),
    "state_cache": N_("state cache"),
    "activation_peak": N_("activation peak"),
    "non_torch": N_("non-torch"),
    "cuda_graphs_reserved": N_("graphs reserved"),
    "cuda_graphs": N_("CUDA graphs"),
    "compute_buffers": N_("compute buffers"),
    "process": N_("this process"),
    "torch_allocated": N_("torch allocated"),
    "reserved_unallocated": N_("torch, unused"),
    "process_non_torch": N_("outside torch"),
    "other_processes": N_("other processes"),
    "free": N_("free"),
    "unaccounted": N_("unaccounted"),
    "host.total": N_("host total"),
    "host.weights": N_("host weights"),
    "host.kv_cache": N_("host KV cache"),
    "host.compute_buffers": N_("host buffers"),
    "host.other": N_("host, other"),
    "host.available": N_("host available"),
}
#: What formulas of a ledger say in words; the names of figures in them are the same in every language.
FORMULAS = (
    N_("a token (model's shape)"),
    N_("by the model's shape"),
    N_("bytes of a block"),
    N_("CUDA's own figure is a little below"),
    N_("default gpu_memory_utilization"),
    N_("everything else of it"),
    N_("everything else of it, as measured"),
    N_("free after loading"),
    N_("free after the engine"),
    N_("free after the pool"),
    N_("free before"),
    N_("free before loading"),
    N_("free before the load"),
    N_("free in the capture"),
    N_("graph estimate"),
    N_("held for others"),
    N_("memory.free of the GPU dump"),
    N_("memory.total of the GPU dump"),
    N_("memory.used of the GPU dump"),
    N_("printed peak"),
    N_("projected before the load, which then succeeded"),
    N_("reserved in total"),
    N_("set by hand"),
    N_("the host's memory: the card has none of its own"),
    N_("the MIG slice's total in the GPU dump"),
    N_("what the change gives up"),
    N_("what the host has available: one pool"),
)
STEPS = {
    "launch": N_("arguments and configuration"),
    "device": N_("device initialisation"),
    "download": N_("download"),
    "load": N_("loading weights"),
    "compile": N_("compilation"),
    "capture": N_("graph capture"),
    "warmup": N_("warm-up"),
    "init": N_("profile, KV cache, warm-up"),
}
ENGINES = {
    "vllm": "vLLM",
    "sglang": "SGLang",
    "llama.cpp": "llama.cpp",
    "ollama": "Ollama",
    "tgi": "TGI",
    "tensorrt-llm": "TensorRT-LLM",
    "lmdeploy": "LMDeploy",
    "nano-vllm": "nano-vllm",
    "transformers": "Transformers",
}
