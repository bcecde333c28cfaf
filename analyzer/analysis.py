"""The loop around the road: bytes are fed in as they come, a report can be asked for at any moment.

What is kept is bounded, and the report is the same however the bytes were cut.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from analyzer.facts.observation import Place
from analyzer.facts.record import Record
from analyzer.intake.blocks import Block, Blocks
from analyzer.intake.decode import SNIFF, Decoder
from analyzer.intake.decompress import Expander, expander
from analyzer.intake.errors import IntakeError
from analyzer.intake.limits import DEFAULT, Limits
from analyzer.intake.lines import clean
from analyzer.intake.redact import Redactor
from analyzer.model import InputInfo, Report
from analyzer.patterns.runner import Runner, runner
from analyzer.readers import Page, Reading, anchors, read_page

#: Bytes read from a file at once, into one buffer that is used again.
READ_BYTES = 1 << 20
#: Most bytes of a dump that is cut by a block's end and read again with the next one.
OPEN_BYTES = 4 << 20

#: A path, or a name with an open binary file.
Input = str | Path | tuple[str, IO[bytes]]


class Analysis:
    """One analysis of any number of inputs, which are opened one after the other."""

    def __init__(self, patterns: Sequence[Path] = (), limits: Limits = DEFAULT) -> None:
        """``patterns``: folders of a user's own patterns. Raises LibraryError where one of them is wrong."""
        self._runner: Runner = runner(tuple(patterns), anchors())
        self._limits = limits
        self._record = Record()
        self._sinks: list[Sink] = []
        self.redactor = Redactor(self._runner.library.redactions)

    def open(self, name: str, keep: Callable[[bytes], None] | None = None) -> Sink:
        """Begin the next input. ``keep`` is given its text as it was read: UTF-8, whole lines, not redacted.

        Raises IntakeError where there are too many.
        """
        if len(self._sinks) >= self._limits.max_files:
            raise IntakeError("input_too_large", f"more than {self._limits.max_files} files in one analysis; send fewer")
        sink = Sink(name, len(self._sinks), self._runner, self._record, self._limits, self.redactor.clean)
        sink.keep = keep
        self._sinks.append(sink)
        return sink

    def report(self) -> Report:
        """What is known now. Raises IntakeError (empty_input) where nothing but blanks has come."""
        from analyzer.diagnosis.diagnose import diagnose

        record = self._record
        blank = all(sink.blank for sink in self._sinks)
        if any(not sink.closed for sink in self._sinks):
            record = copy.deepcopy(record)
            pending = [sink.peek(record) for sink in self._sinks]
            blank = blank and not any(pending)
        if blank:
            names = ", ".join(sink.info.name for sink in self._sinks) or "no input"
            advice = "send the text that the server printed, e.g. `vllm serve … 2>&1 | …`"
            raise IntakeError("empty_input", f"nothing to read in {names}; {advice}")
        return diagnose(record, [sink.info for sink in self._sinks], self._runner.library, self.redactor)


@dataclass(slots=True)
class _OpenLines:
    """A dump that reached the end of a block: read again, together with the next one."""

    first_line: int
    lines: list[str]


class Sink:
    """Where the bytes of one input go."""

    def __init__(self, name: str, index: int, library: Runner, record: Record, limits: Limits, redact: Callable[[str], str]) -> None:
        self.info = InputInfo(name)
        self.closed = False
        self.blank = True
        self.keep: Callable[[bytes], None] | None = None
        self._index = index
        self._runner = library
        self._record = record
        self._limits = limits
        self._redact = redact
        self._head = bytearray()
        self._expander: Expander | None = None
        self._text_head: bytearray | None = bytearray()
        self._decoder: Decoder | None = None
        self._blocks = Blocks(limits)
        self._open: _OpenLines | None = None
        self._first = True

    def feed(self, data: bytes) -> None:
        """Take the next piece. Raises IntakeError for what cannot be read (compressed data damaged or too large, no text)."""
        self.info.bytes += len(data)
        if self.info.bytes > self._limits.max_body_bytes:
            raise IntakeError(
                "input_too_large",
                f"{self.info.name} is larger than {self._limits.max_body_bytes} bytes; "
                "the head (up to the first requests) and the tail of the log suffice",
            )
        if self._expander is None:
            self._head += data
            if len(self._head) < 4:
                return
            data = bytes(self._head)
            self._head.clear()
            self._expander = expander(data, self._limits)
        for piece in self._expander.feed(data):
            self._text(piece)

    def close(self, *, truncated: bool = False) -> None:
        """The input is over. ``truncated``: it was cut by its sender or by a limit. Raises IntakeError as feed does."""
        if self._expander is None:
            self._expander = expander(bytes(self._head), self._limits)
            for piece in self._expander.feed(bytes(self._head)):
                self._text(piece)
        if truncated:
            self.info.truncated = True
        else:
            self._expander.close()
        self._begin_text(b"", final=True)
        if self._decoder is not None:
            self._scan(self._blocks.feed(self._decoder.close()))
        self._block(self._blocks.close())
        self.closed = True
        self._finish(self._record)

    def peek(self, record: Record) -> bool:
        """Take what is pending into ``record`` (a copy), for a report before the end; whether anything but blanks was pending."""
        if self.closed:
            return False
        mine = copy.copy(self)
        mine._record = record
        mine.keep = None
        mine.blank = True
        mine._open = copy.deepcopy(self._open)
        mine.info = copy.deepcopy(self.info)
        if self._text_head:
            # Too little has come to be sure of its encoding: it is read as what it looks like so far.
            mine._blocks = Blocks(self._limits)
            with contextlib.suppress(IntakeError):
                mine._scan(mine._blocks.feed(Decoder(bytes(self._text_head)).feed(bytes(self._text_head))))
        mine._block(mine._blocks.rest())
        mine._finish(record)
        self.info.lines, self.info.skipped_bytes = mine.info.lines, mine.info.skipped_bytes
        return not mine.blank

    def _text(self, piece: bytes) -> None:
        piece = self._begin_text(piece)
        if piece and self._decoder is not None:
            self._scan(self._blocks.feed(self._decoder.feed(piece)))

    def _begin_text(self, piece: bytes, *, final: bool = False) -> bytes:
        """Hold the first bytes back until they tell the encoding."""
        if self._text_head is None:
            return piece
        self._text_head += piece
        if len(self._text_head) < SNIFF and not final:
            return b""
        head = bytes(self._text_head)
        self._text_head = None
        try:
            self._decoder = Decoder(head)
        except IntakeError as error:
            raise IntakeError(error.code, f"{self.info.name}: {error}") from None
        if final and head:
            self._scan(self._blocks.feed(self._decoder.feed(head)))
            return b""
        return head

    def _scan(self, blocks: Iterable[Block]) -> None:
        for block in blocks:
            self._block(block)

    def _block(self, block: Block) -> None:
        if self.blank and block.data.strip():
            self.blank = False
        if self.keep is not None:
            self.keep(block.data[: block.limit])
        if block.last and self._first:
            # All there is: small enough to see whether a terminal broke its lines.
            lines = _lines(block.data)
            text = "\n".join(lines)
            wanted = any(anchor in text for anchor in anchors())
            hits, requests = self._runner.scan_text(block.data.decode("utf-8", "replace").split("\n"), block.first_line)
        else:
            hits, wanted, requests = self._runner.scan(block)
            lines = _lines(block.data[: block.limit]) if wanted or self._open else []
        self._first = False
        readings: list[tuple[int, int, Reading]] = []
        if wanted or self._open is not None:
            readings = self._readings(lines, block)
        record, index = self._record, self._index
        merged: list[tuple[int, int, Callable[[], None]]] = [(hit.line.number, 1, partial(record.take, hit, index)) for hit in hits]
        merged += [(line, 0, partial(record.take_reading, reading, index, first)) for line, first, reading in readings]
        if readings:
            merged.sort(key=lambda item: item[:2])
        for _, _, take in merged:
            take()
        if requests:
            record.count_requests(requests, Place(index, block.first_line, ""))

    def _readings(self, lines: list[str], block: Block) -> list[tuple[int, int, Reading]]:
        """(line at which it counts, first line of the page, reading) of the block's dumps; one that is cut waits for the next block."""
        first_line = block.first_line
        if self._open is not None:
            first_line, lines = self._open.first_line, self._open.lines + lines
            self._open = None
        whole = block.last and first_line == 1
        page = Page(self._redact(self.info.name), lines, first_line, whole=whole, redact=self._redact)
        found = []
        for reading in read_page(page):
            if reading.open and not block.last and sum(map(len, lines[reading.first :])) < OPEN_BYTES:
                self._open = _OpenLines(first_line + reading.first, lines[reading.first :])
                break
            found.append((first_line + reading.first, first_line, reading))
        return found

    def _finish(self, record: Record) -> None:
        self.info.lines = self._blocks.total_lines
        self.info.skipped_bytes = self._blocks.skipped_bytes
        record.end_input(self._index, self.info.lines)


def _lines(data: bytes) -> list[str]:
    """The lines of ``data`` as text without colours and line ends."""
    lines = [clean(line.rstrip("\r")) for line in data.decode("utf-8", "replace").split("\n")]
    if lines and not lines[-1]:
        lines.pop()
    return lines


def analyze(inputs: Iterable[Input], *, patterns: Sequence[Path] = (), limits: Limits = DEFAULT) -> Report:
    """The report on ``inputs``: paths, or (name, open binary file) pairs. No clock, no network, no configuration.

    Raises IntakeError for an input that cannot be read, OSError for a path that cannot be opened.
    """
    analysis = Analysis(patterns, limits)
    for given in inputs:
        if isinstance(given, tuple):
            name, stream = given
            _pump(stream, analysis.open(name))
        else:
            path = Path(given)
            with path.open("rb", buffering=0) as stream:
                _pump(stream, analysis.open(path.name))
    return analysis.report()


def _pump(stream: IO[bytes], sink: Sink) -> None:
    """Everything of ``stream`` into ``sink``, through one buffer."""
    readinto = getattr(stream, "readinto", None)
    if readinto is None:
        while piece := stream.read(READ_BYTES):
            sink.feed(piece)
    else:
        buffer = bytearray(READ_BYTES)
        view = memoryview(buffer)
        while size := readinto(buffer):
            sink.feed(bytes(view[:size]))
    sink.close()
