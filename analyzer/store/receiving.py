"""Analyses whose input is still coming: the row is there before the first byte is answered, and is never left half done."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from sqlalchemy import insert, update

from analyzer.model.message import Message
from analyzer.store.models import Analysis
from analyzer.store.rows import clean_text

if TYPE_CHECKING:
    from datetime import datetime

    from analyzer.store.database import Database

RECEIVING, FAILED = "receiving", "failed"
#: How often a server says that it is still receiving, and how long after the last time it is taken for dead.
TOUCH_SECONDS = 60.0
ABANDONED = timedelta(minutes=5)


def begin(database: Database, identifier: str, created: datetime, token_hash: bytes, name: str) -> None:
    """Store an analysis without a report, whose input begins to come; ``repository.replace`` (revision 0) completes it."""
    with database.write() as session:
        session.execute(
            insert(Analysis).values(
                id=identifier,
                created=created,
                updated=created,
                revision=0,
                state=RECEIVING,
                input_names=clean_text(name),
                input_bytes=0,
                library="",
                delete_token_hash=token_hash,
            )
        )


def touch(database: Database, identifier: str, now: datetime) -> None:
    """Its input is still coming."""
    with database.write() as session:
        session.execute(update(Analysis).where(Analysis.id == identifier, Analysis.state == RECEIVING).values(updated=now))


def fail(database: Database, identifier: str, reason: Message, now: datetime) -> None:
    """Its input could not be analysed, and why."""
    values = {"state": FAILED, "error": clean_text(reason.pack()), "updated": now}
    with database.write() as session:
        session.execute(update(Analysis).where(Analysis.id == identifier, Analysis.state == RECEIVING).values(**values))


def abandoned(database: Database, now: datetime) -> int:
    """Mark as failed what a killed server was receiving; how many it were."""
    reason = Message("the server was stopped while this input was coming; send it again").pack()
    with database.write() as session:
        done = session.execute(
            update(Analysis)
            .where(Analysis.state == RECEIVING, Analysis.updated < now - ABANDONED)
            .values(state=FAILED, error=reason, updated=now)
        )
        return int(done.rowcount)  # type: ignore[attr-defined]
