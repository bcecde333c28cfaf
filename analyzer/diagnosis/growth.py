"""Does memory grow, and how? Pre-allocation, plateau, step or straight line, by a test on all readings and never on two.

The test, in this order. (1) Jumps between neighbours that stand alone (both neighbouring changes are at most a quarter of them) cut the
course; what follows the last cut is judged. (2) Fewer than SHORTEST readings there: no answer. (3) Trend: Mann-Kendall with its correction
for ties; slope: the median over all pairs (Theil-Sen) with its 95 % interval, so that outliers do not decide. (4) A straight line is a
trend (p < 0.01) that a line explains (R² ≥ 0.95) and to which every third of the time adds alike, the last one included. (5) A plateau
rose, and its last third is level. Whatever else rises is only called rising.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from statistics import median

from analyzer.model.units import MIB

#: Fewer readings than this show no course: of six that all rise the trend is just significant (p = 0.009).
SHORTEST = 6
#: Readings within this are level: a share of the greatest, at least a few blocks of the allocator.
LEVEL_SHARE, LEVEL_BYTES = 0.01, 128 * MIB
#: The last third of a plateau is more level than that.
FLAT_SHARE, FLAT_BYTES = 0.005, 64 * MIB
#: A jump that cuts a course is at least this large.
JUMP_SHARE, JUMP_BYTES = 0.05, 256 * MIB
#: The smallest rise that is called a line.
LINE_SHARE, LINE_BYTES = 0.003, 64 * MIB
SIGNIFICANT, STRAIGHT, EVEN = 0.01, 0.95, 0.4
#: Readings that the pairwise statistics look at; of more, evenly spaced ones.
PAIRED = 200


class Kind(StrEnum):
    """How a course goes."""

    SHORT = "short"  # too few readings to say
    LEVEL = "level"
    STEP = "step"  # it jumped, and has been level since
    PLATEAU = "plateau"  # it rose, and has been level since
    LINE = "line"  # it rises in a straight line, to the last reading
    RISING = "rising"  # it rises, neither straight nor over
    VARIES = "varies"  # up and down


@dataclass(frozen=True, slots=True)
class Growth:
    """What the test found. Sizes in bytes; ``slope`` per unit of the given times, with its 95 % interval ``low`` to ``high``.

    ``first`` is the place of the first reading judged (what came before a jump is left out), ``jump`` the place after the last upward jump
    and ``jumped`` its size. ``p`` is the probability of such a trend without any, ``straightness`` R² of the least-squares line.
    """

    kind: Kind
    count: int
    first: int = 0
    rise: int = 0
    slope: float = 0.0
    low: float = 0.0
    high: float = 0.0
    straightness: float = 0.0
    p: float = 1.0
    jump: int | None = None
    jumped: int = 0


def judge(values: Sequence[int], times: Sequence[float] | None = None) -> Growth:
    """The kind of the course ``values`` (bytes) at ``times`` (rising; equally spaced where None)."""
    at = list(times) if times is not None else [float(place) for place in range(len(values))]
    jumps = _jumps(values)
    first = jumps[-1] if jumps else 0
    upward = [place for place in jumps if values[place] > values[place - 1]]
    jump = upward[-1] if upward else None
    jumped = values[jump] - values[jump - 1] if jump is not None else 0
    rest, when = values[first:], at[first:]
    if len(rest) < SHORTEST:
        settled = len(rest) >= 3 and first >= 3 and _level(rest, LEVEL_SHARE, LEVEL_BYTES)
        kind = Kind.STEP if settled and jump == first else Kind.SHORT
        rise = values[-1] - values[0] if len(values) > 1 else 0
        return Growth(kind, len(values), first, rise, jump=jump, jumped=jumped)
    slope, low, high, p = trend(rest, when)
    straightness = determination(rest, when)
    rise = rest[-1] - rest[0]
    found = Growth(Kind.VARIES, len(values), first, rise, slope, low, high, straightness, p, jump, jumped)
    return _named(found, _kind(rest, when, found))


def _named(found: Growth, kind: Kind) -> Growth:
    after_jump = kind is Kind.LEVEL and found.jump is not None and found.jump == found.first
    return replace(found, kind=Kind.STEP if after_jump else kind)


def _kind(values: Sequence[int], times: Sequence[float], found: Growth) -> Kind:
    top = max(values)
    rising = found.p < SIGNIFICANT and found.slope > 0
    fitted = found.slope * (times[-1] - times[0])
    if rising and found.straightness >= STRAIGHT and fitted >= max(LINE_BYTES, LINE_SHARE * top) and _even(values, times):
        return Kind.LINE
    if _level(values, LEVEL_SHARE, LEVEL_BYTES):
        return Kind.LEVEL
    tail = values[-max(3, len(values) // 3) :]
    before = values[: len(values) - len(tail)]
    least = max(LEVEL_BYTES, LEVEL_SHARE * top)
    over = _level(tail, FLAT_SHARE, FLAT_BYTES) and max(before) <= 1.02 * max(tail)
    if over and median(tail) - min(before) > least:
        return Kind.PLATEAU
    return Kind.RISING if rising and fitted > least else Kind.VARIES


def _level(values: Sequence[int], share: float, size: int) -> bool:
    return max(values) - min(values) <= max(size, share * max(values))


def flat_tail(values: Sequence[int]) -> int:
    """How many of the last readings are as high as the last one."""
    near = max(FLAT_BYTES, FLAT_SHARE * values[-1]) / 2
    return next((place for place, value in enumerate(reversed(values)) if abs(value - values[-1]) > near), len(values))


def _jumps(values: Sequence[int]) -> list[int]:
    """Places after which the course goes on at another height: changes that stand alone between two quiet stretches."""
    steps = [later - earlier for earlier, later in pairwise(values)]
    least = max(JUMP_BYTES, JUMP_SHARE * max(values, default=0))
    usual = median([abs(step) for step in steps]) if steps else 0
    found = []
    for place, step in enumerate(steps):
        beside = [abs(steps[near]) for near in (place - 1, place + 1) if 0 <= near < len(steps)]
        if abs(step) >= max(least, 4 * usual) and all(size <= abs(step) / 4 for size in beside):
            found.append(place + 1)
    return found


def _even(values: Sequence[int], times: Sequence[float]) -> bool:
    """Whether each third of the time adds its share: neither a bend nor a start that is over explains the rise."""
    span = (times[-1] - times[0]) / 3
    if span <= 0:
        return False
    marks = [_smooth(values, times, times[0] + span * third) for third in range(4)]
    parts = [later - earlier for earlier, later in pairwise(marks)]
    return min(parts) > 0 and min(parts) >= EVEN * max(parts)


def _smooth(values: Sequence[int], times: Sequence[float], moment: float) -> float:
    """The course at ``moment``: the line through its neighbours, so that readings at odd times count by their time."""
    for (earlier, first), (later, second) in pairwise(zip(times, values, strict=True)):
        if earlier <= moment <= later and later > earlier:
            return first + (second - first) * (moment - earlier) / (later - earlier)
    return float(values[-1])


def trend(values: Sequence[int], times: Sequence[float]) -> tuple[float, float, float, float]:
    """(slope, its 95 % interval, p): Theil and Sen's median over all pairs, Mann and Kendall's test with the correction for ties."""
    stride = -(-len(values) // PAIRED)
    values, times = values[::stride], times[::stride]
    count = len(values)
    slopes, score = [], 0
    for place in range(count):
        for later in range(place + 1, count):
            change = values[later] - values[place]
            score += (change > 0) - (change < 0)
            if times[later] > times[place]:
                slopes.append(change / (times[later] - times[place]))
    if not slopes:
        return 0.0, 0.0, 0.0, 1.0
    ties: dict[int, int] = {}
    for value in values:
        ties[value] = ties.get(value, 0) + 1
    variance = (count * (count - 1) * (2 * count + 5) - sum(tie * (tie - 1) * (2 * tie + 5) for tie in ties.values())) / 18
    if variance <= 0:
        return 0.0, 0.0, 0.0, 1.0
    z = (score - (score > 0) + (score < 0)) / math.sqrt(variance)
    slopes.sort()
    half = 1.96 * math.sqrt(variance)
    low = slopes[max(0, math.floor((len(slopes) - half) / 2))]
    high = slopes[min(len(slopes) - 1, math.ceil((len(slopes) + half) / 2))]
    return median(slopes), low, high, math.erfc(abs(z) / math.sqrt(2))


def determination(values: Sequence[int], times: Sequence[float]) -> float:
    """R² of the least-squares line; 0.0 where the readings do not vary."""
    count = len(values)
    mean_x, mean_y = sum(times) / count, sum(values) / count
    spread_x = sum((time - mean_x) ** 2 for time in times)
    spread_y = sum((value - mean_y) ** 2 for value in values)
    if not spread_x or not spread_y:
        return 0.0
    joint = sum((time - mean_x) * (value - mean_y) for time, value in zip(times, values, strict=True))
    return float(joint * joint / (spread_x * spread_y))
