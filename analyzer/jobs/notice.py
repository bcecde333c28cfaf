"""Tells whoever asked for it of a failure that is seen for the first time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analyzer.store.groups import is_new
from analyzer.web import errors

if TYPE_CHECKING:
    from analyzer.model import Report
    from analyzer.settings import Settings
    from analyzer.store.database import Database


def notice(settings: Settings, database: Database, report: Report) -> None:
    """The report was stored."""
    if settings.sentry_dsn and settings.sentry_groups and report.fingerprint and is_new(database, report.fingerprint):
        errors.tell_group(report)
