"""From a line that holds an anchor to values: the pattern's expression, its typed groups, within a time limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import regex

from analyzer.intake.lines import Line
from analyzer.model.facts import Value
from analyzer.model.units import NUMBER_LENGTH, natural, number
from analyzer.patterns.model import FactSpec, Pattern

#: Guard against an expression that blows up on a hostile line; an honest one takes microseconds.
TIMEOUT_SECONDS = 1.0

#: Spellings of units where a line chooses its own.
UNIT_SPELLINGS = {
    "bytes": "B", "byte": "B", "B": "B", "b": "B",
    "KiB": "KiB", "kiB": "KiB", "kB": "KiB", "KB": "KiB", "K": "KiB", "Ki": "KiB",
    "MiB": "MiB", "MB": "MiB", "M": "MiB", "Mi": "MiB",
    "GiB": "GiB", "Gib": "GiB", "GB": "GiB", "G": "GiB", "Gi": "GiB",
    "TiB": "TiB", "TB": "TiB", "T": "TiB", "Ti": "TiB",
}  # fmt: skip


# Not frozen, nor Hit, Line, nor the like in facts/observation.py: a serving log makes them by the hundred thousand, and a frozen one takes
# five times as long.
@dataclass(slots=True)
class Figure:
    """One value of a match: what it is, whose, and where in the matched text it stands."""

    name: str
    value: Value
    unit: str
    gpu: int | None = None
    pid: int | None = None
    rank: int | None = None
    span: tuple[int, int] | None = None  # in the matched text; None for a constant of the pattern


@dataclass(slots=True)
class Hit:
    """A pattern that matched a line. ``text`` is what was matched against: the body, or the whole line, with the window's lines."""

    pattern: Pattern
    line: Line
    text: str
    span: tuple[int, int]
    figures: tuple[Figure, ...]
    groups: dict[str, str]


class Extractor:
    """Runs one pattern's expression. Expressions are compiled when they are first needed."""

    def __init__(self, pattern: Pattern) -> None:
        self.pattern = pattern
        self._compiled: regex.Pattern[str] | None = None
        # Specs that take one group and nothing else, as statistics lines have them.
        self._plain = all(
            spec.group and spec.value is None and spec.kind == "number" and not (spec.gpu or spec.pid or spec.rank)
            and not (spec.unit_group or spec.every or spec.by_gpu or spec.negative or spec.wraps) for spec in pattern.facts
        )  # fmt: skip
        self.timeouts = 0

    def run(self, line: Line, following: Sequence[str] = ()) -> Hit | None:
        """The hit of this pattern on ``line``; None where only its anchor stands there. ``following``: bodies of the next lines."""
        pattern = self.pattern
        text = line.text if pattern.whole else line.body
        if pattern.window and following:
            text = "\n".join([text, *following[: pattern.window]])
        if pattern.match is None:
            place = next((at for at in (text.find(anchor) for anchor in pattern.anchors) if at >= 0), None)
            if place is None:
                return None
            return Hit(pattern, line, text, (place, place + len(pattern.anchors[0])), self._constants(), {})
        if self._compiled is None:
            self._compiled = regex.compile(pattern.match)
        try:
            matched = self._compiled.search(text, timeout=TIMEOUT_SECONDS)
        except TimeoutError:
            self.timeouts += 1
            return None
        if matched is None:
            return None
        groups = {name: value for name, value in matched.groupdict().items() if value is not None}
        if max(map(len, groups.values()), default=0) > NUMBER_LENGTH and any(map(_no_figure, groups.values())):
            return None  # no engine prints such a number: whoever reads a group as one may rely on that
        if self._plain:
            figures = _plain_figures(pattern.facts, matched, groups)
        else:
            figures = [figure for spec in pattern.facts for figure in _figures(spec, matched, groups)]
        return Hit(pattern, line, text, matched.span(), tuple(figures), groups)

    def _constants(self) -> tuple[Figure, ...]:
        return tuple(Figure(spec.name, spec.value, spec.unit) for spec in self.pattern.facts if spec.value is not None)


def _plain_figures(specs: Sequence[FactSpec], matched: regex.Match[str], groups: dict[str, str]) -> list[Figure]:
    """What _figures gives for specs that only take a group."""
    figures = []
    for spec in specs:
        group = spec.group or ""
        if group in groups and (value := _number(groups[group])) is not None:
            figures.append(Figure(spec.name, value, spec.unit, None, None, None, matched.span(group)))
    return figures


def _figures(spec: FactSpec, matched: regex.Match[str], groups: dict[str, str]) -> list[Figure]:
    gpu, pid, rank = (_index(groups, name) for name in (spec.gpu, spec.pid, spec.rank))
    if spec.value is not None:
        return [Figure(spec.name, spec.value, spec.unit, gpu, pid, rank)]
    group = spec.group or ""
    if group not in groups:
        return []
    if spec.every:
        pairs = list(zip(matched.captures(group), matched.spans(group), strict=True))
        pids = [natural(text) for text in matched.captures(spec.pid)] if spec.pid else []
        units = matched.captures(spec.unit_group) if spec.unit_group else []
    else:
        pairs = [(groups[group], matched.span(group))]
        pids, units = [], []
    figures = []
    for place, (text, span) in enumerate(pairs):
        value = text if spec.kind == "text" else _number(text)
        if value is None:
            continue
        if spec.wraps is not None and not isinstance(value, str) and value >= spec.wraps / 2:
            value -= spec.wraps
        if spec.negative and not isinstance(value, str):
            value = -value
        unit = spec.unit
        if spec.unit_group:
            printed = units[place] if place < len(units) else groups.get(spec.unit_group, "")
            unit = UNIT_SPELLINGS.get(printed, spec.unit)
        own_pid = pids[place] if place < len(pids) else pid
        figures.append(Figure(spec.name, value, unit, place if spec.by_gpu else gpu, own_pid, rank, span))
    return figures


def _no_figure(text: str) -> bool:
    return len(text) > NUMBER_LENGTH and text.replace(".", "").isdecimal()


def _index(groups: dict[str, str], name: str | None) -> int | None:
    return natural(groups[name]) if name is not None and name in groups else None


def _number(text: str) -> int | float | None:
    try:
        return number(text)
    except ValueError:
        return None
