"""``vramledger worker``: take queued analyses from PostgreSQL until told to stop. Any number of them may run, on any machine."""

from __future__ import annotations

import asyncio
import logging
import sys
from functools import partial
from typing import TYPE_CHECKING

import procrastinate
from procrastinate import RetryStrategy

from analyzer.jobs.queue import QUEUE, TASK, Jobs, conninfo, forget_stalled, make_app
from analyzer.jobs.work import DATABASE_ERRORS, Workshop
from analyzer.patterns.load import LibraryError
from analyzer.patterns.runner import runner
from analyzer.readers import anchors
from analyzer.settings import Settings, SettingsError, load
from analyzer.store.database import Database, DatabaseError
from analyzer.store.upgrade import upgrade
from analyzer.web import errors, observe, traces
from analyzer.web.logs import quiet
from analyzer.web.metrics import Metrics
from analyzer.web.traces import TracesError

if TYPE_CHECKING:
    from collections.abc import Callable

#: How long analyses may go on once the worker was told to stop; what is not done then goes back into the queue.
SHUTDOWN_SECONDS = 20.0
#: Tries of a job whose database does not answer, the waits doubling from two seconds on.
_RETRY = RetryStrategy(max_attempts=8, exponential_wait=2)
MISUSE = 64
_log = logging.getLogger("vramledger")


def run(concurrency: int = 1, metrics_port: int | None = None, *, settings: Settings | None = None, until_empty: bool = False) -> int:
    """Work until a signal, or (``until_empty``) until nothing waits; the command's exit status. ``concurrency``: analyses at a time."""
    try:
        settings = settings or load()
        upgrade(settings.database)
        database = Database(settings.database)
        traces.start(settings, "vramledger-worker")
        library = runner(tuple(settings.patterns), anchors()).library
    except (SettingsError, DatabaseError, LibraryError, TracesError) as error:
        print(f"vramledger worker: {error}", file=sys.stderr)
        return MISUSE
    if database.is_sqlite:
        print("vramledger worker: workers take analyses from PostgreSQL; on SQLite the serving process runs them itself", file=sys.stderr)
        return MISUSE
    quiet()
    observe.configure(settings.log)
    errors.start(settings)
    metrics = Metrics()
    if metrics_port is not None:
        from prometheus_client import start_http_server

        start_http_server(metrics_port, registry=metrics.registry)
    shop = Workshop(settings, database, library, metrics)
    try:
        asyncio.run(_work(shop, concurrency, wait=not until_empty))
    finally:
        back = shop.give_back()
        if back:
            _log.warning("stopped: %d analyses go back into the queue", back)
        database.close()
        traces.stop()
    return 0


async def _work(shop: Workshop, concurrency: int, *, wait: bool) -> None:
    connector = procrastinate.PsycopgConnector(conninfo=conninfo(shop.database), min_size=1, max_size=concurrency + 3)
    app = make_app(connector)

    @app.task(name=TASK, queue=QUEUE, retry=_RETRY)
    async def analyse(analysis_id: str) -> None:
        await asyncio.to_thread(shop.work_on, analysis_id)

    lease = shop.settings.job_lease_seconds
    jobs = Jobs(shop.settings, shop.database)
    async with app.open_async():
        print("vramledger worker: ready", file=sys.stderr, flush=True)
        beside = [
            asyncio.create_task(_now_and_then(lease / 4, shop.keep_alive)),
            asyncio.create_task(_now_and_then(lease / 4, jobs.sweep)),
            asyncio.create_task(_forget(app, lease)),
        ]
        try:
            await app.run_worker_async(
                queues=[QUEUE],
                concurrency=concurrency,
                wait=wait,
                delete_jobs="always",  # the analysis is the record of what was done
                shutdown_graceful_timeout=SHUTDOWN_SECONDS,
                update_heartbeat_interval=lease / 4,
                stalled_worker_timeout=lease,
            )
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            await asyncio.to_thread(jobs.close)


async def _now_and_then(seconds: float, what: Callable[[], object]) -> None:
    while True:
        try:
            await asyncio.to_thread(what)
        except DATABASE_ERRORS as error:
            _log.warning("the database does not answer (%s)", type(error).__name__)
        await asyncio.sleep(seconds)


async def _forget(app: procrastinate.App, lease: float) -> None:
    forget = partial(forget_stalled, app, lease)
    while True:
        try:
            await forget()
        except procrastinate.exceptions.ConnectorException as error:
            _log.warning("the queue does not answer (%s)", type(error).__name__)
        await asyncio.sleep(lease / 4)
