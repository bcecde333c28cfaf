"""A request's body as it comes: bounded in size and in silence, told apart whether its length was known before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from analyzer.model.message import Message
from analyzer.model.units import human
from analyzer.web.problems import Problem

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request

    from analyzer.settings import Settings

#: Bytes that are put together before they go to a worker thread.
PIECE_BYTES = 1 << 18
#: Where the server's protocol (analyzer/web/serve.py) leaves what had come when a connection broke.
REST = "vramledger.rest"

ENOUGH = Message(
    "the head of the log (up to the first requests) and its tail suffice: (head -c 20M engine.log; tail -c 20M engine.log) | curl -T - …"
)


class Pipes:
    """The bodies of unknown length that are being read: counted by address, and ended when the server stops."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._counts: dict[str, int] = {}
        self._waiting: set[anyio.CancelScope] = set()
        self.stopping = False

    def enter(self, address: str) -> None:
        """Count one more. Raises Problem where it is one too many; else ``leave`` must follow."""
        if self._counts.get(address, 0) >= self._limit:
            said = {"Retry-After": "60"}
            raise Problem("rate_limited", "{count} pipes from your address are open; end one of them first", said, count=self._limit)
        self._counts[address] = self._counts.get(address, 0) + 1

    def leave(self, address: str) -> None:
        self._counts[address] -= 1
        if not self._counts[address]:
            del self._counts[address]

    def stop(self) -> None:
        """The server ends: what is silent is cut where it is, analysed and stored."""
        self.stopping = True
        for scope in list(self._waiting):
            scope.cancel()

    def wait(self, seconds: float) -> anyio.CancelScope:
        """A scope for one wait; to be given to ``done``."""
        scope = anyio.move_on_after(0 if self.stopping else seconds)
        self._waiting.add(scope)
        return scope

    def done(self, scope: anyio.CancelScope) -> None:
        self._waiting.discard(scope)


class Body:
    """Iterate over ``pieces`` once; afterwards ``truncated`` tells whether a pipe was cut (by its sender, silence or the limit)."""

    def __init__(self, request: Request, settings: Settings, pipes: Pipes) -> None:
        """Raises Problem where the announced length is over the limit."""
        self._request = request
        self._settings = settings
        self._pipes = pipes
        self.truncated = False
        self.is_pipe = "transfer-encoding" in request.headers
        length = request.headers.get("content-length", "0")
        self.length = int(length) if not self.is_pipe and length.isdecimal() else None  # bytes that were announced
        if not self.is_pipe and length.isdecimal() and int(length) > settings.max_body_bytes:
            limit = human(settings.max_body_bytes)
            raise Problem(
                "input_too_large", "the body has {size} bytes, the limit is {limit}; {enough}", size=int(length), limit=limit, enough=ENOUGH
            )

    async def pieces(self, *, at_once: bool = False) -> AsyncIterator[bytes]:
        """The body, in pieces of about PIECE_BYTES, or (``at_once``) as it comes.

        A body of known length that breaks or falls silent raises Problem; a pipe just ends, ``truncated``.
        """
        taken = 0
        buffer = bytearray()
        more = True
        while more:
            data, more = await self._next()
            room = self._settings.max_body_bytes - taken
            if len(data) > room:
                if not self.is_pipe:
                    limit = human(self._settings.max_body_bytes)
                    raise Problem("input_too_large", "the body is larger than {limit}; {enough}", limit=limit, enough=ENOUGH)
                data, more, self.truncated = data[:room], False, True
            taken += len(data)
            buffer += data
            if len(buffer) >= PIECE_BYTES or (at_once and buffer):
                yield bytes(buffer)
                buffer.clear()
        if buffer:
            yield bytes(buffer)

    async def _next(self) -> tuple[bytes, bool]:
        settings = self._settings
        scope = self._pipes.wait(settings.pipe_idle_seconds) if self.is_pipe else anyio.move_on_after(settings.upload_timeout)
        message = None
        try:
            with scope:
                message = await self._request.receive()
        finally:
            self._pipes.done(scope)
        if message is None:
            if self.is_pipe:
                self.truncated = True
                return b"", False
            raise Problem("upload_timeout", "no byte came for {seconds} s; send it again", seconds=format(settings.upload_timeout, "g"))
        if message["type"] == "http.disconnect":
            if self.is_pipe:
                self.truncated = True
                return self._request.scope.get(REST, b""), False
            raise Problem("malformed_input", "the connection ended before the body did; send it again")
        return message.get("body", b""), message.get("more_body", False)
