"""The feasible window of the main setting, on cases and on small logs whose arithmetic can be done by hand."""

from __future__ import annotations

import io

import pytest

from analyzer import analyze
from analyzer.model import Report, Window
from tests.case_files import report


def window(made: Report) -> Window:
    root = made.root
    assert root is not None
    assert root.window is not None
    return root.window


@pytest.mark.parametrize(
    ("name", "flag", "low", "high", "feasible"),
    [
        ("vllm-v0-graph-capture-oom-16gb", "--gpu-memory-utilization", 0.82, 0.94, True),
        ("vllm-v0-kv-too-small-29k-3090", "--gpu-memory-utilization", 0.93, None, True),
        ("vllm-v0-027-kv-3664-of-4096", "--max-model-len", 1, 3664, True),
        ("vllm-v1-180k-context-hybrid-27b-3090", "--max-model-len", 1, 111456, True),
        ("vllm-v1-hybrid-mamba-blocks-614-of-1024-seqs", "--max-num-seqs", 1, 614, True),
        ("vllm-v1-second-instance-free-below-requested-a100", "--gpu-memory-utilization", None, 0.84, True),
        ("vllm-v1-orphan-enginecore-holds-gb10", "--gpu-memory-utilization", None, 0.09, False),
        ("vllm-v1-graph-estimate-too-low-nvfp4-kv-098", "--gpu-memory-utilization", 0.96, 0.97, True),
        ("vllm-v1-gptoss-120b-raising-util-moves-the-oom", "--gpu-memory-utilization", 0.93, 0.97, True),
        ("vllm-swap-space-larger-than-host-ram", "--swap-space", 0, 3, True),
        ("0.24.0-kv-too-small", "VLLM_CPU_KVCACHE_SPACE", 9, 21, True),
    ],
)
def test_windows_of_cases(name: str, flag: str, low: float | None, high: float | None, feasible: bool) -> None:
    found = window(report(name))
    assert (found.flag, found.low, found.high, found.feasible) == (flag, low, high, feasible)


def too_small(free0: float, needed: float, total: float = 23.56) -> Report:
    """V1 0.13.0 at 0.90 of a card of ``total`` GiB: a pool of 2.00 GiB, and graphs outside the budget that are off."""
    budget = round(0.9 * total, 2)
    usage = (
        f"Free memory on device ({free0}/{total} GiB) on startup. Desired GPU memory utilization is (0.9, {budget} GiB). Actual usage is "
        "15.0 GiB for weight, 1.0 GiB for peak activation, 0.2 GiB for non-torch memory, and 0.0 GiB for CUDAGraph memory. Replace "
        "gpu_memory_utilization config with `--kv-cache-memory=1` to fit into requested memory, or `--kv-cache-memory=2` to fully utilize "
        "gpu memory. Current kv cache memory in use is 2.0 GiB."
    )
    error = (
        f"To serve at least one request with the models's max seq len (32768), ({needed} GiB KV cache is needed, which is larger than the "
        "available KV cache memory (2.0 GiB). Based on the available memory, the estimated maximum model length is 16384. Try increasing "
        "`gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine."
    )
    lines = [
        "INFO 01-01 10:00:00 [core.py:93] Initializing a V1 LLM engine (v0.13.0) with config: model='m', max_seq_len=32768",
        "INFO 01-01 10:00:01 [utils.py:1] non-default args: {'model': 'm', 'gpu_memory_utilization': 0.9, 'enforce_eager': True}",
        f"DEBUG 01-01 10:00:02 [gpu_worker.py:1] {usage}",
        "INFO 01-01 10:00:03 [gpu_worker.py:298] Available KV cache memory: 2.00 GiB",
        f"ValueError: {error}",
    ]
    return analyze([("engine.log", io.BytesIO("\n".join(lines).encode() + b"\n"))])


def test_between_need_and_what_is_free() -> None:
    """(21.20 − 2.00 + 3.00) / 23.56 = 0.9425, up; 23.10 / 23.56 = 0.9804, down."""
    found = window(too_small(free0=23.1, needed=3.0))
    assert (found.low, found.high, found.limit, found.feasible) == (0.95, 0.98, "free0", True)
    assert "0.95" in found.text.en
    assert "0.98" in found.text.zh


def test_an_empty_window_says_so_and_what_opens_it() -> None:
    """(21.20 − 2.00 + 6.00) / 23.56 = 1.07: no share of the card."""
    found = window(too_small(free0=23.1, needed=6.0))
    assert not found.feasible
    assert found.opens == "--max-model-len"
    assert found.text.en.startswith("No utilization works")
    assert "--max-model-len" in found.text.zh
