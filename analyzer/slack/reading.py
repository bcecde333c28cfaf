"""Texts and files of a thread → one analysis of all of them: what cannot be read is named and left out, the rest is read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from analyzer.intake.errors import IntakeError
from analyzer.model.message import Message
from analyzer.model.report import State
from analyzer.web.problems import Problem
from analyzer.web.upload import Outcome, Upload, clean_name

if TYPE_CHECKING:
    from analyzer.model import Report
    from analyzer.patterns.model import Library
    from analyzer.settings import Settings
    from analyzer.store.values import KeptInput

#: Less than this, in which nothing is recognised, is talk; no line of a log is as short as the other.
MIN_CHARS, MIN_LINE = 60, 12
_FENCED = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_CHINESE = re.compile(r"[\u4e00-\u9fff]")
#: Segments that people's talk gives as well.
_TALK = frozenset({"text", "launch-command"})


@dataclass(frozen=True, slots=True)
class Item:
    """One input. ``ids``: the messages or the file that it came from; ``cut``: its sender or Slack cut it; ``file``: it was one."""

    name: str
    data: bytes
    ids: tuple[str, ...]
    cut: bool = False
    file: bool = False


@dataclass(frozen=True, slots=True)
class Read:
    """What came of it; ``outcome`` is None where nothing could be read. ``ids``: of what was."""

    outcome: Outcome | None
    ids: frozenset[str]
    notes: tuple[Message, ...]


def read(settings: Settings, library: Library, earlier: Sequence[KeptInput], items: Sequence[Item], *, keep: bool = True) -> Read:
    """Analyse ``items`` together with what is stored. Raises Problem where that takes too much time, IntakeError for what is stored."""
    left = list(items)
    notes: list[Message] = []
    while left:
        upload = Upload(settings, library, keep=keep)
        try:
            upload.replay(earlier)
            wrong = _feed(upload, left)
            if wrong is not None:
                item, error = wrong
                left.remove(item)
                notes.append(Message("{name}: {reason}", name=item.name, reason=error.message))
                continue
            outcome = upload.finish()
        except IntakeError as error:
            notes.append(error.message)
            break
        else:
            return Read(outcome, frozenset(name for item in left for name in item.ids), tuple(notes))
        finally:
            upload.discard()
    return Read(None, frozenset(), tuple(notes))


def _feed(upload: Upload, items: Sequence[Item]) -> tuple[Item, IntakeError] | None:
    """The first item that cannot be read, and why; None where all can."""
    for item in items:
        try:
            incoming = upload.open(clean_name(item.name, "input"))
            upload.feed(incoming, item.data)
            upload.close(incoming, truncated=item.cut)
        except IntakeError as error:
            return item, error
    return None


def alone(settings: Settings, library: Library, item: Item) -> Report | None:
    """The report on one item, not to be kept; None where it cannot be read."""
    if len(item.data) < MIN_LINE:
        return None
    try:
        outcome = read(settings, library, (), [item], keep=False).outcome
    except Problem:
        return None
    return None if outcome is None else outcome.report


def telling(report: Report | None, *, asked: bool) -> bool:
    """Whether something of a server, a GPU or a kernel was recognised. A launch command counts only where it was asked for."""
    if report is None:
        return False
    kinds = {segment.kind for info in report.inputs for segment in info.segments}
    return bool(kinds - (_TALK - {"launch-command"} if asked else _TALK)) or report.outcome.cause is not None


def certain_failure(report: Report | None) -> bool:
    """Whether a message that nobody asked about may be answered."""
    if report is None or report.outcome.state is not State.FAILED or report.outcome.cause is None:
        return False
    return report.outcome.confidence.value == "certain"


def language_of(text: str, otherwise: str) -> str:
    """The language in which somebody asks: Chinese where what they say beside the log has Chinese characters."""
    return "zh" if len(_CHINESE.findall(_FENCED.sub("", text))) >= 2 else otherwise
