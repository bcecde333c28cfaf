"""Fixes and stages where settings, the device or the head of the log are not in the text."""

from __future__ import annotations

from analyzer.model import Confidence
from tests.logs import told

CAPTURE = [
    '[rank0]:   File "/opt/vllm/worker/model_runner.py", line 1173, in capture_model',
    "[rank0]: RuntimeError: CUDA error: out of memory",
]
TOO_SMALL = "(EngineCore_DP0 pid=64528) ERROR 11-18 13:44:09 [core.py:842] ValueError: To serve at least one request with the models's max seq len (40960), (4.38 GiB KV cache is needed, which is larger than the available KV cache memory (4.00 GiB)."
SERVE = "vllm serve -tp 2 --gpu-memory-utilization {} m"
V0_SMALL = "ValueError: The model's max seq len (131072) is larger than the maximum number of tokens that can be stored in KV cache (81536). Try increasing `gpu_memory_utilization`"
WORKER = "(VllmWorkerProcess pid={}) ERROR 03-02 19:49:43 [multiproc_worker_utils.py:242] {}"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 2 has a total capacity of 14.62 GiB of which 3.31 MiB is free."


def titles(*lines: str) -> list[str]:
    return [fix.title.en for fix in told(list(lines)).findings[0].fixes]


def test_a_smaller_budget_is_offered_where_the_present_one_is_not_known() -> None:
    assert titles(*CAPTURE)[0] == "--gpu-memory-utilization − 0.05"
    assert not [title for title in titles(SERVE.format(0.95), *CAPTURE) if "−" in title]


def test_the_pool_of_the_cpu_backend_is_no_share_of_a_card() -> None:
    built = "- build vllm on CPU: `VLLM_TARGET_DEVICE=cpu python3 setup.py bdist_wheel`"
    assert "VLLM_CPU_KVCACHE_SPACE 4 → 5" in titles(TOO_SMALL, built)
    assert not [title for title in titles(TOO_SMALL, built) if "utilization" in title]


def test_a_utilization_near_the_end_is_not_raised_by_half_the_pool() -> None:
    assert not [title for title in titles(SERVE.format(0.98), V0_SMALL) if "utilization" in title]
    assert [title for title in titles(SERVE.format(0.5), V0_SMALL) if "utilization" in title]


def test_a_worker_that_says_it_loads_dates_the_error_of_another() -> None:
    lines = [WORKER.format(1, OOM), WORKER.format(2, "Exception in worker VllmWorkerProcess while processing method load_model.")]
    outcome = told(lines).outcome
    assert (outcome.cause, outcome.confidence) == ("cuda_oom.weight_load", Confidence.LIKELY)
    assert told(lines[:1]).outcome.cause is None
