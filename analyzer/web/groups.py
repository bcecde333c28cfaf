"""The same failure seen many times: as JSON and as a page, with the reason why its reports are the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from analyzer.diagnosis.fingerprint import CAUSE
from analyzer.model import Text
from analyzer.report.messages import N_, translator
from analyzer.store import groups as stored
from analyzer.store.repository import CursorError
from analyzer.store.values import HistoryFilter
from analyzer.web import auth
from analyzer.web.answers import json_response, moment, page_url
from analyzer.web.api import since_moment
from analyzer.web.pages import page
from analyzer.web.problems import Problem
from analyzer.web.service import service

if TYPE_CHECKING:
    from analyzer.store.groups import Group, GroupPage

router = APIRouter()
_Word = Annotated[str | None, Query(max_length=200)]
REASONS = {
    "cause": N_("the same engine and the same cause, in whatever words its version says it"),
    "message": N_("the same engine and the same first error, numbers, ids, paths and times aside"),
}


@router.get("/v1/groups", summary="Failures by group")
async def groups_json(
    request: Request,
    cause: _Word = None,
    engine: _Word = None,
    since: _Word = None,
    q: _Word = None,
    cursor: _Word = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> Response:
    """The same failure seen many times, counted; the one that was seen last first. Needs a token where tokens are configured.

    `same` says why the reports of a group are the same: `by` its known cause or its message, and the words that were compared.
    """
    shown = await _groups(request, HistoryFilter(cause, engine, since_moment(since), q), cursor, limit)
    language = service(request).language(request)
    return json_response({"items": [_json(request, group, language) for group in shown.items], "next_cursor": shown.next_cursor})


@router.api_route("/groups", methods=["GET", "HEAD"], include_in_schema=False)
async def groups_page(
    request: Request, cause: _Word = None, engine: _Word = None, since: _Word = None, q: _Word = None, cursor: _Word = None
) -> Response:
    """The groups as a page."""
    shown = await _groups(request, HistoryFilter(cause, engine, since_moment(since), q), cursor, 50)
    language = service(request).language(request)
    _ = translator(language)
    items = [
        {**_json(request, group, language), "reason": _(REASONS[_parts(group)[0]]), "compared": _parts(group)[2]} for group in shown.items
    ]
    asked = {key: value for key, value in (("cause", cause), ("engine", engine), ("since", since), ("q", q)) if value}
    older = {**asked, "cursor": shown.next_cursor} if shown.next_cursor else None
    return page(request, "groups.html", language, items=items, older=older)


async def _groups(request: Request, wanted: HistoryFilter, cursor: str | None, limit: int) -> GroupPage:
    here = service(request)
    auth.require_reader(request, here.settings)
    try:
        return await here.store(stored.groups, here.database, wanted, cursor, limit)
    except CursorError as error:
        raise Problem("invalid_request", error.message) from error


def _parts(group: Group) -> tuple[str, str, str]:
    """A likeness taken apart: what it rests on, the engine, the words."""
    basis, engine, words = [*group.likeness.split("\n", 2), "", "", ""][:3]
    return (basis if basis in REASONS else CAUSE), engine, words


def _json(request: Request, group: Group, language: str) -> dict[str, Any]:
    basis, engine, words = _parts(group)
    return {
        "fingerprint": group.fingerprint,
        "cause": group.cause,
        "title": Text(group.title_en or "", group.title_zh or "").get(language) or None,
        "same": {"by": basis, "engine": engine or None, "words": words},
        "count": group.count,
        "first_seen": moment(group.first_seen),
        "last_seen": moment(group.last_seen),
        "newest": {"id": group.newest, "url": page_url(request, group.newest)},
        "engine": {"name": group.engine, "versions": list(group.versions)},
        "hosts": list(group.hosts),
    }
