"""Terminals and chats break long lines at a fixed width, in mid-word too. Puts them together again, in small inputs only."""

from __future__ import annotations

import re

from analyzer.intake.lines import BEGINS
from analyzer.intake.wrappers import dedented, stripped

#: Narrower text is prose or a table; a terminal that wraps a log is at least this wide.
MIN_WIDTH = 60
#: So many lines of exactly the greatest width are no accident.
MIN_FULL = 3
#: Text that a person broke between words is no wider than this, and its lines differ in length by about a word.
MAX_TYPED, SLACK = 130, 16


#: Lines that begin alike, digits aside, are records of one writer; a wrapped line's rest does not begin like the line.
HEAD = 8
#: What closes a row of a table or a pane: such a row is as long as its neighbours and goes on nowhere.
CLOSED = ("|", "+", "│", "┃", " " * 8)
_DIGITS = str.maketrans("123456789", "000000000")
#: An exception and its message, and how a sentence goes on: in small letters or with a figure.
_RAISED = re.compile(r"(?:^\s*|\]\s+)(?:\w+\.)*\w*(?:Error|Exception): ")
_OF_AN_OOM = re.compile(
    r"\s*(?:Tried to allocate|GPU \d+ has|Process \d+ has|Including non-PyTorch|Of the allocated|If reserved|See documentation)\b"
)
_GOES_ON = re.compile(rf"\s*(?:[a-z]+[ ,.]|\(?\d[\d.,]* |[MGK]iB\b)|{_OF_AN_OOM.pattern}")


def unwrap(lines: list[str]) -> list[tuple[int, str]]:
    """(index of the first physical line, joined text) of every logical line; the input's own lines where nothing was wrapped."""
    # In a quoted or collected copy of such a terminal all lines are longer by what stands before them, which has to go first.
    inner = stripped(lines) or lines
    inner = dedented(inner) or inner
    width = _width(inner)
    if width is None:
        return _reflowed(lines, inner)
    lines = inner
    joined: list[tuple[int, str]] = []
    open_line = False
    for index, line in enumerate(lines):
        if open_line and _goes_on(joined[-1][1], line):
            first, text = joined[-1]
            joined[-1] = (first, text + line)
        else:
            joined.append((index, line))
        open_line = len(line) == width and not line.endswith(CLOSED)
    return joined


def _goes_on(record: str, line: str) -> bool:
    """Whether ``line`` may be the rest of ``record``: it begins no record of its own, by its form or because it begins like that one."""
    return not BEGINS.match(line) and _head(line) != _head(record)


def _head(line: str) -> str:
    return line[:HEAD].translate(_DIGITS)


def _width(lines: list[str]) -> int | None:
    """The width at which the lines were broken, or None: a length that is reached often, with rests after it.

    Mostly that of the longest lines. Where a part of a paste was wrapped and others were not, every line of that length must go on, and
    not indented: the frames of a traceback may be equally long too.
    """
    places: dict[int, list[int]] = {}
    for index, line in enumerate(lines):
        if len(line) >= MIN_WIDTH:
            places.setdefault(len(line), []).append(index)
    longest = max(places, default=0)
    for width in sorted((width for width, full in places.items() if len(full) >= MIN_FULL), reverse=True):
        full, (rests, repeats, indented) = len(places[width]), _rests(lines, places[width], all_of_them=width != longest)
        if repeats <= rests // 2 and (rests == full and not indented if width != longest else rests >= MIN_FULL - 1 and 2 * rests >= full):
            return width
    return None


def _rests(lines: list[str], full: list[int], *, all_of_them: bool) -> tuple[int, int, int]:
    """Of the lines at ``full``: how many go on, how many are followed by one like them, how many rests are indented.

    ``all_of_them``: whether one that does not go on ends the count.
    """
    rests = repeats = indented = 0
    record, joined = "", -1  # the line that a record began with, and the place of its rest
    for index in full:
        line, rest = lines[index], lines[index + 1] if index + 1 < len(lines) else ""
        record = record if joined == index else line
        if rest and not line.endswith(CLOSED):
            if _goes_on(record, rest):
                rests, joined = rests + 1, index + 1
                indented += rest.startswith("  ")
                continue
            repeats += not BEGINS.match(rest)
        if all_of_them:
            break
    return rests, repeats, indented


def _reflowed(lines: list[str], inner: list[str]) -> list[tuple[int, str]]:
    """Messages of exceptions that an author broke between words, in mid-sentence. ``inner``: the lines without what stands around them."""
    joined: list[tuple[int, str]] = []
    room = 0  # how long the lines of this sentence are at most; 0 where none is open
    for index, line in enumerate(inner):
        previous = inner[index - 1] if index else ""
        if room and _sentence_goes_on(previous, line, room):
            first, text = joined[-1]
            joined[-1] = (first, f"{text} {line.strip()}")
        else:
            room = len(line) if MIN_WIDTH <= len(line) <= MAX_TYPED and _RAISED.search(line) else 0
            joined.append((index, lines[index]))
    return joined


def _sentence_goes_on(previous: str, line: str, room: int) -> bool:
    """Whether ``line`` follows in the same sentence: the one before it ends in the middle, and had no room for this one's first word.

    PyTorch's sentence of an out-of-memory is several; it goes on while figures and words of its own follow.
    """
    word = line.split(" ", 1)[0]
    mid = not previous.endswith((".", "!", "?", ":", ";", ")", "]", "}"))
    return bool(
        _GOES_ON.match(line)
        and (mid or _OF_AN_OOM.match(line))
        and not BEGINS.match(line)
        and len(line) <= room + SLACK
        and len(previous) + 1 + len(word) > room - SLACK
    )
