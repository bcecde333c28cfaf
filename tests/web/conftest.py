"""A real server on a free port, over each kind of database, and what is sent to it."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from analyzer import settings
from analyzer.store import repository
from analyzer.store.database import Database
from analyzer.store.upgrade import upgrade
from analyzer.store.values import HistoryFilter, HistoryItem
from analyzer.web.serve import Server, server

if TYPE_CHECKING:
    from collections.abc import Iterator

FIXTURES = Path(__file__).parents[2] / "fixtures" / "web"
LOG = (FIXTURES / "engine.log").read_bytes()
SMI = (FIXTURES / "smi.txt").read_bytes()
CAUSE = "kv_cache.too_small_for_max_len"


@dataclass
class Running:
    """A server that runs in a thread."""

    url: str
    database: Database
    server: Server

    @property
    def address(self) -> tuple[str, int]:
        parts = httpx.URL(self.url)
        return parts.host, parts.port or 80

    def client(self, **options: Any) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=30, **options)

    def newest(self) -> HistoryItem | None:
        items = repository.history(self.database, HistoryFilter(), limit=1).items
        return items[0] if items else None

    def stored(self, count: int, seconds: float = 10) -> int:
        """How many analyses there are, once there are ``count`` or the time is over."""
        end = time.monotonic() + seconds
        while (found := repository.count(self.database)) != count and time.monotonic() < end:
            time.sleep(0.02)
        return found


@contextmanager
def running(database_url: str, **given: Any) -> Iterator[Running]:
    """A server with these settings; no rate limits unless they are given."""
    chosen = settings.load(**{"port": 0, "database_url": database_url, "rate_limit": 0, **given})
    upgrade(chosen.database)
    made = server(chosen)
    thread = threading.Thread(target=made.run)
    thread.start()
    while not made.started and thread.is_alive():
        time.sleep(0.01)
    assert made.started
    port = made.servers[0].sockets[0].getsockname()[1]
    database = Database(chosen.database)
    try:
        yield Running(f"http://127.0.0.1:{port}", database, made)
    finally:
        made.should_exit = True
        thread.join(30)
        database.close()
        assert not thread.is_alive()


@pytest.fixture(scope="module")
def live(module_database_url: str) -> Iterator[Running]:
    """A server for a whole module, over each kind of database."""
    with running(module_database_url) as found:
        yield found


@pytest.fixture(scope="module")
def sqlite_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('store') / 'store.db'}"


@pytest.fixture(scope="module")
def one(sqlite_url: str) -> Iterator[Running]:
    """A server for a whole module, where the kind of database does not matter."""
    with running(sqlite_url) as found:
        yield found
