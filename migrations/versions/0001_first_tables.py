"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def _of_analysis(table: str) -> list[sa.Column | sa.Constraint]:
    return [
        sa.Column("analysis_id", sa.String(32), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("analysis_id", "position", name=f"pk_{table}"),
        sa.ForeignKeyConstraint(["analysis_id"], ["analyses.id"], name=f"fk_{table}_analysis_id", ondelete="CASCADE"),
    ]


def upgrade() -> None:
    op.create_table(
        "analyses",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("created", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated", sa.DateTime(timezone=True), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("error", sa.Text()),
        sa.Column("outcome_state", sa.String(16)),
        sa.Column("stage", sa.String(32)),
        sa.Column("cause", sa.String(128)),
        sa.Column("confidence", sa.String(16)),
        sa.Column("engine", sa.String(64)),
        sa.Column("version", sa.String(128)),
        sa.Column("title_en", sa.Text()),
        sa.Column("title_zh", sa.Text()),
        sa.Column("input_names", sa.Text(), nullable=False),
        sa.Column("input_bytes", sa.BigInteger(), nullable=False),
        sa.Column("library", sa.String(64), nullable=False),
        sa.Column("delete_token_hash", sa.LargeBinary(), nullable=False),
        sa.Column("report", sa.LargeBinary()),
        sa.PrimaryKeyConstraint("id", name="pk_analyses"),
    )
    op.create_index("ix_analyses_created_id", "analyses", ["created", "id"])
    op.create_index("ix_analyses_cause", "analyses", ["cause"])
    op.create_index("ix_analyses_engine", "analyses", ["engine"])
    op.create_table(
        "inputs",
        sa.Column("sha256", sa.LargeBinary(32), nullable=False),
        sa.Column("text", sa.LargeBinary(), nullable=False),
        sa.Column("text_bytes", sa.BigInteger(), nullable=False),
        sa.Column("refs", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("sha256", name="pk_inputs"),
    )
    op.create_table(
        "analysis_inputs",
        *_of_analysis("analysis_inputs"),
        sa.Column("sha256", sa.LargeBinary(32), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("sent_bytes", sa.BigInteger(), nullable=False),
        sa.Column("skipped_bytes", sa.BigInteger(), nullable=False),
        sa.Column("truncated", sa.Boolean(), nullable=False),
        sa.Column("gap_at", sa.BigInteger(), nullable=False),
        sa.Column("gap_lines", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["sha256"], ["inputs.sha256"], name="fk_analysis_inputs_sha256"),
    )
    op.create_index("ix_analysis_inputs_sha256", "analysis_inputs", ["sha256"])
    op.create_table(
        "facts",
        *_of_analysis("facts"),
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("number", sa.Double()),
        sa.Column("words", sa.Text()),
        sa.Column("unit", sa.String(32), nullable=False),
        sa.Column("bytes", sa.BigInteger()),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column("rank", sa.BigInteger()),
        sa.Column("gpu", sa.BigInteger()),
        sa.Column("pid", sa.BigInteger()),
        sa.Column("time", sa.Text()),
        sa.Column("input", sa.Text(), nullable=False),
        sa.Column("line", sa.BigInteger(), nullable=False),
        sa.Column("pattern", sa.String(128)),
    )
    op.create_index("ix_facts_name_bytes", "facts", ["name", "bytes"])
    op.create_table(
        "series",
        *_of_analysis("series"),
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("unit", sa.String(32), nullable=False),
        sa.Column("rank", sa.BigInteger()),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.Column("lowest", sa.Double()),
        sa.Column("highest", sa.Double()),
    )
    op.create_index("ix_series_name", "series", ["name"])
    op.create_table(
        "findings",
        *_of_analysis("findings"),
        sa.Column("cause", sa.String(128)),
        sa.Column("severity", sa.String(16), nullable=False),
        sa.Column("confidence", sa.String(16), nullable=False),
        sa.Column("root", sa.Boolean(), nullable=False),
        sa.Column("consequence_of", sa.String(128)),
        sa.Column("stage", sa.String(32)),
        sa.Column("pattern", sa.String(128)),
        sa.Column("title_en", sa.Text(), nullable=False),
        sa.Column("title_zh", sa.Text(), nullable=False),
    )
    op.create_index("ix_findings_cause", "findings", ["cause"])
    op.create_table(
        "fixes",
        *_of_analysis("fixes"),
        sa.Column("finding", sa.Integer(), nullable=False),
        sa.Column("title_en", sa.Text(), nullable=False),
        sa.Column("title_zh", sa.Text(), nullable=False),
        sa.Column("changes", sa.Text(), nullable=False),
        sa.Column("versions", sa.Text()),
        sa.Column("verified", sa.Boolean(), nullable=False),
    )


def downgrade() -> None:
    for table in ("fixes", "findings", "series", "facts", "analysis_inputs", "inputs", "analyses"):
        op.drop_table(table)
