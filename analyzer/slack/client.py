"""What we say to Slack: messages, uploads in three steps, threads read. Rate limits are waited for, the token goes to Slack only."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.http_retry.builtin_handlers import ConnectionErrorRetryHandler, RateLimitErrorRetryHandler, ServerErrorRetryHandler

from analyzer.slack import files, sources

if TYPE_CHECKING:
    from analyzer.slack.blocks import Answer
    from analyzer.slack.sources import SlackFile

#: How often a call that is rate limited is tried again; each time as late as Slack says.
RETRIES = 6
#: Seconds for one call.
TIMEOUT = 20
#: Messages of a thread that are read, and on one page.
THREAD, PAGE = 400, 200
#: Waits for a picture that Slack is still processing, in seconds.
_NOT_READY = (0.5, 1.0, 2.0)
#: What Slack answers where the bot is no member, or may not speak.
CLOSED = frozenset({"not_in_channel", "channel_not_found", "is_archived", "restricted_action", "no_permission", "access_denied"})
#: What it answers for a picture that it does not have (yet).
_PICTURE = frozenset({"invalid_blocks", "invalid_blocks_format", "invalid_attachments"})

logger = logging.getLogger("vramledger.slack")
#: Never below: the SDK writes whole requests at DEBUG.
logger.setLevel(max(logging.INFO, logger.level))


def web_client(token: str, api_url: str) -> WebClient:
    """Slack's Web API with ``token``."""
    handlers = [RateLimitErrorRetryHandler(RETRIES), ConnectionErrorRetryHandler(1), ServerErrorRetryHandler(1)]
    return WebClient(token, base_url=api_url, timeout=TIMEOUT, retry_handlers=handlers, logger=logger)


class _NoRedirect(HTTPRedirectHandler):
    def redirect_request(self, *args: Any) -> None:
        return None


class Slack:
    """The calls that the bot makes."""

    def __init__(self, client: WebClient, api_url: str, max_file_bytes: int, sleep: Callable[[float], None] = time.sleep) -> None:
        self.client = client
        self._api_url = api_url
        self._max_file_bytes = max_file_bytes
        self._sleep = sleep

    def post(self, channel: str, thread: str | None, said: Answer) -> tuple[str, str]:
        """A new message, in a thread where one is given: (channel, ts). Raises SlackApiError."""
        sent = self.client.chat_postMessage(
            channel=channel, thread_ts=thread, text=said.text, blocks=said.blocks, unfurl_links=False, unfurl_media=False
        )
        return str(sent["channel"]), str(sent["ts"])

    def edit(self, channel: str, ts: str, said: Answer) -> bool:
        """Put ``said`` in place of our message ``ts``; False where somebody took that away. Raises SlackApiError."""
        try:
            self.client.chat_update(channel=channel, ts=ts, text=said.text, blocks=said.blocks)
        except SlackApiError as error:
            if error_code(error) in ("message_not_found", "cant_update_message"):
                return False
            raise
        return True

    def edit_with_picture(self, channel: str, ts: str, pictured: Answer, otherwise: Answer) -> tuple[bool, bool]:
        """Like ``edit``, ``otherwise`` where Slack does not take the picture: (edited, with the picture)."""
        for wait in (*_NOT_READY, None):
            try:
                return self.edit(channel, ts, pictured), True
            except SlackApiError as error:
                if error_code(error) not in _PICTURE:
                    raise
                if wait is not None:
                    self._sleep(wait)
        return self.edit(channel, ts, otherwise), False

    def remove(self, channel: str, ts: str) -> None:
        """Take our message away; nothing where it is gone already."""
        self._quietly("message", self.client.chat_delete, channel=channel, ts=ts)

    def remove_file(self, identifier: str) -> None:
        """Take a file of ours away; nothing where it is gone already."""
        self._quietly("file", self.client.files_delete, file=identifier)

    def whisper(self, channel: str, user: str, said: Answer, thread: str | None = None) -> None:
        """A message that only ``user`` sees."""
        self._quietly(
            "word", self.client.chat_postEphemeral, channel=channel, user=user, thread_ts=thread, text=said.text, blocks=said.blocks
        )

    def upload(self, name: str, data: bytes, title: str, channel: str | None = None, thread: str | None = None) -> str | None:
        """A file's id, or None where Slack does not take it: its address is asked for, the bytes sent there, the upload completed.

        With ``channel`` it is shown there, else it is only ours to show.
        """
        try:
            asked = self.client.files_getUploadURLExternal(filename=name, length=len(data))
            self._send(str(asked["upload_url"]), data)
            entry: dict[str, str | None] = {"id": str(asked["file_id"]), "title": title}
            self.client.files_completeUploadExternal(files=[entry], channel_id=channel, thread_ts=thread)
        except (SlackClientError, URLError, OSError) as error:
            logger.warning("%s was not uploaded: %s", name, reason(error))
            return None
        return str(asked["file_id"])

    def _send(self, url: str, data: bytes) -> None:
        """The second step: its address is secret, so it needs no token and gets none."""
        if urlsplit(url).scheme not in ("https", urlsplit(self._api_url).scheme):
            raise OSError("an upload address that is not HTTPS")
        request = Request(url, data=data, headers={"Content-Type": "application/octet-stream"}, method="POST")  # noqa: S310 - checked above
        with build_opener(_NoRedirect).open(request, timeout=TIMEOUT) as answer:
            answer.read()

    def download(self, file: SlackFile) -> bytes:
        """A file's bytes. Raises FileError with what to tell whoever dropped it."""
        if file.check:  # of a shared channel: its record must be asked for
            try:
                found = sources.slack_file({**self.client.files_info(file=file.id)["file"], "file_access": "visible"})
            except SlackApiError as error:
                raise files.FileError("{name} cannot be read: Slack says {code}", name=file.name, code=error_code(error)) from None
            if found is None:
                raise files.FileError("{name} has no text that could be read", name=file.name)
            file = found
        limit = self._max_file_bytes
        html = file.mimetype == "text/html"
        token = str(self.client.token)
        return files.download(file.name, file.url, token, self._api_url, limit, html=html, sleep=self._sleep)

    def thread(self, channel: str, thread: str) -> list[dict[str, Any]]:
        """The messages of a thread, oldest first, at most THREAD; empty where they may not be read."""
        found: list[dict[str, Any]] = []
        cursor: str | None = None
        while len(found) < THREAD:
            page = self._messages(self.client.conversations_replies, channel=channel, ts=thread, limit=PAGE, cursor=cursor)
            if page is None:
                break
            found += page.get("messages") or []
            cursor = (page.get("response_metadata") or {}).get("next_cursor")
            if not cursor:
                break
        return found[:THREAD]

    def around(self, channel: str, ts: str, seconds: float) -> list[dict[str, Any]]:
        """The messages that were sent within ``seconds`` of ``ts``, on the channel's top level."""
        moment = float(ts)
        bounds = {"oldest": f"{moment - seconds:.6f}", "latest": f"{moment + seconds:.6f}"}
        page = self._messages(self.client.conversations_history, channel=channel, inclusive=True, limit=100, **bounds)
        return list(page.get("messages") or []) if page is not None else []

    def _messages(self, call: Callable[..., Any], **options: Any) -> Any | None:
        try:
            return call(**options)
        except SlackClientError as error:
            logger.warning("messages could not be read: %s", reason(error))
            return None

    def _quietly(self, what: str, call: Callable[..., Any], **options: Any) -> None:
        try:
            call(**options)
        except SlackClientError as error:
            logger.info("a %s of ours was not changed: %s", what, reason(error))


def error_code(error: SlackApiError) -> str:
    """Slack's own word for an error."""
    response: Any = error.response
    code = response.get("error") if response is not None else None
    return str(code or "unknown_error")


def reason(error: Exception) -> str:
    """An error in a word for the log: no address and no body, which may hold what must not be there."""
    return error_code(error) if isinstance(error, SlackApiError) else type(error).__name__


def told(texts: Sequence[str]) -> tuple[str, ...]:
    """Notes for a reply, each once, at most five."""
    return tuple(dict.fromkeys(texts))[:5]
