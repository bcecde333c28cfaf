"""What goes into the store and comes out of it: plain values, no rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import zstandard

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from analyzer.model import Report
    from analyzer.model.message import Message
    from analyzer.store.rows import ReportRows

#: Bytes of a stored text that are unpacked at once.
PIECE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class KeptText:
    """An input's redacted text, compressed. Where parts were left out, ``gap_lines`` lines are missing at byte ``gap_at``, …"""

    sha256: bytes
    compressed: bytes
    text_bytes: int
    gap_at: int = 0
    gap_lines: int = 0
    second_gap_at: int = 0
    second_gap_lines: int = 0

    def pieces(self) -> Iterator[bytes]:
        """The text, in pieces. What was left out is as many empty lines, so that every line keeps its number."""
        gaps = [(at, lines) for at, lines in ((self.gap_at, self.gap_lines), (self.second_gap_at, self.second_gap_lines)) if lines]
        position = 0
        with zstandard.ZstdDecompressor().stream_reader(self.compressed) as reader:
            while piece := reader.read(PIECE_BYTES):
                while gaps and gaps[0][0] < position + len(piece):
                    at, lines = gaps.pop(0)
                    yield piece[: at - position]
                    yield from _empty_lines(lines)
                    piece, position = piece[at - position :], at
                yield piece
                position += len(piece)
        for _, lines in gaps:
            yield from _empty_lines(lines)


def _empty_lines(count: int) -> Iterator[bytes]:
    for start in range(0, count, PIECE_BYTES):
        yield b"\n" * min(PIECE_BYTES, count - start)


@dataclass(frozen=True, slots=True)
class KeptInput:
    """One input of an analysis: how it came, and its text."""

    name: str
    text: KeptText
    sent_bytes: int
    skipped_bytes: int = 0
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class NewAnalysis:
    """An analysis to be stored. ``token_hash`` is of the token that may delete it."""

    id: str
    created: datetime
    token_hash: bytes
    report: Report
    inputs: tuple[KeptInput, ...]
    host: str | None = None
    rows: ReportRows | None = None  # of the report, where they have been made


@dataclass(frozen=True, slots=True)
class StoredAnalysis:
    """An analysis as it lies there. ``report`` is None while it is not done, and when it ``failed`` (``error`` says why)."""

    id: str
    created: datetime
    updated: datetime
    revision: int
    state: str
    error: Message | None
    report: Report | None


@dataclass(frozen=True, slots=True)
class HistoryItem:
    """One line of the history."""

    id: str
    created: datetime
    state: str
    outcome_state: str | None
    stage: str | None
    cause: str | None
    confidence: str | None
    engine: str | None
    version: str | None
    title_en: str | None
    title_zh: str | None
    inputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HistoryFilter:
    """What the history is narrowed to; None and empty: not at all. ``q`` is looked for in titles, causes, versions and names of inputs."""

    cause: str | None = None
    engine: str | None = None
    since: datetime | None = None
    q: str | None = None


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """Some of the history, newest first; ``next_cursor`` leads to what is older, None where nothing is."""

    items: tuple[HistoryItem, ...]
    next_cursor: str | None
