"""The growth test on made-up courses: what it calls a line, a plateau, a step, and what it refuses to call anything."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzer.diagnosis.growth import SHORTEST, Kind, determination, judge, trend
from analyzer.model.units import GIB, MIB


def mib(*values: float) -> list[int]:
    return [round(value * MIB) for value in values]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (mib(60000, 61000), Kind.SHORT),
        (mib(60000, 61000, 62000, 63000, 64000), Kind.SHORT),
        (mib(*[72318] * 12), Kind.LEVEL),
        (mib(*[72318, 72318, 72340, 72330, 72318, 72325, 72340, 72318]), Kind.LEVEL),
        # on first use, then level (GB10)
        (mib(60993, 60993, 66121, 71840, 77412, 80933, 82655, 83390, *[83521] * 6), Kind.PLATEAU),
        # the engine starts
        (mib(1, 1, *[22914] * 8), Kind.STEP),
        (mib(1, *[22914] * 8), Kind.STEP),
        # a neighbour comes
        (mib(*[60000] * 5, *[66000] * 6), Kind.STEP),
        (mib(*[60000] * 5, *[66000] * 3), Kind.STEP),
        # equal steps to the last reading
        (mib(*(60000 + 512 * place for place in range(8))), Kind.LINE),
        # … after the start of the engine
        (mib(3, 3, 3, *(60000 + 100 * place for place in range(20))), Kind.LINE),
        # it bends: a line through it explains much, but it is nearly over
        (mib(*(60000 + 8000 * (1 - math.exp(-place / 12)) for place in range(20))), Kind.RISING),
        # down again
        (mib(60000, 64000, 60000, 64000, 60000, 64000, 60000, 64000), Kind.VARIES),
    ],
)
def test_kinds(values: list[int], kind: Kind) -> None:
    assert judge(values).kind is kind


def test_the_slope_counts_by_time() -> None:
    times = [0.0, 60, 120, 600, 660, 1200, 1800, 1860, 2400, 3600]
    found = judge([60 * GIB + round(time * MIB) for time in times], times)
    assert found.kind is Kind.LINE
    assert found.slope * 3600 == pytest.approx(3600 * MIB, rel=1e-3)
    assert found.low <= found.slope <= found.high
    assert found.straightness > 0.999


def test_one_outlier_decides_nothing() -> None:
    values = mib(*[60000] * 20)
    values[7] += 9000 * MIB
    assert judge(values).kind is not Kind.LINE
    line = mib(*(60000 + 300 * place for place in range(20)))
    line[7] += 40 * MIB
    assert judge(line).kind is Kind.LINE


def test_the_jump_is_told() -> None:
    found = judge(mib(*[60000] * 5, *[66000] * 6))
    assert (found.jump, found.jumped) == (5, 6000 * MIB)


@given(
    start=st.integers(2000, 150000),
    slope=st.floats(40, 900),
    count=st.integers(8, 120),
    seed=st.integers(0, 10**6),
)
@settings(max_examples=120, deadline=None)
def test_lines_with_little_noise_are_lines(start: int, slope: float, count: int, seed: int) -> None:
    noise = random.Random(seed)
    rise = slope * (count - 1)
    values = mib(*(start + slope * place + noise.uniform(-0.04, 0.04) * rise for place in range(count)))
    found = judge(values)
    if rise >= 0.05 * start:  # a rise that is more than a share of the whole
        assert found.kind is Kind.LINE
    assert found.kind not in (Kind.PLATEAU, Kind.STEP)


@given(level=st.integers(4000, 180000), count=st.integers(SHORTEST, 200), seed=st.integers(0, 10**6), size=st.floats(0, 0.004))
@settings(max_examples=150, deadline=None)
def test_noise_around_a_level_is_never_growth(level: int, count: int, seed: int, size: float) -> None:
    noise = random.Random(seed)
    found = judge(mib(*(level * (1 + noise.uniform(-size, size)) for _ in range(count))))
    assert found.kind not in (Kind.PLATEAU, Kind.RISING, Kind.STEP)
    # Fewer than ten readings can rise by chance; then their line is short of the smallest rise or of the straightness most of the time.
    assert count < 12 or found.kind is Kind.LEVEL


@given(
    low=st.integers(5000, 60000),
    gain=st.integers(3000, 60000),
    rise=st.integers(3, 30),
    flat=st.integers(6, 60),
    shape=st.sampled_from(["straight", "bent"]),
)
@settings(max_examples=120, deadline=None)
def test_what_rose_and_stayed_is_no_leak(low: int, gain: int, rise: int, flat: int, shape: str) -> None:
    way = [place / rise if shape == "straight" else 1 - math.exp(-4 * place / rise) for place in range(rise)]
    flat = max(flat, rise)
    values = mib(*(low + gain * part for part in way), *[low + gain] * flat)
    assert judge(values).kind in (Kind.PLATEAU, Kind.STEP)


@given(
    low=st.integers(0, 60000),
    step=st.integers(4000, 60000),
    before=st.integers(3, 40),
    after=st.integers(3, 40),
    seed=st.integers(0, 10**6),
)
@settings(max_examples=120, deadline=None)
def test_a_step_is_a_step(low: int, step: int, before: int, after: int, seed: int) -> None:
    noise = random.Random(seed)
    values = mib(*(low + noise.uniform(0, 20) for _ in range(before)), *(low + step + noise.uniform(0, 20) for _ in range(after)))
    found = judge(values)
    if after >= 12 or after < SHORTEST:
        assert found.kind is Kind.STEP
    assert found.jump == before


@given(values=st.lists(st.integers(0, 2**38), max_size=60))
def test_anything_is_judged(values: list[int]) -> None:
    found = judge(values)
    assert found.count == len(values)
    assert 0 <= found.straightness <= 1 + 1e-9
    assert 0 <= found.p <= 1


def test_statistics_of_known_series() -> None:
    slope, low, high, p = trend([1, 2, 3, 4, 5, 6], [0, 1, 2, 3, 4, 5])
    assert (slope, low, high) == (1, 1, 1)
    assert p == pytest.approx(0.0085, abs=2e-4)  # S = 15, variance 28.33, z = 2.63
    assert determination([1, 2, 3, 4], [0, 1, 2, 3]) == pytest.approx(1)
    assert trend([5, 5, 5, 5, 5, 5], [0, 1, 2, 3, 4, 5])[3] == 1
