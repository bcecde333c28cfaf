from __future__ import annotations

import math
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import select, text

from analyzer.model import LANGUAGES, Fact, Source
from analyzer.store import repository, search
from analyzer.store.models import TABLES
from analyzer.store.models import Fact as FactRow
from analyzer.store.models import Fix as FixRow
from analyzer.store.models import Input as InputRow
from analyzer.store.repository import CursorError, StaleError
from analyzer.store.values import HistoryFilter
from tests.store.conftest import kept, new, report

if TYPE_CHECKING:
    from pathlib import Path

    from analyzer.store.database import Database


def _rows(database: Database) -> dict[str, int]:
    with database.read() as session:
        return {model.__tablename__: session.query(model).count() for model in TABLES}


def test_what_is_stored_comes_back(database: Database) -> None:
    made = new(report(), "first\n", "second\n")
    repository.create(database, made)
    back = repository.get(database, made.id)
    assert back is not None
    assert back.report is not None
    assert (back.id, back.created, back.revision, back.state) == (made.id, made.created, 0, "done")
    for language in LANGUAGES:
        assert back.report.to_json(language) == made.report.to_json(language)
    assert [b"".join(item.text.pieces()) for item in repository.inputs(database, made.id)] == [b"first\n", b"second\n"]
    assert repository.get(database, "nobody") is None
    assert repository.inputs(database, "nobody") == []


def test_facts_can_be_asked_across_analyses(database: Database) -> None:
    for _ in range(2):
        repository.create(database, new())
    with database.read() as session:
        rows = session.scalars(select(FactRow).where(FactRow.name == "weights", FactRow.bytes > 8_000_000_000)).all()
        assert [(row.number, row.unit, row.rank, row.line) for row in rows] == [(7.51, "GiB", 0, 3)] * 2
        assert "--gpu-memory-utilization" in session.scalars(select(FixRow.changes)).all()[0]


@pytest.mark.parametrize(
    "fact",
    [
        Fact("x" * 500, 10**400, "count", Source("a\0b", 1, "\0")),
        Fact("x", math.inf, "s", Source("a", 1, "")),
        Fact("x", math.nan, "s", Source("a", 1, "")),
        Fact("x", 10**30, "GiB", Source("a", 1, ""), rank=10**20, gpu=-(10**20), pid=2**63),
        Fact("x", "half \ud83d and \0", "name", Source("a\ud83d", 1, ""), time="\0"),
        Fact("x", True, "bool", Source("a", 1, "")),
    ],
)
def test_whatever_a_log_prints_fits(database: Database, fact: Fact) -> None:
    made = report(cause="c" * 300, text="\0 \ud83d")
    made.facts = [fact]
    made.engine.version = "1" * 300
    repository.create(database, stored := new(made))
    assert repository.get(database, stored.id) is not None
    assert repository.history(database, HistoryFilter()).items[0].id == stored.id


def test_equal_texts_are_stored_once_and_go_with_the_last(database: Database) -> None:
    first, second = new(report(), "same\n", "same\n"), new(report(), "same\n", "other\n")
    repository.create(database, first)
    repository.create(database, second)
    with database.read() as session:
        assert sorted(session.scalars(select(InputRow.refs))) == [1, 3]
    assert repository.delete(database, first.id)
    assert [b"".join(item.text.pieces()) for item in repository.inputs(database, second.id)] == [b"same\n", b"other\n"]
    assert repository.delete(database, second.id)
    assert set(_rows(database).values()) == {0}
    assert not repository.delete(database, second.id)


def test_a_broken_transaction_leaves_nothing(database: Database) -> None:
    made = new(report(), "text\n")
    repository.create(database, made)
    before = _rows(database)
    with pytest.raises(Exception, match=r"(?i)unique"):
        repository.create(database, made)
    assert _rows(database) == before
    with database.read() as session:
        assert session.scalars(select(InputRow.refs)).all() == [1]


def test_inputs_are_added_under_the_same_id(database: Database) -> None:
    made = new(report("a"), "first\n")
    repository.create(database, made)
    later = made.created + timedelta(minutes=1)
    repository.replace(database, made.id, 0, report("b"), [kept("second\n", "smi.txt")], later)
    back = repository.get(database, made.id)
    assert back is not None
    assert back.report is not None
    assert (back.revision, back.created, back.updated, back.report.outcome.cause) == (1, made.created, later, "b")
    assert [(item.name, b"".join(item.text.pieces())) for item in repository.inputs(database, made.id)] == [
        ("engine.log", b"first\n"),
        ("smi.txt", b"second\n"),
    ]
    with pytest.raises(StaleError):
        repository.replace(database, made.id, 0, report("c"), [kept("third\n")], later)
    assert len(repository.inputs(database, made.id)) == 2
    assert _rows(database)["findings"] == 1


def test_history_is_newest_first_and_pages_meet(database: Database) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    made = [new(report(), created=start + timedelta(seconds=number // 2)) for number in range(7)]  # two at a time
    for analysis in made:
        repository.create(database, analysis)
    wanted = sorted(((analysis.created, analysis.id) for analysis in made), reverse=True)
    seen, cursor = [], None
    while True:
        page = repository.history(database, HistoryFilter(), cursor, limit=3)
        seen += [(item.created, item.id) for item in page.items]
        if page.next_cursor is None:
            break
        cursor = page.next_cursor
    assert seen == wanted


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (HistoryFilter(), ["c", "b", "a"]),
        (HistoryFilter(cause="a"), ["a"]),
        (HistoryFilter(engine="sglang"), ["b"]),
        (HistoryFilter(since=datetime(2026, 1, 2, tzinfo=UTC)), ["c", "b"]),
        (HistoryFilter(since=datetime(2026, 1, 2, 9, tzinfo=UTC) - timedelta(hours=1)), ["c"]),
        (HistoryFilter(q="weights do NOT"), ["c", "b", "a"]),
        (HistoryFilter(q="放不下"), ["c", "b", "a"]),
        (HistoryFilter(q="%"), []),
        (HistoryFilter(q="_"), []),
        (HistoryFilter(q="\0"), []),
        (HistoryFilter(q="engine.LOG", cause="b"), ["b"]),
    ],
)
def test_history_is_narrowed(database: Database, wanted: HistoryFilter, found: list[str]) -> None:
    for day, (cause, engine) in enumerate([("a", "vllm"), ("b", "sglang"), ("c", "vllm")], 1):
        repository.create(database, new(report(cause, engine=engine), created=datetime(2026, 1, day, tzinfo=UTC)))
    assert [item.cause for item in repository.history(database, wanted).items] == found


@pytest.mark.parametrize("cursor", ["x", "!!", "AAAA", "MjAyNiB4", "bm90IGEgZGF0ZSB4eA", "\0"])
def test_a_bad_cursor_is_said(database: Database, cursor: str) -> None:
    with pytest.raises(CursorError):
        repository.history(database, HistoryFilter(), cursor)


def test_retention_takes_what_is_old(database: Database) -> None:
    now = datetime.now(UTC)
    old, young = new(report(), "old\n", created=now - timedelta(days=40)), new(report(), "young\n", created=now)
    repository.create(database, old)
    repository.create(database, young)
    assert repository.expire(database, now - timedelta(days=30)) == 1
    assert repository.get(database, old.id) is None
    assert repository.get(database, young.id) is not None
    assert repository.expire(database, now - timedelta(days=30)) == 0


def test_two_deletions_at_once_count_an_input_down_once(database: Database) -> None:
    first, second = new(report(), "shared\n"), new(report(), "shared\n")
    repository.create(database, first)
    repository.create(database, second)
    gone: list[bool] = []
    threads = [threading.Thread(target=lambda: gone.append(repository.delete(database, first.id))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(gone) == [False, False, False, True]
    assert b"".join(repository.inputs(database, second.id)[0].text.pieces()) == b"shared\n"


def test_many_writers_at_once(database: Database) -> None:
    errors: list[BaseException] = []

    def write() -> None:
        try:
            for _ in range(3):
                repository.create(database, new(report(), "a\n", "b\n", "c\n"))
        except BaseException as error:  # noqa: BLE001 — told to the test's thread
            errors.append(error)

    threads = [threading.Thread(target=write) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert repository.count(database) == 18
    with database.read() as session:
        assert session.scalars(select(InputRow.refs)).all() == [18, 18, 18]


def test_deleting_leaves_no_byte_of_the_input(database: Database, tmp_path: Path) -> None:
    marker = "unmistakable-marker-of-this-test"
    made = report(cause=marker, text=marker)
    made.facts = [Fact("gpu.name", marker, "name", Source(marker, 1, marker))]
    stays, goes = new(), new(made, marker + "\n")
    repository.create(database, stays)
    repository.create(database, goes)
    compressed = goes.inputs[0].text.compressed
    if database.is_sqlite:
        files = [tmp_path / "store.db", tmp_path / "store.db-wal"]
        before = b"".join(path.read_bytes() for path in files)
        assert marker.encode() in before
        assert compressed in before
    repository.delete(database, goes.id)
    if database.is_sqlite:
        after = b"".join(path.read_bytes() for path in files)
        assert marker.encode() not in after
        assert compressed not in after
    else:
        with database.read() as session:
            vacuumed = text(
                "SELECT min(vacuum_count) FROM pg_stat_user_tables WHERE relname <> 'alembic_version' AND schemaname = 'public'"
            )
            assert session.execute(text("SELECT count(*) FROM facts WHERE words = :m"), {"m": marker}).scalar() == 0
        # PostgreSQL's statistics arrive some time after the command that they count.
        deadline = time.monotonic() + 20
        while True:
            with database.read() as session:
                count = session.execute(vacuumed).scalar()
            if count >= 1 or time.monotonic() > deadline:
                break
            time.sleep(0.1)
        assert count >= 1
    assert repository.get(database, stays.id) is not None


def test_search_forgets_what_no_analysis_has(database: Database) -> None:
    first, second = new(report("a")), new(report("a"))
    other = report("b")
    other.inputs[0].name = "Only-Here.log"
    third = new(other)
    for analysis in (first, second, third):
        repository.create(database, analysis)

    def found(words: str) -> set[str]:
        return {item.id for item in repository.history(database, HistoryFilter(q=words)).items}

    assert found("only-here") == {third.id}
    assert found("ENGINE.log") == {first.id, second.id}
    assert found(third.id) == {third.id}
    renamed = report("c")
    renamed.inputs[0].name = "renamed.log"
    repository.replace(database, third.id, 0, renamed, [], datetime.now(UTC))
    assert found("only-here") == set()
    assert found("renamed") == {third.id}
    repository.delete(database, first.id)
    assert found("engine.log") == {second.id}
    repository.delete(database, second.id)
    repository.delete(database, third.id)
    with database.read() as session:
        assert session.execute(text("SELECT count(*) FROM terms")).scalar() == 0
        assert session.execute(text("SELECT count(*) FROM analysis_terms")).scalar() == 0


@pytest.mark.parametrize("few", [0, 3, 1000])
def test_search_finds_the_same_whatever_way_it_takes(database: Database, monkeypatch: pytest.MonkeyPatch, few: int) -> None:
    monkeypatch.setattr(search, "FEW_TERMS", few)
    monkeypatch.setattr(search, "_EACH_BY_ITSELF", few // 2)
    start = datetime(2026, 1, 1, tzinfo=UTC)
    wanted = []
    for number in range(9):
        made = report("ab"[number % 2])
        made.inputs[0].name = f"pod-{number % 5}.log"
        analysis = new(made, created=start + timedelta(minutes=number // 2))
        repository.create(database, analysis)
        wanted.append((analysis.created, analysis.id, made.outcome.cause))
    wanted.sort(reverse=True)
    for cause in (None, "a", "b"):
        seen, cursor = [], None
        while True:
            page = repository.history(database, HistoryFilter(q="POD-", cause=cause), cursor, limit=2)
            seen += [item.id for item in page.items]
            if page.next_cursor is None:
                break
            cursor = page.next_cursor
        assert seen == [identifier for _, identifier, known in wanted if cause in (None, known)]
