"""Where a start spends its time: stated seconds before line times, the slowest step by itself, no time out of thin air."""

from __future__ import annotations

import io
from datetime import datetime

import pytest

from analyzer import analyze
from analyzer.diagnosis.timeline import moment
from analyzer.model import TimelineStep
from tests.case_files import report


def steps(*lines: str) -> dict[str, TimelineStep]:
    made = analyze([("engine.log", io.BytesIO("\n".join(lines).encode() + b"\n"))])
    return {step.name: step for step in made.timeline}


def test_stated_seconds_come_before_the_times_of_lines() -> None:
    found = {step.name: (step.seconds, step.stated, step.slowest) for step in report("vllm-v1-healthy-019-gptoss-20b-a100").timeline}
    assert found["load"] == (62.336, True, True)
    assert found["init"] == (35.42, True, False)
    assert found["launch"] == (27.0, False, False)


def test_what_is_within_a_step_is_taken_off_it() -> None:
    found = {step.name: step for step in report("vllm-v0-healthy-tp2-l40s-32b").timeline}
    assert found["capture"].within == "init"
    assert found["capture"].slowest
    assert not found["init"].slowest


def test_a_year_that_turns_is_no_negative_time() -> None:
    found = steps(
        "INFO 12-31 23:59:50 [gpu_model_runner.py:100] Starting to load model m...",
        "INFO 01-01 00:00:10 [gpu_worker.py:436] Available KV cache memory: 5.00 GiB",
    )
    assert all(step.seconds >= 0 for step in found.values())


def test_nothing_timed_is_no_timeline() -> None:
    assert steps("ValueError: something") == {}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("12-20 20:25:46", datetime(2000, 12, 20, 20, 25, 46)),
        ("02-29 00:00:00", datetime(2000, 2, 29)),
        ("2025-03-14T09:26:53.589793238Z", datetime(2025, 3, 14, 9, 26, 53)),
        ("2025-03-14 09:26:53", datetime(2025, 3, 14, 9, 26, 53)),
        ("13-40 99:99:99", None),
        ("09:26:53", None),
        ("", None),
    ],
)
def test_times_of_lines(text: str, expected: datetime | None) -> None:
    assert moment(text) == expected
