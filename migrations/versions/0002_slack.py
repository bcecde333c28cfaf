"""Where an analysis from Slack belongs, what was delivered, and what people said of a report."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "slack_threads",
        sa.Column("team", sa.String(32), nullable=False),
        sa.Column("channel", sa.String(32), nullable=False),
        sa.Column("thread", sa.String(32), nullable=False),
        sa.Column("analysis_id", sa.String(32)),
        sa.Column("reply", sa.String(32)),
        sa.Column("picture", sa.String(32)),
        sa.Column("asker", sa.String(32), nullable=False),
        sa.Column("language", sa.String(8), nullable=False),
        sa.Column("taken", sa.Text(), nullable=False),
        sa.Column("created", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("team", "channel", "thread", name="pk_slack_threads"),
        sa.ForeignKeyConstraint(["analysis_id"], ["analyses.id"], name="fk_slack_threads_analysis_id", ondelete="CASCADE"),
    )
    op.create_index("ix_slack_threads_analysis_id", "slack_threads", ["analysis_id"])
    op.create_index("ix_slack_threads_created", "slack_threads", ["created"])
    op.create_table(
        "slack_channels",
        sa.Column("team", sa.String(32), nullable=False),
        sa.Column("channel", sa.String(32), nullable=False),
        sa.Column("watched", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("team", "channel", name="pk_slack_channels"),
    )
    op.create_table(
        "slack_deliveries",
        sa.Column("key", sa.String(64), nullable=False),
        sa.Column("seen", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_slack_deliveries"),
    )
    op.create_index("ix_slack_deliveries_seen", "slack_deliveries", ["seen"])
    op.create_table(
        "feedback",
        sa.Column("analysis_id", sa.String(32), nullable=False),
        sa.Column("who", sa.LargeBinary(32), nullable=False),
        sa.Column("helped", sa.Boolean(), nullable=False),
        sa.Column("given", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("analysis_id", "who", name="pk_feedback"),
        sa.ForeignKeyConstraint(["analysis_id"], ["analyses.id"], name="fk_feedback_analysis_id", ondelete="CASCADE"),
    )


def downgrade() -> None:
    for table in ("feedback", "slack_deliveries", "slack_channels", "slack_threads"):
        op.drop_table(table)
