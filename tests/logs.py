"""Short logs in vLLM's own words, put together for a test, and the report on them."""

from __future__ import annotations

import io

from analyzer import analyze
from analyzer.intake.limits import Limits
from analyzer.model import Fact, Finding, Report

BANNER = "INFO 05-01 10:00:00 [api_server.py:1090] vLLM API server version {version}"
ENGINE = (
    "INFO 05-01 10:00:05 [core.py:58] Initializing a V1 LLM engine (v{version}) with config: model='org/model', speculative_config=None, "
    "tokenizer='org/model', dtype=torch.bfloat16, max_seq_len=8192, tensor_parallel_size={tp}, pipeline_parallel_size=1"
)
WEIGHTS = "INFO 05-01 10:00:30 [gpu_model_runner.py:1774] Model loading took {weights} GiB and 20.1 seconds"
AVAILABLE = "INFO 05-01 10:00:50 [gpu_worker.py:227] Available KV cache memory: {kv} GiB"
TOKENS = "INFO 05-01 10:00:51 [kv_cache_utils.py:716] GPU KV cache size: {tokens} tokens"
GRAPHS = "INFO 05-01 10:01:10 [gpu_model_runner.py:2048] Graph capturing finished in 15 secs, took 0.60 GiB"
INIT = "INFO 05-01 10:01:11 [core.py:172] init engine (profile, create kv cache, warmup model) took 40.10 seconds"
READY = "INFO:     Application startup complete."
SHUTDOWN = "INFO:     Shutting down"
FIRST_REQUEST = 'INFO:     192.0.2.9:50126 - "POST /v1/chat/completions HTTP/1.1" 200 OK'
REFUSED = 'INFO:     192.0.2.9:50126 - "POST /v1/chat/completions HTTP/1.1" 400 Bad Request'
STATISTICS = (
    "INFO 05-01 10:05:{second:02} [loggers.py:116] Engine 000: Avg prompt throughput: 100.5 tokens/s, "
    "Avg generation throughput: 50.0 tokens/s, Running: {running} reqs, Waiting: {waiting} reqs, "
    "GPU KV cache usage: {usage}%, Prefix cache hit rate: 0.0%"
)
TRACEBACK = "Traceback (most recent call last):"
#: Frames of a stage, as a traceback of V1 shows them.
FRAMES = {
    "weight_load": '  File "/usr/lib/python3.12/site-packages/vllm/v1/worker/gpu_model_runner.py", line 1700, in load_model',
    "profiling": '  File "/usr/lib/python3.12/site-packages/vllm/v1/worker/gpu_worker.py", line 205, in determine_available_memory',
    "graph_capture": '  File "/usr/lib/python3.12/site-packages/vllm/v1/worker/gpu_model_runner.py", line 2030, in capture_model',
    "dry_run": '  File "/usr/lib/python3.12/site-packages/vllm/v1/worker/gpu_model_runner.py", line 1900, in _dummy_run',
    "kv_init": '  File "/usr/lib/python3.12/site-packages/vllm/v1/worker/gpu_model_runner.py", line 2300, in _allocate_kv_cache_tensors',
}


def oom(
    tried: str = "512.00 MiB",
    free: str = "100.00 MiB",
    *,
    total: str = "79.19 GiB",
    own: str = "79.05 GiB",
    allocated: str = "77.00 GiB",
    unused: str = "300.00 MiB",
    others: str = "",
    limit: str = "",
    gpu: int = 0,
) -> str:
    """PyTorch's sentence; ``others`` is a list of ``Process P has … memory in use.``, ``limit`` a ``… allowed``."""
    allowed = f"{limit} allowed; " if limit else ""
    return (
        f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {tried}. "
        f"GPU {gpu} has a total capacity of {total} of which {free} is free. "
        f"{others + ' ' if others else ''}Including non-PyTorch memory, this process has {own} memory in use. {allowed}"
        f"Of the allocated memory {allocated} is allocated by PyTorch, and {unused} is reserved by PyTorch but unallocated. "
        "If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation."
    )


def start(version: str = "0.9.1", *, tp: int = 1) -> list[str]:
    """The head of a start."""
    return [BANNER.format(version=version), ENGINE.format(version=version, tp=tp)]


def served(version: str = "0.9.1", *, weights: str = "14.99", kv: str = "50.20", tokens: str = "365,504") -> list[str]:
    """A whole start up to ready."""
    return [*start(version), WEIGHTS.format(weights=weights), AVAILABLE.format(kv=kv), TOKENS.format(tokens=tokens), GRAPHS, INIT, READY]


def raised(error: str, *stages: str) -> list[str]:
    """A traceback through frames of ``stages`` (outermost first) that ends in ``error``."""
    return [TRACEBACK, *(FRAMES[stage] for stage in stages), "    return func(*args, **kwargs)", error]


def told(*inputs: list[str], limits: Limits = Limits()) -> Report:  # noqa: B008 - frozen
    """The report on texts, one a file."""
    files = [(f"file{place}.log", io.BytesIO(("\n".join(lines) + "\n").encode())) for place, lines in enumerate(inputs)]
    return analyze(files, limits=limits)


def facts(report: Report, name: str, attempt: int | None = None) -> list[Fact]:
    """The facts ``name``, of one attempt or of all."""
    return [fact for fact in report.facts if fact.name == name and attempt in (None, fact.attempt)]


def finding(report: Report, cause: str | None) -> Finding:
    """The finding with this cause."""
    (found,) = [found for found in report.findings if found.cause == cause]
    return found
