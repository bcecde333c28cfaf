"""Which engine an attempt's lines are of."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzer.facts.engine import LIBRARIES, foreign, leading, of_process, outer


@pytest.mark.parametrize(
    ("counts", "engine"),
    [
        ({}, None),
        ({"sglang": 3, "vllm": 1}, "sglang"),
        ({"llama.cpp": 40, "ollama": 1}, "ollama"),
        ({"llama.cpp": 4}, "llama.cpp"),
        ({"transformers": 9, "tgi": 1}, "tgi"),
        ({"transformers": 9}, "transformers"),
    ],
)
def test_leading(counts: dict[str, int], engine: str | None) -> None:
    assert leading(counts) == engine


@pytest.mark.parametrize(
    ("tag", "pid", "engine"),
    [
        ("APIServer", 1, "vllm"),
        ("EngineCore_DP0", 93, "vllm"),
        ("Worker_DP0_TP1_EP1", 702, "vllm"),
        ("VllmWorkerProcess", 3985, "vllm"),
        ("VllmWorker PP0_TP1", 71, "vllm"),
        ("DP1 TP3", None, None),
        ("RayWorkerWrapper", 2001, None),
        ("raylet", 12, None),
        ("WorkerPool", 12, None),
    ],
)
def test_a_tag_tells_the_engine(tag: str, pid: int | None, engine: str | None) -> None:
    assert of_process(tag, pid) == engine


@pytest.mark.parametrize(
    ("engine", "other", "apart"),
    [
        ("sglang", "vllm", True),
        ("ollama", "llama.cpp", False),
        ("llama.cpp", "ollama", False),
        ("vllm", "transformers", False),
        (None, "vllm", False),
        ("vllm", "vllm", False),
    ],
)
def test_foreign(engine: str | None, other: str | None, apart: bool) -> None:
    assert foreign(engine, other) is apart


@pytest.mark.parametrize(
    ("engine", "unit", "around"),
    [
        ("llama.cpp", "ollama", "ollama"),
        ("llama.cpp", "ollama-1", "ollama"),
        ("llama.cpp", "llama-server", None),
        ("vllm", "ollama", None),
        ("llama.cpp", None, None),
        (None, "ollama", None),
    ],
)
def test_the_service_that_printed_a_line_names_the_engine_around(engine: str | None, unit: str | None, around: str | None) -> None:
    assert outer(engine, unit) == around


NAMES = st.sampled_from(["vllm", "sglang", "llama.cpp", "ollama", "transformers"])


@given(NAMES, NAMES)
def test_foreign_is_mutual(one: str, other: str) -> None:
    assert foreign(one, other) == foreign(other, one)


@given(st.dictionaries(NAMES, st.integers(1, 50), min_size=1))
def test_a_library_leads_only_alone(counts: dict[str, int]) -> None:
    assert leading(counts) in counts
    assert leading(counts) not in LIBRARIES or counts.keys() <= LIBRARIES
