"""The tables. Reports lie compressed in ``analyses``; facts, series, findings and fixes also lie in rows, to be asked across analyses."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import BigInteger, DateTime, Dialect, Double, ForeignKey, Index, Integer, LargeBinary, MetaData, String, Text, TypeDecorator
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class UtcDateTime(TypeDecorator[datetime]):
    """A moment in UTC. SQLite keeps no time zone, so it is taken off there and put back on."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        value = value.astimezone(UTC)
        return value.replace(tzinfo=None) if dialect.name == "sqlite" else value

    def process_result_value(self, value: Any | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        moment: datetime = value
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


class Base(DeclarativeBase):
    metadata = MetaData(
        naming_convention={
            "pk": "pk_%(table_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s",
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        }
    )


#: Ids are 128 random bits, urlsafe.
_ID = String(32)


class Analysis(Base):
    """One analysis and its outcome. ``state`` is that of the work (done, failed, …), ``outcome_state`` what the log shows."""

    __tablename__ = "analyses"
    __table_args__ = (
        Index("ix_analyses_created_id", "created", "id"),
        Index("ix_analyses_cause_created_id", "cause", "created", "id"),
        Index("ix_analyses_engine_created_id", "engine", "created", "id"),
        Index("ix_analyses_cause_engine_created_id", "cause", "engine", "created", "id"),
        Index("ix_analyses_updated", "updated"),
        Index("ix_analyses_fingerprint_created", "fingerprint", "created"),
        Index("ix_analyses_state_created", "state", "created"),
        Index("ix_analyses_request", "request", unique=True),
    )

    id: Mapped[str] = mapped_column(_ID, primary_key=True)
    created: Mapped[datetime] = mapped_column(UtcDateTime)
    updated: Mapped[datetime] = mapped_column(UtcDateTime)
    revision: Mapped[int] = mapped_column(Integer)  # counts the additions of inputs
    state: Mapped[str] = mapped_column(String(16))
    error: Mapped[str | None] = mapped_column(Text)
    outcome_state: Mapped[str | None] = mapped_column(String(16))
    stage: Mapped[str | None] = mapped_column(String(32))
    cause: Mapped[str | None] = mapped_column(String(128))
    confidence: Mapped[str | None] = mapped_column(String(16))
    engine: Mapped[str | None] = mapped_column(String(64))
    version: Mapped[str | None] = mapped_column(String(128))
    title_en: Mapped[str | None] = mapped_column(Text)
    title_zh: Mapped[str | None] = mapped_column(Text)
    input_names: Mapped[str] = mapped_column(Text)  # a line each, for the history's search
    input_bytes: Mapped[int] = mapped_column(BigInteger)
    library: Mapped[str] = mapped_column(String(64))
    delete_token_hash: Mapped[bytes] = mapped_column(LargeBinary)
    report: Mapped[bytes | None] = mapped_column(LargeBinary)  # analyzer/store/codec.py
    fingerprint: Mapped[str | None] = mapped_column(String(40))  # the same for the same failure in another run
    likeness: Mapped[str | None] = mapped_column(Text)  # what the fingerprint was made of
    host: Mapped[str | None] = mapped_column(String(128))  # as its sender named it
    tries: Mapped[int] = mapped_column(Integer, server_default="0")  # how often work on it was begun since it was queued
    due: Mapped[datetime | None] = mapped_column(UtcDateTime)  # while it is queued: not before
    request: Mapped[bytes | None] = mapped_column(LargeBinary(32))  # a hash of its sender's Idempotency-Key


class Term(Base):
    """A text that the history's search looks through, once however many analyses have it (analyzer/store/search.py)."""

    __tablename__ = "terms"

    id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)  # 64 bits of the text's hash
    text: Mapped[str] = mapped_column(Text)  # case folded


class AnalysisTerm(Base):
    """Which analysis has which text, and what else the history is narrowed to, so that one index answers."""

    __tablename__ = "analysis_terms"
    __table_args__ = (
        Index("ix_analysis_terms_found", "term_id", "created", "analysis_id", "cause", "engine"),
        Index("ix_analysis_terms_found_cause", "term_id", "cause", "created", "analysis_id", "engine"),
        Index("ix_analysis_terms_analysis_id", "analysis_id"),
    )

    term_id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    analysis_id: Mapped[str] = mapped_column(ForeignKey("analyses.id", ondelete="CASCADE"), primary_key=True)
    created: Mapped[datetime] = mapped_column(UtcDateTime)
    cause: Mapped[str | None] = mapped_column(String(128))
    engine: Mapped[str | None] = mapped_column(String(64))


class Input(Base):
    """The redacted text of an input, once however many analyses hold it."""

    __tablename__ = "inputs"

    sha256: Mapped[bytes] = mapped_column(LargeBinary(32), primary_key=True)  # of the redacted text
    text: Mapped[bytes] = mapped_column(LargeBinary)  # zstd
    text_bytes: Mapped[int] = mapped_column(BigInteger)
    refs: Mapped[int] = mapped_column(Integer)


class AnalysisInput(Base):
    """Which inputs an analysis rests on, in order, and what of each is not in its text."""

    __tablename__ = "analysis_inputs"

    analysis_id: Mapped[str] = mapped_column(ForeignKey("analyses.id", ondelete="CASCADE"), primary_key=True)
    position: Mapped[int] = mapped_column(Integer, primary_key=True)
    sha256: Mapped[bytes] = mapped_column(ForeignKey("inputs.sha256"), index=True)
    name: Mapped[str] = mapped_column(Text)
    sent_bytes: Mapped[int] = mapped_column(BigInteger)  # as they came
    skipped_bytes: Mapped[int] = mapped_column(BigInteger)  # rests of over-long lines
    truncated: Mapped[bool]
    gap_at: Mapped[int] = mapped_column(BigInteger)  # offset in the text at which the middle was left out
    gap_lines: Mapped[int] = mapped_column(BigInteger)
    second_gap_at: Mapped[int] = mapped_column(BigInteger, server_default="0")  # the same, behind the last start of the server
    second_gap_lines: Mapped[int] = mapped_column(BigInteger, server_default="0")


class _OfAnalysis:
    """A row of a table that belongs to an analysis, in the report's order."""

    analysis_id: Mapped[str] = mapped_column(ForeignKey("analyses.id", ondelete="CASCADE"), primary_key=True, sort_order=-2)
    position: Mapped[int] = mapped_column(Integer, primary_key=True, sort_order=-1)


class Fact(_OfAnalysis, Base):
    """A figure of a report: ``number`` or ``words``, and ``bytes`` where it is a size."""

    __tablename__ = "facts"
    __table_args__ = (Index("ix_facts_name_bytes", "name", "bytes"),)

    name: Mapped[str] = mapped_column(String(128))
    number: Mapped[float | None] = mapped_column(Double)
    words: Mapped[str | None] = mapped_column(Text)
    unit: Mapped[str] = mapped_column(String(32))
    bytes: Mapped[int | None] = mapped_column(BigInteger)
    attempt: Mapped[int] = mapped_column(BigInteger)
    rank: Mapped[int | None] = mapped_column(BigInteger)
    gpu: Mapped[int | None] = mapped_column(BigInteger)
    pid: Mapped[int | None] = mapped_column(BigInteger)
    time: Mapped[str | None] = mapped_column(Text)
    input: Mapped[str] = mapped_column(Text)
    line: Mapped[int] = mapped_column(BigInteger)
    pattern: Mapped[str | None] = mapped_column(String(128))


class Series(_OfAnalysis, Base):
    """The course of a figure, in brief; its points are in the report."""

    __tablename__ = "series"

    name: Mapped[str] = mapped_column(String(128), index=True)
    unit: Mapped[str] = mapped_column(String(32))
    rank: Mapped[int | None] = mapped_column(BigInteger)
    count: Mapped[int] = mapped_column(BigInteger)
    lowest: Mapped[float | None] = mapped_column(Double)
    highest: Mapped[float | None] = mapped_column(Double)


class Finding(_OfAnalysis, Base):
    """A finding, without its words but the title."""

    __tablename__ = "findings"

    cause: Mapped[str | None] = mapped_column(String(128), index=True)
    severity: Mapped[str] = mapped_column(String(16))
    confidence: Mapped[str] = mapped_column(String(16))
    root: Mapped[bool]
    consequence_of: Mapped[str | None] = mapped_column(String(128))
    stage: Mapped[str | None] = mapped_column(String(32))
    pattern: Mapped[str | None] = mapped_column(String(128))
    title_en: Mapped[str] = mapped_column(Text)
    title_zh: Mapped[str] = mapped_column(Text)


class Fix(_OfAnalysis, Base):
    """A fix of the finding at ``finding`` and what it changes (JSON: the report's ``changes``, in English)."""

    __tablename__ = "fixes"

    finding: Mapped[int] = mapped_column(Integer)
    title_en: Mapped[str] = mapped_column(Text)
    title_zh: Mapped[str] = mapped_column(Text)
    changes: Mapped[str] = mapped_column(Text)
    versions: Mapped[str | None] = mapped_column(Text)
    verified: Mapped[bool]


class SlackThread(Base):
    """Where an analysis from Slack belongs: one thread, one analysis. ``analysis_id`` is None while nothing of it could be analysed."""

    __tablename__ = "slack_threads"

    team: Mapped[str] = mapped_column(String(32), primary_key=True)
    channel: Mapped[str] = mapped_column(String(32), primary_key=True)
    thread: Mapped[str] = mapped_column(String(32), primary_key=True)  # Slack's ts of the message that began it
    analysis_id: Mapped[str | None] = mapped_column(ForeignKey("analyses.id", ondelete="CASCADE"), index=True)
    reply: Mapped[str | None] = mapped_column(String(32))  # ts of our answer, which is edited in place
    picture: Mapped[str | None] = mapped_column(String(32))  # Slack's id of the file that the answer shows
    asker: Mapped[str] = mapped_column(String(32))  # Slack's id of who asked first, and may delete
    language: Mapped[str] = mapped_column(String(8))
    taken: Mapped[str] = mapped_column(Text)  # messages (ts) and files (id) that were read, a line each
    created: Mapped[datetime] = mapped_column(UtcDateTime, index=True)


class SlackChannel(Base):
    """A channel in which somebody switched watching on or off."""

    __tablename__ = "slack_channels"

    team: Mapped[str] = mapped_column(String(32), primary_key=True)
    channel: Mapped[str] = mapped_column(String(32), primary_key=True)
    watched: Mapped[bool]


class SlackDelivery(Base):
    """A request of Slack's that was taken: what comes again under the same key is not worked on again."""

    __tablename__ = "slack_deliveries"

    key: Mapped[str] = mapped_column(String(64), primary_key=True)  # sha256, hexadecimal
    seen: Mapped[datetime] = mapped_column(UtcDateTime, index=True)


class Feedback(Base):
    """What one person said of a report, the last time they did."""

    __tablename__ = "feedback"

    analysis_id: Mapped[str] = mapped_column(ForeignKey("analyses.id", ondelete="CASCADE"), primary_key=True)
    who: Mapped[bytes] = mapped_column(LargeBinary(32), primary_key=True)  # a hash, so that nobody is named
    helped: Mapped[bool]
    given: Mapped[datetime] = mapped_column(UtcDateTime, index=True)
    because: Mapped[str | None] = mapped_column(Text)  # redacted


#: Every table: a deletion leaves nothing of what it took in any of them.
TABLES = (
    Analysis,
    Term,
    AnalysisTerm,
    Input,
    AnalysisInput,
    Fact,
    Series,
    Finding,
    Fix,
    SlackThread,
    SlackChannel,
    SlackDelivery,
    Feedback,
)
