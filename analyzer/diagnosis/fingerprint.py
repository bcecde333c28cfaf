"""A short name for a failure that stays the same from run to run, so that the same failure is counted under it, known cause or not.

What it is made of is its likeness, which says why two reports have the same one:

- a known cause: the engine and the cause, since one failure is worded anew from version to version; where the cause is a name that
  somebody wrote (an unknown flag), the names too;
- an unknown one: the engine and the first error's message without everything that differs between two runs of the same failure:
  numbers, sizes, ids, addresses, dates, paths and what was redacted.

Lines, processes, ranks and versions do not enter.
"""

from __future__ import annotations

import hashlib
import re

from analyzer.diagnosis.verdict import Verdict
from analyzer.facts.view import View
from analyzer.intake.lines import parse
from analyzer.model import State

#: Of the rules below: fingerprints of different versions are not compared.
VERSION = 2
#: Hexadecimal digits of a fingerprint.
LENGTH = 16
#: What a likeness rests on.
CAUSE, MESSAGE = "cause", "message"
#: Causes of which the flags that the message names are a part.
NAMING = frozenset({"args.unknown_flag"})
_FLAG = re.compile(r"(?<![\w-])--[A-Za-z][\w-]*")
#: What differs from run to run, in this order: longer shapes first.
_CHANGING = (
    (re.compile(r"https?://\S+"), "<url>"),
    (re.compile(r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"), "<id>"),
    (re.compile(r"(?:[A-Za-z]:\\|~?/)[\w.@+~-]+(?:[/\\][\w.@+~:-]+)*/?"), "<path>"),
    (re.compile(r"\b(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?\b|\b(?:[0-9a-fA-F]{0,4}:){3,7}[0-9a-fA-F]{0,4}\b"), "<address>"),
    (re.compile(r"\d{4}[-/]\d\d[-/]\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:[.,]\d+)?)?|\d\d:\d\d:\d\d(?:[.,]\d+)?"), "<time>"),
    (re.compile(r"\b0x[0-9a-fA-F]+\b|\b(?=[0-9a-fA-F]*\d)(?=[0-9a-fA-F]*[a-fA-F])[0-9a-fA-F]{8,}\b"), "<id>"),
    (re.compile(r"<[a-z]+-\d+>"), "<redacted>"),
    (re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d+)?(?:\s?(?:[KMGT]i?)?B\b)?"), "<n>"),
)  # fmt: skip
_BLANKS = re.compile(r"\s+")
#: Characters of a message that count; what follows is mostly data.
COUNTED = 600


def likeness(view: View, verdict: Verdict) -> str | None:
    """What the fingerprint of a failure or degradation is made of: ``cause`` or ``message``, the engine and the words, a line each.

    None where nothing failed, or nothing stands for it.
    """
    if verdict.state not in (State.FAILED, State.DEGRADED):
        return None
    message = ""
    if verdict.event is not None:
        place = verdict.event.places[0]
        message = parse(view.source(place).text, place.line).body
    if verdict.cause is not None:
        names = sorted(set(_FLAG.findall(message))) if verdict.cause in NAMING else []
        return _lines(CAUSE, view.engine, " ".join([verdict.cause, *names]))
    return _lines(MESSAGE, view.engine, normal(message)) if verdict.event is not None else None


def _lines(basis: str, engine: str | None, words: str) -> str:
    return f"{basis}\n{engine or ''}\n{words}"


def fingerprint(alike: str) -> str:
    """The fingerprint that stands for a likeness: its rules' version, and a hash."""
    return f"{VERSION}.{hashlib.sha256(alike.encode()).hexdigest()[:LENGTH]}"


def normal(message: str) -> str:
    """``message`` with a placeholder for each part that changes between runs of the same failure."""
    message = message[: 2 * COUNTED]
    for pattern, instead in _CHANGING:
        message = pattern.sub(instead, message)
    return _BLANKS.sub(" ", message).strip()[:COUNTED]
