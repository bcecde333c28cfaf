"""A file of Slack's, downloaded with the bot's token: only from Slack itself, within limits, and never its sign-in page in place of it."""

from __future__ import annotations

import time
from http.client import HTTPException
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, Request, build_opener

from analyzer.model.message import MessageError
from analyzer.model.units import human

if TYPE_CHECKING:
    from collections.abc import Callable

_PIECE = 1 << 18
#: Without a byte, and for the whole of a file, in seconds.
SILENCE, WHOLE = 20.0, 120.0
#: How often a rate limit is waited for, and the longest wait.
_TRIES, _MAX_WAIT = 4, 60


class FileError(MessageError, RuntimeError):
    """A file that was not read; the message is for whoever dropped it."""


class _NoRedirect(HTTPRedirectHandler):
    """A redirect would carry the token to wherever it points."""

    def redirect_request(self, *args: Any) -> None:
        return None


def may_send_token(url: str, api_url: str) -> bool:
    """Whether ``url`` is Slack's own: the API's host, or a host of the API's domain (files.slack.com, files.slack-gov.com), over HTTPS."""
    try:
        target, api = urlsplit(url), urlsplit(api_url)
        same = (target.scheme, target.hostname, target.port) == (api.scheme, api.hostname, api.port)
        host, home = (target.hostname or "").lower(), (api.hostname or "").lower()
        standard = target.scheme == "https" and target.port in (None, 443)
    except ValueError:
        return False
    return same or (standard and home.endswith((".com", ".net")) and host.endswith("." + home.removeprefix("www.")))


def download(
    name: str,
    url: str,
    token: str,
    api_url: str,
    limit: int,
    *,
    html: bool = False,
    sleep: Callable[[float], None] = time.sleep,
) -> bytes:
    """The bytes behind ``url``, at most ``limit``. ``html``: the file itself is a page. Raises FileError."""
    if not may_send_token(url, api_url):
        raise FileError("{name} does not lie with Slack; upload it here, or paste its text", name=name)
    opener = build_opener(_NoRedirect)
    for _ in range(_TRIES):
        wait, data = _once(opener, name, url, token, limit, html=html)
        if data is not None:
            return data
        sleep(min(wait, _MAX_WAIT))
    raise FileError("{name}: Slack asks to wait; try again in a minute", name=name)


def _once(opener: OpenerDirector, name: str, url: str, token: str, limit: int, *, html: bool) -> tuple[float, bytes | None]:
    """(seconds to wait, None), or (0, the bytes)."""
    request = Request(url, headers={"Authorization": f"Bearer {token}"})  # noqa: S310 - the scheme was checked
    end = time.monotonic() + WHOLE
    data = bytearray()
    try:
        with opener.open(request, timeout=SILENCE) as answer:
            if not html and answer.headers.get_content_type() == "text/html":
                raise FileError("{name} cannot be read: the app lacks the permission files:read", name=name)
            while piece := answer.read(_PIECE):
                data += piece
                if len(data) > limit:
                    raise FileError(
                        "{name} is larger than {limit}; send its head (up to the first requests) and its tail",
                        name=name,
                        limit=human(limit),
                    )
                if time.monotonic() > end:
                    raise FileError("{name} took longer than {seconds} s; try again", name=name, seconds=format(WHOLE, "g"))
    except HTTPError as error:
        with error:
            if error.code == 429:
                after = error.headers.get("Retry-After") or "1"
                return (float(after) if after.isdecimal() else 1.0), None
            if error.code in (301, 302, 303, 307, 308):
                raise FileError("{name} cannot be read: the app lacks the permission files:read", name=name) from None
            raise FileError("{name} cannot be read: Slack answers {code}", name=name, code=error.code) from None
    except (URLError, OSError, HTTPException) as error:
        raise FileError("{name} cannot be read: {reason}", name=name, reason=type(error).__name__) from None
    return 0.0, bytes(data)
