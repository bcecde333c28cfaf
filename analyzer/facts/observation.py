"""Figures and events as they are kept while an input is read: with their raw line. Redaction comes when a report is made."""

from __future__ import annotations

from dataclasses import dataclass, field

from analyzer.intake.lines import Process
from analyzer.model import Value
from analyzer.model.facts import EXCERPT
from analyzer.patterns.model import Frame, Pattern


@dataclass(slots=True)  # not frozen: see Figure in patterns/extract.py
class Place:
    """A line of an input, not yet redacted; of a long one a part, which is."""

    input: int
    line: int
    text: str


@dataclass(slots=True)
class Observation:
    """A figure on its line."""

    name: str
    value: Value
    unit: str
    place: Place
    pattern: str
    gpu: int | None = None
    pid: int | None = None
    rank: int | None = None  # where the line itself names it
    process: Process | None = None
    time: str | None = None
    order: int = 0  # running number over all inputs: reading order


@dataclass(slots=True)
class Kept:
    """A name that repeats in one scope: its first, last, smallest and greatest observation, and how often it came."""

    first: Observation
    last: Observation
    low: Observation
    high: Observation
    count: int = 1
    total: float = 0.0  # sum of all values, in the unit of the first: buffers of one device are printed one by one

    @classmethod
    def of(cls, seen: Observation) -> Kept:
        """The first observation of a name."""
        return cls(seen, seen, seen, seen, total=_plain(seen.value))

    def add(self, seen: Observation) -> None:
        """One more observation."""
        self.count += 1
        self.last = seen
        value, low, high = seen.value, self.low.value, self.high.value
        if isinstance(value, (int, float)):
            self.total += value
            if isinstance(low, (int, float)) and isinstance(high, (int, float)):
                if value < low:
                    self.low = seen
                if value > high:
                    self.high = seen

    def observations(self) -> list[Observation]:
        """The kept ones, each once, in reading order."""
        unique = {id(seen): seen for seen in (self.first, self.low, self.high, self.last)}
        distinct: dict[tuple[int, Value], Observation] = {}
        for seen in sorted(unique.values(), key=lambda seen: seen.order):
            if seen is self.first or seen is self.last or seen.value not in (self.first.value, self.last.value):
                distinct[(seen.order, seen.value)] = seen
        # A figure that never changes is said once, by its first line.
        if all(seen.value == self.first.value for seen in distinct.values()):
            return [self.first]
        return list(distinct.values())


def _plain(value: Value) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0


@dataclass(slots=True)
class Event:
    """A line that names a cause or looks like trouble."""

    pattern: Pattern
    places: tuple[Place, ...]  # the line, and the following ones that belong to the match
    order: int
    process: Process | None
    time: str | None
    level: str | None
    stage: str | None  # how far the attempt had come
    own_stage: str | None = None  # how far the very process had come
    frames: tuple[tuple[Frame, Place], ...] = ()  # of the traceback above it, outermost first
    figures: tuple[Observation, ...] = ()
    groups: dict[str, str] = field(default_factory=dict)
    count: int = 1
    tried: bool = False  # it came in one of several tries at the load
    statistics: Place | None = None  # the first statistics line after it, where no other event came between: how the server did then
    followed_service: bool = False  # what an engine prints only after it has served stands beside it: see order.date_by_messengers

    @property
    def cause(self) -> str | None:
        """The pattern's cause: an id, a family, or None for a line that only looks like trouble."""
        return self.pattern.cause

    @property
    def serving(self) -> bool:
        """Whether it happened in service: the run had come so far, a loop that answers requests is among its frames, or see above."""
        looped = any(frame.stage == "serving" for frame, _ in self.frames)
        return self.stage in ("serving", "shutdown") or looped or self.followed_service


def excerpt(text: str, start: int = 0, end: int = 0, size: int = EXCERPT) -> str:
    """At most ``size`` characters of ``text``, with ``text[start:end]`` among them, from a blank to a blank where there are some."""
    if len(text) <= size:
        return text
    left = max(0, min(start, end - size // 2, len(text) - size)) if start > size // 2 else 0
    right = left + size
    if left:
        left = text.find(" ", left, start) + 1 or left
    if right < len(text):
        right = max(text.rfind(" ", end, right), 0) or right
    return text[left:right]
