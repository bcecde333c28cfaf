"""A report → its row, and the rows that are asked across analyses. Whatever a log prints fits: no NUL, numbers within their column."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from analyzer.model.as_json import report_json
from analyzer.store.codec import pack

if TYPE_CHECKING:
    from analyzer.model import Report

Row = dict[str, Any]
_INT64 = 1 << 63


@dataclass(frozen=True, slots=True)
class ReportRows:
    """All that the store takes of a report: made before a transaction begins, and where the processor is free."""

    report: bytes  # analyzer/store/codec.py
    columns: Row  # of ``analyses``
    facts: list[Row]
    series: list[Row]
    findings: list[Row]
    fixes: list[Row]


def report_rows(report: Report) -> ReportRows:
    """The rows of ``report``, without the analysis's id."""
    return ReportRows(pack(report), outcome_columns(report), fact_rows(report), series_rows(report), finding_rows(report), fix_rows(report))


def clean_text(value: str, width: int | None = None) -> str:
    """``value`` as a database takes it: no NUL, no half surrogate pairs, at most ``width`` characters."""
    plain = value.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
    return plain if width is None else plain[:width]


def _words(value: str | None, width: int | None = None) -> str | None:
    return None if value is None else clean_text(value, width)


def _int(value: int | None) -> int | None:
    """``value``, or None where it is too large for a column: it stays in the report."""
    return value if value is not None and -_INT64 <= value < _INT64 else None


def _float(value: float) -> float | None:
    """``value`` as a finite double, or None."""
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def outcome_columns(report: Report) -> Row:
    """The columns of ``analyses`` that a report decides."""
    root = report.root
    return {
        "outcome_state": report.outcome.state.value,
        "stage": _words(report.outcome.stage, 32),
        "cause": _words(report.outcome.cause, 128),
        "confidence": report.outcome.confidence.value,
        "engine": _words(report.engine.name, 64),
        "version": _words(report.engine.version, 128),
        "title_en": _words(root.title.en if root else None),
        "title_zh": _words(root.title.zh if root else None),
        "input_names": clean_text("\n".join(info.name for info in report.inputs)),
        "input_bytes": sum(info.bytes for info in report.inputs),
        "library": clean_text(report.library, 64),
        "fingerprint": _words(report.fingerprint, 40),
        "likeness": _words(report.likeness),
    }


def fact_rows(report: Report) -> list[Row]:
    """Rows of ``facts``."""
    return [
        {
            "name": clean_text(fact.name, 128),
            "number": _float(fact.value) if isinstance(fact.value, (int, float)) else None,
            "words": clean_text(fact.value) if isinstance(fact.value, str) else None,
            "unit": clean_text(fact.unit, 32),
            "bytes": _int(_bytes(fact)),
            "attempt": fact.attempt,
            "rank": _int(fact.rank),
            "gpu": _int(fact.gpu),
            "pid": _int(fact.pid),
            "time": _words(fact.time),
            "input": clean_text(fact.source.input),
            "line": fact.source.line,
            "pattern": _words(fact.pattern, 128),
        }
        for fact in report.facts
    ]


def _bytes(fact: Any) -> int | None:
    try:
        size: int | None = fact.bytes
    except (OverflowError, ValueError):  # infinitely many, says the log
        return None
    return size


def series_rows(report: Report) -> list[Row]:
    """Rows of ``series``."""
    rows = []
    for series in report.series:
        values = [number for _, value in series.points if (number := _float(value)) is not None]
        rows.append(
            {
                "name": clean_text(series.name, 128),
                "unit": clean_text(series.unit, 32),
                "rank": _int(series.rank),
                "count": series.count,
                "lowest": min(values, default=None),
                "highest": max(values, default=None),
            }
        )
    return rows


def finding_rows(report: Report) -> list[Row]:
    """Rows of ``findings``."""
    return [
        {
            "cause": _words(finding.cause, 128),
            "severity": finding.severity.value,
            "confidence": finding.confidence.value,
            "root": finding.root,
            "consequence_of": _words(finding.consequence_of, 128),
            "stage": _words(finding.stage, 32),
            "pattern": _words(finding.pattern, 128),
            "title_en": clean_text(finding.title.en),
            "title_zh": clean_text(finding.title.zh),
        }
        for finding in report.findings
    ]


def fix_rows(report: Report) -> list[Row]:
    """Rows of ``fixes``."""
    shapes = report_json(report, "en")["findings"]
    return [
        {
            "finding": place,
            "title_en": clean_text(fix.title.en),
            "title_zh": clean_text(fix.title.zh),
            "changes": clean_text(json.dumps(shape["changes"], ensure_ascii=False)),
            "versions": _words(fix.versions),
            "verified": fix.verified,
        }
        for place, finding in enumerate(report.findings)
        for fix, shape in zip(finding.fixes, shapes[place]["fixes"], strict=True)
    ]
