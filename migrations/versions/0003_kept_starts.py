"""The last start of the server is kept out of the middle of a large input, so there are two gaps."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name in ("second_gap_at", "second_gap_lines"):
        op.add_column("analysis_inputs", sa.Column(name, sa.BigInteger(), nullable=False, server_default="0"))


def downgrade() -> None:
    with op.batch_alter_table("analysis_inputs") as table:
        for name in ("second_gap_lines", "second_gap_at"):
            table.drop_column(name)
