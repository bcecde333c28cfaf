"""What a refused allocation was for stands in the lines after it, and what else the lines of a start prove."""

from __future__ import annotations

import pytest

from tests.engines.logs import changes, of, told

OOM = "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 5120.00 MiB on device 0: cudaMalloc failed: out of memory\n"
RANGE = "alloc_tensor_range: failed to allocate CUDA0 buffer of size 5368709120\n"
WEIGHTS = RANGE + "llama_model_load: error loading model: unable to allocate CUDA0 buffer\n"
KV = RANGE + "llama_init_from_model: failed to initialize the context: failed to allocate buffer for kv cache\n"
COMPUTE = "ggml_gallocr_reserve_n: failed to allocate CUDA0 buffer of size 5368709120\nllama_context: failed to allocate compute buffers\n"


@pytest.mark.parametrize(
    ("following", "stage", "cause"),
    [
        (WEIGHTS, "weight_load", "cuda_oom.weight_load"),
        (KV, "kv_init", "cuda_oom.kv_init"),
        ("llama_kv_cache_init: failed to allocate buffer for kv cache\n", "kv_init", "cuda_oom.kv_init"),
        (COMPUTE, "warmup", "cuda_oom.compute_buffer"),
    ],
)
def test_the_next_lines_say_what_it_was_for(following: str, stage: str, cause: str) -> None:
    outcome = told("load_tensors: offloaded 33/33 layers to GPU\n" + OOM + following)["outcome"]
    assert (outcome["state"], outcome["stage"], outcome["cause"]) == ("failed", stage, cause)


def test_a_cache_refused_without_the_gpu_lies_on_the_host() -> None:
    log = "load_tensors: offloaded 0/33 layers to GPU\nllama_kv_cache_init: failed to allocate buffer for kv cache\n"
    assert told(log)["outcome"]["cause"] == "host_oom.kv_init"
    assert told(log.replace("0/33", "33/33"))["outcome"]["cause"] is None


@pytest.mark.parametrize(("slots", "cause"), [(8, "args.num_parallel_multiplies_context"), (1, "cuda_oom.compute_buffer")])
def test_slots_are_the_cause_where_one_would_fit(slots: int, cause: str) -> None:
    cells = 8192 * slots
    log = (
        f"llama_context: n_seq_max     = {slots}\nllama_context: n_ctx         = {cells}\nllama_context: n_ctx_per_seq = 8192\n"
        f"llama_kv_cache_unified: kv_size = {cells}, type_k = 'f16', type_v = 'f16', n_layer = 40, can_shift = 1, padding = 32\n"
        f"llama_kv_cache_unified:      CUDA0 KV buffer size = 16384.00 MiB\n{OOM}{COMPUTE}"
    )
    assert told(log)["outcome"]["cause"] == cause


def test_a_layer_less_by_what_was_refused() -> None:
    fixes = of("ollama-two-loads.log")["findings"][0]["fixes"]
    assert any("num_gpu to 37" in change.get("action", "") for fix in fixes for change in fix["changes"])


def test_a_context_by_what_a_token_costs() -> None:
    assert changes(of("llama-kv-oom-2025.log"))["--ctx-size"] == 8192


def test_a_load_keeps_what_the_server_said_once() -> None:
    report = of("ollama-two-loads.log")
    assert report["engine"]["version"] == "0.7.0"
    assert [attempt["state"] for attempt in report["attempts"]] == ["healthy", "failed"]
