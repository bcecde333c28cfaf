"""The word that something waits. On PostgreSQL a Procrastinate job, which any worker takes; on SQLite the serving process looks by itself.

No analysis depends on it: ``sweep`` gives a job to every row that lacks one, and takes back what a killed worker had.
"""

from __future__ import annotations

import logging
import threading
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import procrastinate
from procrastinate.exceptions import AlreadyEnqueued, ConnectorException
from procrastinate.jobs import Status
from psycopg.conninfo import make_conninfo

from analyzer.store import queued

if TYPE_CHECKING:
    from collections.abc import Iterable

    from procrastinate.connector import BaseConnector

    from analyzer.settings import Settings
    from analyzer.store.database import Database

TASK, QUEUE = "vramledger.analyse", "analyses"
#: PostgreSQL's schema in which the queue's tables are (migrations/versions/0005_teams.py).
SCHEMA = "vramledger_jobs"
#: Rows that one sweep gives a job.
_SWEPT = 500
_log = logging.getLogger("vramledger")


def conninfo(database: Database) -> str:
    """How the queue's driver reaches the database."""
    url = database.engine.url.set(drivername="postgresql")
    return make_conninfo(url.render_as_string(hide_password=False), options=f"-c search_path={SCHEMA}")


def make_app(connector: BaseConnector) -> procrastinate.App:
    """Procrastinate's application on ``connector``."""
    return procrastinate.App(connector=connector)


class Jobs:
    """The queue as whoever fills it sees it. Safe to be called from several threads."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self._settings = settings
        self._database = database
        self._app: procrastinate.App | None = None
        self._lock = threading.Lock()

    def defer(self, identifiers: Iterable[str]) -> None:
        """Say that these rows wait; they are committed. Where that fails, the sweep says it."""
        if self._database.is_sqlite:
            return
        try:
            app = self._opened()
            for identifier in identifiers:
                job = app.configure_task(TASK, queue=QUEUE, queueing_lock=identifier)
                try:
                    job.defer(analysis_id=identifier)
                except AlreadyEnqueued:
                    continue
        except ConnectorException as error:
            _log.warning("the queue does not answer (%s); the next sweep says what waits", type(error).__name__)

    def sweep(self) -> int:
        """Take back what a killed worker had, and give a job to what lacks one; how many were taken back."""
        now = datetime.now(UTC)
        lease = timedelta(seconds=self._settings.job_lease_seconds)
        back, failed = queued.lost(self._database, now, lease)
        if back or failed:
            _log.warning("sweep: %d analyses of killed workers queued again, %d given up", back, failed)
        if not self._database.is_sqlite:
            self.defer(queued.waiting(self._database, now, _SWEPT, since=now - lease / 4))
        return back

    def close(self) -> None:
        """Give the connections back."""
        with self._lock:
            if self._app is not None:
                self._app.close()
                self._app = None

    def _opened(self) -> procrastinate.App:
        with self._lock:
            if self._app is None:
                connector = procrastinate.SyncPsycopgConnector(conninfo=conninfo(self._database), min_size=1, max_size=4)
                app = make_app(connector)
                app.open()
                self._app = app
            return self._app


async def forget_stalled(app: procrastinate.App, seconds: float) -> int:
    """Take away jobs of workers that have not been heard of for ``seconds``: their rows are queued again by the sweep. How many."""
    stalled: Any = await app.job_manager.get_stalled_jobs(queue=QUEUE, seconds_since_heartbeat=seconds)
    found = list(stalled)
    for job in found:
        await app.job_manager.finish_job_by_id_async(job.id, Status.FAILED, delete_job=True)
    return len(found)
