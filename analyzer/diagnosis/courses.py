"""Figures that dumps and hand-kept tables state again and again: is a course growing, level, or a straight line to the end?

Two points never make a course. The tests look at all points, so that neither a step nor one outlier decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from analyzer.facts.view import View
from analyzer.model import Fact

#: Fewer readings than this show no course.
POINTS = 5
#: Pairs of readings of which the later one is greater, less those where it is smaller, over all pairs (Kendall's tau).
RISING = 0.8
#: Readings that differ by less than this part of the greatest count as level.
LEVEL = 0.01
#: Share of the spread that a straight line has to explain (coefficient of determination).
STRAIGHT = 0.98


@dataclass(frozen=True, slots=True)
class Course:
    """One figure over time, of one card or process, in reading order."""

    name: str
    facts: tuple[Fact, ...]
    values: tuple[int, ...]  # bytes

    @property
    def rise(self) -> int:
        """From the first reading to the last."""
        return self.values[-1] - self.values[0]

    @property
    def rising(self) -> bool:
        """Growth all along: nearly every later reading is above the earlier ones, and each third of the readings adds to it."""
        return len(self.values) >= POINTS and tau(self.values) >= RISING and _each_third_rises(self.values)

    def level(self, share: float = LEVEL) -> bool:
        """No reading is further than ``share`` of the greatest from another."""
        return max(self.values) - min(self.values) <= share * max(self.values)

    @property
    def straight(self) -> bool:
        """Growth in equal steps: a line through the readings explains them. Taken as equally spaced, as samplers are."""
        return len(self.values) > POINTS and self.rising and determination(self.values) >= STRAIGHT

    @property
    def plateau(self) -> bool:
        """It rose, and then at least a third of all readings, three or more, show the same."""
        tail = self.values[-max(3, -(-len(self.values) // 3)) :]
        if len(self.values) <= POINTS or max(tail) - min(tail) > LEVEL * max(tail) / 2:
            return False
        return tail[0] - self.values[0] > 5 * LEVEL * tail[0]


def courses(view: View, name: str) -> list[Course]:
    """The courses of ``name``, one a card and process."""
    from analyzer.diagnosis.tracks import tracks

    # Of a long run of dumps only the telling ones are facts; the whole course is in the snapshots.
    dumped = [track for track in tracks(view) if track.name == name and len(track.readings) >= POINTS]
    if dumped:
        return [
            Course(
                name,
                tuple(Fact(name, item.size, "B", item.source, gpu=track.gpu, pid=track.pid, time=item.moment) for item in track.readings),
                tuple(track.values),
            )
            for track in dumped
        ]
    found: dict[tuple[int | None, int | None], list[Fact]] = {}
    for fact in view.documents:
        if fact.name == name and fact.bytes is not None:
            found.setdefault((fact.gpu, fact.pid), []).append(fact)
    return [Course(name, tuple(facts), tuple(fact.bytes or 0 for fact in facts)) for facts in found.values() if len(facts) >= POINTS]


def tau(values: Sequence[int]) -> float:
    """Kendall's tau of ``values`` against their order: 1 always rising, 0 no trend, -1 always falling. Of many, every n-th is taken."""
    stride = -(-len(values) // 200)
    values = values[::stride]
    pairs = len(values) * (len(values) - 1) // 2
    if not pairs:
        return 0.0
    score = sum((later > earlier) - (later < earlier) for at, earlier in enumerate(values) for later in values[at + 1 :])
    return score / pairs


def determination(values: Sequence[int]) -> float:
    """R² of the least-squares line through equally spaced ``values``; 0.0 where they do not vary."""
    count = len(values)
    mean_x, mean_y = (count - 1) / 2, sum(values) / count
    spread = sum((value - mean_y) ** 2 for value in values)
    if not spread:
        return 0.0
    slope = sum((at - mean_x) * (value - mean_y) for at, value in enumerate(values)) / sum((at - mean_x) ** 2 for at in range(count))
    rest = sum((value - mean_y - slope * (at - mean_x)) ** 2 for at, value in enumerate(values))
    return 1 - rest / spread


def _each_third_rises(values: Sequence[int]) -> bool:
    """A single step is no growth: no third of the readings may bring more than four fifths of the whole rise."""
    third = max(len(values) // 3, 1)
    marks = [values[0], values[third], values[-1 - third], values[-1]]
    whole = values[-1] - values[0]
    return whole > 0 and all(later - earlier <= 0.8 * whole for earlier, later in pairwise(marks))
