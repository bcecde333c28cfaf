"""``vramledger slack``: Socket Mode. The bot opens a connection to Slack, so that it needs no address that Slack could reach."""

from __future__ import annotations

import signal
import sys
import threading
from typing import TYPE_CHECKING

from slack_bolt.adapter.socket_mode import SocketModeHandler
from slack_sdk.errors import SlackApiError, SlackClientError

from analyzer.patterns.load import LibraryError
from analyzer.settings import Settings, SettingsError, load
from analyzer.slack.app import Bot
from analyzer.slack.client import reason, web_client
from analyzer.store.database import Database, DatabaseError
from analyzer.store.upgrade import upgrade
from analyzer.web import errors

if TYPE_CHECKING:
    from types import FrameType

#: Exit statuses of the command.
FAILED, MISUSE = 1, 64


class Socket:
    """The bot with its connection."""

    def __init__(self, settings: Settings, bot: Bot) -> None:
        """``settings`` must have an app token."""
        assert settings.slack_app_token is not None
        token = settings.slack_app_token.get_secret_value()
        self._bot = bot
        self._handler = SocketModeHandler(bot.app, token, web_client=web_client(token, settings.slack_api_url))

    def open(self) -> None:
        """Connect; what Slack sends is answered from now on. Lost connections are opened again. Raises SlackClientError."""
        self._handler.client.connect()

    def close(self) -> None:
        """Take nothing more, and finish what is at work."""
        self._handler.client.close()
        self._bot.close()


def run(settings: Settings | None = None) -> int:
    """Serve until a signal; the command's exit status. What keeps it from starting is said in a line on standard error."""
    database = None
    try:
        settings = settings or load()
        _check(settings)
        errors.start(settings)
        upgrade(settings.database)
        database = Database(settings.database)
        bot = Bot(settings, database)
        _ = bot.work.library
        socket = Socket(settings, bot)
        who = bot.slack.client.auth_test()
        socket.open()
    except (SettingsError, DatabaseError, LibraryError) as error:
        print(f"vramledger slack: {error}", file=sys.stderr)
        return MISUSE
    except (SlackClientError, OSError) as error:
        if database is not None:
            database.close()
        refused = isinstance(error, SlackApiError)
        said = f"Slack refuses ({reason(error)}): check the tokens" if refused else f"cannot reach Slack: {reason(error)}"
        print(f"vramledger slack: {said}", file=sys.stderr)
        return FAILED
    print(f"VRAM Ledger answers as @{who.get('user')} in {who.get('team')}", file=sys.stderr, flush=True)
    _until_told()
    socket.close()
    database.close()
    return 0


def _check(settings: Settings) -> None:
    """Raises SettingsError where a token is missing."""
    for name, value, kind in (
        ("VRAMLEDGER_SLACK_BOT_TOKEN", settings.slack_bot_token, "xoxb-"),
        ("VRAMLEDGER_SLACK_APP_TOKEN", settings.slack_app_token, "xapp-"),
    ):
        if value is None or not value.get_secret_value().startswith(kind):
            raise SettingsError(f"{name}: set it to the token that begins with {kind} (README: Slack)")


def _until_told() -> None:
    told = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        told.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    told.wait()
