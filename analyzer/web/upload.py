"""An upload: bytes into the analysis, redacted text aside for the store. Runs in worker threads, one call at a time."""

from __future__ import annotations

import re
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from analyzer.analysis import Analysis, Given, Sink
from analyzer.intake.errors import IntakeError
from analyzer.intake.redact import Redactor, redact_lines
from analyzer.store.keep import Keeper
from analyzer.store.values import KeptInput
from analyzer.web.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from analyzer.analysis import Keep
    from analyzer.intake.blocks import Block
    from analyzer.intake.limits import Limits
    from analyzer.model import Report
    from analyzer.patterns.model import Library
    from analyzer.settings import Settings
    from analyzer.store.rows import ReportRows

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_NAME_LENGTH = 200


def clean_name(name: str, default: str) -> str:
    """The name of an input as a sender gave it: a file's own name, without control characters; ``default`` where nothing is left."""
    last = PurePosixPath(name.replace("\\", "/")).name
    return _CONTROL.sub("", last).strip()[:_NAME_LENGTH] or default


@dataclass(slots=True)
class Incoming:
    """One input that is being read; an archive has a keeper a member."""

    given: Given


@dataclass(frozen=True, slots=True)
class Outcome:
    """A finished upload: the report on everything, and the inputs that are to be stored."""

    report: Report
    inputs: tuple[KeptInput, ...]
    rows: ReportRows | None = None  # of a report that is to be stored, where they were made beside the analysis


class Upload:
    """All inputs of one request. Raises IntakeError for what cannot be read, Problem where it takes too much time."""

    def __init__(self, settings: Settings, library: Library, *, encoded: bool = False, keep: bool = True) -> None:
        """``encoded``: bytes come out of a Content-Encoding, so the limit of a body does not count here. ``keep``: texts are kept."""
        limits = settings.limits
        if encoded:
            limits = replace(limits, max_body_bytes=limits.max_expanded_bytes)
        self._settings = settings
        self._analysis = self._begin(settings, limits)
        self._redactor = Redactor(library.redactions)
        self._keep = keep
        self._earlier: list[KeptInput] = []
        self._keepers: list[Keeper] = []
        self._seconds = 0.0

    def _begin(self, settings: Settings, limits: Limits) -> Analysis:
        return Analysis(settings.patterns, limits)

    def replay(self, stored: Sequence[KeptInput]) -> None:
        """Read stored inputs first: what comes after them is analysed together with them."""
        for kept in stored:
            sink = self._analysis.open(kept.name)
            for piece in kept.text.pieces():
                text = piece.decode("utf-8", "replace")
                self._redactor.prime(text)
                self._analysis.redactor.prime(text)
                with self._work():
                    sink.feed(piece)
            with self._work():
                sink.close(truncated=kept.truncated)
            self._earlier.append(kept)

    def open(self, name: str) -> Incoming:
        """Begin the next input."""
        if not self._keep:
            return Incoming(self._analysis.open(name))
        return Incoming(self._analysis.open(name, self._kept(), self._kept))

    def _kept(self) -> Keep:
        """Where the next text is kept. The one before it is over."""
        if self._keepers:
            self._keepers[-1].close()
        keeper = Keeper(_cleaner(self._redactor), self._settings.stored_head_bytes, self._settings.stored_tail_bytes)
        self._keepers.append(keeper)
        return keeper.feed

    def feed(self, incoming: Incoming, data: bytes) -> None:
        """The next bytes of an input."""
        with self._work():
            incoming.given.feed(data)

    def close(self, incoming: Incoming, *, truncated: bool = False) -> None:
        """An input is over."""
        with self._work():
            incoming.given.close(truncated=truncated)
            if self._keepers:
                self._keepers[-1].close()

    def now(self) -> Report | None:
        """What is known before the end; None where nothing but blanks has come. The last report is the same without it.

        Its time is bounded by how often it is asked for, and does not count as that of the analysis.
        """
        try:
            return self._analysis.report()
        except IntakeError:
            return None

    def finish(self) -> Outcome:
        """The report. To be called once."""
        with self._work():
            report = self._analysis.report()
            for info, kept in zip(report.inputs, self._earlier, strict=False):
                info.bytes, info.skipped_bytes, info.truncated = kept.sent_bytes, kept.skipped_bytes, kept.truncated
            inputs = []
            if self._keep:
                # A stand-in is the same secret in the report and in the text that is stored.
                renumber = self._redactor.renumbering(self._analysis.redactor)
                for info, keeper in zip(report.inputs[len(self._earlier) :], self._keepers, strict=True):
                    inputs.append(KeptInput(info.name, keeper.finish(renumber), info.bytes, info.skipped_bytes, info.truncated))
        return Outcome(report, tuple(inputs))

    def discard(self) -> None:
        """Forget what was kept."""
        for keeper in self._keepers:
            keeper.discard()

    @contextmanager
    def _work(self) -> Iterator[None]:
        start = time.thread_time()
        yield
        self._seconds += time.thread_time() - start
        if self._seconds > self._settings.analysis_cpu_seconds:
            raise Problem(
                "unavailable",
                "reading this takes more than {seconds} s of processor time; send the head and the tail of the log",
                seconds=format(self._settings.analysis_cpu_seconds, "g"),
            )


class _TextSink(Sink):
    """Takes a text apart and keeps it, and looks for nothing in it."""

    def _block(self, block: Block) -> None:
        if self.blank and block.data.strip():
            self.blank = False
        if self.keep is not None:
            self.keep(block.data[: block.limit], False)


class TextUpload(Upload):
    """An upload whose texts are kept, to be analysed later."""

    def _begin(self, settings: Settings, limits: Limits) -> Analysis:
        return Analysis(settings.patterns, limits, sink=_TextSink)

    def texts(self) -> tuple[KeptInput, ...]:
        """What was kept. To be called once, instead of ``finish``. Raises IntakeError where nothing but blanks has come."""
        with self._work():
            infos = self._analysis.read_inputs()
            return tuple(
                KeptInput(self._redactor.clean(info.name), keeper.finish(), info.bytes, info.skipped_bytes, info.truncated)
                for info, keeper in zip(infos, self._keepers, strict=True)
            )


def _cleaner(redactor: Redactor) -> Callable[[str], str]:
    """``redactor`` for the blocks of one input: what runs over a block's end (a private key) is still seen."""
    waiting: list[str] = []
    clean = redact_lines(redactor, iter(waiting.pop, None))

    def one(text: str) -> str:
        waiting.append(text)
        return next(clean)

    return one
