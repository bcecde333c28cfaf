from __future__ import annotations

import subprocess
import sys

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import inspect, text

from analyzer.store import repository
from analyzer.store.database import Database, DatabaseError, make_engine
from analyzer.store.models import Base
from analyzer.store.upgrade import downgrade, is_current, upgrade
from analyzer.store.values import HistoryFilter
from tests.store.conftest import new, report


def test_the_migrations_make_exactly_the_models(database: Database) -> None:
    with database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Base.metadata) == []


def test_down_leaves_nothing_and_up_again_works(database_url: str) -> None:
    engine = make_engine(database_url)
    assert not is_current(engine)
    upgrade(database_url)
    assert is_current(engine)
    downgrade(database_url, "base")
    assert inspect(engine).get_table_names() == ["alembic_version"]
    assert not is_current(engine)
    upgrade(database_url)
    assert is_current(engine)
    engine.dispose()


def test_upgrading_again_keeps_everything(database_url: str) -> None:
    upgrade(database_url)
    engine = make_engine(database_url)
    with engine.execution_options(writes=True).begin() as connection:
        connection.execute(text("INSERT INTO inputs (sha256, text, text_bytes, refs) VALUES (:h, :t, 1, 1)"), {"h": b"h", "t": b"t"})
    upgrade(database_url)
    with engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM inputs")).scalar() == 1
    engine.dispose()


def test_several_processes_may_upgrade_at_once(database_url: str) -> None:
    program = "import sys; from analyzer.store.upgrade import upgrade; upgrade(sys.argv[1])"
    running = [subprocess.Popen([sys.executable, "-c", program, database_url], stderr=subprocess.PIPE) for _ in range(3)]
    for process in running:
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors.decode()


def test_a_newer_schema_is_refused(database_url: str) -> None:
    upgrade(database_url)
    engine = make_engine(database_url)
    with engine.execution_options(writes=True).begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    engine.dispose()
    with pytest.raises(DatabaseError, match="newer than this program"):
        upgrade(database_url)


@pytest.mark.parametrize("url", ["nonsense", "mysql://u:secret@h/d", "sqlite://", "sqlite:///:memory:"])
def test_other_databases_are_refused_without_their_password(url: str) -> None:
    with pytest.raises(DatabaseError) as caught:
        Database(url)
    assert "secret" not in str(caught.value)


def test_data_survives_every_step_down_and_up(database_url: str) -> None:
    upgrade(database_url)
    opened = Database(database_url)
    kept = [new(report("a")), new(report("b", engine="sglang"), "two\n", "three\n")]
    for analysis in kept:
        repository.create(opened, analysis)
    before = [repository.get(opened, analysis.id) for analysis in kept]
    for revision in ("0003", "0002", "0001"):
        downgrade(database_url, revision)
        upgrade(database_url)
        assert [repository.get(opened, analysis.id) for analysis in kept] == before
        assert [len(repository.inputs(opened, analysis.id)) for analysis in kept] == [1, 2]
        found = repository.history(opened, HistoryFilter(q="ENGINE.log", engine="sglang")).items
        assert [item.id for item in found] == [kept[1].id]
    opened.close()
