"""What is written of a request: an id that the answer names too, the route, how it ended and how long it took. No path, no text."""

from __future__ import annotations

import json
import logging
import re
import secrets
import sys
import time
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from starlette.datastructures import Headers, MutableHeaders

from analyzer.web import traces

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

REQUEST_HEADER = "X-Request-ID"
#: An id that somebody in front gave is kept, if it is one.
_GIVEN = re.compile(r"[A-Za-z0-9._-]{8,64}")
#: The request that is being answered, for log lines and errors.
request_id: ContextVar[str | None] = ContextVar("vramledger_request_id", default=None)
_log = logging.getLogger("vramledger.request")
_QUIET = ("/healthz", "/readyz", "/metrics")


class JsonLines(logging.Formatter):
    """A log record as a line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        current = request_id.get()
        if current is not None:
            line["request_id"] = current
        return json.dumps({**line, **getattr(record, "fields", {})}, ensure_ascii=False)


def configure(form: str) -> None:
    """``json``: everything as lines of JSON on standard error, a line for each request; ``text``: only what went wrong, for people."""
    logger = logging.getLogger("vramledger")
    if form != "json" or any(isinstance(handler.formatter, JsonLines) for handler in logger.handlers):
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name in ("vramledger", "uvicorn"):
        logging.getLogger(name).handlers = [handler]
        logging.getLogger(name).propagate = False
    logger.setLevel(logging.INFO)


class Observing:
    """The layer around everything: gives each request its id, its log line and its span."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given = headers.get(REQUEST_HEADER, "")
        identifier = given if _GIVEN.fullmatch(given) else secrets.token_hex(8)
        token = request_id.set(identifier)
        start, status = time.monotonic(), 0

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)[REQUEST_HEADER] = identifier
            await send(message)

        parent = {"traceparent": headers["traceparent"]} if "traceparent" in headers else None
        try:
            with traces.span("request", parent) as seen:
                try:
                    await self._app(scope, receive, noting)
                finally:
                    route = _route(scope)
                    seen |= {
                        "name": f"{scope['method']} {route}",
                        "http.request.method": scope["method"],
                        "http.route": route,
                        "http.response.status_code": status,
                    }
        finally:
            if route not in _QUIET:
                took = round(1000 * (time.monotonic() - start))
                fields = {"method": scope["method"], "route": route, "status": status, "ms": took}
                _log.info("%s %s %d", scope["method"], route, status, extra={"fields": fields})
            request_id.reset(token)


def _route(scope: Scope) -> str:
    """The pattern of the path: an id or a file's name in it is not told."""
    found = getattr(scope.get("route"), "path_format", None) or getattr(scope.get("route"), "path", None)
    return str(found) if found else "other"
