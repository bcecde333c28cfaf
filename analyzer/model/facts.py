"""Facts: single figures of the inputs, each with the line that states it."""

from __future__ import annotations

from dataclasses import dataclass, field

from analyzer.model.units import Number, to_bytes

Value = int | float | str | bool

#: Points kept of a series; when more come, every second one is dropped and the stride doubles (report-contract: at most 2,000).
SERIES_POINTS = 2000


#: Most characters of a line that a Source keeps, around what matters.
EXCERPT = 4096


@dataclass(frozen=True, slots=True)
class Source:
    """Where something stands: the input's name, the line (from 1) and its text, redacted, at most EXCERPT characters around the match."""

    input: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Fact:
    """One figure: ``value`` exactly as printed, ``unit`` what it means. Names: the vocabulary of reference/facts.yaml."""

    name: str
    value: Value
    unit: str
    source: Source
    attempt: int = 0
    rank: int | None = None
    gpu: int | None = None
    pid: int | None = None
    time: str | None = None
    pattern: str | None = None
    process: str | None = None  # the engine's own tag of the process that printed it, e.g. "Worker_TP0 pid=231"

    @property
    def bytes(self) -> int | None:
        """The figure in bytes; None where it is no size."""
        if isinstance(self.value, (int, float)) and not isinstance(self.value, bool):
            return to_bytes(self.value, self.unit)
        return None


@dataclass(slots=True)
class Series:
    """The bounded course of a figure that a log prints again and again."""

    name: str
    unit: str
    rank: int | None = None
    count: int = 0
    points: list[tuple[str, Number]] = field(default_factory=list)
    _stride: int = 1

    def add(self, time: str, value: Number) -> None:
        """Count one more reading and keep it if its turn has come. Thinning depends on the order alone, never on a clock."""
        if self.count % self._stride == 0:
            if len(self.points) >= SERIES_POINTS:
                del self.points[1::2]
                self._stride *= 2
            if self.count % self._stride == 0:
                self.points.append((time, value))
        self.count += 1
