"""The checks that stop a start, and that the setting they name would have passed."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from analyzer.engines.vllm import checks, inverse
from analyzer.engines.vllm.identity import budget_bytes
from analyzer.model.versions import Range

GIB = 2**30


def gib(size: float) -> int:
    return round(size * GIB)


@pytest.mark.parametrize(
    ("free0", "total", "utilization", "value"),
    [
        (67.24, 79.25, 0.9, 0.84),
        (11.64, 121.69, 0.85, 0.09),
        (68.26, 79.12, 0.97, 0.86),
        (41.14, 139.79, 0.9, 0.29),
        (1.42, 15.77, 0.9, 0.09),
    ],
)
def test_printed_start_checks(free0: float, total: float, utilization: float, value: float) -> None:
    found = checks.start_free(gib(free0), gib(total), utilization)
    assert (found.passed, found.flag, found.value) == (False, "--gpu-memory-utilization", value)
    assert found.short == budget_bytes(gib(total), utilization) - gib(free0)


def test_nothing_free_leaves_no_utilization() -> None:
    assert checks.start_free(0, 80 * GIB, 0.9).value is None
    assert checks.start_free(79 * GIB, 80 * GIB, 0.9).passed


@given(st.integers(GIB, 300 * GIB), st.integers(0, 100), st.integers(1, 100))
def test_the_utilization_named_passes_the_start_check(total: int, free_percent: int, percent: int) -> None:
    free0 = total * free_percent // 100
    found = checks.start_free(free0, total, percent / 100)
    assert found.passed is (found.short == 0)
    if isinstance(found.value, float):
        assert checks.start_free(free0, total, found.value).passed


@pytest.mark.parametrize(
    ("free0", "after", "where", "sane"),
    [
        (82.94, 90.17, "0.29.0", False),
        (90.0, 85.0, "0.29.0", True),
        (90.0, 90.0, "0.14.1", False),
        (90.0, 90.0, "0.16.0", True),
        (90.0, 90.0, "0.15.0", None),
        (90.0, 90.0, Range.parse(">=0.9.1"), None),
        (90.0, 91.0, None, False),
    ],
)
def test_profiling(free0: float, after: float, where: str | Range | None, sane: bool | None) -> None:
    assert checks.profiling_sane(gib(free0), gib(after), where) is sane


def test_a_pool_that_is_too_small() -> None:
    found = checks.pool_holds_one(gib(23.58), gib(21.22), gib(2.89), gib(3.54))
    assert (found.passed, found.value) == (False, 0.93)
    assert found.short == gib(3.54) - gib(2.89)
    assert checks.pool_holds_one(None, None, gib(2.17), gib(3.05)).value is None
    assert checks.pool_holds_one(gib(23.58), gib(21.22), gib(3.6), gib(3.54)).passed
    # the card cannot give it: another process, or graphs outside the budget
    assert checks.pool_holds_one(gib(23.58), gib(21.22), gib(2.89), gib(3.54), free0=gib(21.5)).value is None
    assert checks.pool_holds_one(gib(23.58), gib(21.22), gib(2.89), gib(3.54), free0=gib(23.0), graphs_outside=gib(1.5)).value is None
    assert checks.pool_holds_one(gib(23.58), gib(21.22), gib(2.89), gib(5.5)).value is None
    nothing = checks.pool_holds_one(gib(23.58), gib(21.22), gib(-0.5), gib(0.5))
    assert (nothing.passed, nothing.short, nothing.value) == (False, GIB, 0.95)


@given(st.integers(GIB, 300 * GIB), st.integers(1, 100), st.integers(-20 * GIB, 100 * GIB), st.integers(1, 100 * GIB))
def test_the_utilization_named_gives_the_pool(total: int, percent: int, pool: int, needed: int) -> None:
    budget = budget_bytes(total, percent / 100)
    found = checks.pool_holds_one(total, budget, pool, needed)
    assert found.passed is (found.short == 0)
    if isinstance(found.value, float):
        assert 0 <= found.value <= 1 or found.passed
        again = inverse.kv_at(total, found.value, budget, pool)
        assert checks.pool_holds_one(total, budget_bytes(total, found.value), again, needed).passed


@pytest.mark.parametrize(
    ("blocks", "length", "short", "value", "blocks_missing"),
    [(229, 4096, 432, 3664, 27), (1478, 29_000, 5352, 23_648, 335), (3649, 60_000, 1616, 58_384, 101), (0, 4096, 4096, None, 256)],
)
def test_v0(blocks: int, length: int, short: int, value: int | None, blocks_missing: int) -> None:
    found = checks.v0_holds_one(blocks, 16, length)
    assert (found.passed, found.short, found.value) == (False, short, value)
    assert checks.v0_blocks_missing(blocks, 16, length) == blocks_missing
    assert checks.v0_holds_one(blocks + blocks_missing, 16, length).passed


def test_states() -> None:
    found = checks.state_blocks(1024, 614)
    assert (found.passed, found.short, found.flag, found.value) == (False, 410, "--max-num-seqs", 614)
    assert checks.state_blocks(614, 614).passed
    assert checks.state_blocks(1, 0).value is None


@given(st.integers(GIB, 2000 * GIB), st.integers(0, 500), st.integers(1, 8))
def test_the_swap_space_named_passes(host: int, per_gpu: int, gpus: int) -> None:
    found = checks.swap_space(host, per_gpu * GIB, gpus)
    assert isinstance(found.value, int)
    assert checks.swap_space(host, found.value * GIB, gpus).passed
    assume(not found.passed)
    assert found.value < per_gpu


def test_the_swap_space_of_a_small_host() -> None:
    found = checks.swap_space(gib(4.30), 4 * GIB, 1)
    assert (found.passed, found.value) == (False, 3)


def test_batched_tokens() -> None:
    assert not checks.batched_tokens(2048, 4096, chunked_prefill=False).passed
    assert checks.batched_tokens(2048, 4096, chunked_prefill=True).passed
    assert checks.batched_tokens(2048, 4096, chunked_prefill=False).short == 2048
