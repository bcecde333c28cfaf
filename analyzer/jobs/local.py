"""On SQLite the serving process runs what waits: at most two at a time, beside the uploads."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

import anyio
from anyio import CapacityLimiter, to_thread

from analyzer.jobs.work import DATABASE_ERRORS, Workshop
from analyzer.store import queued

if TYPE_CHECKING:
    from analyzer.web.service import Service

#: Between two looks at the queue, seconds.
LOOK_SECONDS = 0.25
#: Analyses at a time.
CONCURRENCY = 2
_log = logging.getLogger("vramledger")


async def work(here: Service) -> None:
    """Run queued analyses until cancelled; one that is running is finished first."""
    shop = Workshop(here.settings, here.database, here.library, here.metrics)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_keep_alive, shop)
        await _work(here, shop)


async def _work(here: Service, shop: Workshop) -> None:
    limiter = CapacityLimiter(CONCURRENCY)
    while True:
        found: list[str] = []
        try:
            found = await here.store(partial(queued.waiting, limit=CONCURRENCY), here.database, datetime.now(UTC))
            async with anyio.create_task_group() as tasks:
                for identifier in found:
                    tasks.start_soon(_one, shop, identifier, limiter)
        except DATABASE_ERRORS as error:
            _log.warning("queue: the database does not answer (%s)", type(error).__name__)
            await anyio.sleep(here.settings.job_lease_seconds / 4)
        if not found:
            await anyio.sleep(LOOK_SECONDS)


async def _one(shop: Workshop, identifier: str, limiter: CapacityLimiter) -> None:
    try:
        await to_thread.run_sync(shop.work_on, identifier, limiter=limiter)
    except DATABASE_ERRORS as error:
        # Given back already, or found by the sweep.
        _log.warning("queue: the database does not answer (%s)", type(error).__name__)


async def _keep_alive(shop: Workshop) -> None:
    while True:
        await anyio.sleep(shop.settings.job_lease_seconds / 4)
        try:
            await to_thread.run_sync(shop.keep_alive)
        except DATABASE_ERRORS as error:
            _log.warning("queue: the database does not answer (%s)", type(error).__name__)
