"""A short name for a failure that stays the same from run to run, so that the same failure is counted under it, known cause or not.

It is made of the first error's message without everything that differs between two runs of the same failure: numbers, sizes, ids,
addresses, dates, paths and what was redacted. Lines, processes and versions do not enter.
"""

from __future__ import annotations

import hashlib
import re

from analyzer.diagnosis.verdict import Verdict
from analyzer.facts.view import View
from analyzer.intake.lines import parse
from analyzer.model import State

#: Hexadecimal digits of a fingerprint.
LENGTH = 16
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


def fingerprint(view: View, verdict: Verdict) -> str | None:
    """The fingerprint of a failure or degradation; None where nothing failed or no line stands for it."""
    if verdict.state not in (State.FAILED, State.DEGRADED) or verdict.event is None:
        return None
    place = verdict.event.places[0]
    message = normal(parse(view.source(place).text, place.line).body)
    return hashlib.sha256(f"{view.engine or ''}\n{message}".encode()).hexdigest()[:LENGTH]


def normal(message: str) -> str:
    """``message`` with a placeholder for each part that changes between runs of the same failure."""
    message = message[: 2 * COUNTED]
    for pattern, instead in _CHANGING:
        message = pattern.sub(instead, message)
    return _BLANKS.sub(" ", message).strip()[:COUNTED]
