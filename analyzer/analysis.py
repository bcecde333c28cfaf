"""The loop around the road: bytes are fed in as they come, a report can be asked for at any moment.

What is kept is bounded, and the report is the same however the bytes were cut.
"""

from __future__ import annotations

import contextlib
import copy
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from analyzer.facts.observation import Place
from analyzer.facts.record import Record
from analyzer.intake.blocks import Block, Blocks
from analyzer.intake.decode import SNIFF, Decoder
from analyzer.intake.decompress import Total
from analyzer.intake.errors import IntakeError
from analyzer.intake.limits import DEFAULT, Limits
from analyzer.intake.lines import clean, clean_lines
from analyzer.intake.redact import Redactor
from analyzer.intake.unpack import unpacker
from analyzer.intake.wrappers import stripped
from analyzer.model import InputInfo, Report
from analyzer.model.message import Message
from analyzer.patterns.runner import Runner, runner
from analyzer.readers import Page, Reading, anchors, read_page

#: Bytes read from a file at once.
READ_BYTES = 1 << 20
#: Most bytes of a dump that is cut by a block's end and read again with the next one.
OPEN_BYTES = 4 << 20

_NAME_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_NAME_LENGTH = 200
_HOMES = ("home", "Users")

#: Takes an input's text, in blocks of whole lines, and whether the server is started anew in one.
Keep = Callable[[bytes, bool], None]
#: A path, or a name with an open binary file.
Input = str | Path | tuple[str, IO[bytes]]


class Analysis:
    """One analysis of any number of inputs, which are opened one after the other."""

    def __init__(
        self, patterns: Sequence[Path] = (), limits: Limits = DEFAULT, *, sink: type[Sink] | None = None, library: Runner | None = None
    ) -> None:
        """``patterns``: folders of a user's own patterns. ``sink``: what takes a text. ``library``: instead of this
        installation's. Raises LibraryError where one of them is wrong."""
        self._runner: Runner = library or runner(tuple(patterns), anchors())
        self._limits = limits
        self._total = Total(limits)
        self._sinks: list[Sink] = []
        self._kind = sink or Sink
        self.redactor = Redactor(self._runner.library.redactions)
        self._record = Record(redact=self.redactor.clean)

    def open(self, name: str, keep: Keep | None = None, keep_member: Callable[[], Keep] | None = None) -> Given:
        """Begin the next input, which may be compressed or an archive. Raises IntakeError where there are too many.

        ``keep`` is given its text as it was read: UTF-8, whole lines, not redacted. Of an archive that is the text of the first
        member; for each further one ``keep_member`` is asked for another.
        """
        return Given(name, self._sink(name, keep), self._limits, self._total, partial(self._member, keep_member))

    def _member(self, keep_member: Callable[[], Keep] | None, name: str) -> Sink:
        """A further member of an archive."""
        return self._sink(name, keep_member() if keep_member else None)

    def _sink(self, name: str, keep: Keep | None) -> Sink:
        if len(self._sinks) >= self._limits.max_files:
            raise IntakeError("input_too_large", "more than {count} files in one analysis; send fewer", count=self._limits.max_files)
        sink = self._kind(_plain(name), len(self._sinks), self._runner, self._record, self._limits, self.redactor.clean)
        sink.keep = keep
        self._sinks.append(sink)
        return sink

    def report(self) -> Report:
        """What is known now. Raises IntakeError (empty_input) where nothing but blanks has come.

        One that is asked for before the end leaves no trace: the last one is the same without it.
        """
        if all(sink.closed for sink in self._sinks):
            return self._report(self._record, blank=all(sink.blank for sink in self._sinks))
        record = copy.deepcopy(self._record, {id(self.redactor): self.redactor})  # all but the redactor, which has a copy's own means
        with self.redactor.aside():
            pending = [sink.peek(record) for sink in self._sinks]
            return self._report(record, blank=all(sink.blank for sink in self._sinks) and not any(pending))

    def read_inputs(self) -> list[InputInfo]:
        """What was read, without a report. Raises IntakeError (empty_input) where nothing but blanks has come."""
        self._refuse(all(sink.blank for sink in self._sinks))
        return [sink.info for sink in self._sinks]

    def _refuse(self, blank: bool) -> None:
        if blank:
            raise IntakeError(
                "empty_input",
                "nothing to read in {names}; send the text that the server printed, e.g. `vllm serve … 2>&1 | …`",
                names=", ".join(sink.info.name for sink in self._sinks) or Message("no input"),
            )

    def _report(self, record: Record, *, blank: bool) -> Report:
        from analyzer.diagnosis.diagnose import diagnose

        self._refuse(blank)
        return diagnose(record, [sink.info for sink in self._sinks], self._runner.library, self.redactor)


class Given:
    """One input as it is given: bytes of whatever its texts are packed in."""

    def __init__(self, name: str, first: Sink, limits: Limits, total: Total, further: Callable[[str], Sink]) -> None:
        self.name = name
        self._first = first
        self._last = first
        self._taken = False  # the first sink has its text
        self._further = further
        self._limits = limits
        self._total = total
        self._sent = 0
        self._layers = unpacker(self._text, limits, total)
        first.undecided = lambda: self._layers.undecided

    def feed(self, data: bytes) -> None:
        """Take the next piece. Raises IntakeError for what cannot be read (packed data damaged or too large, no text)."""
        self._sent += len(data)
        self._total.sent += len(data)
        if not (self._taken and self._last.member):
            self._first.info.bytes = self._sent
        if self._sent > self._limits.max_body_bytes:
            raise IntakeError(
                "input_too_large",
                "{name} is larger than {limit} bytes; the head (up to the first requests) and the tail of the log suffice",
                name=self.name,
                limit=self._limits.max_body_bytes,
            )
        self._layers.feed(data)

    def close(self, *, truncated: bool = False) -> None:
        """The input is over. ``truncated``: it was cut by its sender or by a limit. Raises IntakeError as feed does."""
        self._layers.close(truncated=truncated)
        if not self._first.closed:  # an archive without a member that is read
            self._first.close()
        if truncated:
            self._last.info.truncated = True

    def _text(self, member: str | None) -> Sink:
        """A text inside: the input itself, or a member of it."""
        if member is not None:
            member = member_name(member)
            if self._taken:
                self._last = self._further(member)
            self._last.member = True
            self._last.info.name = member
            self._last.info.bytes = 0
        self._taken = True
        return self._last


def member_name(path: str) -> str:
    """The path of a member in its archive as a name: relative, without steps upwards, its end where it is long."""
    parts = [part for part in path.replace("\\", "/").split("/") if part not in ("", ".", "..")]
    absolute = "/" if parts[:1] and parts[0] in _HOMES else ""  # archives leave the first stroke out; with it a user's name is seen as one
    return _NAME_CONTROL.sub("", absolute + "/".join(parts)).strip()[-_NAME_LENGTH:] or "member"


def _plain(name: str) -> str:
    """A file's name as it may be shown anywhere: nothing in it steers a terminal or turns the text around."""
    return "".join(char if char.isprintable() else " " for char in clean(name)) or "input"


@dataclass(slots=True)
class _OpenLines:
    """A dump that reached the end of a block: read again, together with the next one."""

    first_line: int
    lines: list[str]


class Sink:
    """Where the bytes of one text go."""

    def __init__(self, name: str, index: int, library: Runner, record: Record, limits: Limits, redact: Callable[[str], str]) -> None:
        self.info = InputInfo(name)
        self.closed = False
        self.blank = True
        self.member = False  # of an archive: one that is no text spoils nothing
        self.keep: Keep | None = None
        self.undecided: Callable[[], bytes] = bytes
        self._no_text = False
        self._index = index
        self._runner = library
        self._record = record
        self._limits = limits
        self._redact = redact
        self._text_head: bytearray | None = bytearray()
        self._decoder: Decoder | None = None
        self._blocks = Blocks(limits)
        self._open: _OpenLines | None = None
        self._first = True

    def feed(self, data: bytes) -> None:
        """The next bytes of the text. Raises IntakeError where it is none; what is none in an archive is skipped and counted."""
        if self.member:
            self.info.bytes += len(data)
        if self._no_text:
            self.info.skipped_bytes += len(data)
            return
        piece = self._begin_text(data)
        if piece and self._decoder is not None:
            self._scan(self._blocks.feed(self._decoder.feed(piece)))

    def close(self, *, truncated: bool = False) -> None:
        """The text is over."""
        self.info.truncated = truncated
        self._begin_text(b"", final=True)
        if self._decoder is not None:
            self._scan(self._blocks.feed(self._decoder.close()))
        if not self._no_text:
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
        head = bytes(self._text_head or b"") + self.undecided()
        if head:
            # Too little has come to be sure of its encoding: it is read as what it looks like so far.
            mine._blocks = Blocks(self._limits)
            with contextlib.suppress(IntakeError):
                mine._scan(mine._blocks.feed(Decoder(head).feed(head)))
        mine._block(mine._blocks.rest())
        mine._finish(record)
        self.info.lines, self.info.skipped_bytes = mine.info.lines, mine.info.skipped_bytes
        return not mine.blank

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
            if not self.member:
                raise IntakeError(error.code, "{name}: {reason}", name=self.info.name, reason=error.message) from None
            self._no_text = True
            self.info.skipped_bytes += len(head)
            return b""
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
        started = self._record.attempts[-1].index if self._record.attempts else -1
        held: frozenset[str] | None = None
        if block.last and self._first:
            # All there is: small enough to see whether a terminal broke its lines.
            lines = _lines(block.data)
            lines = stripped(lines) or lines
            text = "\n".join(lines)
            held = self._runner.literals_in(text)
            wanted = not held.isdisjoint(anchors())
            hits, requests = self._runner.scan_text(block.data.decode("utf-8", "replace").split("\n"), block.first_line)
        else:
            hits, wanted, requests = self._runner.scan(block)
            lines = _lines(block.data[: block.limit]) if wanted or self._open else []
        self._first = False
        readings: list[tuple[int, int, Reading]] = []
        if wanted or self._open is not None:
            readings = self._readings(lines, block, held)
        record, index = self._record, self._index
        merged: list[tuple[int, int, Callable[[], None]]] = [(hit.line.number, 1, partial(record.take, hit, index)) for hit in hits]
        merged += [(line, 0, partial(record.take_reading, reading, index, first)) for line, first, reading in readings]
        if readings:
            merged.sort(key=lambda item: item[:2])
        for _, _, take in merged:
            take()
        if requests:
            record.count_requests(requests, Place(index, block.first_line, ""))
        if self.keep is not None:
            self.keep(block.data[: block.limit], bool(record.attempts) and record.attempts[-1].index != started)

    def _readings(self, lines: list[str], block: Block, held: frozenset[str] | None) -> list[tuple[int, int, Reading]]:
        """(line at which it counts, first line of the page, reading) of the block's dumps; one that is cut waits for the next block."""
        first_line = block.first_line
        if self._open is not None:
            first_line, lines = self._open.first_line, self._open.lines + lines
            self._open = None
        whole = block.last and first_line == 1
        page = Page(self._redact(self.info.name), lines, first_line, whole=whole, redact=self._redact, found=self._runner.literals_in)
        page.held = held
        found = []
        for reading in read_page(page):
            if reading.open and not block.last and sum(map(len, lines[reading.first :])) < OPEN_BYTES:
                self._open = _OpenLines(first_line + reading.first, lines[reading.first :])
                break
            found.append((first_line + reading.first, first_line, reading))
        return found

    def _finish(self, record: Record) -> None:
        self.info.lines = self._blocks.total_lines
        if not self._no_text:
            self.info.skipped_bytes = self._blocks.skipped_bytes
        record.end_input(self._index, self.info.lines)


def _lines(data: bytes) -> list[str]:
    """The lines of ``data`` as text without colours and line ends."""
    lines = clean_lines(data)
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


def _pump(stream: IO[bytes], sink: Given) -> None:
    """Everything of ``stream`` into ``sink``."""
    while piece := stream.read(READ_BYTES):
        sink.feed(piece)
    sink.close()
