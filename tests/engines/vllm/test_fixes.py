"""Every computed fix: its number, the cases in which it says nothing, and that what it predicts holds."""

from __future__ import annotations

import io
import math

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from analyzer import analyze
from analyzer.model import Fix, FlagChange, Report
from analyzer.model.units import GIB, MIB
from tests.engines.vllm.test_ledger import FREE_BELOW, SMI, v0
from tests.logs import AVAILABLE, FRAMES, TOKENS, TRACEBACK, WEIGHTS, oom, raised, start, told

UTILIZATION, LENGTH = "--gpu-memory-utilization", "--max-model-len"


def fixes(report: Report) -> dict[str, tuple[object, Fix]]:
    """flag -> (value to set, fix) of the root's fixes that change flags."""
    root = report.root
    assert root is not None
    return {change.flag: (change.to, fix) for fix in root.fixes for change in fix.changes if isinstance(change, FlagChange)}


def v0_blocks(kv: float, block: int) -> int:
    return int(kv * GIB // block)


def v0_too_small(total: float, share: float, weights: float, *, max_len: int, block: int = 2 * MIB) -> tuple[list[str], float, int]:
    """(log of a V0 start whose pool does not hold one request, pool in GiB, blocks)."""
    kv = round(total * share - weights - 0.40 - 1.20, 2)
    blocks = v0_blocks(kv, block)
    error = (
        f"ValueError: The model's max seq len ({max_len}) is larger than the maximum number of tokens that can be stored in KV cache "
        f"({blocks * 16}). Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine."
    )
    counted = f"INFO 08-16 22:31:22 gpu_executor.py:76] # GPU blocks: {blocks}, # CPU blocks: 2048"
    return [*v0(total, share, weights, 0.40, 1.20, max_len=max_len), counted, *raised(error)], kv, blocks


# --- utilization up ------------------------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    total=st.floats(15, 140).map(lambda size: round(size, 2)),
    share=st.integers(60, 95),
    part=st.floats(0.5, 0.93),
    factor=st.floats(1.02, 2.0),
    block=st.sampled_from([MIB // 2, MIB, 2 * MIB, 5 * MIB]),
)
def test_the_raised_share_is_the_smallest_hundredth_that_holds_a_request(
    total: float, share: int, part: float, factor: float, block: int
) -> None:
    asked = share / 100
    weights = round((total * asked - 1.6) * part, 2)
    kv = round(total * asked - weights - 1.6, 2)
    blocks = v0_blocks(kv, block)
    assume(blocks >= 64)
    needed_blocks = math.ceil(blocks * factor)
    log, kv, blocks = v0_too_small(total, asked, weights, max_len=needed_blocks * 16, block=block)
    report = told(log)
    assert report.outcome.cause == "kv_cache.too_small_for_max_len"
    needed = kv * needed_blocks / blocks
    smallest = math.ceil(100 * (total * asked - kv + needed) / total - 1e-6) / 100
    found = fixes(report).get(UTILIZATION)
    if found is None:
        assert smallest > 0.94, (smallest, asked)  # nothing is left that could be given
        return
    to, fix = found
    assert isinstance(to, float)
    assert asked < to <= 0.99
    pool = fix.predicted.get("kv_cache") if fix.predicted else None
    assert pool is not None
    assert pool >= needed * GIB - 16 * MIB
    assert to == pytest.approx(smallest, abs=0.0101)
    assert total * (to - 0.01) - (total * asked - kv) < needed + 0.01  # a hundredth less would not do


def test_a_share_that_cannot_be_raised_enough_is_not_advised() -> None:
    log, _, blocks = v0_too_small(23.67, 0.95, 18.0, max_len=60000)
    assert blocks * 16 < 60000
    assert UTILIZATION not in fixes(told(log))


# --- utilization down ----------------------------------------------------------------------------------------------------------------


def graphs_failed(
    total: float, share: float, weights: float, max_len: int, *, tried: str = "20.00 MiB", block: int = 2 * MIB
) -> tuple[Report, float]:
    """(report on a V0 start that had no room for its graphs, pool in GiB)."""
    kv = round(total * share - weights - 0.40 - 1.20, 2)
    counted = f"INFO 08-16 22:31:22 gpu_executor.py:76] # GPU blocks: {v0_blocks(kv, block)}, # CPU blocks: 2048"
    own = total - 0.10
    sentence = oom(tried, "13.56 MiB", total=f"{total:.2f} GiB", own=f"{own:.2f} GiB", allocated=f"{own - 1:.2f} GiB", unused="200.00 MiB")
    return told([*v0(total, share, weights, 0.40, 1.20, max_len=max_len), counted, *raised(sentence, "graph_capture")]), kv


@settings(max_examples=40, deadline=None)
@given(
    total=st.floats(15, 140).map(lambda size: round(size, 2)),
    share=st.integers(70, 99),
    part=st.floats(0.3, 0.95),
    length=st.floats(0.05, 1.0),
)
def test_the_lowered_share_still_holds_a_request(total: float, share: int, part: float, length: float) -> None:
    asked = share / 100
    weights = round((total * asked - 1.6) * part, 2)
    kv = total * asked - weights - 1.6
    max_len = max(int(v0_blocks(kv, 2 * MIB) * length) * 16, 16)
    report, kv = graphs_failed(total, asked, weights, max_len)
    assert report.outcome.cause == "cuda_oom.graph_capture"
    found = fixes(report).get(UTILIZATION)
    if found is None:
        return
    to, fix = found
    assert isinstance(to, float)
    assert 0 < to < asked
    assert to == pytest.approx(round(to, 2))
    assert fix.predicted is not None
    pool = fix.predicted.get("kv_cache")
    assert pool is not None
    needed = kv * GIB * math.ceil(max_len / 16) / v0_blocks(kv, 2 * MIB)
    assert pool >= needed - 16 * MIB


def test_it_is_lowered_where_there_is_room_to() -> None:
    report, _ = graphs_failed(15.77, 0.95, 7.51, 4096)
    to, fix = fixes(report)[UTILIZATION]
    assert to == 0.90
    assert not fix.verified  # what the graphs would have taken in all, no line says
    assert fix.predicted is not None
    assert fix.predicted.get("budget") == pytest.approx(0.9 * 15.77 * GIB, rel=1e-6)


def test_it_is_not_lowered_below_what_one_request_needs() -> None:
    kv = round(15.77 * 0.95 - 7.51 - 1.6, 2)
    report, _ = graphs_failed(15.77, 0.95, 7.51, v0_blocks(kv, 2 * MIB) * 16)
    assert UTILIZATION not in fixes(report)
    # What else would help is still said.
    assert "--enforce-eager" in fixes(report)


# --- what is free --------------------------------------------------------------------------------------------------------------------


def refused(free: str, total: str, share: str) -> Report:
    budget = f"{float(total) * float(share):.2f}"
    error = FREE_BELOW.replace("20.00/79.19", f"{free}/{total}").replace("(0.9, 71.27 GiB)", f"({share}, {budget} GiB)")
    return told([*start("0.14.0"), *raised(error)])


@pytest.mark.parametrize(
    ("free", "total", "share", "to"),
    [("68.26", "79.12", "0.97", 0.86), ("70.00", "79.19", "0.9", 0.88), ("20.00", "79.19", "0.9", None), ("1.42", "15.77", "0.9", None)],
)
def test_a_refused_start_is_told_what_is_free(free: str, total: str, share: str, to: float | None) -> None:
    """Rounded down, so that it fits; where too little is free the holder has to go instead."""
    found = fixes(refused(free, total, share)).get(UTILIZATION)
    assert (found[0] if found else None) == to
    if to is not None:
        assert to * float(total) <= float(free) < (to + 0.01) * float(total)


def test_the_process_that_holds_the_memory_is_named() -> None:
    root = told([*start("0.14.0"), *raised(FREE_BELOW)], SMI).root
    assert root is not None
    assert any("4711" in fix.title.en and "59.18 GiB" in fix.title.en for fix in root.fixes), [fix.title.en for fix in root.fixes]


# --- length --------------------------------------------------------------------------------------------------------------------------


def v1_too_small(version: str, needed: str, available: str, *, max_len: int = 131072, estimate: int | None = None) -> Report:
    said = f"Based on the available memory, the estimated maximum model length is {estimate}. " if estimate else ""
    error = (
        f"ValueError: To serve at least one request with the models's max seq len ({max_len}), ({needed} GiB KV cache is needed, which is "
        f"larger than the available KV cache memory ({available} GiB). {said}Try increasing `gpu_memory_utilization` or decreasing "
        "`max_model_len` when initializing the engine."
    )
    return told([*start(version), WEIGHTS.format(weights="14.99"), AVAILABLE.format(kv=available), *raised(error, "kv_init")])


def test_the_engines_own_estimate_is_taken() -> None:
    to, fix = fixes(v1_too_small("0.13.0", "20.00", "10.02", estimate=65648))[LENGTH]
    assert to == 65648
    assert fix.verified


def test_without_an_estimate_it_is_in_proportion() -> None:
    to, fix = fixes(v1_too_small("0.8.3", "2.00", "0.50", max_len=16384))[LENGTH]
    assert to == 4032  # 0.495 of 2.005 GiB, as far as the printed figures go: 4044 tokens, in blocks
    assert not fix.verified  # plain attention is assumed


def test_v0s_tokens_are_the_length() -> None:
    log, _, blocks = v0_too_small(23.67, 0.90, 18.0, max_len=60000)
    assert fixes(told(log))[LENGTH][0] == blocks * 16


def test_without_a_pool_no_length_fits() -> None:
    error = "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine."
    report = told([*start("0.12.0"), WEIGHTS.format(weights="70.00"), *raised(error, "kv_init")])
    assert report.outcome.cause == "kv_cache.no_memory_left"
    assert LENGTH not in fixes(report)


@pytest.mark.parametrize(("available", "holds"), [("12.00", True), ("8.00", False)])
def test_fp8_only_where_twice_the_tokens_are_enough(available: str, holds: bool) -> None:
    estimate = int(131072 * float(available) / 20) // 16 * 16
    assert ("--kv-cache-dtype" in fixes(v1_too_small("0.13.0", "20.00", available, estimate=estimate))) is holds


# --- the rest ------------------------------------------------------------------------------------------------------------------------


def test_fixes_that_belong_to_one_place_are_said_only_there() -> None:
    """DeepGEMM's warm-up and FlashInfer's sampler are blamed only where they stand in the traceback."""
    lines = [*start("0.11.0"), WEIGHTS.format(weights="14.99"), AVAILABLE.format(kv="50.00"), TOKENS.format(tokens="100,000")]
    plain = told([*lines, *raised(oom(), "dry_run")])
    gemm = '  File "/usr/lib/python3.12/site-packages/vllm/model_executor/warmup/deep_gemm_warmup.py", line 100, in deep_gemm_warmup'
    warm = told([*lines, TRACEBACK, FRAMES["dry_run"], gemm, oom()])

    def variables(report: Report) -> set[str]:
        root = report.root
        assert root is not None
        return {getattr(change, "env", "") for fix in root.fixes for change in fix.changes}

    assert "VLLM_DEEP_GEMM_WARMUP" not in variables(plain)
    assert "VLLM_DEEP_GEMM_WARMUP" in variables(warm)


def test_chunked_prefill_is_v0s() -> None:
    log, _, _ = v0_too_small(23.67, 0.90, 18.0, max_len=29000)
    assert "--enable-chunked-prefill" in fixes(told(log))
    assert "--enable-chunked-prefill" not in fixes(v1_too_small("0.13.0", "20.00", "10.02", estimate=65648))


def test_a_spread_over_more_gpus_divides_the_weights() -> None:
    report = told([*start("0.11.0"), WEIGHTS.format(weights="60.00"), *raised(oom(), "profiling")])
    to, _ = fixes(report)["--tensor-parallel-size"]
    assert to == 2
    assert 60 / 2 < 0.8 * 79.19


PINNED = """\
(APIServer pid=1) INFO 03-04 09:59:00 [utils.py:233] non-default args: {'model': 'Qwen/Qwen3-8B', 'kv_cache_memory_bytes': 9000000000, 'max_model_len': 32768}
(EngineCore_DP0 pid=3) INFO 03-04 10:00:00 [core.py:77] Initializing a V1 LLM engine (v0.14.0) with config: model='Qwen/Qwen3-8B', dtype=torch.bfloat16
(EngineCore_DP0 pid=3) INFO 03-04 10:00:00 [gpu_model_runner.py:3300] Model loading took 15.27 GiB memory and 4.7 seconds
(EngineCore_DP0 pid=3) INFO 03-04 10:00:00 [gpu_worker.py:300] Initial free memory 23.1 GiB, reserved 8.38 GiB memory for KV Cache as specified by kv_cache_memory_bytes config and skipped memory profiling. This does not respect the gpu_memory_utilization config.
(EngineCore_DP0 pid=3) ERROR 03-04 10:00:09 [core.py:843] Traceback (most recent call last):
(EngineCore_DP0 pid=3) ERROR 03-04 10:00:09 [core.py:843]   File "/x/vllm/v1/worker/gpu_model_runner.py", line 5000, in initialize_kv_cache_tensors
(EngineCore_DP0 pid=3) ERROR 03-04 10:00:09 [core.py:843] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 244.00 MiB. GPU 0 has a total capacity of 23.52 GiB of which 102.00 MiB is free. Including non-PyTorch memory, this process has 23.40 GiB memory in use. Of the allocated memory 22.90 GiB is allocated by PyTorch, and 60.00 MiB is reserved by PyTorch but unallocated.
"""


def test_a_pool_set_by_hand_is_made_smaller_and_no_utilization_is_advised() -> None:
    """0.10.2+: with --kv-cache-memory-bytes the utilization sizes nothing (vllm/v1/worker/gpu_worker.py)."""
    report = analyze([("engine.log", io.BytesIO(PINNED.encode()))])
    assert report.outcome.cause == "cuda_oom.kv_init"
    assert report.root is not None
    changes = [change for fix in report.root.fixes for change in fix.changes if isinstance(change, FlagChange)]
    assert {change.flag for change in changes} == {"--kv-cache-memory-bytes"}
    # 9.0 GB less 142 MiB that were missing and a hundredth of 23.52 GiB, in whole 100 MB
    assert [change.to for change in changes] == [8_500_000_000]
    assert report.root.window is None
    assert report.ledgers[0].get("budget") is None


TOO_SMALL_PIN = """\
(APIServer pid=1) INFO 03-04 09:59:00 [utils.py:233] non-default args: {{'model': 'Qwen/Qwen3-8B', 'kv_cache_memory_bytes': 4000000000, 'max_model_len': 40960}}
(EngineCore_DP0 pid=3) INFO 03-04 10:00:00 [core.py:77] Initializing a V1 LLM engine (v0.14.0) with config: model='Qwen/Qwen3-8B', dtype=torch.bfloat16
(EngineCore_DP0 pid=3) INFO 03-04 10:00:00 [gpu_model_runner.py:3300] Model loading took 15.27 GiB memory and 4.7 seconds
(EngineCore_DP0 pid=3) INFO 03-04 10:00:00 [gpu_worker.py:300] Initial free memory {free} GiB, reserved 3.73 GiB memory for KV Cache as specified by kv_cache_memory_bytes config and skipped memory profiling. This does not respect the gpu_memory_utilization config.
(EngineCore_DP0 pid=3) ERROR 03-04 10:00:09 [core.py:843] ValueError: To serve at least one request with the models's max seq len (40960), (5.62 GiB KV cache is needed, which is larger than the available KV cache memory (3.73 GiB). Based on the available memory, the estimated maximum model length is 27136. Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.
"""


@pytest.mark.parametrize(("free", "pins"), [("23.25", [6_100_000_000]), ("20.50", [])])
def test_a_pool_set_by_hand_grows_to_one_request_where_the_card_has_it(free: str, pins: list[int]) -> None:
    """5.62 GiB are 6,034,428,887 bytes; 20.5 GiB free less 15.27 of weights do not hold them. The total is of no use, nor a utilization."""
    report = analyze([("engine.log", io.BytesIO(TOO_SMALL_PIN.format(free=free).encode()))])
    assert report.outcome.cause == "kv_cache.too_small_for_max_len"
    found = fixes(report)
    assert [to for flag, (to, _) in found.items() if flag == "--kv-cache-memory-bytes"] == pins
    assert UTILIZATION not in found
    assert report.root is not None
    assert not any("nvidia-smi" in need.en for need in report.root.needs)


NO_BF16 = (
    "ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0. Your Tesla V100-PCIE-32GB GPU has compute "
    "capability 7.0. You can use float16 instead by explicitly setting the `dtype` flag in CLI, for example: --dtype=half.\n"
)


@pytest.mark.parametrize(
    ("model", "advised"),
    [
        ("THUDM/glm-4-9b-chat", True),
        ("zai-org/GLM-4.5-Air", True),
        ("google/gemma-2b-it", True),
        ("google/gemma-3n-E4B-it", True),
        ("zai-org/GLM-4-32B-0414", False),
        ("zai-org/GLM-Z1-9B-0414", False),
        ("google/gemma-2-2b-it", False),
        ("google/gemma-3-27b-it", False),
    ],
)
def test_float16_is_advised_where_vllm_takes_it(model: str, advised: bool) -> None:
    root = analyze([("log", io.BytesIO((f"vllm serve {model}\n" + NO_BF16).encode()))]).root
    assert root is not None
    assert (("--dtype", "half") in {(c.flag, c.to) for fix in root.fixes for c in fix.changes if isinstance(c, FlagChange)}) is advised


# --- what a generation has or refuses --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("length", "chunked", "to"), [(8192, "", None), (2048, "", 4096), (8192, " --enable-chunked-prefill", 4096), (6000, "", 6000)]
)
def test_a_step_of_v0_keeps_room_for_a_whole_prompt(length: int, chunked: str, to: int | None) -> None:
    """Without chunked prefill SchedulerConfig refuses fewer tokens a step than max_model_len."""
    command = f"$ vllm serve m --max-num-batched-tokens 8192 --max-model-len {length} --gpu-memory-utilization 0.4{chunked}"
    log = [command, "INFO 09-27 05:20:38 api_server.py:530] vLLM API server version 0.6.2"]
    error = "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine."
    found = fixes(told([*log, *raised(error)])).get("--max-num-batched-tokens")
    assert (found[0] if found is not None else None) == to


@pytest.mark.parametrize(
    ("log", "frees"), [(v0(79.15, 0.9, 15.0, 0.4, 1.2, max_len=4096), True), ([*start(), WEIGHTS.format(weights="15.0")], False)]
)
def test_only_v0_has_swap_space(log: list[str], frees: bool) -> None:
    kill = "[88211.104] Out of memory: Killed process 5120 (VLLM::EngineCor) total-vm:91823344kB, anon-rss:61220044kB, file-rss:70212kB"
    report = told(log, [kill])
    assert report.outcome.cause == "host_oom.killed"
    assert ("--swap-space" in fixes(report)) is frees


@pytest.mark.parametrize(("weights", "shared"), [("14.00", True), ("0.24", False)])
def test_weights_that_weigh_nothing_are_not_shared(weights: str, shared: bool) -> None:
    error = "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine."
    assert ("--tensor-parallel-size" in fixes(told([*start(), WEIGHTS.format(weights=weights), *raised(error)]))) is shared
