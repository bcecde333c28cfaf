"""Which error is the root: messengers never, what was recovered from never, what another one drags along never; then the first."""

from __future__ import annotations

import pytest

from analyzer.model import Report, Severity, State
from tests.logs import AVAILABLE, FIRST_REQUEST, GRAPHS, INIT, READY, SHUTDOWN, TOKENS, WEIGHTS, finding, oom, raised, served, start, told

ECHO_DEAD = (
    "(APIServer pid=1) ERROR 05-01 10:10:10 [async_llm.py:420] vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue."
)
ECHO_INIT = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"
TOO_SMALL = (
    "ValueError: To serve at least one request with the models's max seq len (8192), (1.00 GiB KV cache is needed, which is larger than "
    "the available KV cache memory (0.50 GiB). Based on the available memory, the estimated maximum model length is 4096."
)
ILLEGAL = "RuntimeError: CUDA error: an illegal memory access was encountered"
LOADED = [*start(), WEIGHTS.format(weights="14.99")]
#: Hardly anything is the engine's own: somebody else fills the card.
OCCUPIED = oom("20.00 MiB", own="500.00 MiB", allocated="2.00 MiB", unused="0 bytes")


def cause(report: Report) -> tuple[State, str | None, str | None]:
    return report.outcome.state, report.outcome.stage, report.outcome.cause


def tagged(tag: str, lines: list[str]) -> list[str]:
    return [f"({tag}) ERROR 05-01 10:01:00 [multiproc_executor.py:500] {line}" for line in lines]


def test_the_root_stands_before_what_it_drags_along() -> None:
    report = told([*LOADED, *raised(oom(), "profiling"), ECHO_INIT])
    assert cause(report) == (State.FAILED, "profiling", "cuda_oom.profiling")
    assert report.findings[0].root
    assert [found.root for found in report.findings[1:]] == [False] * len(report.findings[1:])
    assert finding(report, "echo.engine_init_failed").consequence_of == "cuda_oom.profiling"


def test_a_messenger_that_is_printed_first_is_still_a_messenger() -> None:
    report = told([*served(), ECHO_DEAD, *raised(oom(), "profiling")])
    assert cause(report) == (State.FAILED, "serving", "cuda_oom.serving")


SIGNAL = "CRITICAL 04-17 03:28:36 [core_client.py:359] Got fatal signal from worker processes, shutting down. See stack trace above for root cause."


@pytest.mark.parametrize("messengers", [[ECHO_INIT], [ECHO_DEAD], [ECHO_DEAD, ECHO_INIT], [SIGNAL]])
def test_messengers_alone_leave_the_cause_open(messengers: list[str]) -> None:
    report = told([*start(), *messengers])
    assert (report.outcome.state, report.outcome.cause) == (State.FAILED, None)
    root = report.root
    assert root is not None
    assert root.cause is None
    assert root.needs
    assert any(source.text == messengers[0] for source in root.evidence)


def test_what_the_start_recovered_from_is_no_failure() -> None:
    """Torch was out of memory, the same process went on, and the server came up."""
    log = [*LOADED, *raised(oom(), "profiling"), AVAILABLE.format(kv="50.20"), TOKENS.format(tokens="365,504"), GRAPHS, INIT, READY]
    report = told(log)
    assert report.outcome.state in (State.HEALTHY, State.DEGRADED)
    assert not [found for found in report.findings if found.severity is Severity.ERROR]
    # Without what follows, it is the failure.
    assert cause(told(log[:7]))[2] == "cuda_oom.profiling"


def test_another_process_going_on_is_no_recovery() -> None:
    worker = [f"(Worker_TP1 pid=9) {line}" for line in raised(oom(gpu=1), "profiling")]
    other = f"(Worker_TP0 pid=8) {AVAILABLE.format(kv='50.20')}"
    report = told([*start("0.10.2", tp=2), f"(Worker_TP1 pid=9) {WEIGHTS.format(weights='7.5')}", *worker, other])
    assert cause(report) == (State.FAILED, "profiling", "cuda_oom.profiling")


def test_the_first_process_that_failed_is_the_root() -> None:
    first = tagged("Worker_TP1 pid=9", raised(oom(gpu=1), "profiling"))
    second = tagged("Worker_TP0 pid=8", [ILLEGAL])
    report = told([*start("0.10.2", tp=2), *first, *second])
    assert cause(report) == (State.FAILED, "profiling", "cuda_oom.profiling")
    root = report.root
    assert root is not None
    assert root.evidence[0].line == len(start()) + len(first)
    assert told([*start("0.10.2", tp=2), *second, *first]).outcome.cause == "cuda_error.illegal_access"


def test_an_earlier_starts_failure_is_not_this_ones() -> None:
    failed = [*LOADED, *raised(oom(), "profiling"), ECHO_INIT]
    report = told([*failed, *served()])
    assert cause(report) == (State.HEALTHY, "serving", "healthy")
    assert [found.cause for found in report.findings if found.severity is Severity.ERROR] == []
    assert [attempt.cause for attempt in report.attempts] == ["cuda_oom.profiling", "healthy"]
    again = told([*failed, *LOADED, AVAILABLE.format(kv="0.50"), *raised(TOO_SMALL, "kv_init")])
    assert again.outcome.cause == "kv_cache.too_small_for_max_len"
    assert [found.cause for found in again.findings if found.severity is Severity.ERROR] == ["kv_cache.too_small_for_max_len"]


def test_what_a_server_says_while_it_is_stopped_is_no_failure() -> None:
    report = told([*served(), FIRST_REQUEST, SHUTDOWN, ECHO_DEAD])
    assert cause(report) == (State.HEALTHY, "shutdown", "healthy")
    assert not [found for found in report.findings if found.severity is Severity.ERROR]
    # The same without being asked to stop is one, whose cause is open.
    assert cause(told([*served(), FIRST_REQUEST, ECHO_DEAD]))[::2] == (State.FAILED, None)


@pytest.mark.parametrize(
    ("lines", "frames", "stage"),
    [
        (LOADED[:2], ("weight_load",), "weight_load"),
        (LOADED[:2], (), "device_init"),
        (LOADED, ("profiling",), "profiling"),
        (LOADED, ("graph_capture",), "graph_capture"),
        (LOADED, ("profiling", "graph_capture"), "graph_capture"),  # the innermost one that tells
        ([*LOADED, AVAILABLE.format(kv="50.20")], ("kv_init",), "kv_init"),
        # a dry run of graph capture looks like profiling: no frame dates an error before the process's own progress
        (LOADED[:2], ("dry_run",), "device_init"),
        ([*LOADED, AVAILABLE.format(kv="50.20"), TOKENS.format(tokens="1,000")], ("dry_run",), "kv_init"),
        ([*LOADED, AVAILABLE.format(kv="50.20"), TOKENS.format(tokens="1,000"), GRAPHS], ("dry_run",), "graph_capture"),
        (served(), ("profiling",), "serving"),
    ],
)
def test_frames_and_progress_decide_the_stage(lines: list[str], frames: tuple[str, ...], stage: str) -> None:
    sentence = OCCUPIED if stage == "device_init" else oom()
    report = told([*lines, *raised(sentence, *frames)])
    assert cause(report) == (State.FAILED, stage, f"cuda_oom.{stage}")


@pytest.mark.parametrize("sentence", [oom(), oom(own="500.00 MiB", allocated="2.00 MiB")])
def test_a_sentence_that_shows_a_model_on_the_card_is_not_of_the_device_s_start(sentence: str) -> None:
    assert cause(told([*LOADED[:2], *raised(sentence)])) == (State.FAILED, None, None)


@pytest.mark.parametrize(
    "beside",
    [
        "(EngineCore_DP0 pid=9) ERROR 05-01 10:09:59 [core.py:710] EngineCore encountered a fatal error.",
        "CRITICAL 05-01 10:10:10 launcher.py:99] MQLLMEngine is already dead, terminating server process",
        "ERROR 05-01 10:10:10 [serving_chat.py:677] vllm.engine.multiprocessing.MQEngineDeadError: Engine loop is not running.",
    ],
)
def test_a_messenger_that_only_an_engine_in_service_prints_dates_the_error_beside_it(beside: str) -> None:
    for lines in ([beside, oom()], [oom(), beside]):
        assert cause(told(lines)) == (State.FAILED, "serving", "cuda_oom.serving")
    # What a traceback dates stays where that says.
    assert cause(told([*raised(oom(), "profiling"), beside])) == (State.FAILED, "profiling", "cuda_oom.profiling")


def test_a_loop_that_answers_requests_dates_what_it_calls() -> None:
    path = '  File "/usr/lib/python3.12/site-packages/vllm/v1/'
    frames = [f'{path}engine/core.py", line 701, in run_busy_loop', f'{path}sample/sampler.py", line 52, in forward']
    assert cause(told(["Traceback (most recent call last):", *frames, oom()])) == (State.FAILED, "serving", "cuda_oom.serving.sampler")
    # Alone it may be the profile run's sampling, which comes before the KV cache is sized (vllm#12529), the warm-up's, or a step's.
    sampled = ["Traceback (most recent call last):", frames[1], oom()]
    assert cause(told(sampled)) == (State.FAILED, None, None)
    assert cause(told(["GPU KV cache size: 10,000 tokens", *sampled])) == (State.FAILED, "warmup", "cuda_oom.warmup.sampler")
    dummy = f'{path}worker/gpu_model_runner.py", line 3221, in _dummy_sampler_run'
    warmed = ["    self.model_runner._dummy_sampler_run(", dummy, frames[1]]
    assert cause(told(["Traceback (most recent call last):", *warmed, oom()])) == (State.FAILED, "warmup", "cuda_oom.warmup.sampler")
    profiled = [f'{path}worker/gpu_worker.py", line 157, in determine_available_memory', dummy, frames[1]]
    assert cause(told(["Traceback (most recent call last):", *profiled, oom()])) == (State.FAILED, "profiling", "cuda_oom.profiling")


TEARDOWN = [
    "Traceback (most recent call last):",
    '  File "/usr/lib/python3.12/site-packages/vllm/distributed/parallel_state.py", line 1085, in destroy_model_parallel',
    '  File "/usr/lib/python3.12/site-packages/torch/distributed/distributed_c10d.py", line 2168, in destroy_process_group',
    "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:133, unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
    "Cuda failure 'out of memory'",
]
GONE = "ERROR 05-21 09:27:46 [multiproc_executor.py:123] Worker proc VllmWorker-6 died unexpectedly, shutting down executor."


def test_what_fails_while_the_engine_is_taken_down_is_not_the_root() -> None:
    torn = [f"(VllmWorker rank=7 pid=240) {line}" for line in TEARDOWN]
    report = told([*torn, GONE])
    assert cause(report) == (State.FAILED, None, None)
    assert report.root is not None
    assert any(source.text == torn[3] for source in report.root.evidence)
    assert cause(told([*LOADED, *raised(oom(), "profiling"), *torn, GONE]))[2] == "cuda_oom.profiling"
    assert cause(told([*served(), SHUTDOWN, *torn])) == (State.HEALTHY, "shutdown", "healthy")
    # Without the frames it may be the root.
    assert cause(told([torn[3], torn[4]]))[2] == "nccl.out_of_memory"


def test_a_new_traceback_forgets_the_frames_of_the_last_one() -> None:
    harmless = raised("ImportError: an optional module is not installed", "graph_capture")
    report = told([*start(), *harmless, *raised(oom(), "weight_load")])
    assert cause(report) == (State.FAILED, "weight_load", "cuda_oom.weight_load")
