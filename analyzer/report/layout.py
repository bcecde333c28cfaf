"""Columns on a terminal: widths of Chinese characters, wrapping, bars, colour."""

from __future__ import annotations

import re
import unicodedata

_EIGHTHS = " ▏▎▍▌▋▊▉█"
#: What a terminal must never get from an input.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def width(text: str) -> int:
    """Columns that ``text`` takes."""
    return sum(0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def pad(text: str, columns: int) -> str:
    """``text`` filled up with blanks to ``columns``."""
    return text + " " * max(0, columns - width(text))


def cut(text: str, columns: int) -> str:
    """``text`` in at most ``columns``, an ellipsis where something is missing."""
    if width(text) <= columns:
        return text
    taken, used = [], 0
    for char in text:
        size = width(char)
        if used + size > columns - 1:
            break
        taken.append(char)
        used += size
    return "".join(taken) + "…"


def wrap(text: str, columns: int, indent: str = "", hanging: str | None = None) -> list[str]:
    """``text`` in lines of at most ``columns``, broken at blanks and between Chinese characters."""
    hanging = indent if hanging is None else hanging
    lines, current, used = [], indent, width(indent)
    start = True
    for piece in re.findall(r"[^\s\u2e80-\uffef]+|[\u2e80-\uffef]|\s+", text):
        size = width(piece)
        if piece.isspace():
            if not start:
                current, used = current + " ", used + 1
            continue
        if used + size > columns and not start:
            lines.append(current.rstrip())
            current, used, start = hanging, width(hanging), True
        current, used, start = current + piece, used + size, False
    lines.append(current.rstrip())
    return lines


def bar(part: float, whole: float, columns: int) -> str:
    """A bar of at most ``columns`` that shows ``part`` of ``whole`` to an eighth of a column; any amount above zero shows."""
    if whole <= 0 or part <= 0:
        return ""
    eighths = max(1, round(min(part / whole, 1.0) * columns * 8))
    return "█" * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths % 8 else "")


def safe(text: str) -> str:
    """``text`` without characters that would steer a terminal."""
    return _CONTROL.sub("", text)


class Paint:
    """Colour where it is wanted, nothing where it is not."""

    def __init__(self, on: bool) -> None:
        self._on = on

    def __call__(self, text: str, *codes: int) -> str:
        return f"\x1b[{';'.join(map(str, codes))}m{text}\x1b[0m" if self._on else text
