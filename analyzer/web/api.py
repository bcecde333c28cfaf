"""The programmatic interface, ``/v1``."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from analyzer.intake.unpack import ARCHIVES
from analyzer.model import Text
from analyzer.report.messages import tell
from analyzer.store import repository
from analyzer.store.codec import CodecError
from analyzer.store.repository import CursorError
from analyzer.store.secrets import is_id
from analyzer.store.values import HistoryFilter, HistoryItem, StoredAnalysis
from analyzer.web import auth, negotiate, what_if
from analyzer.web.answers import Stored, base_url, json_response, moment, page_url, report_response
from analyzer.web.encodings import SUPPORTED
from analyzer.web.logtext import TEXTS
from analyzer.web.multipart import MEMORY_BYTES
from analyzer.web.openapi import BODY, FORM_OR_BODY, REPORT_ANSWERS, UPLOAD_ANSWERS
from analyzer.web.problems import Problem
from analyzer.web.receive import default_name, receive_more, receive_new
from analyzer.web.service import Service, service

router = APIRouter()
_SPAN = re.compile(r"(\d{1,4})\s?(m|h|d|w)")
_SPANS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_MAX_QUERY = 200


async def found(request: Request, identifier: str) -> StoredAnalysis:
    """The analysis with this id. Raises Problem where there is none, or it cannot be read."""
    here = service(request)
    missing = Problem("not_found", "there is no such analysis: it has been deleted, or the link is not whole")
    if not is_id(identifier):
        raise missing
    try:
        analysis = await here.store(repository.get, here.database, identifier)
    except CodecError as error:
        raise Problem("unavailable", "this analysis cannot be read: {reason}", reason=error.message) from error
    if analysis is None:
        raise missing
    return analysis


@router.post("/v1/analyses", status_code=201, summary="Analyse", openapi_extra=FORM_OR_BODY, responses=UPLOAD_ANSWERS)
async def create(request: Request) -> Response:
    """Analyse a raw body (`?name=`, `Content-Encoding: gzip|zstd|deflate`), or the files and the field `text` of a form.

    `?store=0`: answered, not kept. `?wait=0`: 202, analysed later (`/v1/analyses/{id}/events`). `?host=`: the machine that it is of.
    """
    here = service(request)
    auth.require_uploader(request, here.settings)
    form = negotiate.form(request, "json")
    if negotiate.no(request, "wait") and not negotiate.no(request, "store"):
        from analyzer.web.queueing import receive_queued

        return await receive_queued(request, default_name(request, "input"))
    received = await receive_new(request, default_name(request, "input"), forms=True, keep=not negotiate.no(request, "store"))
    language = here.language(request)
    status = 201 if received.stored else 200
    answer = report_response(request, received.outcome.report, form, language, received.stored, status)
    if received.stored and received.token:
        answer.headers["Location"] = f"/v1/analyses/{received.stored.id}"
        auth.hand_out(answer, received.stored.id, received.token, secure=base_url(request).startswith("https:"))
    return answer


@router.get("/v1/analyses", summary="History")
async def history(
    request: Request,
    cause: Annotated[str | None, Query(max_length=_MAX_QUERY)] = None,
    engine: Annotated[str | None, Query(max_length=_MAX_QUERY)] = None,
    since: Annotated[str | None, Query(max_length=_MAX_QUERY, description="a moment (ISO 8601), or a span back from now: 24h, 7d")] = None,
    q: Annotated[str | None, Query(max_length=_MAX_QUERY)] = None,
    cursor: Annotated[str | None, Query(max_length=_MAX_QUERY)] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> Response:
    """The history, newest first. Needs a token where tokens are configured."""
    here = service(request)
    auth.require_reader(request, here.settings)
    wanted = HistoryFilter(cause, engine, since_moment(since), q)
    try:
        page = await here.store(repository.history, here.database, wanted, cursor, limit)
    except CursorError as error:
        raise Problem("invalid_request", error.message) from error
    language = here.language(request)
    return json_response({"items": [item_json(request, item, language) for item in page.items], "next_cursor": page.next_cursor})


@router.get("/v1/analyses/{identifier}", summary="Report", responses=REPORT_ANSWERS)
async def read(request: Request, identifier: str) -> Response:
    """The report: JSON, text, Markdown or HTML, by `Accept` or `?format=`; `?lang=en|zh`."""
    analysis = await found(request, identifier)
    form = negotiate.form(request, "json")
    if analysis.report is None:
        return json_response(unfinished(analysis, service(request).language(request)))
    return report_response(request, analysis.report, form, service(request).language(request), Stored(analysis.id, analysis.created))


def unfinished(analysis: StoredAnalysis, language: str) -> dict[str, Any]:
    """An analysis without a report as plain values: how far it is, or why there is none."""
    error = {"error": tell(analysis.error, language)} if analysis.error else {}
    return {"id": analysis.id, "state": analysis.state, **error}


@router.post("/v1/analyses/{identifier}/inputs", summary="Add inputs", openapi_extra=FORM_OR_BODY, responses=REPORT_ANSWERS)
async def add(request: Request, identifier: str) -> Response:
    """Add inputs and analyse all of them again, under the same id. Whoever has the id may."""
    analysis = await found(request, identifier)
    form = negotiate.form(request, "json")
    received = await receive_more(request, analysis, default_name(request, "input"))
    return report_response(request, received.outcome.report, form, service(request).language(request), received.stored)


@router.delete("/v1/analyses/{identifier}", status_code=204, summary="Delete")
async def delete(request: Request, identifier: str) -> Response:
    """Delete an analysis, its inputs included. Needs `X-Delete-Token` of the upload's answer, or an API token."""
    await remove(request, identifier)
    return Response(status_code=204)


async def remove(request: Request, identifier: str) -> None:
    """Delete the analysis, if the request may. Raises Problem."""
    here = service(request)
    kept = await here.store(repository.delete_token_hash, here.database, identifier) if is_id(identifier) else None
    if kept is None:
        raise Problem("not_found", "there is no such analysis")
    auth.require_deleter(request, here.settings, kept)
    TEXTS.forget(identifier)
    if not await here.store(repository.delete, here.database, identifier):
        raise Problem("not_found", "there is no such analysis")


@router.post("/v1/what-if", summary="Other settings", openapi_extra=what_if.QUESTION)
async def other_settings(request: Request) -> Response:
    """The ledger of a start with other settings: whether it would come up, and by how much. Nothing is stored."""
    here = service(request)
    asked = await what_if.question(request, here)
    given: Any = asked.get("report", asked.get("ledger"))
    if "analysis" in asked:
        analysis = await found(request, str(asked["analysis"]))
        if analysis.report is None:
            raise Problem("invalid_request", "this analysis has no report yet")
        given = analysis.report
    answer = await here.work(what_if.answer, given, asked["settings"])
    return json_response(answer.to_json(here.language(request)))


@router.get("/v1/limits", summary="What is accepted")
async def limits(request: Request) -> Response:
    """What is accepted: sizes in bytes, times in seconds."""
    return json_response(limit_values(service(request)))


def limit_values(here: Service) -> dict[str, Any]:
    """The limits as plain values."""
    settings = here.settings
    return {
        "max_body_bytes": settings.max_body_bytes,
        "max_expanded_bytes": settings.max_expanded_bytes,
        "max_expansion_ratio": settings.max_expansion_ratio,
        "expansion_grace_bytes": settings.limits.expansion_grace_bytes,
        "max_archive_depth": ARCHIVES,
        "max_multipart_memory_bytes": MEMORY_BYTES,
        "max_files": settings.max_files,
        "max_line_bytes": settings.max_line_bytes,
        "stored_head_bytes": settings.stored_head_bytes,
        "stored_tail_bytes": settings.stored_tail_bytes,
        "analysis_cpu_seconds": settings.analysis_cpu_seconds,
        "upload_timeout_seconds": settings.upload_timeout,
        "pipe_idle_seconds": settings.pipe_idle_seconds,
        "pipes_per_address": settings.pipes_per_address,
        "max_connections": settings.max_connections,
        "connections_per_address": settings.connections_per_address,
        "uploads_per_minute": settings.rate_limit or None,
        "reads_per_minute": settings.read_rate_limit if settings.rate_limit else None,
        "retention_days": settings.retention_days or None,
        "content_encodings": list(SUPPORTED),
        "archives": ["zip", "tar"],
        "compressed_files": ["gzip", "zstd"],
    }


@router.get("/v1/redactions", summary="What is removed")
async def redactions(request: Request) -> Response:
    """What is removed from every text before it is stored or shown."""
    here = service(request)
    library = await here.work(lambda: here.library)
    language = here.language(request)
    rules = [
        {"id": rule.id, "kind": rule.kind, "text": rule.text.get(language) or rule.text.get("en"), "dropped": rule.drop}
        for rule in library.redactions
    ]
    return json_response({"redactions": rules})


@router.get("/v1/patterns", summary="The pattern library")
async def patterns(request: Request) -> Response:
    """The pattern library in brief; a pattern's page is at `/patterns/{id}`."""
    here = service(request)
    library = await here.work(lambda: here.library)
    shown = [
        {
            "id": pattern.id,
            "topic": pattern.topic,
            "engine": pattern.engine,
            "versions": pattern.versions,
            "cause": pattern.cause,
            "facts": [fact.name for fact in pattern.facts],
            "docs": f"/patterns/{pattern.id}",
        }
        for pattern in library.patterns
    ]
    return json_response({"library": library.version, "patterns": shown})


def item_json(request: Request, item: HistoryItem, language: str) -> dict[str, Any]:
    """One line of the history."""
    title = Text(item.title_en or "", item.title_zh or "").get(language) or None
    return {
        "id": item.id,
        "url": page_url(request, item.id),
        "created": moment(item.created),
        "state": item.state,
        "cause": item.cause,
        "title": title,
        "outcome": {"state": item.outcome_state, "stage": item.stage, "cause": item.cause, "confidence": item.confidence},
        "engine": {"name": item.engine, "version": item.version},
        "inputs": list(item.inputs),
    }


def since_moment(text: str | None) -> datetime | None:
    """``2026-01-31``, ``2026-01-31T10:00:00Z`` (UTC unless it says otherwise), or a span back from now: ``24h``, ``7d``. Raises Problem."""
    if not text:
        return None
    span = _SPAN.fullmatch(text.strip())
    if span:
        return datetime.now(UTC) - timedelta(**{_SPANS[span[2]]: int(span[1])})
    try:
        when = datetime.fromisoformat(text.strip().replace(" ", "+") if "T" in text else text.strip())
        return when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)
    except (ValueError, OverflowError):
        raise Problem("invalid_request", "since is a moment (2026-01-31, 2026-01-31T10:00:00Z) or a span back from now (24h, 7d)") from None


__all__ = ["BODY", "found", "item_json", "limit_values", "remove", "router", "since_moment", "unfinished"]
