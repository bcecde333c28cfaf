"""Which form and which language an answer has: said by the query, else by the headers, else by who is asking."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from analyzer.model.text import LANGUAGES
from analyzer.web.problems import Problem

if TYPE_CHECKING:
    from starlette.requests import Request

#: The forms of a report and their media types.
MEDIA = {
    "json": "application/json",
    "text": "text/plain; charset=utf-8",
    "markdown": "text/markdown; charset=utf-8",
    "html": "text/html; charset=utf-8",
}
_FORMS = {
    "application/json": "json",
    "application/problem+json": "json",
    "application/*": "json",
    "text/plain": "text",
    "text/*": "text",
    "text/markdown": "markdown",
    "text/x-markdown": "markdown",
    "text/html": "html",
    "application/xhtml+xml": "html",
}
#: Programs whose output lands in a terminal unless they ask for something else.
_TERMINAL = re.compile(r"(curl|wget|httpie|xh|fetch|aria2|lynx|.*powershell)\b", re.IGNORECASE)


def weighted(header: str) -> list[str]:
    """The values of an ``Accept…`` header, best first, in lower case; those with q=0 left out. Never fails."""
    found: list[tuple[float, int, str]] = []
    for place, part in enumerate(header.split(",")[:64]):
        value, *parameters = (piece.strip().lower() for piece in part.split(";"))
        weight = 1.0
        for parameter in parameters:
            if parameter.startswith("q="):
                try:
                    weight = min(max(float(parameter[2:]), 0.0), 1.0)
                except ValueError:
                    weight = 0.0
        if value and weight > 0:
            found.append((-weight, place, value))
    return [value for _, _, value in sorted(found)]


def accepted(request: Request, default: str) -> str:
    """The form that ``Accept`` asks for; ``default`` where it leaves that open."""
    for value in weighted(request.headers.get("accept", "")):
        if value == "*/*":
            return default
        if value in _FORMS:
            return _FORMS[value]
    return default


def form(request: Request, default: str) -> str:
    """The form of a report: ``?format=``, else ``Accept``. Raises Problem for a form that there is none of."""
    said = request.query_params.get("format")
    if said is None:
        return accepted(request, default)
    said = {"md": "markdown", "txt": "text", "plain": "text"}.get(said, said)
    if said not in MEDIA:
        raise Problem("invalid_request", "format is one of {names}", names=", ".join(MEDIA))
    return said


def is_terminal(request: Request) -> bool:
    """Whether the answer lands in somebody's terminal."""
    return _TERMINAL.match(request.headers.get("user-agent", "")) is not None


def error_form(request: Request) -> str:
    """The form of an error. Programs that call the API and say nothing get JSON."""
    path = request.url.path
    terminal = is_terminal(request) or not path.startswith(("/v1/", "/openapi"))
    default = "text" if terminal else "json"
    said = request.query_params.get("format")
    return said if said in MEDIA else accepted(request, default)


def language(request: Request, default: str) -> str:
    """``?lang=``, else ``Accept-Language``, else ``default``."""
    for value in (request.query_params.get("lang", "").lower(), *weighted(request.headers.get("accept-language", ""))):
        primary = re.split("[-_]", value)[0]
        if primary in LANGUAGES:
            return primary
    return default


def yes(request: Request, name: str) -> bool:
    """Whether the query says yes to ``name``."""
    return request.query_params.get(name, "").lower() in ("1", "true", "yes", "on")


def no(request: Request, name: str) -> bool:
    """Whether the query says no to ``name``."""
    return request.query_params.get(name, "").lower() in ("0", "false", "no", "off")
