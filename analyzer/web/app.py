"""The application: routes, error answers, and what runs beside them."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

from analyzer import __version__
from analyzer.intake.errors import IntakeError
from analyzer.model.message import Message
from analyzer.report.messages import N_
from analyzer.store import receiving, repository
from analyzer.web import api, errors, feedback, groups, negotiate, ops, queueing, site, traces
from analyzer.web.body import Pipes
from analyzer.web.guard import Guard
from analyzer.web.logs import quiet
from analyzer.web.metrics import Counting, Metrics
from analyzer.web.observe import Observing
from analyzer.web.openapi import ERROR_ANSWERS, complete
from analyzer.web.problems import Problem, response
from analyzer.web.receive import known
from analyzer.web.service import Service

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.responses import Response
    from starlette.types import ASGIApp

    from analyzer.settings import Settings
    from analyzer.store.database import Database

_log = logging.getLogger("vramledger")
#: How often what is past its retention is deleted.
_RETENTION_SECONDS = 3600
_HTTP_CODES = {404: "not_found", 405: "method_not_allowed"}
#: What Starlette says with them.
_HTTP_WORDS = (N_("Not Found"), N_("Method Not Allowed"))


def create_app(settings: Settings, database: Database) -> FastAPI:
    """The application over a migrated database, without the layer that guards it (see ``guarded``)."""
    quiet()
    errors.start(settings)
    here = Service(settings, database, Pipes(settings.pipes_per_address), Metrics())
    app = FastAPI(
        title="VRAM Ledger",
        version=__version__,
        description="The text of a dead LLM server in, the cause, the memory ledger of every GPU and computed fixes out.",
        docs_url=None,
        redoc_url=None,
        lifespan=_lifespan,
        responses=ERROR_ANSWERS,
        redirect_slashes=False,
        # Its own spans hold paths, and an id is a capability; ours are in analyzer/web/observe.py.
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
    )
    app.state.service = here
    app.include_router(ops.router)
    app.include_router(api.router)
    app.include_router(queueing.router)
    app.include_router(groups.router)
    app.include_router(feedback.router)
    app.mount("/static", StaticFiles(directory=Path(__file__).parent / "static", packages=[("analyzer.report", "static")]))
    app.include_router(site.router)
    app.state.slack = None
    if settings.slack_bot_token and settings.slack_signing_secret:
        from analyzer.slack.app import Bot
        from analyzer.slack.route import mount

        app.state.slack = Bot(settings, database)
        mount(app, app.state.slack)
    _describe(app)
    _answer_errors(app)
    return app


def guarded(app: FastAPI) -> ASGIApp:
    """``app`` as it is served: foreign pages refused, rates limited, headers set, answers counted."""
    here: Service = app.state.service
    return Observing(Counting(Guard(app, here.settings), here.metrics))


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    here: Service = app.state.service
    await here.work(lambda: here.library)  # a broken pattern file stops the start, not the first upload
    if here.database.is_sqlite:
        await here.store(here.database.purge)  # what a killed process had deleted and not yet overwritten
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_sweep, here)
        if here.settings.retention_days:
            tasks.start_soon(_expire, here)
        if here.database.is_sqlite:
            from analyzer.jobs import local

            tasks.start_soon(local.work, here)
        yield
        tasks.cancel_scope.cancel()
    if app.state.slack is not None:
        await here.store(app.state.slack.close)
    await here.store(here.jobs.close)
    await here.store(traces.stop)
    here.database.close()


async def _sweep(here: Service) -> None:
    """Mark what a killed server was receiving, now and then: any of several servers may have been killed."""
    while True:
        try:
            await here.store(receiving.abandoned, here.database, datetime.now(UTC))
            await here.store(here.jobs.sweep)
        except (OperationalError, InterfaceError) as error:
            _log.warning("sweep: the database cannot be reached (%s)", type(error).__name__)
        await anyio.sleep(min(receiving.TOUCH_SECONDS, here.settings.job_lease_seconds / 2))


async def _expire(here: Service) -> None:
    while True:
        before = datetime.now(UTC) - timedelta(days=here.settings.retention_days)
        try:
            gone = await here.store(repository.expire, here.database, before)
        except (OperationalError, InterfaceError) as error:
            _log.warning("retention: the database cannot be reached (%s)", type(error).__name__)
        else:
            if gone:
                _log.info("retention: %d analyses older than %d days deleted", gone, here.settings.retention_days)
        await anyio.sleep(_RETENTION_SECONDS)


def _describe(app: FastAPI) -> None:
    make = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = complete(make())
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _answer_errors(app: FastAPI) -> None:
    def answer(request: Request, problem: Problem) -> Response:
        here: Service = app.state.service
        return response(problem, negotiate.error_form(request), here.language(request), here.clean)

    @app.exception_handler(Problem)
    async def problem(request: Request, error: Problem) -> Response:
        return answer(request, error)

    @app.exception_handler(IntakeError)
    async def intake(request: Request, error: IntakeError) -> Response:
        return answer(request, known(error))

    @app.exception_handler(RequestValidationError)
    async def validation(request: Request, error: RequestValidationError) -> Response:
        said = "; ".join(f"{'.'.join(str(part) for part in item['loc'][1:])}: {item['msg']}" for item in error.errors())
        return answer(request, Problem("invalid_request", said))

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        code = _HTTP_CODES.get(error.status_code, "invalid_request")
        return answer(request, Problem(code, "{method}: {reason}", error.headers, method=request.method, reason=Message(error.detail)))

    @app.exception_handler(OperationalError)
    @app.exception_handler(InterfaceError)
    @app.exception_handler(PoolTimeoutError)
    async def database(request: Request, error: Exception) -> Response:
        _log.error("the database does not answer: %s", type(error).__name__)
        return answer(request, Problem("unavailable", "the database does not answer; try again in a moment", {"Retry-After": "5"}))

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> Response:
        errors.tell(error)
        return answer(request, Problem("internal_error", "this is our mistake ({kind}); nothing was stored", kind=type(error).__name__))
