"""What happened, told from logs of the engines other than vLLM that no case holds."""

from __future__ import annotations

import re

import pytest

from analyzer.engines import engine
from analyzer.engines.base import Server
from analyzer.patterns.load import load
from tests.engines.logs import FOLDER, of

#: File -> (engine, state, stage, cause).
ROWS: dict[str, tuple[str | None, str, str | None, str | None]] = {
    "exllama-split-full.log": (None, "failed", "weight_load", "cuda_oom.weight_load"),
    "hf-dp.log": ("transformers", "failed", "weight_load", "cuda_oom.weight_load"),
    "llama-cells-ended.log": ("llama.cpp", "failed", "serving", "request.context_length_exceeded"),
    "llama-cells-retried.log": ("llama.cpp", "unknown", "serving", None),
    "llama-cells-told.log": ("llama.cpp", "degraded", "serving", "request.context_length_exceeded"),
    "llama-devices-2026.log": ("llama.cpp", "unknown", "warmup", None),
    "llama-draft-measured.log": (None, "unknown", None, None),
    "llama-driver-mismatch.log": ("llama.cpp", "unknown", "kv_init", None),
    "llama-first-call-2023.log": ("llama.cpp", "failed", "device_init", "cuda_oom.device_init"),
    "llama-gfx-no-code.log": ("ollama", "failed", None, "kernel.no_image_for_arch"),
    "llama-list-then-refused.log": ("llama.cpp", "failed", None, None),
    "llama-metal-above-limit.log": ("llama.cpp", "failed", None, None),
    "llama-metal-error-state.log": ("llama.cpp", "failed", "warmup", "cuda_oom.warmup"),
    "llama-sycl-exit.log": ("llama.cpp", "healthy", "shutdown", "healthy"),
    "llama-vulkan-limit.log": ("llama.cpp", "failed", "kv_init", None),
    "llama-vulkan-piece.log": ("llama.cpp", "failed", None, None),
    "llama-2026.log": ("llama.cpp", "failed", "weight_load", "cuda_oom.weight_load"),
    "llama-host-oom.log": ("llama.cpp", "failed", "kv_init", "host_oom.kv_init"),
    "llama-partial-ok.log": ("llama.cpp", "degraded", "weight_load", "engine.fallback.cpu_offload"),
    "kserve-nvml.log": (None, "failed", None, None),
    "lmd-no-blocks.log": ("lmdeploy", "failed", "serving", None),
    "lmd-old-driver.log": ("lmdeploy", "failed", "device_init", "driver.too_old"),
    "lmd-pt.log": ("lmdeploy", "failed", "kv_init", "kv_cache.no_memory_left"),
    "ollama-alloc-retries.log": ("ollama", "unknown", "weight_load", None),
    "ollama-alloc-then-cpu.log": ("ollama", "degraded", "serving", "engine.fallback.cpu_offload"),
    "ollama-client-error-first.log": ("ollama", "failed", "serving", "cuda_oom.serving"),
    "ollama-commit-failed.log": ("ollama", "failed", "weight_load", "cuda_oom.weight_load"),
    "ollama-rocm-stream.log": ("ollama", "failed", None, None),
    "ollama-v-cache.log": ("ollama", "failed", "launch", "args.invalid_value"),
    "ollama-step.log": ("ollama", "failed", "serving", "cuda_oom.serving"),
    "ollama-zero-layers-ok.log": ("ollama", "degraded", "weight_load", "engine.fallback.cpu_offload"),
    "sgl-02.log": ("sglang", "healthy", "serving", "healthy"),
    "sgl-killed.log": ("sglang", "failed", "weight_load", "engine.process_killed"),
    "sgl-vllm-lines-kv-oom.log": ("sglang", "failed", "kv_init", "cuda_oom.kv_init"),
    "tgi-load-oom.log": ("tgi", "failed", "weight_load", "cuda_oom.weight_load"),
    "trt-pytorch.log": ("tensorrt-llm", "healthy", "serving", "healthy"),
    "hf-generate.log": ("transformers", "failed", "serving", "cuda_oom.serving"),
    "hf-windows.log": ("transformers", "failed", "serving", "cuda_oom.serving"),
    "hf-load.log": ("transformers", "failed", "weight_load", "cuda_oom.weight_load"),
    "hf-offload.log": ("transformers", "degraded", "weight_load", "engine.fallback.cpu_offload"),
    "llama-2023.log": ("llama.cpp", "healthy", "serving", "healthy"),
    "llama-compute-retry-ok.log": ("llama.cpp", "degraded", "warmup", "engine.fallback.no_pipeline_parallelism"),
    "llama-healthy-2025.log": ("llama.cpp", "healthy", "serving", "healthy"),
    "llama-kv-oom-2025.log": ("llama.cpp", "failed", "kv_init", "cuda_oom.kv_init"),
    "llama-step-oom.log": ("llama.cpp", "failed", "serving", "cuda_oom.serving"),
    "lmd-undated.log": ("lmdeploy", "failed", None, None),
    "lmdeploy-ok.log": ("lmdeploy", "healthy", "serving", "healthy"),
    "lmdeploy-weights.log": ("lmdeploy", "failed", "weight_load", "cuda_oom.weight_load"),
    "nano.log": ("nano-vllm", "failed", "kv_init", "kv_cache.no_memory_left"),
    "ollama-gen2-healthy.log": ("ollama", "healthy", "serving", "healthy"),
    "ollama-precheck.log": ("ollama", "failed", "launch", "host_oom.precheck_refused"),
    "ollama-two-loads.log": ("ollama", "failed", "warmup", "cuda_oom.compute_buffer"),
    "sgl-decode-pages.log": ("sglang", "failed", "serving", "engine.version_bug.page_granular_decode_check"),
    "sgl-graph-oom.log": ("sglang", "failed", "graph_capture", "cuda_oom.graph_capture"),
    "sgl-graph-lds.log": ("sglang", "failed", "graph_capture", None),
    "sgl-healthy-tp2.log": ("sglang", "healthy", "serving", "healthy"),
    "sgl-hybrid-prefill.log": ("sglang", "failed", "serving", None),
    "sgl-pool-low-f.log": ("sglang", "failed", "kv_init", "kv_cache.no_memory_left"),
    "sgl-pool-negative.log": ("sglang", "failed", "kv_init", "kv_cache.no_memory_left"),
    "sgl-prefill-oom.log": ("sglang", "failed", "serving", "engine.version_bug.prefill_overcommit"),
    "sgl-request-slots.log": ("sglang", "failed", "serving", None),
    "sgl-serving-oom.log": ("sglang", "failed", "serving", "cuda_oom.serving"),
    "sgl-watchdog.log": ("sglang", "failed", "serving", None),
    "tgi-09-warmup.log": ("tgi", "failed", "warmup", "cuda_oom.warmup"),
    "tgi-decode-oom.log": ("tgi", "failed", "serving", "cuda_oom.serving"),
    "tgi-download-killed.log": ("tgi", "failed", None, "engine.process_killed"),
    "tgi-fragmentation.log": ("tgi", "failed", "serving", "cuda_oom.fragmentation"),
    "tgi-json-shard-gone.log": ("tgi", "failed", "serving", None),
    "tgi-never-ready-oom.log": ("tgi", "failed", "weight_load", "cuda_oom.weight_load"),
    "tgi-prefill-oom.log": ("tgi", "failed", "serving", "cuda_oom.serving"),
    "tgi-segfault.log": ("tgi", "failed", "weight_load", "process.segfault"),
    "tgi-serving-oom.log": ("tgi", "failed", "serving", "cuda_oom.serving"),
    "tgi-warmup-8-shards.log": ("tgi", "failed", "warmup", "cuda_oom.warmup"),
    "mlx-train.log": (None, "failed", None, None),
    "trt-below-one-sequence.log": ("tensorrt-llm", "failed", "kv_init", "kv_cache.too_small_for_max_len"),
    "trt-below-one-sequence-2023.log": ("tensorrt-llm", "failed", "kv_init", "kv_cache.too_small_for_max_len"),
    "trt-bls-ready.log": ("tensorrt-llm", "unknown", "weight_load", None),
    "trt-build-failed.log": ("tensorrt-llm", "failed", None, None),
    "trt-encoder-decoder.log": ("tensorrt-llm", "healthy", "kv_init", "healthy"),
    "trt-executor-kv.log": ("tensorrt-llm", "failed", "kv_init", "cuda_oom.kv_init"),
    "trt-load-module.log": ("tensorrt-llm", "failed", "weight_load", "cuda_oom.weight_load"),
    "trt-pool-announced.log": ("tensorrt-llm", "unknown", "kv_init", None),
    "trt-tactic-skipped.log": ("tensorrt-llm", "unknown", None, None),
    "trt-triton-ready.log": ("tensorrt-llm", "healthy", "serving", "healthy"),
    "trt-triton-refused.log": (None, "failed", None, None),
    "trt-wrapped-oom.log": ("tensorrt-llm", "failed", "kv_init", "cuda_oom.kv_init"),
    "trt-fail.log": ("tensorrt-llm", "failed", "weight_load", "cuda_oom.weight_load"),
    "trt-oom.log": ("tensorrt-llm", "healthy", "kv_init", "healthy"),
    "vllm-engine-loop.log": ("vllm", "failed", "serving", "cuda_oom.serving"),
    "vllm-nvml.log": ("vllm", "failed", "serving", "cuda_oom.serving"),
    "vllm-oom-undated.log": ("vllm", "failed", None, None),
    "xinference-oom.log": (None, "failed", None, None),
    "two-engines.log": ("vllm", "healthy", "serving", "healthy"),
}


def test_every_log_has_its_answer() -> None:
    assert {path.name for path in FOLDER.glob("*.log")} == ROWS.keys()


@pytest.mark.parametrize("name", ROWS)
def test_outcome(name: str) -> None:
    report = of(name)
    outcome = report["outcome"]
    assert (report["engine"]["name"], outcome["state"], outcome["stage"], outcome["cause"]) == ROWS[name]


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row[1] == "failed"])
def test_a_failure_gets_something_to_do(name: str) -> None:
    root = of(name)["findings"][0]
    assert root["fixes"] or root["needs"]


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row[1] == "healthy"])
def test_healthy_means_no_error(name: str) -> None:
    assert [found["cause"] for found in of(name)["findings"] if found["severity"] == "error"] == []


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row[1] == "healthy" and row[0] != "vllm"])
def test_a_healthy_start_says_where_the_memory_is(name: str) -> None:
    assert "Where the memory is: GPU 0: " in of(name)["findings"][0]["explanation"]


@pytest.mark.parametrize("name", [name for name in ROWS if name.startswith(("sgl", "tgi"))])
def test_fixes_name_flags_of_the_engine_itself(name: str) -> None:
    known = engine(of(name)["engine"]["name"])
    assert isinstance(known, Server)
    flags = [change["flag"] for fix in of(name)["findings"][0]["fixes"] for change in fix["changes"] if "flag" in change]
    assert set(flags) <= known.flags.keys()


def test_a_driver_that_does_not_fit_is_no_healthy_fallback() -> None:
    found = [finding["cause"] for finding in of("llama-driver-mismatch.log")["findings"]]
    assert "driver.library_mismatch" in found
    assert "healthy.pinned_memory_fallback" not in found


def test_an_assertion_of_nvml_is_explained_as_the_out_of_memory_that_it_is() -> None:
    for name in ("vllm-nvml.log", "kserve-nvml.log"):
        assert "message could not be written" in of(name)["findings"][0]["explanation"]


def test_what_a_line_says_of_a_family_stands_for_the_words_of_the_finer_cause() -> None:
    words = of("exllama-split-full.log")["findings"][0]["explanation"]
    assert "both count" in words
    assert "No KV cache exists" not in words


def test_an_exception_before_an_out_of_memory_is_not_what_failed() -> None:
    assert "Model actor is out of memory" in of("xinference-oom.log")["findings"][0]["evidence"][0]["text"]


def test_two_engines_in_one_paste_are_told_apart() -> None:
    report = of("two-engines.log")
    assert [segment["engine"] for segment in report["inputs"][0]["segments"]] == ["sglang", "vllm"]
    assert [attempt["state"] for attempt in report["attempts"]] == ["failed", "healthy"]


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row[0] != "vllm"])
def test_no_explanation_speaks_of_vllm_s_own_settings(name: str) -> None:
    said = [text for finding in of(name)["findings"] for text in (finding["title"], finding["explanation"])]
    assert not [text for text in said if re.search(r"vLLM|max_num_seqs|--gpu-memory-utilization|--max-model-len", text)]


@pytest.mark.parametrize(("engine_name", "word"), [("tgi", "prefill"), ("sglang", "budget"), (None, "budget")])
def test_a_cause_is_told_in_words_that_are_true_of_the_engine(engine_name: str | None, word: str) -> None:
    assert word in load().causes["cuda_oom.warmup"].of(engine_name).text["en"]
