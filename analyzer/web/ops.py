"""For whoever runs the service: alive, ready, counted."""

from __future__ import annotations

import contextlib

from fastapi import APIRouter, Request
from sqlalchemy.exc import SQLAlchemyError
from starlette.responses import Response

from analyzer.store.queued import depth
from analyzer.store.upgrade import is_current
from analyzer.web.answers import json_response
from analyzer.web.problems import Problem
from analyzer.web.service import service

router = APIRouter()


@router.get("/healthz", summary="Alive")
async def alive() -> Response:
    """The process answers."""
    return json_response({"status": "ok"})


@router.get("/readyz", summary="Ready")
async def ready(request: Request) -> Response:
    """The database is reachable and migrated, and the pattern library is loaded."""
    here = service(request)
    try:
        current = await here.store(is_current, here.database.engine)
    except SQLAlchemyError as error:
        raise Problem("unavailable", "the database cannot be reached ({kind})", kind=type(error).__name__) from error
    if not current:
        raise Problem("unavailable", "the database's schema is not that of this program: run `vramledger db upgrade`")
    return json_response({"status": "ok", "library": here.library.version})


@router.get("/metrics", summary="Prometheus")
async def metrics(request: Request) -> Response:
    """Counters in Prometheus's text format."""
    here = service(request)
    waiting: dict[str, int] | None = None
    with contextlib.suppress(SQLAlchemyError):  # the other figures are told all the more when the database is away
        waiting = await here.store(depth, here.database)
    return Response(here.metrics.text(waiting, here.timeouts), media_type="text/plain; version=0.0.4; charset=utf-8")
