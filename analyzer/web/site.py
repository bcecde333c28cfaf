"""What people use: the pages, and uploads with nothing but curl."""

from __future__ import annotations

from datetime import UTC, datetime

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from analyzer.model.message import Message
from analyzer.report.messages import N_, tell
from analyzer.store import repository
from analyzer.store.secrets import new_id, new_token, token_hash
from analyzer.store.values import NewAnalysis
from analyzer.web import auth, examples, history, library_site, negotiate, report_site
from analyzer.web.answers import base_url, report_response
from analyzer.web.api import found
from analyzer.web.live import Live
from analyzer.web.openapi import BODY, FORM_OR_BODY, REPORT_ANSWERS, UPLOAD_ANSWERS
from analyzer.web.pages import page
from analyzer.web.problems import Problem, encoded
from analyzer.web.receive import Received, default_name, receive_more, receive_new
from analyzer.web.report_site import for_people
from analyzer.web.service import service

router = APIRouter()
router.include_router(report_site.router)
router.include_router(library_site.router)
router.include_router(history.router)
_PAGE = ["GET", "HEAD"]

_USAGE = N_("""VRAM Ledger: the log of a dead LLM server in, the cause, the memory ledger and computed fixes out.

  curl -T engine.log {base}
  vllm serve … 2>&1 | (trap '' INT; tee /dev/tty | curl -sST - {base})
  nvidia-smi | curl -T - {base}/a/ID          adds to an analysis

The API: {base}/docs   Limits: {base}/v1/limits   What is removed: {base}/v1/redactions
""")


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
    if negotiate.yes(request, "live"):
        return Live(request, name)
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


@router.post("/examples/{name}", status_code=303, summary="Try an example", include_in_schema=False)
async def example(request: Request, name: str) -> Response:
    """Analyse one of the examples that travel with the program, as if it had been sent."""
    here = service(request)
    auth.require_uploader(request, here.settings)
    chosen = examples.EXAMPLES.get(name)
    if chosen is None:
        raise Problem("not_found", "the examples are {names}", names=", ".join(examples.EXAMPLES))
    outcome = await here.work(examples.analyse, here, chosen)
    identifier, token = new_id(), new_token()
    new = NewAnalysis(identifier, datetime.now(UTC), token_hash(token), outcome.report, outcome.inputs)
    await here.store(repository.create, here.database, new)
    said = f"?lang={here.language(request)}" if request.query_params.get("lang") else ""
    answer = RedirectResponse(f"/a/{identifier}{said}", 303)
    auth.hand_out(answer, identifier, token, secure=base_url(request).startswith("https:"))
    return answer


# --- pages -----------------------------------------------------------------------------------------------------------------------


@router.api_route("/", methods=_PAGE, include_in_schema=False)
async def home(request: Request) -> Response:
    """A box to paste into and files to drop; for a terminal, how to use this."""
    if for_people(request) in ("text", "markdown"):
        usage = tell(Message(_USAGE, base=base_url(request)), service(request).language(request))
        return Response(encoded(usage), media_type="text/plain; charset=utf-8")
    here = service(request)
    groups = await history.recent_groups(request)
    deleted = negotiate.yes(request, "deleted")
    return page(request, "home.html", here.language(request), deleted=deleted, examples=examples.EXAMPLES.values(), groups=groups)


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
