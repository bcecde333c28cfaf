"""The history as pages: the list with its filters, the failures that come again, two reports side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query, Request
from markupsafe import Markup
from starlette.responses import Response

from analyzer.report import common, html
from analyzer.report.compare import compare as compared
from analyzer.report.compare import to_json
from analyzer.report.messages import N_, translator
from analyzer.report.svg import change_svg
from analyzer.store import repository
from analyzer.store.repository import CursorError
from analyzer.store.values import HistoryFilter, StoredAnalysis
from analyzer.web import auth
from analyzer.web.answers import json_response, moment
from analyzer.web.api import found, item_json, since_moment
from analyzer.web.pages import is_part, page
from analyzer.web.problems import Problem
from analyzer.web.service import service

if TYPE_CHECKING:
    from collections.abc import Sequence

    from analyzer.model import Report
    from analyzer.store.values import HistoryItem

router = APIRouter()
_PAGE = ["GET", "HEAD"]
_Word = Annotated[str | None, Query(max_length=200)]
#: Analyses that the start page's groups are made of, and groups shown.
_RECENT, _GROUPS = 100, 6
VERDICTS = {
    "fixed": N_("Fixed"),
    "moved": N_("Moved: it fails elsewhere now"),
    "same": N_("The same outcome"),
    "worse": N_("Worse than before"),
    "unclear": N_("One of the two does not show its outcome"),
}


@dataclass(frozen=True, slots=True)
class Group:
    """Analyses with the same cause: how many of the newest, and the newest of them."""

    cause: str
    title: str
    count: int
    newest: str
    seen: str


async def recent_groups(request: Request) -> list[Group]:
    """The failures of late, for the start page; empty where the reader may not list."""
    here = service(request)
    try:
        auth.require_reader(request, here.settings)
    except Problem:
        return []
    shown = await here.store(repository.history, here.database, HistoryFilter(), None, _RECENT)
    return grouped(shown.items, here.language(request))


def grouped(items: Sequence[HistoryItem], language: str) -> list[Group]:
    """Failures by cause, the one that was seen last first. ``items``: newest first."""
    found: dict[str, list[HistoryItem]] = {}
    for item in items:
        if item.cause and item.outcome_state in ("failed", "degraded"):
            found.setdefault(item.cause, []).append(item)
    groups = []
    for cause, alike in list(found.items())[:_GROUPS]:
        title = (alike[0].title_zh if language == "zh" else alike[0].title_en) or cause
        groups.append(Group(cause, title, len(alike), alike[0].id, moment(alike[0].created)[:16].replace("T", " ")))
    return groups


@router.api_route("/history", methods=_PAGE, include_in_schema=False)
async def history(
    request: Request,
    cause: _Word = None,
    engine: _Word = None,
    since: _Word = None,
    q: _Word = None,
    cursor: _Word = None,
    a: _Word = None,
) -> Response:
    """The history, newest first, narrowed by what is asked."""
    here = service(request)
    auth.require_reader(request, here.settings)
    language = here.language(request)
    wanted = HistoryFilter(cause, engine, since_moment(since), q)
    try:
        shown = await here.store(repository.history, here.database, wanted, cursor)
    except CursorError as error:
        raise Problem("invalid_request", error.message) from error
    asked = {"cause": cause or "", "engine": engine or "", "since": since or "", "q": q or "", "a": a or ""}
    older = {**{key: value for key, value in asked.items() if value}, "cursor": shown.next_cursor} if shown.next_cursor else None
    items = [item_json(request, item, language) for item in shown.items]
    values: dict[str, Any] = {"items": items, "older": older, "asked": asked}
    return page(request, "history_list.html" if is_part(request) else "history.html", language, **values)


@router.get("/v1/compare", summary="Two reports")
async def compare_json(request: Request, a: Annotated[str, Query(max_length=200)], b: Annotated[str, Query(max_length=200)]) -> Response:
    """Two analyses: `settings` and `ledgers` with what differs (bytes), and whether the failure is `fixed`, `moved` or the `same`.

    Needs a token where tokens are configured.
    """
    first, second = await _both(request, a, b)
    comparison = await service(request).work(compared, _report(first), _report(second))
    sides = {
        side: {"id": one.id, "created": moment(one.created), "state": _report(one).outcome.state.value, "cause": _report(one).outcome.cause}
        for side, one in (("a", first), ("b", second))
    }
    return json_response({**sides, **to_json(comparison)})


@router.api_route("/compare", methods=_PAGE, include_in_schema=False)
async def compare(request: Request, a: Annotated[str, Query(max_length=200)], b: Annotated[str, Query(max_length=200)]) -> Response:
    """Two reports side by side."""
    first, second = await _both(request, a, b)
    here = service(request)
    language = here.language(request)
    values = await here.work(_compared, first, second, language)
    return page(request, "compare.html", language, **values)


def _compared(first: StoredAnalysis, second: StoredAnalysis, language: str) -> dict[str, Any]:
    _ = translator(language)
    comparison = compared(_report(first), _report(second))
    ledgers = []
    for place, ledger in enumerate(comparison.ledgers):
        picture = (
            change_svg(ledger.before, ledger.after, f"gpu{place}", _, (_(N_("first")), _(N_("second"))))
            if ledger.before and ledger.after
            else ""
        )
        ledgers.append({"gpu": ledger.gpu, "lines": ledger.lines, "picture": Markup(picture)})  # noqa: S704 - drawn here, texts escaped
    return {
        "comparison": comparison,
        "verdict": _(VERDICTS[comparison.verdict]),
        "ledgers": ledgers,
        "sides": [_side(one, language) for one in (first, second)],
    }


def _side(analysis: StoredAnalysis, language: str) -> dict[str, Any]:
    report = _report(analysis)
    _ = translator(language)
    return {
        "id": analysis.id,
        "created": moment(analysis.created)[:16].replace("T", " "),
        "state": report.outcome.state.value,
        "stage": report.outcome.stage,
        "cause": report.outcome.cause,
        "heading": html.heading(report, language, _),
        "engine_line": common.engine_line(report, _, None),
    }


async def _both(request: Request, a: str, b: str) -> tuple[StoredAnalysis, StoredAnalysis]:
    auth.require_reader(request, service(request).settings)
    return await found(request, a), await found(request, b)


def _report(analysis: StoredAnalysis) -> Report:
    if analysis.report is None:
        raise Problem("invalid_request", "{id} is not done", id=analysis.id)
    return analysis.report
