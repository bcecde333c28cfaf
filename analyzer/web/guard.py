"""Stands before the application, for every request: foreign pages, rates, security headers, and answers that come before a body's end."""

from __future__ import annotations

import ipaddress
import math
import re
import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import anyio
from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import SlidingWindowCounterRateLimiter
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
    # An id is a capability and goes to no other site. "no-referrer" would make browsers send "Origin: null" with our own forms too.
    "Referrer-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
    "X-Robots-Tag": "noindex",
}
#: How much of a body is still read after its answer was sent, so that the sender sees the answer and no reset connection.
LINGER_SECONDS = 2.0
LINGER_BYTES = 64 << 20


class Rates:
    """Bounds an address's requests in any minute. One process's memory: against accidents and the careless, not against a botnet."""

    def __init__(self, uploads: int, reads: int) -> None:
        self._limits = {"upload": RateLimitItemPerMinute(uploads), "read": RateLimitItemPerMinute(reads)}
        self._windows = SlidingWindowCounterRateLimiter(MemoryStorage())

    def wait(self, address: str, kind: str) -> int | None:
        """Count a request; seconds to wait where it is one too many."""
        limit = self._limits[kind]
        if self._windows.hit(limit, kind, address):
            return None
        return min(60, max(1, math.ceil(self._windows.get_window_stats(limit, kind, address).reset_time - time.time())))


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches ``host``."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


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
        problem = self._rebound(request) or self._foreign(request) or self._too_many(request)
        if problem is None:
            await self._app(scope, exchange.receive, exchange.send)
            return
        answer = response(problem, negotiate.error_form(request), negotiate.language(request, self._settings.lang))
        await answer(scope, exchange.receive, exchange.send)

    def _rebound(self, request: Request) -> Problem | None:
        """A problem where a server that listens on loopback is called by another name: a web page's own, turned to this machine.

        A proxy in front of it is named by VRAMLEDGER_TRUSTED_PROXIES or VRAMLEDGER_PUBLIC_URL; what Slack sends is signed.
        """
        settings = self._settings
        host = request.headers.get("host")
        if host is None or settings.trusted_proxies or not is_loopback(settings.host) or request.url.path.startswith("/slack/"):
            return None
        name = re.sub(r":\d*$", "", host.strip()).lower()
        if is_loopback(name) or name.endswith(".localhost") or name == settings.host.lower():
            return None
        if settings.public_url is not None and host.lower() == urlsplit(settings.public_url).netloc.lower():
            return None
        return Problem("forbidden", "this server answers to localhost only; behind a proxy, set VRAMLEDGER_PUBLIC_URL to its address")

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
        seconds = self._rates.wait(address(request.scope), kind)
        if seconds is None:
            return None
        return Problem(
            "rate_limited", "too many requests from your address; try again in {seconds} s", {"Retry-After": str(seconds)}, seconds=seconds
        )


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
