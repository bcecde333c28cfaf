"""``vramledger serve``: migrate, bind, serve until told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any, ClassVar, cast

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from analyzer.patterns.load import LibraryError
from analyzer.settings import Settings, SettingsError, load
from analyzer.store.database import Database, DatabaseError
from analyzer.store.upgrade import upgrade
from analyzer.web import observe, traces
from analyzer.web.app import create_app, guarded
from analyzer.web.body import REST
from analyzer.web.guard import is_loopback
from analyzer.web.traces import TracesError

if TYPE_CHECKING:
    import socket

    from analyzer.web.body import Pipes
    from analyzer.web.service import Service

#: How long open uploads may take to be analysed and stored once the server was told to stop.
_SHUTDOWN_SECONDS = 20


#: Exit statuses of the command.
FAILED, MISUSE = 1, 64


class ServeError(RuntimeError):
    """Why the server does not start."""


class Protocol(H11Protocol):
    """HTTP/1.1 that keeps what had come of a body when its connection broke: the end of a pipe is its most telling part.

    A connection that does not send the whole head of a request within ``head_seconds`` is closed, and so is one of an address that
    has ``per_address`` of them open.
    """

    head_seconds = 30.0
    per_address = 0  # no bound
    open_connections: ClassVar[Counter[str]] = Counter()
    _late: asyncio.TimerHandle | None = None
    _counted: str | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait_for_head()
        if self.per_address and self.client:
            self._counted = self.client[0]
            self.open_connections[self._counted] += 1
            if self.open_connections[self._counted] > self.per_address:
                transport.close()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._wait_for_head()
        elif self._late is not None:
            self._late.cancel()
            self._late = None

    def _wait_for_head(self) -> None:
        if self._late is None:
            self._late = self.loop.call_later(self.head_seconds, self._too_late)

    def _too_late(self) -> None:
        self._late = None
        if self.conn.their_state is h11.IDLE and (self.cycle is None or self.cycle.response_complete) and not self.transport.is_closing():
            self.transport.write(b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._late is not None:
            self._late.cancel()
        if self._counted is not None:
            self.open_connections[self._counted] -= 1
            if self.open_connections[self._counted] <= 0:
                del self.open_connections[self._counted]
        if self.cycle is not None and not self.cycle.response_complete:
            cast("dict[str, object]", self.cycle.scope)[REST] = bytes(self.cycle.body)
        super().connection_lost(exc)


class Server(uvicorn.Server):
    """Says where it listens, and ends waiting pipes before it stops, so that they are stored."""

    def __init__(self, config: uvicorn.Config, pipes: Pipes) -> None:
        super().__init__(config)
        self._pipes = pipes

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for server in getattr(self, "servers", ()):
            for listening in server.sockets:
                host, port = listening.getsockname()[:2]
                print(f"VRAM Ledger at http://{f'[{host}]' if ':' in host else host}:{port}", file=sys.stderr, flush=True)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._pipes.stop()
        await super().shutdown(sockets)


def run(host: str | None = None, port: int | None = None, *, public: bool = False, settings: Settings | None = None) -> int:
    """Serve until a signal; the command's exit status. What is None (or False) is taken from the environment and vramledger.toml.

    Whatever keeps the server from starting is said in a line on standard error.
    """
    try:
        settings = settings or load(host=host, port=port, public=public or None)
        check_binding(settings)
        upgrade(settings.database)
        made = server(settings)
    except (ServeError, SettingsError, DatabaseError, LibraryError, TracesError) as error:
        print(f"vramledger serve: {error}", file=sys.stderr)
        return MISUSE
    _allow_files(settings.max_connections + 256)
    with contextlib.suppress(KeyboardInterrupt):  # the signal that ended it, given on once everything is stored
        made.run()
    return 0 if made.started else FAILED


def _allow_files(wanted: int) -> None:
    """Every connection is an open file: raise the process's own bound as far as the system lets it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def server(settings: Settings) -> Server:
    """The server over a migrated database, not started yet. Raises LibraryError where a user's own patterns are wrong."""
    observe.configure(settings.log)
    traces.start(settings, "vramledger-web")
    app = create_app(settings, Database(settings.database))
    here: Service = app.state.service
    _ = here.library
    proxies = list(settings.trusted_proxies)
    own = {
        "head_seconds": settings.upload_timeout,
        "per_address": 0 if proxies else settings.connections_per_address,
        "open_connections": Counter(),
    }
    options: dict[str, Any] = {"proxy_headers": bool(proxies)}
    if proxies:
        options["forwarded_allow_ips"] = proxies
    config = uvicorn.Config(
        guarded(app),
        host=settings.host,
        port=settings.port,
        http=type("Protocol", (Protocol,), own),
        limit_concurrency=settings.max_connections,
        ws="none",
        lifespan="on",
        log_level="warning",
        access_log=False,  # a path holds an id, and an id is a capability
        server_header=False,
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        **options,
    )
    return Server(config, here.pipes)


def check_binding(settings: Settings) -> None:
    """Raises ServeError where others could reach the server and nobody has said that they may."""
    if is_loopback(settings.host) or settings.tokens or settings.public:
        return
    raise ServeError(
        f"refusing to listen on {settings.host}: others could read the history and upload. "
        "Set VRAMLEDGER_TOKENS (history and deletion then need one), or say --public (VRAMLEDGER_PUBLIC=1) if that is meant."
    )
