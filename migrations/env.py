"""Alembic's way in. The connection comes from analyzer/store/upgrade.py, which holds the lock; nothing is configured here."""

from alembic import context

from analyzer.store.models import Base

connection = context.config.attributes.get("connection")
if connection is None:
    raise SystemExit("run `vramledger db upgrade`: it knows the database and locks it")
context.configure(connection=connection, target_metadata=Base.metadata, render_as_batch=connection.dialect.name == "sqlite")
with context.begin_transaction():
    context.run_migrations()
