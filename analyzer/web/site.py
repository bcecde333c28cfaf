"""What people use: the pages, and uploads with nothing but curl."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import RedirectResponse, Response

from analyzer.store import repository
from analyzer.store.repository import CursorError
from analyzer.store.values import HistoryFilter
from analyzer.web import auth, negotiate
from analyzer.web.answers import Stored, base_url, json_response, report_response
from analyzer.web.api import found, item_json, limit_values, remove, since_moment
from analyzer.web.openapi import BODY, FORM_OR_BODY, REPORT_ANSWERS, UPLOAD_ANSWERS
from analyzer.web.pages import page, pattern_page, report_page
from analyzer.web.problems import Problem, encoded
from analyzer.web.receive import Received, default_name, receive_more, receive_new
from analyzer.web.service import service

router = APIRouter()
_PAGE = ["GET", "HEAD"]

_USAGE = """VRAM Ledger: the log of a dead LLM server in, the cause, the memory ledger and computed fixes out.

  curl -T engine.log {base}
  vllm serve … 2>&1 | (trap '' INT; tee /dev/tty | curl -sST - {base})
  nvidia-smi | curl -T - {base}/a/ID          adds to an analysis

The API: {base}/docs   Limits: {base}/v1/limits   What is removed: {base}/v1/redactions
"""


def _for_people(request: Request) -> str:
    """Terminals read text, everything else a page, unless it says so."""
    return negotiate.form(request, "text" if negotiate.is_terminal(request) else "html")


# --- uploads ---------------------------------------------------------------------------------------------------------------------


@router.put("/", status_code=201, summary="Analyse", openapi_extra=BODY, responses=UPLOAD_ANSWERS)
async def put(request: Request) -> Response:
    """Analyse the body, whatever it calls itself: `… 2>&1 | curl -T - HOST`. The answer is text unless `Accept` says otherwise."""
    return await _upload(request, default_name(request, "stdin"), forms=False)


@router.put("/{name}", status_code=201, summary="Analyse a file", openapi_extra=BODY, responses=UPLOAD_ANSWERS)
async def put_named(request: Request, name: str) -> Response:
    """Analyse the body under its file's name: `curl -T engine.log HOST`."""
    return await _upload(request, default_name(request, name), forms=False)


@router.post("/", status_code=201, summary="Analyse", openapi_extra=FORM_OR_BODY, responses=UPLOAD_ANSWERS)
async def post(request: Request) -> Response:
    """Analyse the body (`curl --data-binary @engine.log HOST`), or a form's files and text. A browser's form is sent on to the page."""
    return await _upload(request, default_name(request, "input"), forms=True)


async def _upload(request: Request, name: str, *, forms: bool) -> Response:
    here = service(request)
    auth.require_uploader(request, here.settings)
    form = negotiate.form(request, "text")
    received = await receive_new(request, name, forms=forms, keep=not negotiate.no(request, "store"))
    answer = _answer(request, received, form, 201)
    if received.stored and received.token:
        auth.hand_out(answer, received.stored.id, received.token, secure=base_url(request).startswith("https:"))
    return answer


def _answer(request: Request, received: Received, form: str, status: int) -> Response:
    if received.stored is None:
        return report_response(request, received.outcome.report, form, service(request).language(request), None)
    path = f"/a/{received.stored.id}"
    if form == "html" and request.headers.get("content-type", "").lower().startswith("multipart/form-data"):
        said = request.query_params.get("lang")
        return RedirectResponse(f"{path}?lang={service(request).language(request)}" if said else path, 303)
    answer = report_response(request, received.outcome.report, form, service(request).language(request), received.stored, status)
    answer.headers["Location"] = path
    return answer


@router.put("/a/{identifier}", summary="Add inputs", openapi_extra=FORM_OR_BODY, responses=REPORT_ANSWERS)
@router.post("/a/{identifier}", summary="Add inputs", openapi_extra=FORM_OR_BODY, responses=REPORT_ANSWERS)
async def add(request: Request, identifier: str) -> Response:
    """Add an input to an analysis and analyse everything again, under the same link: `nvidia-smi | curl -T - HOST/a/ID`."""
    analysis = await found(request, identifier)
    form = negotiate.form(request, "text")
    received = await receive_more(request, analysis, default_name(request, "stdin" if request.method == "PUT" else "input"))
    return _answer(request, received, form, 200)


@router.post("/a/{identifier}/delete", status_code=303, summary="Delete", include_in_schema=False)
async def delete(request: Request, identifier: str) -> Response:
    """Delete an analysis from its page: the cookie holds the delete token."""
    await remove(request, identifier)
    return RedirectResponse("/?deleted=1", 303)


# --- pages -----------------------------------------------------------------------------------------------------------------------


@router.api_route("/", methods=_PAGE, include_in_schema=False)
async def home(request: Request) -> Response:
    """A box to paste into and files to choose; for a terminal, how to use this."""
    if _for_people(request) in ("text", "markdown"):
        return Response(encoded(_USAGE.format(base=base_url(request))), media_type="text/plain; charset=utf-8")
    here = service(request)
    deleted = negotiate.yes(request, "deleted")
    return page(request, "home.html", here.language(request), deleted=deleted, limits=limit_values(here))


@router.api_route("/a/{identifier}", methods=_PAGE, summary="Report", include_in_schema=False)
async def read(request: Request, identifier: str) -> Response:
    """The page of a report; its text for a terminal."""
    analysis = await found(request, identifier)
    form = _for_people(request)
    stored = Stored(analysis.id, analysis.created)
    if analysis.report is None:
        if form == "html":
            return page(request, "waiting.html", service(request).language(request), analysis=analysis)
        return json_response({"id": analysis.id, "state": analysis.state, **({"error": analysis.error} if analysis.error else {})})
    if form == "html":
        return report_page(request, analysis.report, stored)
    return report_response(request, analysis.report, form, service(request).language(request), stored)


@router.api_route("/history", methods=_PAGE, include_in_schema=False)
async def history(
    request: Request,
    cause: Annotated[str | None, Query(max_length=200)] = None,
    engine: Annotated[str | None, Query(max_length=200)] = None,
    since: Annotated[str | None, Query(max_length=200)] = None,
    q: Annotated[str | None, Query(max_length=200)] = None,
    cursor: Annotated[str | None, Query(max_length=200)] = None,
) -> Response:
    """The history as a page."""
    here = service(request)
    auth.require_reader(request, here.settings)
    language = here.language(request)
    wanted = HistoryFilter(cause, engine, since_moment(since), q)
    try:
        shown = await here.store(repository.history, here.database, wanted, cursor)
    except CursorError as error:
        raise Problem("invalid_request", str(error)) from error
    items = [item_json(request, item, language) for item in shown.items]
    asked = {"cause": cause, "engine": engine, "since": since, "q": q}
    return page(request, "history.html", language, items=items, next_cursor=shown.next_cursor, asked={k: v for k, v in asked.items() if v})


@router.api_route("/patterns", methods=_PAGE, include_in_schema=False)
async def patterns(request: Request) -> Response:
    """Every pattern, by topic."""
    here = service(request)
    library = await here.work(lambda: here.library)
    ordered = sorted(library.patterns, key=lambda pattern: (pattern.engine or "", pattern.topic, pattern.id))
    return page(request, "patterns.html", here.language(request), patterns=ordered)


@router.api_route("/patterns/{identifier}", methods=_PAGE, include_in_schema=False)
async def pattern(request: Request, identifier: str) -> Response:
    """One pattern's documentation."""
    here = service(request)
    library = await here.work(lambda: here.library)
    one = library.pattern(identifier)
    if one is None:
        raise Problem("not_found", "there is no such pattern; /patterns lists them")
    return pattern_page(request, one)


@router.api_route("/docs", methods=_PAGE, include_in_schema=False)
async def docs(request: Request) -> Response:
    """The API on one page, made from its OpenAPI description; nothing is loaded from elsewhere."""
    description = request.app.openapi()
    calls = [
        (method.upper(), path, operation)
        for path, operations in description["paths"].items()
        for method, operation in operations.items()
        if method in ("get", "put", "post", "delete")
    ]
    return page(request, "docs.html", service(request).language(request), calls=calls)
