"""The report as HTML: sections for the service's page, a whole document for a file. One template; text of the input is never markup."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from analyzer.intake.lines import parse
from analyzer.model import FlagChange, Ledger, Report, Source, TimelineStep
from analyzer.model.units import gib
from analyzer.report import common, gpus, messages
from analyzer.report.charts import memory_svg, series_svgs
from analyzer.report.compare import lines as line_differences
from analyzer.report.fine import passed_checks, passed_stages
from analyzer.report.layout import safe
from analyzer.report.messages import N_, Translate, translator
from analyzer.report.svg import Anchor, basis_key, change_svg, has_basis, ledger_svg, swatch

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES = Path(__file__).resolve().parent / "templates"
STATIC = Path(__file__).resolve().parent / "static"
#: Lines of a report that are shown with their text where the log itself is not at hand.
_CITED = 200


def equip(environment: Environment) -> None:
    """Gives an environment what the report's templates use."""
    environment.filters["gib"] = lambda size: f"{gib(size):.2f}"
    environment.filters["message"] = lambda text: safe(parse(text, 0).body)
    environment.filters["plain"] = safe
    environment.filters["ticks"] = ticks
    environment.globals["swatch"] = lambda name: Markup(swatch(name))  # noqa: S704 - drawn here, from a name of ours
    environment.globals["basis_key"] = lambda basis, identifier: Markup(basis_key(basis, identifier))  # noqa: S704 - drawn here


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    equip(environment)
    return environment


def document(report: Report, language: str, *, url: str | None = None) -> str:
    """The report as one file that needs nothing beside it."""
    # The style sheet is a file of ours; the template puts it in as it is.
    return _environment().get_template("document.html").render({**values(report, language, url), "style": styles(), "web": None})


def ticks(text: str) -> Markup:
    """``text`` escaped, with what stands between backticks as code."""
    pieces = safe(text).split("`")
    if len(pieces) % 2 == 0:
        return escape(safe(text))
    drawn = (Markup("<code>{}</code>").format(piece) if place % 2 else escape(piece) for place, piece in enumerate(pieces))
    return Markup("").join(drawn)


def styles() -> str:
    """The style sheet of a report."""
    return (STATIC / "report.css").read_text(encoding="utf-8")


def values(report: Report, language: str, url: str | None) -> dict[str, Any]:
    """What the report's template needs."""
    _ = translator(language)
    anchor = anchors(report)
    shown = common.shown_ledgers(report)
    root = report.root
    return {
        "_": _,
        "language": language,
        "report": report,
        "root": root,
        "others": [finding for finding in report.findings if finding is not root],
        "verdict": common.verdict(report, language, _),
        "heading": heading(report, language, _),
        "engine_line": common.engine_line(report, _, None),
        "ledgers": [_ledger(ledger, alike, f"ledger{place}", _, anchor) for place, (ledger, alike) in enumerate(shown)],
        "pictures": _fix_pictures(report, _) if root else [],
        "memory": Markup(memory_svg(report.gpu_snapshots, "memory", _)),  # noqa: S704 - drawn here, texts escaped
        "series": [(title, Markup(drawn)) for title, drawn in series_svgs(report.series, "series", _)],  # noqa: S704 - the same
        "tables": gpus.tables(report, _),
        "over_time": gpus.over_time(report.gpu_snapshots, _),
        "timeline": _timeline(report, _),
        "fine": _fine(report, language, _),
        "names": {name: _(text) for name, text in messages.LINES.items()},
        "basis": {name: _(text) for name, text in messages.BASIS.items()},
        "confidence": {name: _(text) for name, text in messages.CONFIDENCE.items()},
        "states": {name: _(text) for name, text in messages.STATES.items()},
        "stages": {name: _(text) for name, text in messages.STAGES.items()},
        "moment": common.moment(report, _),
        "steps": lambda fix: common.steps(fix, language),
        "change": lambda item: common.change(item, language),
        "typed": typed,
        "valid_in": lambda fix: common.valid_in(fix, report, _),
        "formula": lambda text: common.formula(text, _),
        "place": lambda source: common.place(source, report, _),
        "anchor": anchor,
        "cited": cited(report),
        "url": url,
    }


def anchors(report: Report) -> Anchor:
    """Where a line is on the page: ``#L25`` of the first input, ``#F2L25`` of the second."""
    order = {info.name: place for place, info in reversed([*enumerate(report.inputs, 1)])}

    def anchor(source: Source) -> str:
        place = order.get(source.input, 1)
        return f"#L{source.line}" if place == 1 else f"#F{place}L{source.line}"

    return anchor


def cited(report: Report) -> list[Source]:
    """Every line that the report rests on, once each, in the inputs' order."""
    order = {info.name: place for place, info in enumerate(report.inputs)}
    found = {(order.get(source.input, 0), source.line): source for source in _sources(report) if source.line > 0}
    return [found[key] for key in sorted(found)][:_CITED]


def _sources(report: Report) -> Iterator[Source]:
    for finding in reversed(report.findings):
        yield from finding.evidence
    for ledger in report.ledgers:
        yield from (line.source for line in ledger.lines if line.source is not None)
    yield from (step.source for step in report.timeline)


def typed(changes: Any) -> str:
    """What one would type for a fix: its flags and values; empty where it is nothing to type."""
    flags = [item for item in changes if isinstance(item, FlagChange) and item.to is not None and item.to is not False]
    return " ".join(item.flag if item.to is True else f"{item.flag} {item.to}" for item in flags)


def heading(report: Report, language: str, _: Translate) -> str:
    """What happened, in one line."""
    if report.root is not None:
        return report.root.title.get(language)
    outcome = report.outcome
    if outcome.stage is not None:
        return _(N_("It came to this stage: {stage}")).format(stage=_(messages.STAGES[outcome.stage]))
    return _(N_("These inputs do not show what happened"))


def _fine(report: Report, language: str, _: Translate) -> list[str]:
    """What was checked and is fine, in words."""
    stages = [_(N_("{stage}: done")).format(stage=_(messages.STAGES[name])) for name in passed_stages(report)]
    return [*stages, *passed_checks(report, language)]


def _ledger(ledger: Ledger, alike: list[int], identifier: str, _: Translate, anchor: Anchor) -> dict[str, Any]:
    return {
        "ledger": ledger,
        "id": identifier,
        "alike": [index for index in alike if index >= 0],
        "picture": Markup(ledger_svg(ledger, identifier, _, anchor)),  # noqa: S704 - drawn here, texts escaped
        "bases": [basis for basis in ("measured", "derived", "estimated") if any(line.basis == basis for line in ledger.lines)],
        "hatched": any(has_basis(ledger, line.basis) for line in ledger.lines if line.basis != "measured"),
    }


def _fix_pictures(report: Report, _: Translate) -> list[dict[str, Any] | None]:
    """For each fix of the root finding: the bars before and after it, and the lines that change."""
    assert report.root is not None
    found: list[dict[str, Any] | None] = []
    for place, fix in enumerate(report.root.fixes):
        before = _same_gpu(report, fix.predicted) if fix.predicted is not None else None
        if fix.predicted is None or before is None:
            found.append(None)
            continue
        picture = change_svg(before, fix.predicted, f"fix{place}", _)
        changed = [line for line in line_differences(before, fix.predicted) if line.change is not None and line.differs]
        found.append({"picture": Markup(picture), "lines": changed})  # noqa: S704 - drawn here, texts escaped
    return found


def _same_gpu(report: Report, predicted: Ledger) -> Ledger | None:
    alike = [ledger for ledger in report.ledgers if (ledger.gpu, ledger.rank) == (predicted.gpu, predicted.rank)]
    return next(iter([*alike, *report.ledgers]), None)


def _timeline(report: Report, _: Translate) -> list[dict[str, Any]]:
    """The steps of the start, each followed by its parts, with the share of the longest that each took."""
    longest = max((step.seconds for step in report.timeline), default=0.0)
    if longest <= 0:
        return []
    ordered = [step for whole in report.timeline if whole.within is None for step in (whole, *_parts(report, whole.name))]
    return [
        {"step": step, "name": _(messages.STEPS.get(step.name, step.name)), "share": f"{min(step.seconds / longest, 1.0) * 100:.2f}"}
        for step in ordered
    ]


def _parts(report: Report, name: str) -> list[TimelineStep]:
    return [step for step in report.timeline if step.within == name]
