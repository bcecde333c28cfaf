"""A report → an answer, in the form and the language that were asked for."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from starlette.responses import Response

from analyzer.report import render
from analyzer.web import negotiate
from analyzer.web.problems import encoded
from analyzer.web.service import service

if TYPE_CHECKING:
    from starlette.requests import Request

    from analyzer.model import Report

#: A whole document with its styles inside, to be saved; no script, nothing from elsewhere.
DOCUMENT_CSP = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_HOST = re.compile(r"[A-Za-z0-9._:\[\]-]{1,255}")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_WIDTHS = range(40, 401)


@dataclass(frozen=True, slots=True)
class Stored:
    """Where a report lies: what a stored one has beside its own fields."""

    id: str
    created: datetime


def moment(when: datetime) -> str:
    """A moment as the API writes it."""
    return when.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def base_url(request: Request) -> str:
    """What links begin with."""
    own = service(request).settings.public_url
    if own:
        return own
    host = request.headers.get("host", "")
    return f"{request.url.scheme}://{host}" if _HOST.fullmatch(host) else "http://localhost"


def page_url(request: Request, identifier: str) -> str:
    """The address of an analysis's page."""
    return f"{base_url(request)}/a/{identifier}"


def terminal_safe(text: str, *, color: bool) -> str:
    """``text`` without control characters, whatever the input held; of escapes only colours stay, and only when asked for."""
    if not color:
        return _CONTROL.sub("", _COLOUR.sub("", text))
    pieces = _COLOUR.split(text)
    colours = [*_COLOUR.findall(text), ""]
    return "".join(_CONTROL.sub("", piece) + colour for piece, colour in zip(pieces, colours, strict=True))


def json_text(report: Report, language: str, stored: Stored | None, url: str | None) -> str:
    """The report as JSON; a stored one with id, url and created before its own fields, which stay the same bytes."""
    text = render(report, "json", language)
    if stored is None:
        return text
    own = {"id": stored.id, "url": url, "created": moment(stored.created)}
    return json.dumps(own, indent=2, ensure_ascii=False)[:-2] + "," + text[1:]


def report_text(request: Request, report: Report, form: str, language: str, stored: Stored | None) -> str:
    """The report in ``form``."""
    url = page_url(request, stored.id) if stored else None
    if form == "json":
        return json_text(report, language, stored, url)
    if form == "text":
        color = negotiate.yes(request, "color")
        width = request.query_params.get("width", "")
        columns = int(width) if width.isdecimal() and len(width) < 5 and int(width) in _WIDTHS else 80
        return terminal_safe(render(report, "text", language, width=columns, color=color, url=url), color=color)
    text = render(report, form, language, url=url)
    return text if form == "html" else terminal_safe(text, color=False)


def report_response(request: Request, report: Report, form: str, language: str, stored: Stored | None, status: int = 200) -> Response:
    """The report as an answer."""
    headers = {"Content-Language": language, "Vary": "Accept, Accept-Language, User-Agent", "Cache-Control": "private, no-cache"}
    if form == "html":
        headers["Content-Security-Policy"] = DOCUMENT_CSP
    return Response(encoded(report_text(request, report, form, language, stored)), status, headers, negotiate.MEDIA[form])


def json_response(values: object, status: int = 200) -> Response:
    """Plain values as JSON."""
    return Response(encoded(json.dumps(values, ensure_ascii=False)), status, {"Cache-Control": "no-cache"}, "application/json")
