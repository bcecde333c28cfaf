"""What a team needs: the same failure recognised, hosts, jobs, and why a report was wrong.

On PostgreSQL the queue is Procrastinate's, in a schema of its own. Its SQL is that of the version that pyproject.toml pins: whoever moves
the pin adds a revision that runs what lies between the two versions (the files of ``procrastinate/sql/migrations``).
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

#: PostgreSQL's schema of the queue (analyzer/jobs/queue.py).
SCHEMA = "vramledger_jobs"


def upgrade() -> None:
    op.add_column("analyses", sa.Column("fingerprint", sa.String(40)))
    op.add_column("analyses", sa.Column("likeness", sa.Text()))
    op.add_column("analyses", sa.Column("host", sa.String(128)))
    op.add_column("analyses", sa.Column("tries", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("analyses", sa.Column("due", sa.DateTime(timezone=True)))
    op.add_column("analyses", sa.Column("request", sa.LargeBinary(32)))
    op.create_index("ix_analyses_request", "analyses", ["request"], unique=True)
    op.create_index("ix_analyses_fingerprint_created", "analyses", ["fingerprint", "created"])
    op.create_index("ix_analyses_state_created", "analyses", ["state", "created"])
    op.add_column("feedback", sa.Column("because", sa.Text()))
    op.create_index("ix_feedback_given", "feedback", ["given"])
    connection = op.get_bind()
    if connection.dialect.name == "postgresql":
        from procrastinate.schema import SchemaManager

        # The driver's own cursor: many statements at once, and no percent sign or colon is anything but itself.
        cursor = connection.connection.cursor()
        cursor.execute("SELECT current_setting('search_path')")
        before = cursor.fetchone()[0]
        cursor.execute(f"CREATE SCHEMA {SCHEMA}")
        cursor.execute(f"SET LOCAL search_path TO {SCHEMA}")
        cursor.execute(SchemaManager.get_schema())
        cursor.execute("SELECT set_config('search_path', %s, true)", (before,))
        cursor.close()


def downgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.execute(f"DROP SCHEMA {SCHEMA} CASCADE")
    op.drop_index("ix_feedback_given", "feedback")
    op.drop_index("ix_analyses_request", "analyses")
    # Column by column: a table that is made anew on SQLite would take the rows with it that belong to its rows.
    op.drop_column("feedback", "because")
    op.drop_index("ix_analyses_state_created", "analyses")
    op.drop_index("ix_analyses_fingerprint_created", "analyses")
    for name in ("request", "due", "tries", "host", "likeness", "fingerprint"):
        op.drop_column("analyses", name)
