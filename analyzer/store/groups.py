"""The same failure seen many times: analyses counted by fingerprint and cause, the one that was seen last first."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, or_, select

from analyzer.store.models import Analysis
from analyzer.store.repository import CursorError
from analyzer.store.rows import clean_text

if TYPE_CHECKING:
    from analyzer.store.database import Database
    from analyzer.store.values import HistoryFilter

#: Versions and hosts of one group that are told.
TOLD = 20


@dataclass(frozen=True, slots=True)
class Group:
    """One failure. ``likeness`` is what its analyses have in common (diagnosis/fingerprint.py); ``newest`` the id of the last one."""

    fingerprint: str
    likeness: str
    cause: str | None
    engine: str | None
    title_en: str | None
    title_zh: str | None
    count: int
    first_seen: datetime
    last_seen: datetime
    newest: str
    versions: tuple[str, ...]
    hosts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GroupPage:
    """Some of the groups; ``next_cursor`` leads to those that were seen last before them."""

    items: tuple[Group, ...]
    next_cursor: str | None


def groups(database: Database, wanted: HistoryFilter, cursor: str | None = None, limit: int = 50) -> GroupPage:
    """The groups of what ``wanted`` lets through (its ``q`` is looked for in the likeness), at most ``limit``. Raises CursorError."""
    chosen: list[Any] = [Analysis.fingerprint.is_not(None)]
    if wanted.cause:
        chosen.append(Analysis.cause == clean_text(wanted.cause))
    if wanted.engine:
        chosen.append(Analysis.engine == clean_text(wanted.engine))
    if wanted.since is not None:
        chosen.append(Analysis.created >= wanted.since)
    if wanted.q:
        chosen.append(Analysis.likeness.icontains(clean_text(wanted.q), autoescape=True))
    last = func.max(Analysis.created).label("last")
    query = select(Analysis.fingerprint, func.count(), func.min(Analysis.created), last).where(*chosen).group_by(Analysis.fingerprint)
    if cursor:
        moment, name = _from_cursor(cursor)
        query = query.having(or_(last < moment, (last == moment) & (Analysis.fingerprint < name)))
    query = query.order_by(last.desc(), Analysis.fingerprint.desc()).limit(limit + 1)
    with database.read() as session:
        rows = session.execute(query).all()
        shown = [_group(session, row, chosen) for row in rows[:limit]]
    return GroupPage(tuple(shown), _to_cursor(shown[-1]) if len(rows) > limit else None)


def _group(session: Any, row: Any, chosen: list[Any]) -> Group:
    name, count, first, last = row
    mine = [*chosen, Analysis.fingerprint == name]
    columns = (Analysis.id, Analysis.likeness, Analysis.cause, Analysis.engine, Analysis.title_en, Analysis.title_zh)
    newest = session.execute(select(*columns).where(*mine).order_by(Analysis.created.desc(), Analysis.id.desc()).limit(1)).one()

    def told(column: Any) -> tuple[str, ...]:
        return tuple(session.scalars(select(column).where(*mine, column.is_not(None)).distinct().order_by(column).limit(TOLD)))

    return Group(
        name,
        newest.likeness or "",
        newest.cause,
        newest.engine,
        newest.title_en,
        newest.title_zh,
        count,
        first,
        last,
        newest.id,
        told(Analysis.version),
        told(Analysis.host),
    )


def is_new(database: Database, fingerprint: str) -> bool:
    """Whether exactly one analysis has this fingerprint: the failure is seen for the first time."""
    with database.read() as session:
        found = session.scalars(select(Analysis.id).where(Analysis.fingerprint == fingerprint).limit(2)).all()
    return len(found) == 1


def _to_cursor(group: Group) -> str:
    return base64.urlsafe_b64encode(f"{group.last_seen.astimezone(UTC).isoformat()} {group.fingerprint}".encode()).decode().rstrip("=")


def _from_cursor(cursor: str) -> tuple[datetime, str]:
    try:
        last, name = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode().split(" ")
        moment = datetime.fromisoformat(last)
    except (ValueError, binascii.Error):
        raise CursorError("this cursor is none that the groups gave") from None
    if moment.tzinfo is None or "\0" in name:
        raise CursorError("this cursor is none that the groups gave")
    return moment, name
