"""Every pattern keeps its promises: each of its examples is hit with the facts beside it, none of its look-alikes is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from analyzer.patterns.examples import check
from analyzer.patterns.load import load
from analyzer.patterns.model import Pattern
from analyzer.patterns.runner import Runner

LIBRARY = load()
RUNNER = Runner(LIBRARY)
ROWS = [
    pytest.param(replace(pattern, examples=(example,), not_examples=()), id=f"{pattern.id}-{place}")
    for pattern in LIBRARY.patterns
    for place, example in enumerate(pattern.examples)
]
STATED = [
    pytest.param(replace(pattern, examples=(example,), not_examples=()), id=f"{pattern.id}-{place}")
    for pattern in LIBRARY.patterns
    for place, example in enumerate(pattern.examples)
    if example.get("facts") and pattern.file.startswith("vllm/")
]
LOOK_ALIKES = [
    pytest.param(replace(pattern, examples=(), not_examples=(line,)), id=f"{pattern.id}-{place}")
    for pattern in LIBRARY.patterns
    for place, line in enumerate(pattern.not_examples)
]


@pytest.mark.parametrize("pattern", ROWS)
def test_an_example_is_hit_with_its_facts(pattern: Pattern) -> None:
    assert list(check(pattern, RUNNER)) == []


@pytest.mark.parametrize("pattern", LOOK_ALIKES)
def test_a_look_alike_is_not_hit(pattern: Pattern) -> None:
    assert list(check(pattern, RUNNER)) == []


@pytest.mark.parametrize("pattern", STATED)
def test_an_example_states_every_fact_that_is_taken_from_it(pattern: Pattern) -> None:
    example = pattern.examples[0]
    hits = [hit for hit in RUNNER.scan_lines(example["line"].split("\n")) if hit.pattern.id == pattern.id]
    assert {figure.name for hit in hits for figure in hit.figures} == set(example["facts"])


@pytest.mark.parametrize("pattern", [pytest.param(pattern, id=pattern.id) for pattern in LIBRARY.patterns if pattern.series])
def test_a_course_over_time_is_no_error(pattern: Pattern) -> None:
    assert pattern.cause is None


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"examples": ({"line": "nothing of the kind"},)}, "the example is not found"),
        (
            {"examples": ({"line": "Available KV cache memory: 5.86 GiB", "facts": {"kv_cache.available": 5.87}},)},
            "should be 5.87, is [5.86]",
        ),
        ({"examples": ({"line": "Available KV cache memory: 5.86 GiB", "facts": {"weights": 5.86}},)}, "is missing"),
        ({"examples": (), "not_examples": ("Available KV cache memory: 5.86 GiB",)}, "the counter-example is found"),
    ],
)
def test_a_broken_promise_is_told(wrong: dict[str, object], said: str) -> None:
    pattern = LIBRARY.pattern("vllm.profiling.kv_available")
    assert pattern is not None
    assert any(said in problem for problem in check(replace(pattern, **wrong), RUNNER))  # type: ignore[arg-type]
