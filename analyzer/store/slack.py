"""What is kept of Slack: which thread an analysis belongs to, what was delivered, where watching is on, what people said of a report."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from sqlalchemy import delete as sql_delete
from sqlalchemy import select, update

from analyzer.store.models import Analysis, Feedback, SlackChannel, SlackDelivery, SlackThread

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy.sql.elements import ColumnElement

    from analyzer.store.database import Database

#: How long a delivery is remembered: Slack's last retry comes after some minutes, a signature is good for five.
DELIVERY_DAYS = 1
#: How long a thread is remembered in which nothing could be analysed.
IDLE_DAYS = 30


@dataclass(frozen=True, slots=True)
class Place:
    """A thread: ``thread`` is Slack's ts of the message that began it."""

    team: str
    channel: str
    thread: str


@dataclass(frozen=True, slots=True)
class Thread:
    """What is known of a thread. ``taken``: messages (ts) and files (id) that were read; ``reply``, ``picture``: what we put there."""

    place: Place
    asker: str
    language: str
    analysis_id: str | None = None
    reply: str | None = None
    picture: str | None = None
    taken: frozenset[str] = frozenset()


def first_time(database: Database, key: str, now: datetime) -> bool:
    """Remember a delivery; False where one with this key was taken before, by whichever process."""
    hashed = hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()
    with database.write() as session:
        statement = database.insert(SlackDelivery).values(key=hashed, seen=now).on_conflict_do_nothing()
        return session.execute(statement.returning(SlackDelivery.key)).first() is not None


def prune(database: Database, now: datetime) -> None:
    """Forget deliveries that cannot come again, and threads in which nothing was ever analysed."""
    with database.write() as session:
        session.execute(sql_delete(SlackDelivery).where(SlackDelivery.seen < now - timedelta(days=DELIVERY_DAYS)))
        idle = SlackThread.created < now - timedelta(days=IDLE_DAYS)
        session.execute(sql_delete(SlackThread).where(SlackThread.analysis_id.is_(None), idle))


def find(database: Database, place: Place) -> Thread | None:
    """The thread, where something of it was asked before."""
    with database.read() as session:
        row = session.get(SlackThread, (place.team, place.channel, place.thread))
        return None if row is None else _thread(row)


def find_by_reply(database: Database, team: str, channel: str, reply: str) -> Thread | None:
    """The thread that our message ``reply`` answers."""
    query = select(SlackThread).where(SlackThread.team == team, SlackThread.channel == channel, SlackThread.reply == reply)
    with database.read() as session:
        row = session.scalars(query).first()
        return None if row is None else _thread(row)


def begin(database: Database, place: Place, asker: str, language: str, now: datetime) -> Thread:
    """The thread, remembered from now on; ``asker`` and ``language`` are those of whoever was first."""
    values = {"team": place.team, "channel": place.channel, "thread": place.thread}
    with database.write() as session:
        statement = database.insert(SlackThread).values(**values, asker=asker, language=language, taken="", created=now)
        session.execute(statement.on_conflict_do_nothing())
    found = find(database, place)
    assert found is not None
    return found


def claim_reply(database: Database, place: Place, reply: str) -> bool:
    """Make our message ``reply`` the thread's answer; False where it has one already."""
    return _set(database, place, SlackThread.reply.is_(None), reply=reply)


def change(database: Database, place: Place, **values: str | None) -> bool:
    """Set ``reply``, ``picture`` or ``language``; False where the thread is gone."""
    return _set(database, place, **values)


def attach(database: Database, place: Place, analysis_id: str) -> bool:
    """Make this the thread's analysis; False where it has one already, or is gone."""
    return _set(database, place, SlackThread.analysis_id.is_(None), analysis_id=analysis_id)


def take(database: Database, place: Place, names: Iterable[str]) -> None:
    """Remember that these messages and files were read."""
    with database.write() as session:
        row = session.scalars(select(SlackThread).where(*_at(place)).with_for_update()).first()
        if row is not None:
            row.taken = "\n".join(sorted({*row.taken.split(), *names}))


def forget(database: Database, place: Place) -> None:
    """Take the thread away; its analysis stays."""
    with database.write() as session:
        session.execute(sql_delete(SlackThread).where(*_at(place)))


def watch(database: Database, team: str, channel: str, *, on: bool) -> None:
    """Switch watching on or off in a channel."""
    with database.write() as session:
        statement = database.insert(SlackChannel).values(team=team, channel=channel, watched=on)
        session.execute(statement.on_conflict_do_update(index_elements=[SlackChannel.team, SlackChannel.channel], set_={"watched": on}))


def is_watched(database: Database, team: str, channel: str) -> bool | None:
    """Whether somebody switched watching on (or off); None where nobody did either."""
    with database.read() as session:
        return session.scalar(select(SlackChannel.watched).where(SlackChannel.team == team, SlackChannel.channel == channel))


def give_feedback(database: Database, analysis_id: str, team: str, user: str, now: datetime, *, helped: bool) -> None:
    """Remember what somebody says of a report, in place of what they said before."""
    who = hashlib.sha256(f"{analysis_id} {team} {user}".encode()).digest()
    with database.write() as session:
        if session.get(Analysis, analysis_id) is None:
            return
        statement = database.insert(Feedback).values(analysis_id=analysis_id, who=who, helped=helped, given=now)
        told = {"helped": helped, "given": now}
        session.execute(statement.on_conflict_do_update(index_elements=[Feedback.analysis_id, Feedback.who], set_=told))


def feedback(database: Database, analysis_id: str) -> tuple[int, int]:
    """How many say that a report helped, and how many that it is wrong."""
    with database.read() as session:
        said = session.scalars(select(Feedback.helped).where(Feedback.analysis_id == analysis_id)).all()
    return sum(said), len(said) - sum(said)


def recent(database: Database, team: str, channel: str, limit: int = 5) -> list[tuple[str, datetime, str | None, str | None]]:
    """The newest analyses of a channel, and of no other: (id, last changed, cause, title in English)."""
    query = (
        select(Analysis.id, Analysis.updated, Analysis.cause, Analysis.title_en)
        .join(SlackThread, SlackThread.analysis_id == Analysis.id)
        .where(SlackThread.team == team, SlackThread.channel == channel)
        .order_by(Analysis.updated.desc(), Analysis.id)
        .limit(limit)
    )
    with database.read() as session:
        return [(row[0], row[1], row[2], row[3]) for row in session.execute(query)]


def _at(place: Place) -> tuple[ColumnElement[bool], ...]:
    return (SlackThread.team == place.team, SlackThread.channel == place.channel, SlackThread.thread == place.thread)


def _set(database: Database, place: Place, *conditions: ColumnElement[bool], **values: Any) -> bool:
    with database.write() as session:
        changed = session.execute(update(SlackThread).where(*_at(place), *conditions).values(**values).returning(SlackThread.thread))
        return changed.first() is not None


def _thread(row: SlackThread) -> Thread:
    place = Place(row.team, row.channel, row.thread)
    return Thread(place, row.asker, row.language, row.analysis_id, row.reply, row.picture, frozenset(row.taken.split()))
