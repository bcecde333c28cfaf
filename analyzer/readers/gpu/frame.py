"""Where a table stands in a page, and its lines as they were before quoting, time stamps and hard wrapping."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from analyzer.readers.gpu import rows
from analyzer.readers.gpu.strip import bars

BANNER = re.compile(r"(?P<tool>NVIDIA-SMI|NVITOP)\s+v?(?P<version>\d[\d.]*)")
DATE = re.compile(r"\s*(?:[A-Z][a-z]{2}\s+)?[A-Z][a-z]{2}\s+\d{1,2}\s+\d\d:\d\d:\d\d\s+(?:[A-Z]{2,5}\s+)?\d{4}\s*$")
WATCH = re.compile(r"\s*Every\s+[\d.,]+s:")
_RULE = re.compile(r"[|+]?[-=+|\s]{8,}[|+]?$")
_RULE_REST = re.compile(r"[-=][-=+|]*[|+]?$|[|+]$")
_HEAD = re.compile(
    r"Persistence-M|Bus-Id|Pwr:Usage|Memory-Usage|MIG M\.|Driver-Model|TCC/WDDM|MIG devices:|Processes:|Process name"
    r"|No running processes found|No MIG devices found|GPU-Util"
    r"|^\s*ID\s+ID\b|BAR1-Usage|^\s*GPU\s+(?:GI|PID|Name)\b|Compute M\.|CUDA (?:UMD )?Version"
)
#: Lines that are not of a table may stand inside one (two log lines between its parts); more end it.
_TOLERATED = 2
_BLANKS = 3


@dataclass(slots=True)
class Text:
    """A line as the tool printed it; ``index`` is the page's line where it begins."""

    index: int
    text: str

    @property
    def plain(self) -> str:
        """Without bars: what the row readers take."""
        return self.text.replace("|", " ")

    @property
    def blank(self) -> bool:
        return not self.text.strip()


def regions(lines: Sequence[str], seed: Callable[[str], bool]) -> list[tuple[int, int, list[Text]]]:
    """(first, last, lines) of every stretch of ``lines`` that holds a ``seed`` and looks like a table, both ends included."""
    found: list[tuple[int, int, list[Text]]] = []
    position, size, floor = 0, len(lines), 0
    while position < size:
        if not seed(lines[position]):
            position += 1
            continue
        prefix = _Prefix(lines[position])
        start = position
        while start > floor and position - start < 64 and _tabular(prefix.strip(lines[start - 1])):
            start -= 1
        stop = _end(lines, position, prefix)
        texts = [Text(index, prefix.strip(lines[index])) for index in range(start, stop + 1)]
        while texts and texts[0].blank:
            texts.pop(0)
        found.append((texts[0].index, stop, unwrap(texts)))
        position = floor = stop + 1
    return found


def _end(lines: Sequence[str], position: int, prefix: _Prefix) -> int:
    """The last line of the table that holds ``position``."""
    stop, others, blanks = position, 0, 0
    for index in range(position + 1, len(lines)):
        text = prefix.strip(lines[index])
        if not text.strip():
            blanks += 1
            if blanks > _BLANKS:
                break
            continue
        if _tabular(text) and (not others or _strong(text)):
            stop, others, blanks = index, 0, 0
            continue
        others += 1
        if others > _TOLERATED:
            break
    return stop


def _tabular(text: str) -> bool:
    if not text.strip():
        return True
    stripped = text.strip()
    if stripped[0] in "|+" or stripped[-1] == "|" or (stripped[-1] == "+" and _RULE_REST.match(stripped)):
        return True
    if len(text) > 400:
        return False
    return bool(
        DATE.match(text)
        or WATCH.match(text)
        or BANNER.search(text)
        or _HEAD.search(text)
        or _RULE_REST.match(stripped)
        or rows.looks_like_row(text)
    )


def _strong(text: str) -> bool:
    """Sure enough to go on with a table after lines that are none of it; a new banner begins a table of its own."""
    plain = text.replace("|", " ")
    return (
        not BANNER.search(text)
        and len(plain) <= 400
        and (rows.looks_like_row(plain) or (len(text) >= 60 and bool(_RULE.match(text.strip()))))
    )


class _Prefix:
    """What stands before every line of a table, told from the line where it was found: digits may differ from line to line."""

    def __init__(self, seed: str) -> None:
        text = bars(seed)
        bar = text.find("|")
        banner = BANNER.search(text)
        cut = bar if bar >= 0 and (banner is None or bar < banner.start()) else banner.start() if banner else 0
        head = text[:cut]
        known = head.strip() and len(head) <= 80 and not rows.looks_like_row(text.replace("|", " ")) and not _HEAD.search(head)
        self._shape = _shape(head) if known else None

    def strip(self, line: str) -> str:
        text = bars(line)
        if self._shape is not None and _shape(text[: len(self._shape)]) == self._shape:
            return text[len(self._shape) :]
        return text


def _shape(text: str) -> str:
    return re.sub(r"[0-9]", "0", text)


# --- hard wrapping ---------------------------------------------------------------------------------------------------------------


def unwrap(texts: list[Text]) -> list[Text]:
    """Lines that a terminal or a mail gateway broke, put together again; the lines as they are where none was broken."""
    width, frame = _widths(texts)
    if not width:
        return texts
    joined: list[Text] = []
    room = 0  # characters that the pieces of the last line had room for
    for text in texts:
        if joined and not DATE.match(text.text) and _unfinished(joined[-1].text, text.text, room, frame):
            joined[-1].text = joined[-1].text.ljust(room) + text.text
            room += width
        else:
            joined.append(Text(text.index, text.text))
            room = width
    return joined


def _unfinished(line: str, following: str, room: int, frame: int) -> bool:
    """Whether ``line`` goes on in ``following``: it has no right border, or ends in an inner bar short of the frame's width."""
    if line[:1] not in ("|", "+") or (frame and room >= frame):
        return False
    if line[-1:] not in ("|", "+"):
        return True
    return len(line) == room < frame or (len(line) < frame and following.lstrip()[:1] not in ("|", "+", ""))


def _widths(texts: Sequence[Text]) -> tuple[int, int]:
    """(width at which lines were broken, width of the frame), 0 for what is not known; the first 0 where nothing was broken.

    A rule tells both: its pieces are never shortened and follow each other at once.
    """
    for place, text in enumerate(texts[:-1]):
        line = text.text
        if line[:1] in ("|", "+") and len(line) >= 20 and _RULE.match(line):
            rests = _rests(texts, place + 1, len(line))
            if rests and (line[-1] not in ("|", "+") or rests[0][0] in "-="):
                return len(line), len(line) + sum(map(len, rests))
    broken = [text.text for text, following in pairwise(texts) if _broken(text.text, following.text)]
    return (max(map(len, broken)), 0) if len(broken) >= 2 else (0, 0)


def _rests(texts: Sequence[Text], place: int, width: int) -> list[str]:
    """The pieces of a broken rule after its first."""
    pieces: list[str] = []
    for text in texts[place : place + 4]:
        piece = text.text.strip()
        if not _RULE_REST.match(piece) or len(piece) > width:
            break
        pieces.append(piece)
        if len(piece) < width:
            break
    return pieces


def _broken(line: str, following: str) -> bool:
    begins = line[:1] == "|" and not line.endswith(("|", "+"))
    return begins and len(line) >= 20 and following.strip()[:1] not in ("|", "+", "") and following.endswith("|")
