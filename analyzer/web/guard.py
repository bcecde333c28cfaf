"""Stands before the application, for every request: foreign pages, rates, security headers, and answers that come before a body's end."""

from __future__ import annotations

import ipaddress
import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import anyio
from starlette.datastructures import MutableHeaders
from starlette.requests import Request

from analyzer.web import negotiate
from analyzer.web.problems import Problem, response

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from analyzer.settings import Settings

_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
#: Pages take scripts and styles from here only, nothing is framed, nothing is sent elsewhere.
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",  # an id is a capability
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
    "X-Robots-Tag": "noindex",
}
#: How much of a body is still read after its answer was sent, so that the sender sees the answer and no reset connection.
LINGER_SECONDS = 2.0
LINGER_BYTES = 64 << 20
_MINUTE = 60.0


class Rates:
    """Counts an address's requests in each minute. One process's memory: a limit against accidents, not against a botnet."""

    def __init__(self, uploads: int, reads: int) -> None:
        self._limits = {"upload": uploads, "read": reads}
        self._window = 0.0
        self._counts: dict[tuple[str, str], int] = {}

    def wait(self, address: str, kind: str, now: float) -> int | None:
        """Count a request; seconds to wait where it is one too many."""
        if now - self._window >= _MINUTE:
            self._window = now
            self._counts.clear()
        key = (address, kind)
        self._counts[key] = self._counts.get(key, 0) + 1
        if self._counts[key] <= self._limits[kind]:
            return None
        return max(1, round(self._window + _MINUTE - now))


def address(scope: Scope) -> str:
    """Whom a request is counted to: the address, of IPv6 the network of one customer (/64)."""
    client = scope.get("client")
    if not client:
        return "local"
    try:
        found = ipaddress.ip_address(client[0])
    except ValueError:
        return str(client[0])
    return str(found) if found.version == 4 else str(ipaddress.ip_network((found, 64), strict=False))


class Guard:
    """The outermost layer of the application."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._settings = settings
        self._rates = Rates(settings.rate_limit, settings.read_rate_limit) if settings.rate_limit else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        exchange = _Exchange(request, receive, send)
        problem = self._foreign(request) or self._too_many(request)
        if problem is None:
            await self._app(scope, exchange.receive, exchange.send)
            return
        answer = response(problem, negotiate.error_form(request), negotiate.language(request, self._settings.lang))
        await answer(scope, exchange.receive, exchange.send)

    def _foreign(self, request: Request) -> Problem | None:
        """A problem where another site's page sends a browser here to change something."""
        if request.method in _SAFE:
            return None
        site = request.headers.get("sec-fetch-site", "none").lower()
        origin = request.headers.get("origin")
        foreign = site not in ("none", "same-origin") or (origin is not None and not self._ours(origin, request))
        return Problem("forbidden", "another site's page may not do this; open this server's own page") if foreign else None

    def _ours(self, origin: str, request: Request) -> bool:
        own = self._settings.public_url
        if own is not None and origin.lower() == own.lower():
            return True
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        return parts.scheme in ("http", "https") and parts.netloc.lower() == request.headers.get("host", "").lower()

    def _too_many(self, request: Request) -> Problem | None:
        path = request.url.path
        if self._rates is None or path in ("/healthz", "/readyz", "/metrics", "/slack/events") or path.startswith("/static/"):
            return None
        kind = "read" if request.method in (*_SAFE, "DELETE") else "upload"
        seconds = self._rates.wait(address(request.scope), kind, time.monotonic())
        if seconds is None:
            return None
        return Problem("rate_limited", f"too many requests from your address; try again in {seconds} s", {"Retry-After": str(seconds)})


class _Exchange:
    """One request and its answer: knows whether the body was read to its end, and reads on for a while where it was not."""

    def __init__(self, request: Request, receive: Receive, send: Send) -> None:
        self._request = request
        self._receive = receive
        self._send = send
        headers = request.headers
        self._pending = "transfer-encoding" in headers or headers.get("content-length", "0") != "0"
        self._asked = headers.get("expect", "").lower() != "100-continue"  # the sender has been told to go on, or does not ask

    async def receive(self) -> Message:
        self._asked = True
        message = await self._receive()
        if message["type"] == "http.disconnect" or not message.get("more_body"):
            self._pending = False
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(raw=list(message.get("headers", [])))
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            if self._pending:
                headers["Connection"] = "close"
            message = {**message, "headers": headers.raw}
        elif not message.get("more_body") and self._pending and self._asked:
            await self._send({**message, "more_body": True})
            await self._drain()
            message = {"type": "http.response.body", "body": b"", "more_body": False}
        await self._send(message)

    async def _drain(self) -> None:
        left = LINGER_BYTES
        with anyio.move_on_after(LINGER_SECONDS):
            while self._pending and left > 0:
                message = await self.receive()
                left -= len(message.get("body", b""))
