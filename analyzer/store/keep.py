"""Keeps an input's text while it streams by: redacted before it is kept, compressed, its ends and its last start where it is large."""

from __future__ import annotations

import hashlib
import tempfile
from collections import deque
from typing import TYPE_CHECKING, BinaryIO, cast

import zstandard

from analyzer.store.values import KeptText

if TYPE_CHECKING:
    from collections.abc import Callable

#: Bytes held in memory; what is more goes to a file without a name. It holds redacted text only.
SPOOL_BYTES = 1 << 19
_PIECE_BYTES = 1 << 18
_LEVEL = 3
_Block = tuple[bytes, bool]  # whole lines, and whether the server is started anew in them


class Keeper:
    """Takes blocks of whole lines, gives a KeptText at the end.

    Of a large input these are kept: its first ``head_bytes``; of the last start of the server half of ``tail_bytes``; its last
    ``tail_bytes``. What lies between is counted in lines. The last two wait unredacted in memory, until ``close``.
    """

    def __init__(self, clean: Callable[[str], str], head_bytes: int, tail_bytes: int) -> None:
        """``clean`` redacts a text and keeps its lines."""
        self._clean = clean
        self._head_bytes = head_bytes
        self._tail_bytes = tail_bytes
        self._spool = tempfile.SpooledTemporaryFile(max_size=SPOOL_BYTES)  # noqa: SIM115 — closed by finish
        self._zstd = zstandard.ZstdCompressor(level=_LEVEL).compressobj()
        self._digest = hashlib.sha256()
        self._size = 0
        self._taken = 0  # bytes of the head before redaction
        self._start: list[bytes] = []
        self._start_size = 0
        self._start_open = False
        self._tail: deque[_Block] = deque()
        self._tail_size = 0
        self._gap_lines = 0  # between the head and the last start
        self._second_gap_lines = 0  # between the last start and the tail
        self._gaps: tuple[int, int] = (0, 0)
        self._closed = False

    def feed(self, block: bytes, start: bool = False) -> None:
        """The next whole lines; the last one of an input may lack its end. ``start``: the server is started anew in them."""
        if not block:
            return
        if not self._tail and not self._gap_lines and not self._start and self._taken + len(block) <= self._head_bytes:
            self._taken += len(block)
            self._write(block)
            return
        self._tail.append((block, start))
        self._tail_size += len(block)
        while self._tail_size > self._tail_bytes and len(self._tail) > 1:
            dropped, starts = self._tail.popleft()
            self._tail_size -= len(dropped)
            self._let_go(dropped, starts)

    def _let_go(self, block: bytes, starts: bool) -> None:
        """What falls out of the tail: kept where it is the beginning of the last start, else counted."""
        if starts:
            self._gap_lines += sum(part.count(b"\n") for part in self._start) + self._second_gap_lines
            self._start, self._start_size, self._second_gap_lines, self._start_open = [], 0, 0, True
        if self._start_open and self._start_size + len(block) <= self._tail_bytes // 2:
            self._start.append(block)
            self._start_size += len(block)
        elif self._start:
            self._start_open = False
            self._second_gap_lines += block.count(b"\n")
        else:
            self._gap_lines += block.count(b"\n")

    def close(self) -> None:
        """The input is over: nothing of it waits unredacted any more."""
        if self._closed:
            return
        self._closed = True
        first = self._size
        for block in self._start:
            self._write(block)
        second = self._size
        for block, _ in self._tail:
            self._write(block)
        self._start.clear()
        self._tail.clear()
        self._spool.write(self._zstd.flush())
        self._gaps = (first if self._gap_lines else 0, second if self._second_gap_lines else 0)

    def finish(self, renumber: Callable[[str], str] | None = None) -> KeptText:
        """What was kept, ``renumber`` applied to it (stand-ins → the report's). To be called once."""
        self.close()
        self._spool.seek(0)
        if renumber is None:
            with self._spool:
                kept = self._spool.read()
            return KeptText(self._digest.digest(), kept, self._size, self._gaps[0], self._gap_lines, self._gaps[1], self._second_gap_lines)
        machine = zstandard.ZstdCompressor(level=_LEVEL).compressobj()
        digest = hashlib.sha256()
        out, size, waiting = bytearray(), 0, b""
        marks = sorted({mark for mark in self._gaps if mark} | {self._size})
        moved = {0: 0}
        position = 0
        with zstandard.ZstdDecompressor().stream_reader(cast("BinaryIO", self._spool), closefd=False) as reader:
            while True:
                # Cut where a gap is, so that its place is known again after the stand-ins have changed their length.
                wanted = next((mark - position for mark in marks if mark > position), 0)
                piece = reader.read(min(_PIECE_BYTES, wanted)) if wanted else b""
                position += len(piece)
                waiting += piece
                last = not piece or position in marks
                cut = len(waiting) if last else waiting.rfind(b"\n") + 1
                text, waiting = waiting[:cut], waiting[cut:]
                if text:
                    text = renumber(text.decode("utf-8", "replace")).encode("utf-8", "replace")
                digest.update(text)
                size += len(text)
                out += machine.compress(text)
                if position in marks:
                    moved[position] = size
                if not piece:
                    break
        out += machine.flush()
        self._spool.close()
        first, second = (moved[gap] for gap in self._gaps)
        return KeptText(digest.digest(), bytes(out), size, first, self._gap_lines, second, self._second_gap_lines)

    def discard(self) -> None:
        """Forget everything."""
        self._start.clear()
        self._tail.clear()
        self._spool.close()

    def _write(self, block: bytes) -> None:
        text = self._clean(block.decode("utf-8", "replace")).encode("utf-8", "replace")
        self._size += len(text)
        self._digest.update(text)
        self._spool.write(self._zstd.compress(text))
