"""What is fuzzed: bytes in, and either a result or an error that is known. Used by hypothesis and by the coverage-guided fuzzer."""

from __future__ import annotations

import io
import json
from functools import cache
from typing import TYPE_CHECKING

from analyzer import analyze
from analyzer.intake.errors import IntakeError
from analyzer.intake.limits import Limits
from analyzer.intake.redact import Redactor
from analyzer.patterns.load import load
from analyzer.patterns.runner import runner
from analyzer.readers import Page, anchors, read_page
from analyzer.report import render
from analyzer.web.problems import CODES

if TYPE_CHECKING:
    from collections.abc import Callable

#: Small, so that every bound is met by a small input.
LIMITS = Limits(
    max_body_bytes=1 << 20, max_expanded_bytes=1 << 20, max_line_bytes=2048, block_bytes=4096, max_files=8, expansion_grace_bytes=1 << 16
)


def intake(data: bytes) -> None:
    """The whole road: unpack, decode, scan, read, diagnose, render."""
    try:
        report = analyze([("fuzz", io.BytesIO(data))], limits=LIMITS)
    except IntakeError as error:
        code = error.code
    else:
        code = None
    if code is not None:
        assert code in CODES, code
        return
    json.loads(report.to_json())
    render(report, "text", "en")


def patterns(data: bytes) -> None:
    """The pattern library over lines, whatever they hold."""
    found = runner((), anchors())
    text = data.decode("utf-8", "replace")
    hits, _ = found.scan_text(text.split("\n"), 1)
    for hit in hits:
        assert hit.line.number >= 1


def readers(data: bytes) -> None:
    """The readers of dumps, commands and configurations."""
    lines = data.decode("utf-8", "replace").split("\n")
    redactor = Redactor(_rules())
    for reading in read_page(Page("fuzz", lines, 1, whole=True, redact=redactor.clean)):
        assert 0 <= reading.first <= len(lines)


def redaction(data: bytes) -> None:
    """What is clean stays as it is, and lines stay lines."""
    redactor = Redactor(_rules())
    text = data.decode("utf-8", "replace")
    cleaned = redactor.clean(text)
    assert cleaned.count("\n") == text.count("\n")
    assert redactor.clean(cleaned) == cleaned


@cache
def _rules() -> tuple[object, ...]:
    return load().redactions  # type: ignore[return-value]


TARGETS: dict[str, Callable[[bytes], None]] = {"intake": intake, "patterns": patterns, "readers": readers, "redaction": redaction}
