"""Inputs that are all work: each must take twice the time when it is twice as long."""

from __future__ import annotations

from collections.abc import Callable


def _csv_loop(times: int) -> str:
    rows = ["timestamp, index, name, memory.total [MiB], memory.used [MiB], utilization.gpu [%]"]
    for row in range(10_000 * times):
        second = row // 8
        clock = f"2025/05/{1 + second // 86400:02} {second // 3600 % 24:02}:{second // 60 % 60:02}:{second % 60:02}.000"
        rows.append(f"{clock}, {row % 8}, NVIDIA H100 80GB HBM3, 81559 MiB, {1000 + row * 37 % 70000} MiB, {row % 100} %")
    return "\n".join(rows)


def _repeated(line: str, count: int) -> Callable[[int], str]:
    return lambda times: "\n".join([line] * (count * times))


def _tracebacks(times: int) -> str:
    frame = '  File "/usr/lib/python3.12/site-packages/vllm/v1/worker/gpu_worker.py", line 205, in determine_available_memory'
    end = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 896.00 MiB."
    return "\n".join(["Traceback (most recent call last):", *[frame] * 20, end] * (300 * times))


def _anchors(times: int) -> str:
    """Every pattern's anchors, each with a long word behind it: what its expression does with a line that it does not match."""
    from analyzer.patterns.load import load

    anchors = [anchor for pattern in load().patterns for anchor in pattern.anchors]
    return "\n".join(anchor + filler * (1000 * times) for anchor in anchors for filler in ("a", "a."))


_TABLE = """\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 550.54.15              Driver Version: 550.54.15      CUDA Version: 12.4     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|=========================================+========================+======================|
|   0  NVIDIA GeForce RTX 4090        Off |   00000000:01:00.0 Off |                  Off |
|  0%   45C    P8             22W /  450W |   21006MiB /  24564MiB |      0%      Default |
+-----------------------------------------+------------------------+----------------------+"""

HOSTILE: dict[str, Callable[[int], str]] = {
    "rows of nvidia-smi's CSV": _csv_loop,
    "nvidia-smi tables": _repeated(_TABLE, 400),
    "headers without their tables": _repeated(_TABLE.splitlines()[1], 4000),
    "CSV headers without rows": _repeated("index, name, memory.used [MiB], memory.total [MiB]", 8000),
    "tracebacks": _tracebacks,
    "out-of-memory lines": _repeated(
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 896.00 MiB. GPU 0 has a total capacity of 23.69 GiB of which "
        "594.69 MiB is free. Process 1421 has 23.10 GiB memory in use.",
        3000,
    ),
    "launch commands": _repeated("$ vllm serve org/model --max-model-len 8192 --gpu-memory-utilization 0.9", 2000),
    "every pattern's anchor and a long word": _anchors,
    "open JSON objects": _repeated('{"hidden_size": 4096, "num_hidden_layers": 32, "model_type": "llama",', 4000),
    "one line of braces": lambda times: "{" * (30_000 * times),
    "XML that never ends": _repeated("<nvidia_smi_log><gpu id='0'><fb_memory_usage>", 4000),
}
