"""The stored, redacted text of an input by line numbers: pages of lines, and which lines repeat and may be folded."""

from __future__ import annotations

import re
import threading
import time
from array import array
from bisect import bisect_left
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from analyzer.report.layout import safe

if TYPE_CHECKING:
    from collections.abc import Callable

    from analyzer.store.values import KeptText

#: Runs of at least this many lines that differ in numbers only are folded between their first and their last.
FOLDED = 6
#: Characters of a line that a page shows; the rest is in the JSON's own report and in the file.
LINE_CHARACTERS = 4096
#: Lines of one answer.
MOST_LINES = 2000
#: Unpacked text that is kept for the next page, in bytes and seconds.
CACHE_BYTES = 48 << 20
CACHE_SECONDS = 120.0

#: What a stored text may have left out.
_GAPS = ("gap", "second_gap")
_NUMBER = re.compile(rb"[0-9][0-9a-fA-F.,:_-]*")


@dataclass(frozen=True, slots=True)
class Fold:
    """Lines ``first`` to ``last`` (from 1): repetitions (``repeated``), or what was not stored (``left_out``)."""

    first: int
    last: int
    kind: str


class LogText:
    """A text with the places of its lines. What was left out when it was stored has line numbers and no lines."""

    def __init__(self, kept: KeptText) -> None:
        gaps = _gaps(kept)
        self._text = b"".join(_without_gaps(kept).pieces())
        self._starts = array("Q", [0])
        find, at = self._text.find, 0
        while (at := find(b"\n", at)) >= 0:
            at += 1
            self._starts.append(at)
        if self._starts[-1] == len(self._text):
            self._starts.pop()
        self._stored = len(self._starts)
        # (stored lines before it, lines left out), in order
        self._gaps = [(bisect_left(self._starts, at), lines) for at, lines in gaps]
        self.lines = self._stored + sum(lines for _before, lines in self._gaps)
        self.size = len(self._text) + 8 * len(self._starts)
        self._folds: tuple[Fold, ...] | None = None

    def line(self, number: int) -> str | None:
        """Line ``number`` (from 1) without its end; None where it was left out or there is none."""
        place = number - 1
        for before, lines in reversed(self._placed_gaps()):
            if place >= before + lines:
                place -= lines
            elif place >= before:
                return None
        if not 0 <= place < self._stored:
            return None
        end = self._starts[place + 1] if place + 1 < self._stored else len(self._text)
        return safe(self._text[self._starts[place] : end].rstrip(b"\r\n").decode("utf-8", "replace")[:LINE_CHARACTERS])

    def page(self, first: int, count: int) -> list[str | None]:
        """Lines from ``first`` on, at most ``count`` and MOST_LINES."""
        last = min(first + min(count, MOST_LINES) - 1, self.lines)
        return [self.line(number) for number in range(max(first, 1), last + 1)]

    @property
    def folds(self) -> tuple[Fold, ...]:
        """What may be folded, in order; worked out once."""
        if self._folds is None:
            left_out = [Fold(before + 1, before + lines, "left_out") for before, lines in self._placed_gaps()]
            self._folds = tuple(sorted([*self._repeated(), *left_out], key=lambda fold: fold.first))
        return self._folds

    def _placed_gaps(self) -> list[tuple[int, int]]:
        """(lines before it, stored or not, and lines left out) of each gap."""
        placed, shift = [], 0
        for before, lines in self._gaps:
            placed.append((before + shift, lines))
            shift += lines
        return placed

    def _repeated(self) -> list[Fold]:
        found: list[Fold] = []
        edges = {before for before, _lines in self._gaps}
        shape_before, since = b"", 0
        for place, line in enumerate([*self._text.split(b"\n")[: self._stored], b"\n"]):
            shape = _NUMBER.sub(b"#", line[:512])
            if shape == shape_before and place not in edges and place < self._stored:
                continue
            if place - since >= FOLDED:
                shift = sum(lines for before, lines in self._gaps if before <= since)
                found.append(Fold(since + 2 + shift, place - 1 + shift, "repeated"))
            shape_before, since = shape, place
        return found


def _gaps(kept: KeptText) -> list[tuple[int, int]]:
    """(byte, lines) of what was left out, in order."""
    given = ((getattr(kept, f"{name}_at", 0), getattr(kept, f"{name}_lines", 0)) for name in _GAPS)
    return [(at, lines) for at, lines in given if lines]


def _without_gaps(kept: KeptText) -> KeptText:
    none: dict[str, Any] = {f"{name}_lines": 0 for name in _GAPS if hasattr(kept, f"{name}_lines")}
    return replace(kept, **none)


class Texts:
    """The texts that were asked for last, unpacked: a reader scrolls, and every page would unpack the whole again."""

    def __init__(self, most_bytes: int = CACHE_BYTES, seconds: float = CACHE_SECONDS) -> None:
        self._most_bytes = most_bytes
        self._seconds = seconds
        self._held: OrderedDict[tuple[str, int, bytes], tuple[float, LogText]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, analysis: str, position: int, kept: KeptText, clock: Callable[[], float] = time.monotonic) -> LogText:
        """The text of an input of an analysis."""
        key = (analysis, position, kept.sha256)
        now = clock()
        with self._lock:
            for old in [held for held, (since, _text) in self._held.items() if now - since > self._seconds]:
                del self._held[old]
            if key in self._held:
                text = self._held.pop(key)[1]
                self._held[key] = (now, text)
                return text
        text = LogText(kept)
        with self._lock:
            self._held[key] = (now, text)
            while len(self._held) > 1 and sum(one.size for _since, one in self._held.values()) > self._most_bytes:
                self._held.popitem(last=False)
        return text

    def holds(self, analysis: str) -> bool:
        """Whether a text of the analysis is held."""
        with self._lock:
            return any(key[0] == analysis for key in self._held)

    def forget(self, analysis: str) -> None:
        """Nothing of a deleted analysis stays in memory."""
        with self._lock:
            for key in [key for key in self._held if key[0] == analysis]:
                del self._held[key]


#: The texts of this process. Whatever deletes an analysis forgets its texts too.
TEXTS = Texts()
