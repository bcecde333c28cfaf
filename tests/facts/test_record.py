"""What an input's lines become: attempts, and per attempt facts, courses and events, all of them bounded."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzer.facts.attempt import EVENTS_OF_A_PATTERN, SCOPES_OF_A_NAME
from analyzer.facts.observation import Kept, Observation, Place, excerpt
from analyzer.facts.record import ARGUMENT_EXCERPT, ATTEMPTS_KEPT
from analyzer.intake.limits import Limits
from analyzer.model import Series, State
from analyzer.model.facts import EXCERPT, SERIES_POINTS
from tests.logs import AVAILABLE, BANNER, ENGINE, READY, SHUTDOWN, STATISTICS, WEIGHTS, facts, finding, oom, raised, served, start, told

# --- attempts ----------------------------------------------------------------------------------------------------------------------


def attempts(*inputs: list[str]) -> list[tuple[State, str | None]]:
    return [(attempt.state, attempt.cause) for attempt in told(*inputs).attempts]


FAILED = [*start(), *raised(oom(), "weight_load")]
LOADING = (State.FAILED, "cuda_oom.weight_load")
HEALTHY = (State.HEALTHY, "healthy")


def test_words_of_a_library_in_a_process_of_vllm_are_of_no_other_engine() -> None:
    """FlashInfer holds kernels of TensorRT-LLM's, which speak as there."""
    line = (
        "(Worker_PP0 pid=385) 2025-11-11 06:41:27,319 - WARNING - autotuner.py:485 - flashinfer.jit: [Autotuner]: Skipping tactic, due to "
    )
    report = told(
        [line + "failure while profiling: [TensorRT-LLM][ERROR] Assertion failed: Failed to initialize cutlass TMA WS grouped gemm."]
    )
    assert (report.engine.name, report.outcome.state) == ("vllm", State.UNKNOWN)


def test_one_start_is_one_attempt() -> None:
    assert attempts(served()) == [HEALTHY]
    assert attempts(FAILED) == [LOADING]
    assert attempts(["nothing that anybody recognises"]) == [(State.UNKNOWN, None)]


def test_a_restart_after_a_failure_is_another() -> None:
    assert attempts([*FAILED, *served()]) == [LOADING, HEALTHY]
    assert attempts([*served(), SHUTDOWN, *FAILED]) == [HEALTHY, LOADING]


def test_figures_belong_to_their_own_start() -> None:
    report = told([*start(), WEIGHTS.format(weights="10.00"), *raised(oom(), "profiling"), *served(weights="20.00")])
    assert [(fact.attempt, fact.value) for fact in facts(report, "weights")] == [(0, 10.0), (1, 20.0)]
    assert report.outcome.state is State.HEALTHY
    assert [attempt.first_line for attempt in report.attempts] == [1, 8]
    assert report.attempts[-1].last_line == 15


def test_a_model_that_is_loaded_below_a_running_server_is_another_start() -> None:
    """Two starts that somebody pasted without their heads: the one that works first."""
    pasted = [READY, "but with VLLM_USE_V1=1:", WEIGHTS.format(weights="15.63"), *raised(oom(), "profiling")]
    assert attempts(pasted) == [HEALTHY, (State.FAILED, "cuda_oom.profiling")]
    joined = [
        f"(EngineCore_DP0 pid=7) {WEIGHTS.format(weights='15.63')}",
        READY,
        f"(EngineCore_DP1 pid=9) {WEIGHTS.format(weights='15.63')}",
    ]
    assert attempts(joined) == [HEALTHY]
    assert attempts([READY], [WEIGHTS.format(weights="15.63")]) == [HEALTHY]  # another machine's, or another rank's


def test_the_processes_of_one_start_repeat_no_start() -> None:
    """Data parallel engines and several API servers each say what they are started with."""
    engines = [f"(EngineCore_DP{index} pid={10 + index}) {ENGINE.format(version='0.10.2', tp=1)}" for index in range(4)]
    servers = [f"(ApiServer_{index} pid={30 + index}) {BANNER.format(version='0.10.2')}" for index in range(3)]
    assert len(told([BANNER.format(version="0.10.2"), *engines, *servers, READY]).attempts) == 1
    # The same process a second time is the next start.
    assert len(told([*engines, *engines]).attempts) == 2


def test_a_crash_loop_keeps_its_first_and_last_starts() -> None:
    starts = [[*start(), WEIGHTS.format(weights=f"{number}.25"), *raised(oom(), "profiling")] for number in range(60)]
    report = told([line for lines in starts for line in lines])
    assert len(report.attempts) <= ATTEMPTS_KEPT
    indexes = [attempt.index for attempt in report.attempts]
    assert indexes == sorted(indexes)
    assert (indexes[0], indexes[-1]) == (0, 59)
    assert [fact.value for fact in facts(report, "weights") if fact.attempt == 59] == [59.25]
    assert report.outcome.cause == "cuda_oom.profiling"


def test_two_files_are_two_starts_or_one() -> None:
    assert attempts(FAILED, served()) == [LOADING, HEALTHY]
    # A log that was cut in two goes on in the second file.
    whole = served()
    assert attempts(whole[:3], whole[3:]) == [HEALTHY]
    assert [fact.source.input for fact in facts(told(whole[:3], whole[3:]), "kv_cache.available")] == ["file1.log"]


# --- facts -------------------------------------------------------------------------------------------------------------------------


def observation(value: float | str, order: int) -> Observation:
    return Observation("a.figure", value, "GiB", Place(0, order, f"line {order}"), "a.pattern", order=order)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=30))
def test_of_a_figure_that_repeats_first_last_least_and_most_are_kept(values: list[int]) -> None:
    kept = Kept.of(observation(values[0], 0))
    for order, value in enumerate(values[1:], 1):
        kept.add(observation(value, order))
    said = kept.observations()
    assert kept.count == len(values)
    assert len(said) <= 4
    assert [seen.order for seen in said] == sorted({seen.order for seen in said})
    assert said[0].value == values[0]
    if len(set(values)) == 1:
        assert said == [kept.first]  # one that never changes is said once
    else:
        assert {min(values), max(values), values[-1]} <= {seen.value for seen in said}
        assert said[-1].order == len(values) - 1
    assert all(values[seen.order] == seen.value for seen in said)


def test_texts_are_kept_too() -> None:
    kept = Kept.of(observation("eager", 0))
    kept.add(observation("graphs", 1))
    assert [seen.value for seen in kept.observations()] == ["eager", "graphs"]


def test_every_rank_keeps_its_own_figures() -> None:
    lines = [f"(Worker_TP{rank} pid={rank + 9}) {WEIGHTS.format(weights=f'{rank + 10}.50')}" for rank in range(4)]
    report = told([*start("0.10.2", tp=4), *lines, *lines])
    assert [(fact.rank, fact.value) for fact in facts(report, "weights")] == [(0, 10.5), (1, 11.5), (2, 12.5), (3, 13.5)]


def test_hostile_scopes_are_bounded() -> None:
    lines = [f"(Worker_TP{number % 8} pid={number}) {WEIGHTS.format(weights='1.50')}" for number in range(3 * SCOPES_OF_A_NAME)]
    assert len(facts(told(lines), "weights")) == SCOPES_OF_A_NAME


@given(st.text(min_size=0, max_size=300).map(lambda text: text * 40), st.data())
def test_an_excerpt_holds_what_matters(text: str, data: st.DataObject) -> None:
    start_ = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start_, min(len(text), start_ + EXCERPT // 4)))
    shown = excerpt(text, start_, end)
    assert len(shown) <= EXCERPT
    assert shown in text
    assert text[start_:end] in shown


@pytest.mark.parametrize("settings_before", [10, 60, 200])
def test_a_setting_shows_its_part_of_a_long_line_and_no_part_of_a_secret(settings_before: int) -> None:
    secret = "".join(f"{number:03}x" for number in range(100))
    before = [f"setting_{number}={number * 7}" for number in range(settings_before)]
    after = [f"other_{number}={number * 3}" for number in range(200)]
    arguments = ", ".join([*before, f"api_key='{secret}'", *after, "max_model_len=4096"])
    report = told([f"INFO 11-29 16:30:54 [api_server.py:1] args: Namespace({arguments})"])
    assert report.settings["--max-model-len"].source.text.endswith("max_model_len=4096)")
    assert len(report.settings) == settings_before + 201
    for flag, setting in report.settings.items():
        assert f"{flag[2:].replace('-', '_')}={setting.value}" in setting.source.text
        assert len(setting.source.text) <= ARGUMENT_EXCERPT
        assert not any(f"{number:03}x" in setting.source.text for number in range(100))


# --- courses and events ------------------------------------------------------------------------------------------------------------


@given(st.integers(0, 5 * SERIES_POINTS))
def test_a_course_is_thinned_by_its_order_alone(count: int) -> None:
    series = Series("a.figure", "%")
    for number in range(count):
        series.add(str(number), number)
    values = [int(value) for _, value in series.points]
    assert series.count == count
    assert len(values) <= SERIES_POINTS
    assert values == sorted(set(values))
    assert values[:1] == list(range(min(count, 1)))
    strides = {later - earlier for earlier, later in itertools.pairwise(values)}
    assert len(strides) <= 1  # evenly, over all of it
    if strides:
        assert values[-1] + strides.pop() >= count


def test_a_serving_log_becomes_a_course_and_few_facts() -> None:
    lines = [STATISTICS.format(second=number % 60, running=number % 7, waiting=0, usage=f"{number % 90}.5") for number in range(5000)]
    report = told([*served(), *lines], limits=Limits(block_bytes=64 * 1024))
    (usage,) = [series for series in report.series if series.name == "kv_cache.usage"]
    assert usage.count == 5000
    assert len(usage.points) <= SERIES_POINTS
    said = facts(report, "kv_cache.usage")
    assert len(said) <= 4
    assert {0.5, 89.5, 4999 % 90 + 0.5} <= {fact.value for fact in said}


def test_an_error_that_repeats_is_counted_not_kept() -> None:
    report = told([*served(), *(line for _ in range(500) for line in raised(oom(), "profiling"))])
    root = finding(report, "cuda_oom.serving")
    assert report.root is root
    assert len(root.evidence) <= 16
    assert len(facts(report, "oom.tried")) == 1
    # The first ones and the last: the proof begins with the first.
    assert root.evidence[0].line == len(served()) + 4


def test_events_of_a_pattern_are_bounded() -> None:
    from analyzer.facts.record import Record
    from analyzer.patterns.runner import runner

    record = Record()
    lines = [f"ERROR 05-01 10:00:52 [core.py:1] {oom(tried=f'{number}.00 MiB')}" for number in range(1, 200)]
    for hit in runner().scan_lines(lines):
        record.take(hit, 0)
    (attempt,) = record.attempts
    shown = [event for event in attempt.all_events() if event.pattern.id == "torch.oom.sentence"]
    assert len(shown) == EVENTS_OF_A_PATTERN + 1
    assert [event.figures[0].value for event in shown] == [*range(1, EVENTS_OF_A_PATTERN + 1), 199]
    assert attempt.event_counts["torch.oom.sentence"] == 199


@pytest.mark.parametrize("kv", ["5.86", "-1.25", "0.00"])
def test_a_figure_names_its_line(kv: str) -> None:
    (fact,) = facts(told([*start(), WEIGHTS.format(weights="14.99"), AVAILABLE.format(kv=kv)]), "kv_cache.available")
    assert (fact.value, fact.unit, fact.source.input, fact.source.line) == (float(kv), "GiB", "file0.log", 4)
    assert fact.source.text == AVAILABLE.format(kv=kv)
    assert fact.time == "05-01 10:00:50"
