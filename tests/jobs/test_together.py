"""Two web processes and two workers over one PostgreSQL: one of each is killed in the middle, and every log is analysed exactly once."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import func, select

from analyzer.jobs.submit import Client, Sent, bar, files, submit
from analyzer.store import queued
from analyzer.store.database import Database
from analyzer.store.models import Analysis, AnalysisInput, Finding
from analyzer.store.upgrade import upgrade
from tests.conftest import _new_postgres
from tests.web.conftest import CAUSE, LOG

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOGS = 500
LEASE_SECONDS = 3


class Process:
    """One process of the service, and where it says that it listens."""

    def __init__(self, url: str, *words: str) -> None:
        environment = {
            **os.environ,
            "VRAMLEDGER_DATABASE_URL": url,
            "VRAMLEDGER_RATE_LIMIT": "0",
            "VRAMLEDGER_JOB_LEASE_SECONDS": str(LEASE_SECONDS),
        }
        command = [sys.executable, "-m", "analyzer.cli", *words]
        self.process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)

    def ready(self) -> str:
        """Wait until it says so; the line."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if re.search(r"ready|http://", line):
                return line
        raise AssertionError("it ended")

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=30)
        return self.process.returncode


@pytest.fixture
def team(postgres: str) -> Iterator[tuple[str, list[Process], list[Process]]]:
    url = _new_postgres(postgres)
    upgrade(url)
    web = [Process(url, "serve", "--port", "0") for _ in range(2)]
    workers = [Process(url, "worker") for _ in range(2)]
    yield url, web, workers
    for process in (*web, *workers):
        if process.process.poll() is None:
            process.kill()


def test_every_log_is_analysed_exactly_once(team: tuple[str, list[Process], list[Process]], tmp_path: Path) -> None:
    url, web, workers = team
    for number in range(LOGS):
        (tmp_path / f"{number:03}.log").write_bytes(LOG.replace(b"pid=", b"pid=%d" % number) + b"# %d\n" % number)
    addresses = [re.search(r"http://\S+", process.ready())[0] for process in web]  # type: ignore[index]
    for process in workers:
        process.ready()
    database = Database(url)
    found = files([tmp_path])
    client = Client(addresses, None, "node-1")
    known: list[Sent] = []
    killed = False
    end = time.monotonic() + 55
    for known in submit(client, found, wait=False):
        if not killed and len(known) >= LOGS // 4:
            killed = True
            workers[0].kill()
            web[0].kill()
    assert killed
    assert bar(known, LOGS).endswith(f"{LOGS} sent")
    assert len({sent.id for sent in known}) == LOGS
    while any(queued.depth(database).values()) and time.monotonic() < end:
        time.sleep(0.1)
    with database.read() as session:
        states = Counter(session.scalars(select(Analysis.state)))
        assert states == {"done": LOGS}
        assert set(session.scalars(select(Analysis.revision))) == {1}
        assert set(session.scalars(select(Analysis.cause))) == {CAUSE}
        assert session.scalar(select(func.count(func.distinct(AnalysisInput.sha256)))) == LOGS
        roots = session.scalar(select(func.count()).select_from(Finding).where(Finding.root))
        assert roots == LOGS
    database.close()
    # A server gives the signal on that ended it, once everything is stored.
    assert [process.stop() for process in (web[1], workers[1])] == [-signal.SIGTERM, 0]
