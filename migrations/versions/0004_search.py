"""The history's search looks through distinct texts, and its filters have indices in the history's order."""

from __future__ import annotations

import hashlib

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_INDICES = {
    "ix_analyses_cause_created_id": ["cause", "created", "id"],
    "ix_analyses_engine_created_id": ["engine", "created", "id"],
    "ix_analyses_cause_engine_created_id": ["cause", "engine", "created", "id"],
    "ix_analyses_updated": ["updated"],
}


def upgrade() -> None:
    terms = op.create_table(
        "terms",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_terms"),
    )
    links = op.create_table(
        "analysis_terms",
        sa.Column("term_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("analysis_id", sa.String(32), nullable=False),
        sa.Column("created", sa.DateTime(timezone=True), nullable=False),
        sa.Column("cause", sa.String(128)),
        sa.Column("engine", sa.String(64)),
        sa.PrimaryKeyConstraint("term_id", "analysis_id", name="pk_analysis_terms"),
        sa.ForeignKeyConstraint(["analysis_id"], ["analyses.id"], name="fk_analysis_terms_analysis_id", ondelete="CASCADE"),
    )
    _fill(terms, links)
    op.create_index("ix_analysis_terms_found", "analysis_terms", ["term_id", "created", "analysis_id", "cause", "engine"])
    op.create_index("ix_analysis_terms_found_cause", "analysis_terms", ["term_id", "cause", "created", "analysis_id", "engine"])
    op.create_index("ix_analysis_terms_analysis_id", "analysis_terms", ["analysis_id"])
    op.drop_index("ix_analyses_cause", table_name="analyses")
    op.drop_index("ix_analyses_engine", table_name="analyses")
    for name, columns in _INDICES.items():
        op.create_index(name, "analyses", columns)


def _fill(terms: sa.Table, links: sa.Table) -> None:
    """What is there is found, too. The rule is that of analyzer/store/search.py when this was written."""
    connection = op.get_bind()
    names = ("id", "created", "cause", "engine", "version", "title_en", "title_zh", "input_names")
    analyses = sa.table("analyses", *(sa.column(name, sa.DateTime(timezone=True) if name == "created" else None) for name in names))
    last, known = "", set()
    while rows := connection.execute(sa.select(analyses).where(analyses.c.id > last).order_by(analyses.c.id).limit(500)).mappings().all():
        last = rows[-1]["id"]
        new, found = {}, []
        for row in rows:
            outcome = "\n".join(row[name] or "" for name in ("cause", "version", "title_en", "title_zh")).casefold().strip("\n")
            for text in {outcome, (row["input_names"] or "").casefold()} - {""}:
                key = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big", signed=True)
                if key not in known:
                    new[key] = text
                found.append(
                    {"term_id": key, "analysis_id": row["id"], "created": row["created"], "cause": row["cause"], "engine": row["engine"]}
                )
        known |= set(new)
        if new:
            connection.execute(sa.insert(terms), [{"id": key, "text": text} for key, text in new.items()])
        if found:
            connection.execute(sa.insert(links), found)


def downgrade() -> None:
    for name in _INDICES:
        op.drop_index(name, table_name="analyses")
    op.create_index("ix_analyses_cause", "analyses", ["cause"])
    op.create_index("ix_analyses_engine", "analyses", ["engine"])
    op.drop_table("analysis_terms")
    op.drop_table("terms")
