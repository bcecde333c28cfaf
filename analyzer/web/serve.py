"""``vramledger serve``: migrate, bind, serve until told to stop."""

from __future__ import annotations

import contextlib
import ipaddress
import sys
from typing import TYPE_CHECKING, Any, cast

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from analyzer.patterns.load import LibraryError
from analyzer.settings import Settings, SettingsError, load
from analyzer.store.database import Database, DatabaseError
from analyzer.store.upgrade import upgrade
from analyzer.web.app import create_app, guarded
from analyzer.web.body import REST

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
    """HTTP/1.1 that keeps what had come of a body when its connection broke: the end of a pipe is its most telling part."""

    def connection_lost(self, exc: Exception | None) -> None:
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
    except (ServeError, SettingsError, DatabaseError, LibraryError) as error:
        print(f"vramledger serve: {error}", file=sys.stderr)
        return MISUSE
    with contextlib.suppress(KeyboardInterrupt):  # the signal that ended it, given on once everything is stored
        made.run()
    return 0 if made.started else FAILED


def server(settings: Settings) -> Server:
    """The server over a migrated database, not started yet. Raises LibraryError where a user's own patterns are wrong."""
    app = create_app(settings, Database(settings.database))
    here: Service = app.state.service
    _ = here.library
    proxies = list(settings.trusted_proxies)
    options: dict[str, Any] = {"proxy_headers": bool(proxies)}
    if proxies:
        options["forwarded_allow_ips"] = proxies
    config = uvicorn.Config(
        guarded(app),
        host=settings.host,
        port=settings.port,
        http=Protocol,
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


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches ``host``."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
