"""Socket Mode: the same bot over the connection that it opens, and the command that runs it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from analyzer.slack.app import Bot
from analyzer.slack.socket import Socket
from analyzer.store import repository
from analyzer.store.database import Database
from analyzer.store.upgrade import upgrade
from tests.slack.conftest import CAUSE, LOG, configured
from tests.slack.standin import APP_TOKEN, BOT, BOT_TOKEN, CHANNEL, Standin, command, mention, press, shortcut, submission
from tests.slack.test_ways_in import mangled, shown

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Connected:
    def __init__(self, standin: Standin, url: str) -> None:
        self.standin = standin
        self.database = Database(url)
        given = configured(standin, url)
        self.bot = Bot(given, self.database, settle=0.01, sleep=lambda seconds: None)
        self.socket = Socket(given, self.bot)
        self.socket.open()

    def send(self, kind: str, payload: dict[str, Any], **more: Any) -> dict[str, Any]:
        answer = self.standin.send(kind, payload, **more)
        assert self.bot.wait()
        return answer


@pytest.fixture
def connected(standin: Standin, tmp_path: Path) -> Iterator[_Connected]:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    upgrade(url)
    found = _Connected(standin, url)
    yield found
    found.socket.close()
    found.database.close()


def test_every_kind_of_envelope_is_acknowledged_and_answered(connected: _Connected) -> None:
    standin = connected.standin
    asks = standin.say(f"<@{BOT}> {mangled(LOG)}")
    payload = mention(standin, asks)
    start = time.monotonic()
    assert connected.send("events_api", payload, accepts_response_payload=False).keys() >= {"envelope_id"}
    assert time.monotonic() - start < 10
    [reply] = standin.replies(thread=asks["ts"])
    assert CAUSE in shown(reply)

    # Sent again, as Slack does when an acknowledgement is lost.
    connected.send("events_api", payload, retry_attempt=1, retry_reason="timeout")
    assert len(standin.replies()) == 1

    other = standin.say(mangled(LOG))
    connected.send("interactive", shortcut(standin, other))
    assert len(standin.replies(thread=other["ts"])) == 1

    said = connected.send("slash_commands", command(standin, "help"), accepts_response_payload=True)
    assert "watch on|off" in said["payload"]["text"]
    connected.send("slash_commands", command(standin, ""))
    assert len(standin.called("views.open")) == 1
    connected.send("interactive", submission(standin, LOG))
    assert CAUSE in shown(standin.replies()[-1])

    connected.send("interactive", press(standin, reply, "language"))
    assert "怎么改" in shown(standin.replies(thread=asks["ts"])[0])
    assert repository.count(connected.database) == 3


def test_a_connection_that_slack_closes_is_opened_again(connected: _Connected) -> None:
    standin = connected.standin
    assert standin.socket is not None
    standin.socket._out.put({"type": "disconnect", "reason": "refresh_requested"})
    end = time.monotonic() + 20
    while standin.socket.opened < 2 and time.monotonic() < end:
        time.sleep(0.02)
    assert standin.socket.opened >= 2
    asks = standin.say(f"<@{BOT}> {mangled(LOG)}")
    connected.send("events_api", mention(standin, asks), seconds=20)
    assert CAUSE in shown(standin.replies(CHANNEL)[-1])


def _environment(standin: Standin, folder: Path, **more: str) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("VRAMLEDGER_SLACK")}
    given = {"BOT_TOKEN": BOT_TOKEN, "APP_TOKEN": APP_TOKEN, "API_URL": standin.api, **more}
    slack = {f"VRAMLEDGER_SLACK_{name}": value for name, value in given.items() if value}
    return {**own, "VRAMLEDGER_DATABASE_URL": f"sqlite:///{folder / 'store.db'}", **slack}


def test_the_command_migrates_connects_answers_and_stops(standin: Standin, tmp_path: Path) -> None:
    program = [sys.executable, "-m", "analyzer.cli", "slack"]
    with subprocess.Popen(program, env=_environment(standin, tmp_path), cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        guard = threading.Timer(60, process.kill)
        guard.start()
        try:
            assert process.stderr.readline() == "VRAM Ledger answers as @vram in Team\n"
            asks = standin.say(f"<@{BOT}> {mangled(LOG)}")
            standin.send("events_api", mention(standin, asks))
            process.send_signal(signal.SIGTERM)  # what was acknowledged is still answered
            assert process.wait(60) == 0
        finally:
            guard.cancel()
            process.kill()
    assert CAUSE in shown(standin.replies()[0])


@pytest.mark.parametrize(
    ("given", "status", "said"),
    [
        ({"BOT_TOKEN": ""}, 64, "VRAMLEDGER_SLACK_BOT_TOKEN"),
        ({"APP_TOKEN": "xoxb-mixed-up"}, 64, "VRAMLEDGER_SLACK_APP_TOKEN"),
        ({"BOT_TOKEN": "xoxb-wrong"}, 1, "invalid_auth"),
        ({"APP_TOKEN": "xapp-wrong"}, 1, "invalid_auth"),
        ({"API_URL": "http://elsewhere.example/"}, 64, "https"),
        ({"API_URL": "http://127.0.0.1:9/"}, 1, "cannot reach Slack"),
    ],
)
def test_what_keeps_it_from_starting_is_said_in_a_line(
    standin: Standin, tmp_path: Path, given: dict[str, str], status: int, said: str
) -> None:
    program = [sys.executable, "-m", "analyzer.cli", "slack"]
    done = subprocess.run(
        program, env=_environment(standin, tmp_path, **given), cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == status
    assert said in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    for secret in ("xoxb-", "xapp-w", "neverlogthis"):
        assert secret not in done.stderr.replace("begins with xoxb-", "")


@pytest.mark.parametrize("arguments", [["--help"], ["analyze", "a.log"], ["patterns", "list"]])
def test_other_commands_load_no_slack(arguments: list[str], tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(LOG)
    program = (
        "import sys\nfrom analyzer.cli import main\ntry:\n    main(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
        "alien = ('slack_bolt', 'slack_sdk', 'resvg_py', 'analyzer.slack')\n"
        "found = [name for name in sys.modules if name.startswith(alien)]\n"
        "sys.exit(f'loaded: {found}' if found else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_service_without_slack_loads_none(tmp_path: Path) -> None:
    program = (
        "import sys\nfrom analyzer import settings\nfrom analyzer.store.database import Database\nfrom analyzer.web.app import create_app\n"
        f"create_app(settings.load(), Database('sqlite:///{tmp_path}/a.db'))\n"
        "sys.exit('loaded' if 'slack_bolt' in sys.modules or 'analyzer.slack' in sys.modules else 0)"
    )
    clean = {name: value for name, value in os.environ.items() if not name.startswith("VRAMLEDGER_SLACK")}
    done = subprocess.run([sys.executable, "-c", program], env=clean, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
