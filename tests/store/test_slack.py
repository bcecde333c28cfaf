from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from analyzer.store import repository, slack
from analyzer.store.models import SlackDelivery
from analyzer.store.slack import Place
from tests.store.conftest import new, report

if TYPE_CHECKING:
    from analyzer.store.database import Database

NOW = datetime(2026, 11, 1, tzinfo=UTC)
HERE = Place("T1", "C1", "1000.1")


def test_a_delivery_is_taken_once_by_whoever_is_first(database: Database) -> None:
    taken: list[bool] = []
    threads = [threading.Thread(target=lambda: taken.append(slack.first_time(database, "Ev1", NOW))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == [False] * 5 + [True]
    assert slack.first_time(database, "Ev2", NOW)


def test_old_deliveries_and_idle_threads_are_forgotten(database: Database) -> None:
    slack.first_time(database, "old", NOW - timedelta(days=2))
    slack.first_time(database, "young", NOW)
    old = NOW - timedelta(days=slack.IDLE_DAYS + 1)
    made = new(report(), "text\n")
    repository.create(database, made)
    kept = Place("T1", "C1", "2.0")
    slack.begin(database, HERE, "U1", "en", old)
    slack.begin(database, kept, "U1", "en", old)
    assert slack.attach(database, kept, made.id)
    slack.prune(database, NOW)
    with database.read() as session:
        assert session.query(SlackDelivery).count() == 1
    assert slack.find(database, HERE) is None
    assert slack.find(database, kept) is not None


def test_a_thread_has_one_analysis_one_reply_and_its_first_asker(database: Database) -> None:
    first, second = new(report(), "a\n"), new(report(), "b\n")
    for made in (first, second):
        repository.create(database, made)
    slack.begin(database, HERE, "U1", "zh", NOW)
    again = slack.begin(database, HERE, "U2", "en", NOW)
    assert (again.asker, again.language) == ("U1", "zh")
    assert [slack.claim_reply(database, HERE, reply) for reply in ("5.0", "6.0")] == [True, False]
    assert [slack.attach(database, HERE, made.id) for made in (first, second)] == [True, False]
    slack.take(database, HERE, ["1.0", "F1"])
    slack.take(database, HERE, ["2.0", "F1"])
    found = slack.find_by_reply(database, "T1", "C1", "5.0")
    assert found == slack.find(database, HERE)
    assert found is not None
    assert (found.analysis_id, found.taken) == (first.id, {"1.0", "2.0", "F1"})
    assert slack.find_by_reply(database, "T2", "C1", "5.0") is None


def test_deleting_an_analysis_takes_its_thread_and_feedback(database: Database) -> None:
    made = new(report(), "a\n")
    repository.create(database, made)
    slack.begin(database, HERE, "U1", "en", NOW)
    slack.attach(database, HERE, made.id)
    slack.give_feedback(database, made.id, "T1", "U1", NOW, helped=True)
    assert repository.delete(database, made.id)
    assert slack.find(database, HERE) is None
    assert slack.feedback(database, made.id) == (0, 0)
    slack.give_feedback(database, made.id, "T1", "U1", NOW, helped=True)  # a click that comes too late
    assert slack.feedback(database, made.id) == (0, 0)


def test_one_person_has_one_opinion(database: Database) -> None:
    made = new(report(), "a\n")
    repository.create(database, made)
    for user, helped in (("U1", True), ("U1", False), ("U2", True)):
        slack.give_feedback(database, made.id, "T1", user, NOW, helped=helped)
    assert slack.feedback(database, made.id) == (1, 1)


def test_watching_is_a_channels_own(database: Database) -> None:
    assert slack.is_watched(database, "T1", "C1") is None
    slack.watch(database, "T1", "C1", on=True)
    assert slack.is_watched(database, "T1", "C1") is True
    slack.watch(database, "T1", "C1", on=False)
    assert slack.is_watched(database, "T1", "C1") is False
    assert slack.is_watched(database, "T1", "C2") is None


def test_recent_shows_one_channel_only(database: Database) -> None:
    for number, channel in enumerate(("C1", "C2", "C1")):
        made = new(report(f"cause{number}"), f"{number}\n", created=NOW + timedelta(seconds=number))
        repository.create(database, made)
        place = Place("T1", channel, f"{number}.0")
        slack.begin(database, place, "U1", "en", NOW)
        slack.attach(database, place, made.id)
    assert [item[2] for item in slack.recent(database, "T1", "C1")] == ["cause2", "cause0"]
    assert slack.recent(database, "T2", "C1") == []
