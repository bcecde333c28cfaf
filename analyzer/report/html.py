"""The report as HTML: a fragment for the service's page, a whole document for a file. Text of the input is never markup."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from analyzer.intake.lines import parse
from analyzer.model import Report
from analyzer.model.units import gib
from analyzer.report import common, messages
from analyzer.report.layout import safe
from analyzer.report.messages import translator
from analyzer.report.svg import ledger_svg, memory_svg

if TYPE_CHECKING:
    from jinja2 import Environment

FOLDER = Path(__file__).resolve().parent / "templates"


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(FOLDER), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["gib"] = lambda size: f"{gib(size):.2f}"
    environment.filters["message"] = lambda text: safe(parse(text, 0).body)
    return environment


def fragment(report: Report, language: str, *, url: str | None = None) -> str:
    """The report's sections, for a page that brings head and styles (analyzer/report/templates/report.css)."""
    return _environment().get_template("report.html").render(_values(report, language, url))


def document(report: Report, language: str, *, url: str | None = None) -> str:
    """The report as one file that needs nothing beside it."""
    values = _values(report, language, url)
    values["style"] = styles()
    return _environment().get_template("document.html").render(values)


def styles() -> str:
    """The style sheet of a report."""
    return (FOLDER / "report.css").read_text(encoding="utf-8")


def _values(report: Report, language: str, url: str | None) -> dict[str, object]:
    _ = translator(language)
    shown = common.shown_ledgers(report)
    return {
        "_": _,
        "language": language,
        "report": report,
        "root": report.root,
        "others": [finding for finding in report.findings if finding is not report.root],
        "verdict": common.verdict(report, language, _),
        "engine_line": common.engine_line(report, _, None),
        "ledgers": [(ledger, alike, ledger_svg(ledger, f"ledger{place}", _)) for place, (ledger, alike) in enumerate(shown)],
        "memory": memory_svg(report.gpu_snapshots, "memory", _),
        "timeline": report.timeline,
        "step": lambda item: common.step(item, _),
        "longest": max((item.seconds for item in report.timeline), default=0),
        "names": {name: _(text) for name, text in messages.LINES.items()},
        "basis": {name: _(text) for name, text in messages.BASIS.items()},
        "stages": {name: _(text) for name, text in messages.STAGES.items()},
        "valid_in": lambda fix: common.valid_in(fix, report, _),
        "place": lambda source: common.place(source, report, _),
        "url": url,
    }
