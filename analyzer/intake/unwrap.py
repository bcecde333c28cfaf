"""Terminals and chats break long lines at a fixed width, in mid-word too. Puts them together again, in small inputs only."""

from __future__ import annotations

from analyzer.intake.lines import BEGINS
from analyzer.intake.wrappers import dedented, stripped

#: Narrower text is prose or a table; a terminal that wraps a log is at least this wide.
MIN_WIDTH = 60
#: So many lines of exactly the greatest width are no accident.
MIN_FULL = 3


def unwrap(lines: list[str]) -> list[tuple[int, str]]:
    """(index of the first physical line, joined text) of every logical line; the input's own lines where nothing was wrapped."""
    # In a quoted or collected copy of such a terminal all lines are longer by what stands before them, which has to go first.
    inner = stripped(lines) or lines
    inner = dedented(inner) or inner
    width = _width(inner)
    if width is None:
        return list(enumerate(lines))
    lines = inner
    joined: list[tuple[int, str]] = []
    open_line = False
    for index, line in enumerate(lines):
        if open_line and not BEGINS.match(line):
            first, text = joined[-1]
            joined[-1] = (first, text + line)
        else:
            joined.append((index, line))
        open_line = len(line) == width and line[-1] not in "|+"
    return joined


def _width(lines: list[str]) -> int | None:
    """The width at which the lines were broken, or None: the greatest length, reached often, with rests after it."""
    longest = max((len(line) for line in lines), default=0)
    if longest < MIN_WIDTH:
        return None
    full = [index for index, line in enumerate(lines) if len(line) == longest]
    if len(full) < MIN_FULL:
        return None
    rests = sum(
        1
        for index in full
        if lines[index][-1] not in "|+" and index + 1 < len(lines) and lines[index + 1] and not BEGINS.match(lines[index + 1])
    )
    return longest if rests >= MIN_FULL - 1 and 2 * rests >= len(full) else None
