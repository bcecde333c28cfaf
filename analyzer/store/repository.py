"""What can be done with stored analyses. Functions take a Database and values, and give values; each is one transaction."""

from __future__ import annotations

import base64
import binascii
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import Table, insert, or_, select, update
from sqlalchemy import delete as sql_delete

from analyzer.model.message import Message, MessageError
from analyzer.store import search
from analyzer.store.codec import unpack
from analyzer.store.models import Analysis, AnalysisInput, AnalysisTerm, Base, Fact, Finding, Fix, Input, Series
from analyzer.store.rows import Row, clean_text, report_rows
from analyzer.store.secrets import is_id
from analyzer.store.values import HistoryFilter, HistoryItem, HistoryPage, KeptInput, KeptText, NewAnalysis, StoredAnalysis

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.orm import Session

    from analyzer.model import Report
    from analyzer.store.database import Database
    from analyzer.store.rows import ReportRows

DONE = "done"
#: Rows of a deletion that one transaction takes.
_BATCH = 100
#: What a line of the history is made of; not the report, which is large.
_ITEM: tuple[Any, ...] = (
    Analysis.id,
    Analysis.created,
    Analysis.state,
    Analysis.outcome_state,
    Analysis.stage,
    Analysis.cause,
    Analysis.confidence,
    Analysis.engine,
    Analysis.version,
    Analysis.title_en,
    Analysis.title_zh,
    Analysis.input_names,
)


class StaleError(RuntimeError):
    """The analysis has changed since it was read: read it again."""


class CursorError(MessageError, ValueError):
    """A cursor that no history page gave."""


def create(database: Database, new: NewAnalysis) -> None:
    """Store an analysis, whole or not at all; when this returns it survives a kill."""
    rows = new.rows or report_rows(new.report)
    own: Row = {"id": new.id, "created": new.created, "updated": new.created, "revision": 0, "state": DONE}
    own |= {"delete_token_hash": new.token_hash, "report": rows.report, "host": new.host}
    with database.write() as session:
        session.execute(insert(_table(Analysis)), [own | rows.columns])
        search.add(database, session, new.id, new.created, rows.columns)
        add_inputs(database, session, new.id, new.inputs, first=0)
        _add_rows(session, new.id, rows)


def replace(database: Database, identifier: str, revision: int, report: Report, added: Sequence[KeptInput], now: datetime) -> None:
    """Give the analysis a new report that rests on ``added`` inputs too.

    ``revision`` is that of the analysis when it was read: raises StaleError where somebody else was faster, or it is gone.
    """
    rows = report_rows(report)
    with database.write() as session:
        changed = session.execute(
            update(Analysis)
            .where(Analysis.id == identifier, Analysis.revision == revision)
            .values(
                updated=now,
                revision=revision + 1,
                state=DONE,
                error=None,
                tries=0,
                due=None,
                report=rows.report,
                **rows.columns,
            )
        )
        if changed.rowcount != 1:  # type: ignore[attr-defined]
            raise StaleError(identifier)
        before = search.terms_of(session, [identifier])
        session.execute(sql_delete(AnalysisTerm).where(AnalysisTerm.analysis_id == identifier))
        created = session.scalars(select(Analysis.created).where(Analysis.id == identifier)).one()
        search.add(database, session, identifier, created, rows.columns)
        search.drop_unused(session, before)
        first = session.query(AnalysisInput).filter_by(analysis_id=identifier).count()
        add_inputs(database, session, identifier, added, first)
        for model in (Fact, Series, Finding, Fix):
            session.execute(sql_delete(model).where(model.analysis_id == identifier))
        _add_rows(session, identifier, rows)


def get(database: Database, identifier: str) -> StoredAnalysis | None:
    """The analysis with this id, or None. Raises CodecError where its report cannot be read."""
    with database.read() as session:
        row = session.get(Analysis, identifier)
        if row is None:
            return None
        report = None if row.report is None else unpack(row.report)
        return StoredAnalysis(row.id, row.created, row.updated, row.revision, row.state, Message.unpack(row.error), report)


def delete_token_hash(database: Database, identifier: str) -> bytes | None:
    """The hash of the token that may delete it; None where there is no such analysis."""
    with database.read() as session:
        return session.scalar(select(Analysis.delete_token_hash).where(Analysis.id == identifier))


def inputs(database: Database, identifier: str) -> list[KeptInput]:
    """The inputs that an analysis rests on, in order; empty where there is no such analysis."""
    query = select(AnalysisInput, Input).join(Input).where(AnalysisInput.analysis_id == identifier).order_by(AnalysisInput.position)
    with database.read() as session:
        return [
            KeptInput(
                name=link.name,
                text=_kept_text(link, stored),
                sent_bytes=link.sent_bytes,
                skipped_bytes=link.skipped_bytes,
                truncated=link.truncated,
            )
            for link, stored in session.execute(query)
        ]


def input_at(database: Database, identifier: str, position: int) -> KeptInput | None:
    """The input at ``position`` (from 0) of an analysis, or None."""
    query = select(AnalysisInput, Input).join(Input).where(AnalysisInput.analysis_id == identifier, AnalysisInput.position == position)
    with database.read() as session:
        row = session.execute(query).first()
        if row is None:
            return None
        link, stored = row
        return KeptInput(link.name, _kept_text(link, stored), link.sent_bytes, link.skipped_bytes, link.truncated)


def history(database: Database, wanted: HistoryFilter, cursor: str | None = None, limit: int = 50) -> HistoryPage:
    """The newest analyses that ``wanted`` lets through, at most ``limit``, from ``cursor`` on. Raises CursorError for a bad cursor."""
    with database.read() as session:
        rows = session.execute(_history_query(database, session, wanted, cursor, limit + 1)).all()
    items = tuple(_item(row) for row in rows[:limit])
    return HistoryPage(items, _to_cursor(items[-1]) if len(rows) > limit else None)


def _history_query(database: Database, session: Session, wanted: HistoryFilter, cursor: str | None, limit: int) -> Any:
    """The rows of a page. Without words each filter has an index in the history's order; with words see analyzer/store/search.py."""
    words = clean_text(wanted.q or "")
    keys = search.matching(database, session, words) if words else None
    if words and is_id(words):
        return select(*_ITEM).where(Analysis.id == words, *_narrowed(Analysis, Analysis.id, wanted, cursor))
    if keys is not None:
        identifiers: list[str] = []
        if keys:
            found = search.newest(keys, _narrowed(AnalysisTerm, AnalysisTerm.analysis_id, wanted, cursor), limit)
            identifiers = [identifier for _, identifier in session.execute(found)]
        query = select(*_ITEM).where(Analysis.id.in_(identifiers))
    else:
        query = select(*_ITEM).where(*_narrowed(Analysis, Analysis.id, wanted, cursor))
        if words:
            query = query.where(search.has(database, words))
    return query.order_by(Analysis.created.desc(), Analysis.id.desc()).limit(limit)


def _narrowed(table: Any, identifier: Any, wanted: HistoryFilter, cursor: str | None) -> list[Any]:
    """The conditions of all filters but the words, on a table that has what they ask for."""
    conditions = []
    if wanted.cause:
        conditions.append(table.cause == clean_text(wanted.cause))
    if wanted.engine:
        conditions.append(table.engine == clean_text(wanted.engine))
    if wanted.since is not None:
        conditions.append(table.created >= wanted.since)
    if cursor:
        created, last = _from_cursor(cursor)
        # The first condition says nothing new: it is the one that both databases begin to read their index at.
        conditions += [table.created <= created, or_(table.created < created, identifier < last)]
    return conditions


def delete(database: Database, identifier: str) -> bool:
    """Take an analysis away, with the inputs that no other one holds, and leave no byte of them in the database's files.

    False where there is no such analysis.
    """
    with database.write() as session:
        gone = _delete(session, [identifier])
    if gone:
        database.purge()
    return bool(gone)


def expire(database: Database, before: datetime) -> int:
    """Delete every analysis that was last changed before ``before``; how many it were."""
    total = 0
    while True:
        with database.write() as session:
            identifiers = session.scalars(select(Analysis.id).where(Analysis.updated < before).order_by(Analysis.id).limit(_BATCH)).all()
            gone = _delete(session, identifiers)
        total += gone
        if not gone:
            break
    if total:
        database.purge()
    return total


def count(database: Database) -> int:
    """How many analyses there are."""
    with database.read() as session:
        return session.query(Analysis).count()


# --- inside a transaction --------------------------------------------------------------------------------------------------------


def add_inputs(database: Database, session: Session, identifier: str, added: Sequence[KeptInput], first: int) -> None:
    """Add inputs to an analysis, inside a transaction; ``first`` is the position of the first of them."""
    # In the order of their hashes: two uploads of the same texts never wait for each other in a circle.
    for kept in sorted(added, key=lambda kept: kept.text.sha256):
        text = kept.text
        statement = database.insert(Input).values(sha256=text.sha256, text=text.compressed, text_bytes=text.text_bytes, refs=1)
        session.execute(statement.on_conflict_do_update(index_elements=[Input.sha256], set_={"refs": Input.refs + 1}))
    rows: list[Row] = [
        {
            "analysis_id": identifier,
            "position": first + place,
            "sha256": kept.text.sha256,
            "name": clean_text(kept.name),
            "sent_bytes": kept.sent_bytes,
            "skipped_bytes": kept.skipped_bytes,
            "truncated": kept.truncated,
            "gap_at": kept.text.gap_at,
            "gap_lines": kept.text.gap_lines,
            "second_gap_at": kept.text.second_gap_at,
            "second_gap_lines": kept.text.second_gap_lines,
        }
        for place, kept in enumerate(added)
    ]
    if rows:
        session.execute(insert(_table(AnalysisInput)), rows)


def _add_rows(session: Session, identifier: str, made: ReportRows) -> None:
    tables: tuple[tuple[type[Base], list[Row]], ...] = (
        (Fact, made.facts),
        (Series, made.series),
        (Finding, made.findings),
        (Fix, made.fixes),
    )
    for model, rows in tables:
        if rows:
            session.execute(insert(_table(model)), [{"analysis_id": identifier, "position": at, **row} for at, row in enumerate(rows)])


def _table(model: type[Base]) -> Table:
    """A model's table: rows that nobody reads back go there at half the cost of the mapper's way."""
    assert isinstance(model.__table__, Table)
    return model.__table__


def _delete(session: Session, identifiers: Sequence[str]) -> int:
    # The rows are locked first, so that of two deletions at once only one counts the inputs down.
    found = session.scalars(select(Analysis.id).where(Analysis.id.in_(identifiers)).order_by(Analysis.id).with_for_update()).all()
    if not found:
        return 0
    terms = search.terms_of(session, found)
    held = Counter(session.scalars(select(AnalysisInput.sha256).where(AnalysisInput.analysis_id.in_(found))))
    session.execute(sql_delete(Analysis).where(Analysis.id.in_(found)))
    search.drop_unused(session, terms)
    for sha256, times in sorted(held.items()):
        session.execute(update(Input).where(Input.sha256 == sha256).values(refs=Input.refs - times))
        session.execute(sql_delete(Input).where(Input.sha256 == sha256, Input.refs <= 0))
    return len(found)


def _kept_text(link: AnalysisInput, stored: Input) -> KeptText:
    gaps = (link.gap_at, link.gap_lines, link.second_gap_at, link.second_gap_lines)
    return KeptText(stored.sha256, stored.text, stored.text_bytes, *gaps)


def _item(row: Any) -> HistoryItem:
    columns = [*row]
    columns[-1] = tuple(columns[-1].split("\n"))
    return HistoryItem(*columns)


def _to_cursor(item: HistoryItem) -> str:
    return base64.urlsafe_b64encode(f"{item.created.astimezone(UTC).isoformat()} {item.id}".encode()).decode().rstrip("=")


def _from_cursor(cursor: str) -> tuple[datetime, str]:
    try:
        created, identifier = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode().split(" ")
        moment = datetime.fromisoformat(created)
    except (ValueError, binascii.Error):
        raise CursorError("this cursor is none that the history gave") from None
    if moment.tzinfo is None or "\0" in identifier:
        raise CursorError("this cursor is none that the history gave")
    return moment, identifier
