"""What people said of reports, for whoever tends the patterns."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from analyzer.store.models import Analysis, Feedback
from analyzer.store.rows import clean_text

if TYPE_CHECKING:
    from datetime import datetime

    from analyzer.store.database import Database

#: Characters of a reason that are kept.
MOST_CHARACTERS = 2000


@dataclass(frozen=True, slots=True)
class Said:
    """One word on one report. ``because`` is redacted."""

    analysis_id: str
    given: datetime
    helped: bool
    because: str | None
    cause: str | None
    engine: str | None
    version: str | None
    title_en: str | None
    library: str


def give(database: Database, analysis_id: str, who: str, now: datetime, *, helped: bool, because: str | None = None) -> bool:
    """Keep what ``who`` says, in place of what they said before; False where there is no such analysis. ``because`` is redacted already.

    Who says it again without a reason keeps the reason that they gave, if they say the same.
    """
    key = hashlib.sha256(f"{analysis_id} {who}".encode()).digest()
    reason = clean_text(because.strip(), MOST_CHARACTERS) or None if because else None
    with database.write() as session:
        if session.get(Analysis, analysis_id) is None:
            return False
        before = session.get(Feedback, (analysis_id, key))
        if before is not None and reason is None and before.helped == helped:
            reason = before.because
        told: dict[str, Any] = {"helped": helped, "given": now, "because": reason}
        statement = database.insert(Feedback).values(analysis_id=analysis_id, who=key, **told)
        session.execute(statement.on_conflict_do_update(index_elements=[Feedback.analysis_id, Feedback.who], set_=told))
    return True


def listed(database: Database, *, helped: bool | None = None, since: datetime | None = None, limit: int = 200) -> list[Said]:
    """What was said, the newest first."""
    columns = (Analysis.cause, Analysis.engine, Analysis.version, Analysis.title_en, Analysis.library)
    query = select(Feedback.analysis_id, Feedback.given, Feedback.helped, Feedback.because, *columns).join(Analysis)
    if helped is not None:
        query = query.where(Feedback.helped.is_(helped))
    if since is not None:
        query = query.where(Feedback.given >= since)
    query = query.order_by(Feedback.given.desc(), Feedback.analysis_id).limit(limit)
    with database.read() as session:
        return [Said(*row) for row in session.execute(query)]
