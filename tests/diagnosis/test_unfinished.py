"""A text that ends within a traceback, or before the error that the figures above it must lead to."""

from __future__ import annotations

import pytest

from analyzer.model import Confidence, Outcome, State
from tests.logs import told

WORKER = "(VllmWorker rank=1 pid=106) ERROR 04-29 01:10:12 [multiproc_executor.py:470] "
SIZED = "(VllmWorker rank=1 pid=106) INFO 04-29 01:09:49 [kv_cache_utils.py:634] GPU KV cache size: 198,784 tokens"
CAPTURE = [
    "Traceback (most recent call last):",
    '  File "/opt/vllm/v1/worker/gpu_worker.py", line 242, in compile_or_warm_up_model',
    "    self.model_runner.capture_model()",
]
WEIGHTS = "INFO 11-22 07:19:26 model_runner.py:1067] Loading model weights took 19.9073 GB"
UNCAUGHT = [
    "[rank0]: Traceback (most recent call last):",
    '[rank0]:   File "/opt/vllm/engine/llm_engine.py", line 573, in from_engine_args',
]
PROFILED = "INFO 02-26 09:54:05 worker.py:267] model weights take 5.20GiB; non_torch_memory takes 0.03GiB; PyTorch activation peak memory takes 1.42GiB; the rest of the memory reserved for KV Cache is {left}GiB."  # fmt: skip
NEGATIVE = "(EngineCore_DP0 pid=412) INFO 01-15 10:22:31 [gpu_worker.py:298] Available KV cache memory: -1.05 GiB"


def ended(*lines: str) -> Outcome:
    """What is told of one text."""
    return told(list(lines)).outcome


def test_the_frames_of_a_traceback_without_an_end_date_the_failure() -> None:
    outcome = ended(SIZED, WORKER + "WorkerProc hit an exception.", *(WORKER + line for line in CAPTURE))
    assert (outcome.state, outcome.stage, outcome.cause) == (State.FAILED, "graph_capture", None)


def test_a_worker_that_logs_a_traceback_while_it_starts_has_failed() -> None:
    """Even where the lines that announce it are not there."""
    outcome = ended(SIZED, *(WORKER + line for line in CAPTURE[1:]))
    assert (outcome.state, outcome.stage) == (State.FAILED, "graph_capture")


def test_an_exception_that_nobody_caught_has_ended_its_process() -> None:
    outcome = ended(WEIGHTS, *UNCAUGHT)
    assert (outcome.state, outcome.stage, outcome.cause) == (State.FAILED, "profiling", None)


CHILD = [
    "Traceback (most recent call last):",
    '  File "/usr/lib/python3.12/multiprocessing/process.py", line 314, in _bootstrap',
    "    self.run()",
]
PROGRAM = ["Traceback (most recent call last):", '  File "/usr/local/bin/vllm", line 10, in <module>', "    sys.exit(main())"]
CELL = ["OutOfMemoryError                          Traceback (most recent call last)"]


@pytest.mark.parametrize("lines", [CHILD, PROGRAM, CELL])
def test_so_has_one_that_reached_the_outermost_frame(lines: list[str]) -> None:
    outcome = ended(WEIGHTS, *lines)
    assert (outcome.state, outcome.stage, outcome.cause) == (State.FAILED, "profiling", None)


@pytest.mark.parametrize(
    "lines", [[*CHILD, "KeyboardInterrupt"], [*PROGRAM, "KeyboardInterrupt"], [CELL[0].replace("OutOfMemoryError", "KeyboardInterrupt")]]
)
def test_one_that_somebody_stopped_has_not_failed(lines: list[str]) -> None:
    assert ended(WEIGHTS, *lines).state is State.UNKNOWN


def test_a_plain_traceback_without_an_end_may_have_been_caught() -> None:
    outcome = ended(WEIGHTS, *(line.removeprefix("[rank0]: ") for line in UNCAUGHT))
    assert outcome.state is State.UNKNOWN


def test_what_went_on_after_the_traceback_did_not_fail_by_it() -> None:
    assert ended(SIZED, *(WORKER + line for line in CAPTURE[1:]), SIZED).state is State.UNKNOWN


@pytest.mark.parametrize(
    "lines",
    [
        [NEGATIVE],
        [NEGATIVE, "(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"],
        [WEIGHTS, PROFILED.format(left="-1.05"), *UNCAUGHT],
        [WEIGHTS, PROFILED.format(left="-0.00"), "INFO 02-26 09:54:05 executor_base.py:111] # cuda blocks: 0, # CPU blocks: 4681"],
        [WEIGHTS, "INFO 12-23 01:51:40 gpu_executor.py:122] # GPU blocks: 0, # CPU blocks: 512"],
    ],
)
def test_a_pool_without_a_block_ends_the_start(lines: list[str]) -> None:
    outcome = ended(*lines)
    assert (outcome.state, outcome.stage) == (State.FAILED, "kv_init")
    assert (outcome.cause, outcome.confidence) == ("kv_cache.no_memory_left", Confidence.CERTAIN)


@pytest.mark.parametrize(
    "lines",
    [
        [PROFILED.format(left="7.05"), "INFO 02-26 09:54:05 executor_base.py:111] # cuda blocks: 0, # CPU blocks: 0"],  # no attention
        [NEGATIVE, "INFO 09-12 11:13:33 llm_engine.py:370] Overriding num_gpu_blocks=0 with num_gpu_blocks_override=512"],
        [NEGATIVE, NEGATIVE.replace("-1.05", "1.05")],  # sized anew
        [
            NEGATIVE,
            "(EngineCore_DP0 pid=412) INFO 01-15 10:22:40 [gpu_model_runner.py:3000] Graph capturing finished in 20 secs, took 0.5 GiB",
        ],
    ],
)
def test_one_that_goes_on_does_not(lines: list[str]) -> None:
    assert ended(*lines).cause != "kv_cache.no_memory_left"


def test_an_empty_pool_and_the_blocks_of_the_swap_space_tell_the_utilization() -> None:
    """4681 blocks in 4 GiB are 0.875 MiB each: 256 of them hold one request of 4096 tokens."""
    report = told(
        [
            "INFO 02-26 09:54:05 worker.py:267] the current vLLM instance can use total_gpu_memory (8.00GiB) x gpu_memory_utilization (0.70) = 5.60GiB",
            PROFILED.format(left="-1.05"),
            "INFO 02-26 09:54:05 executor_base.py:111] # cuda blocks: 0, # CPU blocks: 4681",
            "INFO 02-26 09:54:05 executor_base.py:116] Maximum concurrency for 4096 tokens per request: 0.00x",
        ]
    )
    assert report.findings[0].fixes[0].title.en == "--gpu-memory-utilization 0.70 → 0.86"


@pytest.mark.parametrize(
    ("blocks", "requests", "cause"),
    [(36, "0.14", "kv_cache.too_small_for_max_len"), (256, "1.00", None), (0, "0.00", None)],  # no block: a model without attention
)
def test_v0_refuses_a_pool_below_one_request(blocks: int, requests: str, cause: str | None) -> None:
    outcome = ended(
        WEIGHTS,
        PROFILED.format(left="0.04"),
        f"INFO 04-15 00:05:59 [executor_base.py:111] # cuda blocks: {blocks}, # CPU blocks: 0",
        f"INFO 04-15 00:05:59 [executor_base.py:116] Maximum concurrency for 4096 tokens per request: {requests}x",
    )
    assert (outcome.cause, outcome.stage) == (cause, "kv_init")
    assert cause is None or outcome.confidence is Confidence.LIKELY


def test_a_messenger_that_knows_its_stage_is_not_dated_by_a_traceback_below_it() -> None:
    lines = [
        "CRITICAL 04-06 00:44:23 [launcher.py:116] MQLLMEngine is already dead, terminating server process",
        "ERROR 04-06 00:44:23 [engine.py:160] Traceback (most recent call last):",
        "ERROR 04-06 00:44:23 [engine.py:160]     self.run_engine_loop()",
    ]
    assert ended(*lines).stage == "serving"
