"""Keeps an input's text while it streams by: redacted before it is kept, compressed, its head and tail where it is large."""

from __future__ import annotations

import hashlib
import tempfile
from collections import deque
from typing import TYPE_CHECKING

import zstandard

from analyzer.store.values import KeptText

if TYPE_CHECKING:
    from collections.abc import Callable

#: Compressed bytes held in memory; what is more goes to a file without a name. It holds redacted text only.
SPOOL_BYTES = 1 << 20


class Keeper:
    """Takes blocks of whole lines, gives a KeptText at the end. The tail waits unredacted in memory, at most ``tail_bytes`` of it."""

    def __init__(self, clean: Callable[[str], str], head_bytes: int, tail_bytes: int) -> None:
        """``clean`` redacts a text and keeps its lines."""
        self._clean = clean
        self._head_bytes = head_bytes
        self._tail_bytes = tail_bytes
        self._spool = tempfile.SpooledTemporaryFile(max_size=SPOOL_BYTES)  # noqa: SIM115 — closed by finish
        self._zstd = zstandard.ZstdCompressor(level=3).compressobj()
        self._digest = hashlib.sha256()
        self._size = 0
        self._taken = 0  # bytes of the head before redaction
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._gap_lines = 0

    def feed(self, block: bytes) -> None:
        """The next whole lines; the last one of an input may lack its end."""
        if not block:
            return
        if not self._tail and not self._gap_lines and self._taken + len(block) <= self._head_bytes:
            self._taken += len(block)
            self._write(block)
            return
        self._tail.append(block)
        self._tail_size += len(block)
        while self._tail_size > self._tail_bytes and len(self._tail) > 1:
            dropped = self._tail.popleft()
            self._tail_size -= len(dropped)
            self._gap_lines += dropped.count(b"\n")

    def finish(self) -> KeptText:
        """What was kept. To be called once."""
        gap_at = self._size
        for block in self._tail:
            self._write(block)
        self._tail.clear()
        self._spool.write(self._zstd.flush())
        self._spool.seek(0)
        compressed = self._spool.read()
        self._spool.close()
        return KeptText(self._digest.digest(), compressed, self._size, gap_at if self._gap_lines else 0, self._gap_lines)

    def discard(self) -> None:
        """Forget everything."""
        self._tail.clear()
        self._spool.close()

    def _write(self, block: bytes) -> None:
        text = self._clean(block.decode("utf-8", "replace")).encode("utf-8", "replace")
        self._digest.update(text)
        self._size += len(text)
        self._spool.write(self._zstd.compress(text))
