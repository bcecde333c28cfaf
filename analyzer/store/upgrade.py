"""The schema, brought up to date under a lock, so that any number of processes may start at once."""

from __future__ import annotations

import fcntl
from contextlib import contextmanager
from typing import TYPE_CHECKING

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import OperationalError

from analyzer.data import folder
from analyzer.store.database import DatabaseError, make_engine, parsed, sqlite_file

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Key of PostgreSQL's advisory lock: "VRAM" as a number.
LOCK = 0x5652414D


def upgrade(url: str, revision: str = "head") -> str | None:
    """Bring the schema of the database at ``url`` to ``revision``, waiting for another process that is at it; the revision it has then.

    Raises DatabaseError where it cannot be reached, or is newer than this program.
    """
    return _migrate(url, revision, down=False)


def downgrade(url: str, revision: str) -> None:
    """Take the schema back to ``revision`` (``base``: nothing is left)."""
    _migrate(url, revision, down=True)


def is_current(engine: Engine) -> bool:
    """Whether the schema is the one that this program was written for. Raises OperationalError where the database cannot be reached."""
    with engine.connect() as connection:
        return _revision(connection) == head()


def head() -> str | None:
    """The newest revision of the schema."""
    return ScriptDirectory.from_config(_config()).get_current_head()


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(folder("migrations")).replace("%", "%%"))
    return config


def _revision(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _migrate(url: str, revision: str, *, down: bool) -> str | None:
    engine = make_engine(url)
    config = _config()
    try:
        with _locked(url, engine), engine.execution_options(writes=True).begin() as connection:
            now = _revision(connection)
            known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
            if now is not None and now not in known:
                raise DatabaseError(f"the database's schema ({now}) is newer than this program: upgrade vramledger")
            config.attributes["connection"] = connection
            if down:
                command.downgrade(config, revision)
            elif now != revision and (revision != "head" or now != head()):
                command.upgrade(config, revision)
            return _revision(connection)
    except OperationalError as error:
        raise DatabaseError(f"the database cannot be used: {str(error.orig).strip()}") from error
    finally:
        engine.dispose()


@contextmanager
def _locked(url: str, engine: Engine) -> Iterator[None]:
    path = sqlite_file(parsed(url))
    if path is not None:
        try:
            lock = path.with_name(path.name + ".lock").open("w")
        except OSError as error:
            raise DatabaseError(f"{path.parent} cannot be written to: {error.strerror}") from error
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        return
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as holder:
        holder.execute(text("SELECT pg_advisory_lock(:key)"), {"key": LOCK})
        try:
            yield
        finally:
            holder.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": LOCK})
