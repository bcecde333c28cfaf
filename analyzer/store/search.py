"""What the history's search looks through: the distinct words of analyses, and which analysis has which.

Causes, titles and versions repeat, and so do most names of inputs: looking through what is distinct, and then for the newest analyses
that have it, takes milliseconds where looking through every analysis takes seconds.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, delete, exists, func, insert, select, union

from analyzer.store.models import Analysis, AnalysisTerm, Term

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from sqlalchemy.orm import Session

    from analyzer.store.database import Database

#: With more distinct texts that hold the words, analyses that have one are so frequent that walking from the newest finds them at once.
FEW_TERMS = 500
#: So many texts are asked for one by one.
_EACH_BY_ITSELF = 16


def folded(text: str) -> str:
    """``text`` as it is searched: upper and lower case are one."""
    return text.casefold()


def term_id(text: str) -> int:
    """The key of a folded text: 64 bits of its hash."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big", signed=True)


def texts_of(columns: Mapping[str, Any]) -> list[str]:
    """What is searched of an analysis with these columns: its outcome's words together, its inputs' names together."""
    words = [columns.get(name) or "" for name in ("cause", "version", "title_en", "title_zh")]
    return [text for text in (folded("\n".join(words)).strip("\n"), folded(columns.get("input_names") or "")) if text]


def add(database: Database, session: Session, identifier: str, created: datetime, columns: Mapping[str, Any]) -> None:
    """Make an analysis found by what its ``columns`` say."""
    texts = {term_id(text): text for text in texts_of(columns)}
    if not texts:
        return
    statement = database.insert(Term)
    statement = statement.on_conflict_do_update(index_elements=[Term.id], set_={"text": statement.excluded.text})
    # In one order, so that no two writers wait for each other in a circle.
    session.execute(statement, [{"id": key, "text": texts[key]} for key in sorted(texts)])
    rows = [
        {"term_id": key, "analysis_id": identifier, "created": created, "cause": columns.get("cause"), "engine": columns.get("engine")}
        for key in texts
    ]
    session.execute(insert(AnalysisTerm), rows)


def terms_of(session: Session, identifiers: Sequence[str]) -> list[int]:
    """The keys of what these analyses are found by."""
    return sorted(set(session.scalars(select(AnalysisTerm.term_id).where(AnalysisTerm.analysis_id.in_(identifiers)))))


def drop_unused(session: Session, keys: Iterable[int]) -> None:
    """Delete those of the texts that no analysis has any more."""
    for key in keys:
        session.execute(delete(Term).where(Term.id == key, ~exists().where(AnalysisTerm.term_id == key)))


def matching(database: Database, session: Session, words: str) -> list[int] | None:
    """Keys of the texts that hold ``words``; None where there are more than FEW_TERMS."""
    found = session.scalars(select(Term.id).where(_holds(database, words)).limit(FEW_TERMS + 1)).all()
    return None if len(found) > FEW_TERMS else list(found)


def newest(keys: Sequence[int], conditions: Sequence[ColumnElement[bool]], limit: int) -> Any:
    """Ids of the newest analyses that have one of these texts and fulfil the conditions, at most ``limit``, in the history's order."""
    order = (AnalysisTerm.created.desc(), AnalysisTerm.analysis_id.desc())
    columns = (AnalysisTerm.created, AnalysisTerm.analysis_id)
    if len(keys) > _EACH_BY_ITSELF:
        return select(*columns).where(AnalysisTerm.term_id.in_(keys), *conditions).distinct().order_by(*order).limit(limit)
    # An index gives the newest of each text in order; the newest of all are among them.
    each = [
        select(select(*columns).where(AnalysisTerm.term_id == key, *conditions).order_by(*order).limit(limit).subquery()) for key in keys
    ]
    found = union(*each).subquery()
    return select(found).order_by(found.c.created.desc(), found.c.analysis_id.desc()).limit(limit)


def has(database: Database, words: str) -> ColumnElement[bool]:
    """The condition on an analysis that one of its texts holds ``words``."""
    return exists().where(AnalysisTerm.analysis_id == Analysis.id, AnalysisTerm.term_id == Term.id, _holds(database, words))


def _holds(database: Database, words: str) -> ColumnElement[bool]:
    place = func.instr if database.is_sqlite else func.strpos
    return place(Term.text, folded(words)) > 0
