"""The database behind a URL: SQLite or PostgreSQL, with what each needs to be safe. Everything that differs between the two is here."""

from __future__ import annotations

import logging
import threading
import time
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError
from sqlalchemy.orm import Session

from analyzer.store.models import TABLES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from sqlalchemy.engine import URL

#: How long a writer waits for another one, seconds.
BUSY_SECONDS = 30
#: How long a deletion waits for readers that keep the WAL from being emptied, seconds.
PURGE_SECONDS = 10
_log = logging.getLogger("vramledger")
_DIALECTS = ("sqlite", "postgresql")


class DatabaseError(RuntimeError):
    """A database that cannot be used, and why."""


def parsed(url: str) -> URL:
    """``url`` as a URL of a database that is supported. Raises DatabaseError otherwise; never shows a password."""
    try:
        found = make_url(url)
    except ArgumentError:
        raise DatabaseError(
            "the database URL cannot be read; write sqlite:////path/file.db or postgresql+psycopg://user@host/name"
        ) from None
    if found.get_backend_name() not in _DIALECTS:
        raise DatabaseError(f"{found.render_as_string()}: only sqlite and postgresql+psycopg databases are supported")
    if found.get_backend_name() == "postgresql" and found.get_driver_name() != "psycopg":
        found = found.set(drivername="postgresql+psycopg")
    if found.get_backend_name() == "sqlite" and found.database in (None, "", ":memory:"):
        raise DatabaseError("a database in memory is gone with its connection; name a file")
    return found


def sqlite_file(url: URL) -> Path | None:
    """The file of an SQLite database; None for another one."""
    return Path(str(url.database)) if url.get_backend_name() == "sqlite" else None


def make_engine(url: str) -> Engine:
    """An engine for ``url``. An SQLite file's folder is made, readable by its owner only. Raises DatabaseError where that cannot be."""
    found = parsed(url)
    path = sqlite_file(found)
    if path is None:
        return create_engine(found, hide_parameters=True, pool_pre_ping=True, pool_size=10, max_overflow=40, pool_timeout=10)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise DatabaseError(f"no database can be made in {path.parent}: {error.strerror}") from error
    # An error never shows the values of a statement: they are of inputs.
    options = {"pool_size": 10, "max_overflow": 40, "pool_timeout": 10, "hide_parameters": True}
    engine = create_engine(found, connect_args={"timeout": BUSY_SECONDS}, **options)
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: Any, record: object) -> None:
    connection.isolation_level = None  # the driver begins no transactions of its own: see _begin_sqlite
    cursor = connection.cursor()
    for pragma in (
        "journal_mode=WAL",
        "synchronous=FULL",  # an acknowledged upload survives the machine, too
        "foreign_keys=ON",
        "secure_delete=ON",  # what is deleted is overwritten
        f"busy_timeout={BUSY_SECONDS * 1000}",
    ):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    # A reader that turns writer while another writes fails at once, whatever the busy timeout: writers say so from the start.
    connection.exec_driver_sql("BEGIN IMMEDIATE" if connection.get_execution_options().get("writes") else "BEGIN")


class Database:
    """Sessions on an engine."""

    def __init__(self, url: str) -> None:
        """Raises DatabaseError for a URL that is none of the supported."""
        self.engine = make_engine(url)
        # SQLite takes one writer at a time, and lets the others look again and again: the threads of a process rather wait in a row.
        self._turn: AbstractContextManager[object] = threading.Lock() if self.is_sqlite else nullcontext()
        self._writer = self.engine.execution_options(writes=True)

    @property
    def is_sqlite(self) -> bool:
        return self.engine.dialect.name == "sqlite"

    @contextmanager
    def read(self) -> Iterator[Session]:
        """A session that only reads."""
        with Session(self.engine) as session:
            yield session

    @contextmanager
    def write(self) -> Iterator[Session]:
        """A session that is committed at the end, or rolled back by an exception."""
        with self._turn, Session(self._writer, expire_on_commit=False) as session, session.begin():
            yield session

    def insert(self, model: Any) -> Any:
        """``INSERT`` in the database's own dialect, which knows ``ON CONFLICT``."""
        return sqlite.insert(model) if self.is_sqlite else postgresql.insert(model)

    def purge(self) -> bool:
        """Leave nothing of deleted rows behind: empty the WAL, or vacuum the tables. False where a long reader holds on to them."""
        if not self.is_sqlite:
            with self.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                for model in TABLES:
                    connection.execute(text(f'VACUUM "{model.__tablename__}"'))
            return True
        end = time.monotonic() + PURGE_SECONDS
        while True:
            raw = self.engine.raw_connection()
            try:
                busy = raw.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            finally:
                raw.close()
            if not busy:
                return True
            if time.monotonic() > end:
                _log.warning("a long reader keeps what was deleted in the WAL; it goes with the next deletion or restart")
                return False
            time.sleep(0.05)

    def close(self) -> None:
        """Give the connections back."""
        self.engine.dispose()
