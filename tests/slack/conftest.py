"""A bot over a fresh database, with Slack on loopback, reached over HTTP as Slack reaches it."""

from __future__ import annotations

import shutil
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import uvicorn
from fastapi import FastAPI

from analyzer import settings
from analyzer.slack import picture
from analyzer.slack.app import Bot
from analyzer.slack.route import PATH, mount
from analyzer.store.database import Database
from analyzer.store.upgrade import upgrade
from tests.slack.standin import APP_TOKEN, BOT_TOKEN, SECRET, Standin, encoded, signed

if TYPE_CHECKING:
    from collections.abc import Iterator

FIXTURES = Path(__file__).parents[2] / "fixtures"
LOG = (FIXTURES / "web" / "engine.log").read_text(encoding="utf-8")
SMI = (FIXTURES / "web" / "smi.txt").read_text(encoding="utf-8")
CAUSE = "kv_cache.too_small_for_max_len"
OOM = (FIXTURES / "cases" / "vllm-startup" / "vllm-v0-graph-capture-oom-16gb" / "engine.log").read_text(encoding="utf-8")


def configured(standin: Standin, database_url: str, **given: Any) -> settings.Settings:
    """The settings of a bot that talks to ``standin``."""
    slack = {"slack_bot_token": BOT_TOKEN, "slack_signing_secret": SECRET, "slack_app_token": APP_TOKEN, "slack_api_url": standin.api}
    return settings.load(**{"database_url": database_url, "public_url": "https://vram.example", **slack, **given})


@dataclass
class Harness:
    """A bot, its Slack and its store."""

    standin: Standin
    bot: Bot
    database: Database
    client: httpx.Client

    def send(self, payload: dict[str, Any], headers: dict[str, str] | None = None, *, wait: bool = True) -> Any:
        """What Slack sends, signed; the answer, once the work behind it is done."""
        body, kind = encoded(payload)
        answer = self.client.post(PATH, content=body, headers={"Content-Type": kind, **signed(body), **(headers or {})})
        assert not wait or self.bot.wait()
        return answer


@pytest.fixture(autouse=True)
def _small_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures are drawn small where nobody looks at them: it takes a fifth of the time."""
    monkeypatch.setattr(picture, "ZOOM", 0.25)


@pytest.fixture
def standin() -> Iterator[Standin]:
    found = Standin()
    yield found
    found.close()


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated SQLite file, to be copied."""
    path = tmp_path_factory.mktemp("migrated") / "store.db"
    upgrade(f"sqlite:///{path}")
    return path


@pytest.fixture
def slack(standin: Standin, tmp_path: Path, migrated: Path) -> Iterator[Harness]:
    shutil.copy(migrated, tmp_path / "store.db")
    with harness(standin, f"sqlite:///{tmp_path / 'store.db'}") as found:
        yield found


class harness:  # noqa: N801 - a context manager
    """A Harness over a database of its own."""

    def __init__(self, standin: Standin, database_url: str, **given: Any) -> None:
        upgrade(database_url)
        self._database = Database(database_url)
        self._bot = Bot(configured(standin, database_url, **given), self._database, settle=0.01, sleep=lambda seconds: None)
        app = FastAPI()
        mount(app, self._bot)
        self._server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning", lifespan="off"))
        self._thread = threading.Thread(target=self._server.run)
        self._thread.start()
        while not self._server.started:
            time.sleep(0.005)
        port = self._server.servers[0].sockets[0].getsockname()[1]
        client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30)
        self._found = Harness(standin, self._bot, self._database, client)

    def __enter__(self) -> Harness:
        return self._found

    def __exit__(self, *given: object) -> None:
        self._found.client.close()
        self._server.should_exit = True
        self._thread.join(10)
        self._bot.close()
        self._database.close()
