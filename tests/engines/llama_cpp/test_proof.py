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


TRY = 'level=INFO source=runner.go:1271 msg=load request="{Operation:alloc LoraPath:[] Parallel:1 GPULayers:37[ID:GPU-1 Layers:37(3..39) ]}"\n'


@pytest.mark.parametrize(
    ("following", "state", "cause"),
    [
        ("", "unknown", None),
        (TRY, "unknown", None),
        ('level=INFO source=sched.go:446 msg="Load failed" error="memory layout cannot be allocated"\n', "failed", "cuda_oom.weight_load"),
        ('level=ERROR source=sched.go:457 msg="error loading llama server" error="exit status 2"\n', "failed", "cuda_oom.compute_buffer"),
        ('level=INFO source=server.go:1289 msg="llama runner started in 5.32 seconds"\n', "healthy", "healthy"),
    ],
)
def test_what_is_tried_fails_only_where_the_load_is_given_up(following: str, state: str, cause: str | None) -> None:
    outcome = told(TRY + OOM + COMPUTE.splitlines()[0] + "\n" + following)["outcome"]
    assert (outcome["state"], outcome["cause"]) == (state, cause)


STEP = "CUDA error: out of memory\n  current device: 0, in function {} at ggml-cuda.cu:522\n"
LOADED = "load_tensors: offloaded 33/33 layers to GPU\n"
CACHE = "llama_kv_cache: CUDA0 KV buffer size =   312.00 MiB\n"


@pytest.mark.parametrize(
    ("before", "function", "cause", "confidence"),
    [
        ("", "alloc", None, None),
        (LOADED, "alloc", None, None),
        (LOADED, "stream", "cuda_oom.weight_load", "likely"),
        (LOADED + CACHE, "alloc", "cuda_oom.warmup", "certain"),
        (LOADED + "main: model loaded\n", "alloc", "cuda_oom.serving", "certain"),
        ("slot launch_slot_: id  0 | task 0 | processing task\n", "alloc", "cuda_oom.serving", "certain"),
        ("build: 4902 (f08f4b31) with cc for x86_64-linux-gnu\n", "stream", "cuda_oom.device_init", "likely"),
    ],
)
def test_a_refused_call_is_dated_by_how_far_the_start_had_come(
    before: str, function: str, cause: str | None, confidence: str | None
) -> None:
    report = told(before + STEP.format(function))
    assert (report["outcome"]["state"], report["outcome"]["cause"]) == ("failed", cause)
    if confidence is not None:
        assert report["outcome"]["confidence"] == confidence
    else:
        assert [found["cause"] for found in report["findings"]] == [None]


def test_what_vulkan_refuses_in_pieces_is_not_what_is_needed() -> None:
    facts = {fact["name"] for fact in of("llama-vulkan-piece.log")["facts"]}
    assert "oom.tried" in facts
    assert facts.isdisjoint({"weights.needed", "kv_cache.needed"})


def test_a_buffer_above_the_driver_s_limit_gets_a_smaller_one_advised() -> None:
    root = of("llama-vulkan-limit.log")["findings"][0]
    assert [fix["changes"][0]["action"].split(" (")[0] for fix in root["fixes"]][1] == "llama.cpp: -ub 256"
    assert root["evidence"][0]["line"] == 6


def test_other_vendors_tools_are_asked_for_on_their_gpus() -> None:
    log = OOM + COMPUTE
    assert any("run now on the host" in need and need.startswith("`nvidia-smi`") for need in told(log)["findings"][0]["needs"])
    amd = told(log.replace("allocate CUDA0", "allocate ROCm0"))["findings"][0]["needs"]
    assert any("amd-smi" in need for need in amd)
    assert not any(need.startswith("`nvidia-smi`") for need in amd)


def test_a_file_that_is_copied_may_be_mapped() -> None:
    refused = "ggml_backend_cpu_buffer_type_alloc_buffer: failed to allocate buffer of size 437944320\nalloc_tensor_range: failed\n"
    loading = "load_tensors: loading model tensors, this can take a while... (mmap = {})\n"
    for mapped in ("false", "true"):
        root = told(loading.format(mapped) + refused)["findings"][0]
        assert root["cause"] == "host_oom.allocation_failed"
        actions = [change.get("action") for fix in root["fixes"] for change in fix["changes"]]
        assert ("remove --no-mmap" in actions) is (mapped == "false")
        assert not any("safetensors" in str(action) for action in actions)
