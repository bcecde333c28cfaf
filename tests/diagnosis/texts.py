"""Small inputs for rules: parts of logs as the engine prints them, and what an analysis says of them."""

from __future__ import annotations

import io

from analyzer.analysis import analyze
from analyzer.model import Finding, Report

BANNER = "(APIServer pid=4001) INFO 01-25 19:40:11 [api_server.py:1272] vLLM API server version {version}\n"
NCCL = "(Worker_TP0 pid=4102) INFO 01-25 19:40:30 [pynccl.py:111] vLLM is using nccl==2.27.5\n"
WEIGHTS = "(Worker_TP0 pid=4102) INFO 01-25 19:41:30 [gpu_model_runner.py:3905] Model loading took 16.98 GiB memory and 41.2 seconds\n"
READY = "(APIServer pid=4001) INFO:     Application startup complete.\n"
WAIT = (
    "(EngineCore_DP0 pid=4050) INFO 01-25 19:4{minute}:31 [shm_broadcast.py:467] No available shared memory "
    "broadcast block found in 60 seconds. "
    "This typically happens when some processes are hanging or doing some time-consuming work (e.g. compilation, "
    "weight/kv cache quantization).\n"
)
STATISTICS = (
    "(APIServer pid=4001) INFO 01-25 20:{minute:02d}:04 [loggers.py:257] Engine 000: Avg prompt throughput: 300.2 tokens/s, "
    "Avg generation throughput: 55.0 tokens/s, Running: {running} reqs, Waiting: {waiting} reqs, GPU KV cache usage: {usage}%, "
    "Prefix cache hit rate: 0.0%\n"
)


def said(*texts: str, names: tuple[str, ...] = ()) -> Report:
    """The report on ``texts`` as separate inputs."""
    labels = (*names, *(f"input-{place}.txt" for place in range(len(names), len(texts))))
    return analyze([(name, io.BytesIO(text.encode())) for name, text in zip(labels, texts, strict=True)])


def found(report: Report, cause: str) -> Finding | None:
    """The finding of a cause."""
    return next((finding for finding in report.findings if finding.cause == cause), None)


def waits(count: int) -> str:
    """``count`` minutes of a worker that does not answer."""
    return "".join(WAIT.format(minute=minute) for minute in range(count))


def statistics(rows: list[tuple[int, int, float]]) -> str:
    """Statistics lines of (running, waiting, use of the pool in percent)."""
    return "".join(
        STATISTICS.format(minute=minute, running=running, waiting=waiting, usage=usage)
        for minute, (running, waiting, usage) in enumerate(rows)
    )


def smi(rows: list[tuple[int, int, int]]) -> str:
    """A dump of (used MiB, total MiB, load in percent) a card."""
    lines = ["index, memory.used [MiB], memory.total [MiB], utilization.gpu [%]"]
    lines += [f"{index}, {used} MiB, {total} MiB, {load} %" for index, (used, total, load) in enumerate(rows)]
    return "\n".join(lines) + "\n"
