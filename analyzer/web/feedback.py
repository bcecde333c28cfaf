"""Whether reports were right, as JSON: given by whoever has a report's id, listed for whoever tends the patterns."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated, Any
from urllib.parse import parse_qs

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from analyzer.intake.redact import Redactor
from analyzer.store import feedback as stored
from analyzer.web import auth
from analyzer.web.answers import json_response, moment, page_url
from analyzer.web.api import found, since_moment
from analyzer.web.body import Body
from analyzer.web.guard import address
from analyzer.web.problems import Problem
from analyzer.web.service import service

router = APIRouter()
_MOST_BYTES = 64 << 10
_QUESTION: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "properties": {"helped": {"type": "boolean"}, "because": {"type": "string", "maxLength": stored.MOST_CHARACTERS}},
                    "required": ["helped"],
                }
            }
        },
    }
}


@router.post("/v1/analyses/{identifier}/feedback", status_code=204, summary="Helped, or wrong", openapi_extra=_QUESTION)
async def give(request: Request, identifier: str) -> Response:
    """`{"helped": true}`, or `{"helped": false, "because": "…"}`: one word an address, the last one counts. Redacted before it is kept."""
    here = service(request)
    analysis = await found(request, identifier)
    told = await _told(request)
    reason = await here.work(redacted, here.library.redactions, told.get("because"))
    who = f"web {address(request.scope)}"
    if not await here.store(stored.give, here.database, analysis.id, who, datetime.now(UTC), helped=told["helped"], because=reason):
        raise Problem("not_found", "this analysis has been deleted meanwhile")
    return Response(status_code=204)


async def reason_of(request: Request) -> str | None:
    """The field `because` of a page's form, or None."""
    fields = parse_qs((await _body(request)).decode("utf-8", "replace"), max_num_fields=32)
    return next(iter(fields.get("because", ())), None)


def redacted(rules: Any, reason: str | None) -> str | None:
    """A reason without secrets and personal data."""
    return Redactor(rules).clean(reason)[: stored.MOST_CHARACTERS] if reason else None


async def _body(request: Request) -> bytes:
    here = service(request)
    data = b""
    async for piece in Body(request, here.settings, here.pipes).pieces():
        data += piece
        if len(data) > _MOST_BYTES:
            raise Problem("input_too_large", "feedback has at most {limit} bytes", limit=_MOST_BYTES)
    return data


async def _told(request: Request) -> dict[str, Any]:
    try:
        told = json.loads(await _body(request))
    except (ValueError, RecursionError):
        told = None
    if not isinstance(told, dict) or not isinstance(told.get("helped"), bool) or not isinstance(told.get("because", ""), str):
        raise Problem("invalid_request", 'send {"helped": true} or {"helped": false, "because": "…"}')
    return told


@router.get("/v1/feedback", summary="What was said of reports")
async def listed(
    request: Request,
    helped: Annotated[bool | None, Query()] = None,
    since: Annotated[str | None, Query(max_length=200)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 200,
) -> Response:
    """What people said of reports, the newest first. Needs a token where tokens are configured."""
    here = service(request)
    auth.require_reader(request, here.settings)
    said = await here.store(lambda: stored.listed(here.database, helped=helped, since=since_moment(since), limit=limit))
    items = [
        {
            "id": one.analysis_id,
            "url": page_url(request, one.analysis_id),
            "given": moment(one.given),
            "helped": one.helped,
            "because": one.because,
            "cause": one.cause,
            "title": one.title_en,
            "engine": {"name": one.engine, "version": one.version},
            "library": one.library,
        }
        for one in said
    ]
    return json_response({"items": items})
