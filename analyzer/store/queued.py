"""Analyses that wait for a worker. The row is the truth: a job is only a word that there is one.

``queued`` → ``running`` → ``done`` or ``failed``. Whoever sets a row ``running`` has it until it has not been heard of for a lease; what
it then gives is taken only if nobody else has changed the row since (its revision). A report that is there stays readable meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import and_, func, or_, select, update

from analyzer.model.message import Message
from analyzer.store.models import Analysis, AnalysisInput
from analyzer.store.receiving import FAILED
from analyzer.store.repository import DONE, add_inputs
from analyzer.store.rows import clean_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta

    from analyzer.store.database import Database
    from analyzer.store.values import KeptInput

QUEUED, RUNNING = "queued", "running"
#: How often work on one input is begun before it is taken for what ends the workers.
MOST_TRIES = 3
GAVE_UP = Message("the worker ended each of the {tries} times that this input was read; send its head and its tail", tries=MOST_TRIES)


@dataclass(frozen=True, slots=True)
class Claim:
    """One row that is being worked on. ``tries`` counts this time, too."""

    id: str
    revision: int
    tries: int
    has_report: bool


@dataclass(frozen=True, slots=True)
class Progress:
    """Where an analysis is. ``ahead``: queued ones before it."""

    state: str
    error: Message | None
    tries: int
    ahead: int
    has_report: bool
    cause: str | None
    outcome_state: str | None


def enqueue(
    database: Database,
    identifier: str,
    created: datetime,
    token_hash: bytes,
    inputs: Sequence[KeptInput],
    host: str | None = None,
    request: bytes | None = None,
) -> str:
    """Store inputs as an analysis that waits; when this returns it survives a kill. Its id.

    ``request``: a hash that its sender gives with the same request sent again, which then changes nothing; the id is that of the first.
    """
    with database.write() as session:
        added = session.scalars(
            database.insert(Analysis)
            .values(
                id=identifier,
                created=created,
                updated=created,
                revision=0,
                state=QUEUED,
                input_names=clean_text("\n".join(kept.name for kept in inputs)),
                input_bytes=sum(kept.sent_bytes for kept in inputs),
                library="",
                delete_token_hash=token_hash,
                host=host,
                request=request,
            )
            .on_conflict_do_nothing(index_elements=[Analysis.request])
            .returning(Analysis.id)
        ).first()
        if added is None:
            return session.scalars(select(Analysis.id).where(Analysis.request == request)).one()
        add_inputs(database, session, identifier, inputs, first=0)
    return identifier


def again(database: Database, library: str, now: datetime, *, all_of_them: bool = False, limit: int = 500) -> list[str]:
    """Queue finished analyses whose report another pattern library made than ``library``; their ids, at most ``limit``.

    Not those of which the middle of an input was left out: their report rests on more than is stored.
    """
    cut = select(AnalysisInput.analysis_id).where(or_(AnalysisInput.gap_lines > 0, AnalysisInput.second_gap_lines > 0))
    chosen = [Analysis.state == DONE, Analysis.report.is_not(None), Analysis.updated < now, Analysis.id.not_in(cut)]
    if not all_of_them:
        chosen.append(Analysis.library != library)
    with database.write() as session:
        found = list(session.scalars(select(Analysis.id).where(*chosen).order_by(Analysis.updated, Analysis.id).limit(limit)))
        done = session.execute(
            update(Analysis)
            .where(Analysis.id.in_(found), Analysis.state == DONE)
            .values(state=QUEUED, tries=0, due=None, updated=now)
            .returning(Analysis.id)
        )
        return list(done.scalars())


def claim(database: Database, identifier: str, now: datetime) -> Claim | None:
    """Begin to work on it; None where it does not wait (any more), or not yet."""
    mine = (Analysis.id == identifier, Analysis.state == QUEUED, or_(Analysis.due.is_(None), Analysis.due <= now))
    with database.write() as session:
        changed: Any = session.execute(update(Analysis).where(*mine).values(state=RUNNING, tries=Analysis.tries + 1, updated=now))
        if changed.rowcount != 1:
            return None
        columns = (Analysis.revision, Analysis.tries, Analysis.report.is_not(None))
        row = session.execute(select(*columns).where(Analysis.id == identifier)).one()
    return Claim(identifier, row[0], row[1], bool(row[2]))


def keep_alive(database: Database, identifiers: Sequence[str], now: datetime) -> None:
    """Say that these are still worked on."""
    if identifiers:
        with database.write() as session:
            session.execute(update(Analysis).where(Analysis.id.in_(identifiers), Analysis.state == RUNNING).values(updated=now))


def release(database: Database, claimed: Claim, due: datetime | None, now: datetime) -> None:
    """Give it back, to be begun again, not before ``due``. What was no fault of the input does not count as a try."""
    values: dict[str, Any] = {"state": QUEUED, "due": due, "updated": now}
    if due is None:
        values["tries"] = Analysis.tries - 1
    with database.write() as session:
        session.execute(update(Analysis).where(*_mine(claimed)).values(**values))


def fail(database: Database, claimed: Claim, reason: Message, now: datetime) -> None:
    """It cannot be analysed, and why. A report that it had before stays."""
    state = DONE if claimed.has_report else FAILED
    with database.write() as session:
        session.execute(update(Analysis).where(*_mine(claimed)).values(state=state, error=clean_text(reason.pack()), updated=now))


def lost(database: Database, now: datetime, lease: timedelta) -> tuple[int, int]:
    """Queue again what nobody has worked on for ``lease``; what ended its worker too often fails. How many: (queued, failed)."""
    silent = and_(Analysis.state == RUNNING, Analysis.updated < now - lease)
    with database.write() as session:
        given_up: Any = session.execute(
            update(Analysis)
            .where(silent, Analysis.tries >= MOST_TRIES, Analysis.report.is_(None))
            .values(state=FAILED, error=GAVE_UP.pack(), updated=now)
        )
        kept: Any = session.execute(
            update(Analysis).where(silent, Analysis.tries >= MOST_TRIES).values(state=DONE, error=GAVE_UP.pack(), updated=now)
        )
        back: Any = session.execute(update(Analysis).where(silent).values(state=QUEUED, due=None, updated=now))
        return back.rowcount, given_up.rowcount + kept.rowcount


def waiting(database: Database, now: datetime, limit: int = 100, *, since: datetime | None = None) -> list[str]:
    """Ids of what waits and is due, the oldest first. ``since``: only what has not changed since then."""
    chosen = [Analysis.state == QUEUED, or_(Analysis.due.is_(None), Analysis.due <= now)]
    if since is not None:
        chosen.append(Analysis.updated <= since)
    with database.read() as session:
        return list(session.scalars(select(Analysis.id).where(*chosen).order_by(Analysis.created, Analysis.id).limit(limit)))


def depth(database: Database) -> dict[str, int]:
    """How many wait and how many are worked on."""
    query = select(Analysis.state, func.count()).where(Analysis.state.in_((QUEUED, RUNNING))).group_by(Analysis.state)
    with database.read() as session:
        found = {row[0]: int(row[1]) for row in session.execute(query)}
    return {state: found.get(state, 0) for state in (QUEUED, RUNNING)}


def progress(database: Database, identifier: str) -> Progress | None:
    """Where it is; None where there is no such analysis."""
    columns = (Analysis.state, Analysis.error, Analysis.tries, Analysis.report.is_not(None), Analysis.cause, Analysis.outcome_state)
    with database.read() as session:
        row = session.execute(select(*columns, Analysis.created).where(Analysis.id == identifier)).first()
        if row is None:
            return None
        ahead = 0
        if row[0] == QUEUED:
            before = select(func.count()).where(Analysis.state == QUEUED, Analysis.created < row[6])
            ahead = session.scalar(before) or 0
    return Progress(row[0], Message.unpack(row[1]), row[2], ahead, bool(row[3]), row[4], row[5])


def _mine(claimed: Claim) -> tuple[Any, ...]:
    return (Analysis.id == claimed.id, Analysis.revision == claimed.revision, Analysis.state == RUNNING, Analysis.tries == claimed.tries)
