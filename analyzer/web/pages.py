"""The pages' templates, and what goes into them. Text of an input is never markup: everything is escaped."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import Response

from analyzer.model.contract import report_json
from analyzer.model.text import LANGUAGES
from analyzer.model.units import human
from analyzer.web.answers import Stored, base_url, moment, page_url
from analyzer.web.problems import encoded
from analyzer.web.service import service
from analyzer.web.words import Words

if TYPE_CHECKING:
    from starlette.requests import Request

    from analyzer.model import Report
    from analyzer.patterns.model import Pattern
    from analyzer.web.problems import Problem

#: What each language calls itself.
LANGUAGE_NAMES = {"en": "English", "zh": "中文"}


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("analyzer.web", "templates"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    made.filters["size"] = human
    made.filters["change"] = change_text
    return made


def change_text(change: dict[str, Any], words: Words) -> str:
    """A change of a fix as one would say it: ``--gpu-memory-utilization 0.95 → 0.9``."""
    if "action" in change:
        return str(change["action"])
    name = change.get("flag") or change.get("env") or f"{change.get('of', '')} {change.get('option', '')}".strip()
    after = change.get("to")
    if after is None:
        return f"{name}: {words.remove_flag}"
    if after is True:
        return str(name)
    before = change.get("from")
    return f"{name} {before} → {after}" if before is not None else f"{name} {after}"


def fill(template: str, language: str, **values: Any) -> str:
    """The page ``template`` in ``language``."""
    return _environment().get_template(template).render(language=language, words=Words(language), **values)


def page(request: Request, template: str, language: str, status: int = 200, **values: Any) -> Response:
    """The page as an answer."""
    query = [(key, value) for key, value in request.query_params.multi_items() if key != "lang"]
    languages = [(code, LANGUAGE_NAMES[code], "?" + urlencode([*query, ("lang", code)])) for code in LANGUAGES]
    chosen = "lang" in request.query_params
    text = fill(template, language, languages=languages, suffix=f"?lang={language}" if chosen else "", base=base_url(request), **values)
    headers = {"Content-Language": language, "Vary": "Accept, Accept-Language, User-Agent", "Cache-Control": "private, no-cache"}
    return Response(encoded(text), status, headers, "text/html; charset=utf-8")


def problem_page(problem: Problem, language: str) -> str:
    """An error as a page."""
    return fill("problem.html", language, languages=[], suffix="", problem=problem, title=problem.title(language))


def report_page(request: Request, report: Report, stored: Stored) -> Response:
    """The page of an analysis."""
    language = service(request).language(request)
    shape = report_json(report, language)
    root = next((finding for finding in shape["findings"] if finding["root"]), None)
    return page(
        request,
        "report.html",
        language,
        report=shape,
        root=root,
        others=[finding for finding in shape["findings"] if not finding["root"]],
        largest=[max((line["bytes"] for line in ledger["lines"]), default=0) for ledger in shape["ledgers"]],
        stored=stored,
        created=moment(stored.created),
        url=page_url(request, stored.id),
    )


def pattern_page(request: Request, pattern: Pattern) -> Response:
    """The documentation of a pattern, made from its file."""
    here = service(request)
    cause = here.library.causes.get(pattern.cause) if pattern.cause else None
    return page(request, "pattern.html", here.language(request), pattern=pattern, cause=cause)
