"""The pages' templates, and what goes into them. Text of an input is never markup: everything is escaped."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from jinja2 import ChoiceLoader, Environment, FileSystemLoader, PackageLoader, StrictUndefined
from starlette.responses import Response

from analyzer import __version__
from analyzer.model.text import LANGUAGES
from analyzer.model.units import human
from analyzer.report import html, messages
from analyzer.report.messages import translator
from analyzer.web.answers import base_url
from analyzer.web.problems import encoded

if TYPE_CHECKING:
    from starlette.requests import Request

    from analyzer.web.problems import Problem

#: What each language calls itself.
LANGUAGE_NAMES = {"en": "English", "zh": "中文"}
VARY = "Accept, Accept-Language, User-Agent, HX-Request"


@cache
def _environment() -> Environment:
    made = Environment(
        loader=ChoiceLoader([PackageLoader("analyzer.web", "templates"), FileSystemLoader(html.TEMPLATES)]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    html.equip(made)
    made.filters["size"] = human
    made.globals["version"] = __version__
    return made


def fill(template: str, language: str, **values: Any) -> str:
    """The page ``template`` in ``language``."""
    _ = translator(language)
    known = {
        "_": _,
        "language": language,
        "states": {name: _(text) for name, text in messages.STATES.items()},
        "stages": {name: _(text) for name, text in messages.STAGES.items()},
        "names": {name: _(text) for name, text in messages.LINES.items()},
        "basis": {name: _(text) for name, text in messages.BASIS.items()},
        "confidence": {name: _(text) for name, text in messages.CONFIDENCE.items()},
    }
    return _environment().get_template(template).render({**known, **values})


def is_part(request: Request) -> bool:
    """Whether a script of the page asks for a piece of it, not for the whole page."""
    return request.headers.get("hx-request") == "true" and request.headers.get("hx-history-restore-request") != "true"


def page(request: Request, template: str, language: str, status: int = 200, **values: Any) -> Response:
    """The page as an answer."""
    query = [(key, value) for key, value in request.query_params.multi_items() if key != "lang"]
    languages = [(code, LANGUAGE_NAMES[code], "?" + urlencode([*query, ("lang", code)])) for code in LANGUAGES]
    suffix = f"?lang={language}" if "lang" in request.query_params else ""
    text = fill(template, language, languages=languages, suffix=suffix, base=base_url(request), path=request.url.path, **values)
    headers = {"Content-Language": language, "Vary": VARY, "Cache-Control": "private, no-cache"}
    return Response(encoded(text), status, headers, "text/html; charset=utf-8")


def problem_page(problem: Problem, detail: str, language: str) -> str:
    """An error as a page."""
    return fill("problem.html", language, languages=[], suffix="", path="", problem=problem, detail=detail, title=problem.title(language))
