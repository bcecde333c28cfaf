"""A stream of UTF-8 bytes → blocks of whole lines, cut at the same places however the bytes arrive."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from analyzer.intake.limits import DEFAULT, Limits

#: Lines after a hit that a pattern may see; a block brings that many of the next one along.
LOOKAHEAD_LINES = 16


@dataclass(slots=True)
class Block:
    """Whole lines. Hits in lines that begin at or after ``limit`` are left to the next block, which begins there."""

    data: bytes
    first_line: int
    limit: int
    last: bool
    _counted: int = field(default=0, compare=False, repr=False)  # up to here line ends are counted,
    _lines: int = field(default=0, compare=False, repr=False)  # so many

    def line_at(self, start: int) -> int:
        """The number of the line that begins at ``start``. Asked from the beginning to the end, it looks at every byte once."""
        if start < self._counted:
            return self.first_line + self.data.count(b"\n", 0, start)
        self._lines += self.data.count(b"\n", self._counted, start)
        self._counted = start
        return self.first_line + self._lines


class Blocks:
    """Cuts after ``block_bytes``, at a line's end; the rests of over-long lines are taken out and counted.

    The cut depends on the number of bytes since the last one only, so any slicing of the input gives the same blocks.
    """

    def __init__(self, limits: Limits = DEFAULT) -> None:
        self._limits = limits
        self._pending = bytearray()
        self._line = 1
        self._closed_lines = 0  # line ends in the last block
        self._skipping = False  # inside the rest of an over-long line
        self._line_length = 0  # bytes kept of the line that is still open
        self.skipped_bytes = 0
        self.long_lines = 0

    def feed(self, data: bytes) -> Iterator[Block]:
        """Take the next piece; give the blocks that it completes."""
        self._take(data)
        while len(self._pending) >= self._limits.block_bytes:
            cut = self._pending.rfind(b"\n", 0, self._limits.block_bytes) + 1
            if not cut:
                return  # one line is longer than a block: wait for its end (it is bounded)
            carried = self._carry_from(cut)
            with memoryview(self._pending) as pending:
                block = Block(bytes(pending[:cut]), self._line, carried, last=False)
            yield block
            self._line = block.line_at(carried)
            del self._pending[:carried]

    def close(self) -> Block:
        """The last block, which may be empty. A line without an end is one."""
        block = self.rest()
        self._closed_lines += self._pending.count(b"\n")
        self._pending.clear()
        return block

    def rest(self) -> Block:
        """What has not been given yet, as a last block, without taking it: for a report while more may come."""
        return Block(bytes(self._pending), self._line, len(self._pending), last=True)

    @property
    def lines(self) -> int:
        """Line ends so far."""
        return self._line - 1 + self._pending.count(b"\n") + self._closed_lines

    @property
    def total_lines(self) -> int:
        """Lines so far, an unfinished last one included."""
        return self.lines + (1 if self._line_length or self._skipping else 0)

    def _carry_from(self, cut: int) -> int:
        """Where the last LOOKAHEAD_LINES lines before ``cut`` begin; at least one line goes out."""
        position = cut
        for _ in range(LOOKAHEAD_LINES):
            earlier = self._pending.rfind(b"\n", 0, position - 1) + 1
            if not earlier:
                break
            position = earlier
        return min(cut, position)

    def _take(self, data: bytes) -> None:
        """Append ``data``, without what exceeds the length of a line. Jumps from line end to line end in long strides."""
        limit = self._limits.max_line_bytes
        position, size = 0, len(data)
        pieces = memoryview(data)
        while position < size:
            if self._skipping:
                end = data.find(b"\n", position)
                stop = size if end < 0 else end
                self.skipped_bytes += stop - position
                position = stop
                if end < 0:
                    return
                self._skipping = False
            room = limit - self._line_length
            end = data.rfind(b"\n", position, position + room + 1)
            if end >= 0:
                self._pending += pieces[position : end + 1]
                self._line_length = 0
                position = end + 1
                continue
            stop = min(size, position + room)
            self._pending += pieces[position:stop]
            self._line_length += stop - position
            position = stop
            if position < size:
                self._skipping = True
                self.long_lines += 1
                self._line_length = 0
