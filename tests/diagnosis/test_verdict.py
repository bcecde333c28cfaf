"""What became of a start: failed, healthy, degraded or unknown, and how much must be there before it is said."""

from __future__ import annotations

import pytest

from analyzer.model import Confidence, Report, Severity, State
from tests.logs import FIRST_REQUEST, INIT, READY, REFUSED, SHUTDOWN, STATISTICS, WEIGHTS, oom, raised, served, start, told

REFUSAL = (
    "ERROR 05-01 10:05:01 [serving_chat.py:200] ValueError: This model's maximum context length is 8192 tokens. However, you requested "
    "9000 tokens in the messages, Please reduce the length of the messages."
)


def outcome(*lines: str) -> tuple[State, str | None, str | None]:
    told_ = told(list(lines)).outcome
    return told_.state, told_.stage, told_.cause


@pytest.mark.parametrize(
    ("lines", "state", "stage", "cause"),
    [
        (["a line that nobody knows"], State.UNKNOWN, None, None),
        (start(), State.UNKNOWN, "device_init", None),
        ([*start(), WEIGHTS.format(weights="14.99")], State.UNKNOWN, None, None),
        (served(), State.HEALTHY, "serving", "healthy"),
        ([*start(), INIT], State.HEALTHY, "serving", "healthy"),
        ([READY], State.HEALTHY, "serving", "healthy"),
        ([STATISTICS.format(second=1, running=3, waiting=0, usage="12.5")], State.HEALTHY, "serving", "healthy"),
        ([*served(), SHUTDOWN], State.HEALTHY, "shutdown", "healthy"),
        ([*served(), *[FIRST_REQUEST] * 5, *raised(oom(), "profiling")], State.FAILED, "serving", "cuda_oom.serving"),
        ([oom()], State.FAILED, None, None),
        ([*start(), "Traceback (most recent call last):", "SomethingNewError: that nobody has seen"], State.FAILED, "device_init", None),
    ],
)  # fmt: skip
def test_states(lines: list[str], state: State, stage: str | None, cause: str | None) -> None:
    found = outcome(*lines)
    assert found[0] is state
    if stage is not None:
        assert found[1] == stage
    if cause is not None or state is State.UNKNOWN:
        assert found[2] == cause


def test_an_unknown_end_is_no_error_and_asks_for_more() -> None:
    report = told([*start(), WEIGHTS.format(weights="14.99")])
    root = report.root
    assert root is not None
    assert (root.cause, root.severity) == (None, Severity.INFO)
    assert root.needs
    assert root.evidence[0].text == WEIGHTS.format(weights="14.99")
    assert not root.fixes


def test_an_unexplained_failure_shows_its_most_suspicious_line_and_guesses_nothing() -> None:
    traceback = ["Traceback (most recent call last):", '  File "/opt/x.py", line 1, in f', "SomethingNewError: that nobody has seen"]
    report = told([*start(), *traceback])
    root = report.root
    assert root is not None
    assert (report.outcome.state, root.cause, root.severity) == (State.FAILED, None, Severity.ERROR)
    assert "SomethingNewError: that nobody has seen" in [source.text for source in root.evidence]
    assert root.needs
    assert not root.fixes


# --- requests that are refused -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("refused", "answered", "state"),
    [(1, 20, State.HEALTHY), (1, 9, State.DEGRADED), (5, 5, State.DEGRADED), (2, 30, State.HEALTHY), (1, 0, State.DEGRADED)],
)
def test_refused_requests_matter_from_one_in_ten(refused: int, answered: int, state: State) -> None:
    report = told([*served(), *[REFUSAL, REFUSED] * refused, *[FIRST_REQUEST] * answered])
    assert report.outcome.state is state
    assert report.outcome.stage == "serving"
    assert (report.outcome.cause == "healthy") is (state is State.HEALTHY)
    assert not [found for found in report.findings if found.severity is Severity.ERROR]


@pytest.mark.parametrize(
    "lines",
    [
        [REFUSAL],
        ["Traceback (most recent call last):", '  File "/opt/vllm/serving_engine.py", line 239, in _validate_input', REFUSAL],
        ["{'object': 'error', 'message': \"" + REFUSAL[60:] + "\", 'type': 'BadRequestError', 'code': 400}"],
    ],
)
def test_a_refusal_alone_is_no_failure(lines: list[str]) -> None:
    assert outcome(*lines) == (State.DEGRADED, "serving", "request.context_length_exceeded")
    assert outcome(*lines, *raised("SomethingNewError: that nobody has seen"))[::2] == (State.FAILED, None)


def test_an_engines_own_exception_after_which_nothing_comes_is_the_end_though_the_server_was_ready() -> None:
    error = raised("SomethingNewError: that nobody has seen")
    engine = [f"(EngineCore_DP0 pid=2) ERROR 05-01 10:06:00 [core.py:710] {line}" for line in error]
    front_end = [f"(APIServer pid=1) ERROR 05-01 10:06:00 [serving_chat.py:200] {line}" for line in error]
    goes_on = STATISTICS.format(second=9, running=3, waiting=0, usage="12.5")
    assert outcome(*served(), *engine) == (State.FAILED, "serving", None)
    assert outcome(*served(), *front_end)[0] is State.HEALTHY
    assert outcome(*served(), *engine, goes_on)[0] is State.HEALTHY


def test_what_the_kernel_does_to_another_program_is_no_end_of_an_engine_that_serves() -> None:
    killed = "[ 2667.034397] Out of memory: Killed process 2210 (chrome) total-vm:4547884kB, anon-rss:794796kB, file-rss:314768kB"
    assert outcome(STATISTICS.format(second=1, running=3, waiting=0, usage="12.5"), killed) == (State.HEALTHY, "serving", "healthy")


def test_the_cause_of_a_degraded_service_is_the_refusal() -> None:
    report = told([*served(), REFUSAL, REFUSED])
    assert (report.outcome.cause or "").startswith("request.")
    root = report.root
    assert root is not None
    assert root.evidence[0].text == REFUSAL


# --- processes that died -----------------------------------------------------------------------------------------------------------


def died(code: str) -> Report:
    line = f"ERROR 07-01 09:00:00 [multiproc_worker_utils.py:120] Worker VllmWorkerProcess pid 8788 died, exit code: {code}"
    return told([*start("0.8.5", tp=2), line])


@pytest.mark.parametrize(
    ("code", "cause"),
    [("-9", "engine.process_killed"), ("137", "engine.process_killed"), ("-11", "process.segfault"), ("139", "process.segfault")],
)
def test_an_exit_code_that_speaks_for_itself(code: str, cause: str) -> None:
    report = died(code)
    assert (report.outcome.state, report.outcome.cause) == (State.FAILED, cause)


def test_a_death_without_an_exit_code_may_be_a_crash_in_native_code() -> None:
    line = "ERROR 11-08 11:01:29 [multiproc_executor.py:135] Worker proc VllmWorker-3 died unexpectedly, shutting down executor."
    outcome = told([*start("0.8.5", tp=4), line]).outcome
    assert (outcome.state, outcome.cause, outcome.confidence) == (State.FAILED, "engine.process_killed", Confidence.LIKELY)


@pytest.mark.parametrize("code", ["1", "-15", "143", "255", "-6"])
def test_any_other_exit_code_leaves_the_cause_open(code: str) -> None:
    report = died(code)
    assert report.outcome.state is State.FAILED
    assert report.outcome.cause not in ("engine.process_killed", "process.segfault")


def test_a_process_that_died_of_an_error_is_no_riddle() -> None:
    line = "ERROR 07-01 09:00:00 [multiproc_worker_utils.py:120] Worker VllmWorkerProcess pid 8788 died, exit code: -9"
    report = told([*start("0.8.5", tp=2), *raised(oom(), "profiling"), line])
    assert report.outcome.cause == "cuda_oom.profiling"


def test_a_replica_that_ray_serve_marks_unhealthy_is_not_called_healthy() -> None:
    marked = "WARNING 2025-06-25 04:39:52,113 controller 1758 -- Didn't receive health check response for replica {} after 10.0s, marking it unhealthy."
    report = told(
        [
            *served(),
            marked.format("Replica(id='rut1591v', deployment='vLLM', app='App')"),
            STATISTICS.format(second=1, running=3, waiting=0, usage="12.5"),
        ]
    )
    assert (report.outcome.state, report.outcome.stage, report.outcome.cause) == (State.UNKNOWN, "serving", None)
    assert report.root is not None
    assert "Ray Serve" in report.root.explanation.en


def test_the_lines_of_an_orderly_stop_alone_are_no_start() -> None:
    report = told([SHUTDOWN, "INFO:     Application shutdown complete."])
    assert (report.outcome.state, report.outcome.stage, report.outcome.cause) == (State.UNKNOWN, "shutdown", None)
    assert report.root is not None
    assert "asked to stop" in report.root.explanation.en


#: What logging.Handler.handleError prints of a record that it could not write.
LOGGING_ERROR = [
    "--- Logging error ---",
    "Traceback (most recent call last):",
    '  File "/usr/lib/python3.12/logging/__init__.py", line 1163, in emit',
    "    stream.write(msg + self.terminator)",
    "UnicodeEncodeError: 'ascii' codec can't encode characters in position 120-124: ordinal not in range(128)",
    "Call stack:",
    '  File "/usr/local/lib/python3.12/dist-packages/vllm/v1/engine/core.py", line 701, in run_busy_loop',
    "Message: 'Received request %s'",
    "Arguments: ('chatcmpl-1',)",
]


@pytest.mark.parametrize("length", [len(LOGGING_ERROR), 5])
def test_a_record_that_could_not_be_written_ends_nothing(length: int) -> None:
    block = LOGGING_ERROR[:length]
    assert told([*served(), *block]).outcome.state is State.HEALTHY
    assert told([*start(), *block]).outcome.state is State.UNKNOWN


def test_what_is_raised_below_a_record_that_could_not_be_written_counts() -> None:
    assert told([*start(), *LOGGING_ERROR, *raised(oom(), "profiling")]).outcome.cause == "cuda_oom.profiling"
