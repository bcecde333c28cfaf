"""Analyses that nobody waits for: accepted at once, done once, followed by events, and never a loop."""

from __future__ import annotations

import gzip
import json
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from analyzer import settings
from analyzer.jobs import worker
from analyzer.jobs.queue import Jobs
from analyzer.jobs.work import Workshop
from analyzer.model.message import Message
from analyzer.patterns.runner import runner
from analyzer.readers import anchors
from analyzer.store import queued, repository
from analyzer.store.database import Database
from analyzer.store.upgrade import upgrade
from analyzer.web import queueing
from analyzer.web.metrics import Metrics
from tests.store.conftest import kept
from tests.web.conftest import CAUSE, LOG, SMI, Running, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def live(module_database_url: str) -> Iterator[Running]:
    with running(module_database_url) as found:
        yield found


def work(server: Running) -> None:
    """Let whoever works on this kind of database do so."""
    if server.database.is_sqlite:
        end = time.monotonic() + 20
        while any(queued.depth(server.database).values()) and time.monotonic() < end:
            time.sleep(0.05)
    else:
        chosen = settings.load(database_url=server.database.engine.url.render_as_string(hide_password=False))
        assert worker.run(settings=chosen, until_empty=True) == 0


def shop(database: Database, **given: Any) -> Workshop:
    chosen = settings.load(database_url=database.engine.url.render_as_string(hide_password=False), **given)
    return Workshop(chosen, database, runner((), anchors()).library, Metrics())


def put(database: Database, text: str = LOG.decode(), identifier: str = "a" * 22) -> str:
    queued.enqueue(database, identifier, datetime.now(UTC), b"hash", [kept(text)], "node-7")
    return identifier


def test_a_queued_input_ends_with_the_report_of_a_waited_for_one(live: Running) -> None:
    with live.client() as client:
        answer = client.post("/v1/analyses", params={"wait": "0", "name": "engine.log", "host": "node-7"}, content=gzip.compress(LOG))
        assert (answer.status_code, answer.json()["state"]) == (202, "queued")
        place = answer.headers["location"]
        work(live)
        later = client.get(place).json()
        at_once = client.post("/v1/analyses", params={"name": "engine.log"}, content=gzip.compress(LOG)).json()
        assert later["outcome"]["cause"] == CAUSE
        own = ("id", "url", "created")
        assert {key: later[key] for key in later if key not in own} == {key: at_once[key] for key in at_once if key not in own}
        done = client.get(f"{place}/events").text
        assert done.startswith("event: done\ndata: ")
        assert json.loads(done.split("data: ")[1])["outcome"] == {"state": "failed", "cause": CAUSE}
        assert client.delete(place, headers={"X-Delete-Token": answer.headers["x-delete-token"]}).status_code == 204


def test_a_form_is_queued_whole(live: Running) -> None:
    with live.client() as client:
        files = [("files", ("engine.log", LOG)), ("files", ("smi.txt", SMI))]
        place = client.post("/v1/analyses?wait=0", files=files).headers["location"]
        work(live)
        assert [one["name"] for one in client.get(place).json()["inputs"]] == ["engine.log", "smi.txt"]


def test_what_is_too_large_to_hold_is_analysed_while_it_comes(live: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queueing, "HOLD_BYTES", 1000)
    with live.client() as client:
        answer = client.post("/v1/analyses?wait=0", content=LOG)
        assert (answer.status_code, answer.json()["state"]) == (202, "done")
        assert client.get(answer.headers["location"]).json()["outcome"]["cause"] == CAUSE


@pytest.mark.parametrize(
    ("content", "code"), [(b" \n ", "empty_input"), (b"\0\1\2\3" * 500, "not_text"), (gzip.compress(LOG)[:-30], "malformed_input")]
)
def test_what_cannot_be_read_is_refused_at_once(live: Running, content: bytes, code: str) -> None:
    before = repository.count(live.database)
    with live.client() as client:
        assert client.post("/v1/analyses?wait=0", content=content).json()["type"] == code
    assert repository.count(live.database) == before


def test_what_waits_is_redacted(live: Running) -> None:
    with live.client() as client:
        place = client.post("/v1/analyses?wait=0", content=LOG + b"\nexport HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyzABCDEF12\n").headers[
            "location"
        ]
        text = b"".join(b"".join(one.text.pieces()) for one in repository.inputs(live.database, place.rpartition("/")[2]))
        assert b"hf_abcdefgh" not in text
        work(live)


def test_events_tell_how_it_goes_on(live: Running) -> None:
    identifier = put(live.database, identifier="p" * 22)
    if live.database.is_sqlite:
        return  # taken before it can be looked at
    with live.client() as client, client.stream("GET", f"/v1/analyses/{identifier}/events") as answer:
        lines = answer.iter_lines()
        assert next(lines) == "event: progress"
        assert json.loads(next(lines).removeprefix("data: ")) == {"id": identifier, "state": "queued", "ahead": 0, "tries": 0}
        Jobs(settings.load(job_lease_seconds=0.01), live.database).defer([identifier])
        work(live)
        assert "event: done" in list(lines)


def test_two_never_have_the_same(database: Database) -> None:
    identifier = put(database)
    now = datetime.now(UTC)
    assert queued.claim(database, identifier, now) is not None
    assert queued.claim(database, identifier, now) is None
    assert shop(database).work_on(identifier) == "gone"


def test_what_a_killed_worker_had_is_begun_again_and_given_up_in_the_end(database: Database) -> None:
    identifier = put(database)
    lease = timedelta(seconds=5)
    now = datetime.now(UTC)
    for tries in range(1, queued.MOST_TRIES + 1):
        claimed = queued.claim(database, identifier, now)
        assert claimed is not None
        assert claimed.tries == tries
        assert queued.lost(database, now + lease / 2, lease) == (0, 0)
        now += 2 * lease
        assert queued.lost(database, now, lease) == ((0, 1) if tries == queued.MOST_TRIES else (1, 0))
    found = repository.get(database, identifier)
    assert found is not None
    assert found.state == "failed"
    assert "ended each of the 3 times" in str(found.error)


def test_a_late_worker_changes_nothing(database: Database) -> None:
    identifier = put(database)
    first = queued.claim(database, identifier, datetime.now(UTC))
    assert first is not None
    queued.lost(database, datetime.now(UTC) + timedelta(minutes=5), timedelta(minutes=1))
    assert shop(database).work_on(identifier) == "done"
    queued.fail(database, first, Message("late"), datetime.now(UTC))
    found = repository.get(database, identifier)
    assert found is not None
    assert (found.state, found.error, found.revision) == ("done", None, 1)


@pytest.mark.parametrize("error", [ValueError("x"), KeyError("y")])
def test_our_mistake_fails_with_its_reason_and_is_not_tried_again(
    database: Database, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def broken(*_: object) -> None:
        raise error

    identifier = put(database)
    monkeypatch.setattr("analyzer.web.upload.Upload.replay", broken)
    assert shop(database).work_on(identifier) == "failed"
    found = repository.get(database, identifier)
    assert found is not None
    assert (found.state, type(error).__name__ in str(found.error)) == ("failed", True)


def test_what_takes_too_long_fails(database: Database) -> None:
    identifier = put(database)
    assert shop(database, analysis_cpu_seconds=1e-9).work_on(identifier) == "failed"
    found = repository.get(database, identifier)
    assert found is not None
    assert "processor time" in str(found.error)


def test_memory_that_is_short_is_waited_for(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    def short(*_: object) -> None:
        raise MemoryError

    identifier = put(database)
    with monkeypatch.context() as patched:
        patched.setattr("analyzer.web.upload.Upload.replay", short)
        assert shop(database).work_on(identifier) == "released"
    assert queued.claim(database, identifier, datetime.now(UTC)) is None
    assert queued.claim(database, identifier, datetime.now(UTC) + timedelta(minutes=1)) is not None


def test_what_a_stopped_worker_had_goes_back_and_counts_no_try(database: Database) -> None:
    identifier = put(database)
    mine = shop(database)
    claimed = queued.claim(database, identifier, datetime.now(UTC))
    assert claimed is not None
    mine._mine[identifier] = claimed
    assert mine.give_back() == 1
    again = queued.claim(database, identifier, datetime.now(UTC))
    assert again is not None
    assert again.tries == 1


def test_stored_reports_are_made_again_and_stay_readable(database: Database) -> None:
    identifier = put(database)
    assert shop(database).work_on(identifier) == "done"
    assert queued.again(database, shop(database).library.version, datetime.now(UTC)) == []
    assert queued.again(database, "another", datetime.now(UTC)) == [identifier]
    found = repository.get(database, identifier)
    assert found is not None
    assert (found.state, found.report is not None) == ("queued", True)
    assert shop(database).work_on(identifier) == "done"
    found = repository.get(database, identifier)
    assert found is not None
    assert found.report is not None
    assert (found.revision, found.report.outcome.cause, found.report.library) == (2, CAUSE, shop(database).library.version)


def test_a_restarted_sqlite_server_goes_on_with_what_waited(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    upgrade(url)
    database = Database(url)
    identifier = put(database)
    half = put(database, identifier="b" * 22)
    queued.claim(database, half, datetime.now(UTC) - timedelta(minutes=10))
    database.close()
    with running(url, job_lease_seconds=1) as server:
        end = time.monotonic() + 20
        while time.monotonic() < end and any(queued.depth(server.database).values()):
            time.sleep(0.05)
        found = [repository.get(server.database, one) for one in (identifier, half)]
    assert [one and one.state for one in found] == ["done", "done"]


def test_a_request_that_is_sent_again_is_the_same_analysis(live: Running) -> None:
    with live.client() as client:
        headers = {"Idempotency-Key": "0123456789abcdef-one"}
        answers = [client.post("/v1/analyses?wait=0", content=LOG, headers=headers) for _ in range(2)]
        assert answers[0].json()["id"] == answers[1].json()["id"]
        assert answers[0].headers["x-delete-token"] == answers[1].headers["x-delete-token"]
        work(live)
        assert len(repository.inputs(live.database, answers[0].json()["id"])) == 1
        assert client.post("/v1/analyses?wait=0", content=LOG, headers={"Idempotency-Key": "1"}).json()["type"] == "invalid_request"
