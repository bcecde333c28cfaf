"""``vramledger patterns diff``: which stored reports another pattern library would alter. Nothing is changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from analyzer.analysis import Analysis
from analyzer.intake.errors import IntakeError
from analyzer.patterns.load import load
from analyzer.patterns.runner import Runner
from analyzer.readers import anchors
from analyzer.store import repository
from analyzer.store.values import HistoryFilter
from analyzer.web.problems import Problem
from analyzer.web.upload import Upload

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from pathlib import Path

    from analyzer.intake.limits import Limits
    from analyzer.model import Report
    from analyzer.settings import Settings
    from analyzer.store.database import Database

#: The word for the library of this installation.
INSTALLED = "installed"


@dataclass(frozen=True, slots=True)
class Said:
    """What a report says, as far as patterns decide it."""

    state: str
    stage: str | None
    cause: str | None
    confidence: str
    findings: tuple[str, ...]
    fixes: tuple[str, ...]
    facts: int


@dataclass(frozen=True, slots=True)
class Change:
    """One stored analysis under both libraries; None: it cannot be read under that one."""

    id: str
    created: datetime
    inputs: tuple[str, ...]
    old: Said | None
    new: Said | None


class _Under(Upload):
    """An upload that another library reads."""

    def __init__(self, settings: Settings, runner: Runner) -> None:
        self._chosen = runner
        super().__init__(settings, runner.library, keep=False)

    def _begin(self, settings: Settings, limits: Limits) -> Analysis:
        return Analysis((), limits, library=self._chosen)


def library_at(place: Path) -> Runner:
    """The library in a folder, or (``installed``) of this installation. Raises LibraryError."""
    base = None if str(place) == INSTALLED else place
    return Runner(load(base=base), anchors())


def changes(settings: Settings, database: Database, old: Runner, new: Runner, wanted: HistoryFilter) -> Iterator[tuple[int, Change | None]]:
    """For each stored analysis, the newest first: how many were looked at, and what changes, None where nothing does."""
    seen, cursor = 0, None
    while True:
        page = repository.history(database, wanted, cursor)
        for item in page.items:
            if item.state != repository.DONE:
                continue
            seen += 1
            sides = [_said(settings, database, item.id, runner) for runner in (old, new)]
            yield seen, Change(item.id, item.created, item.inputs, *sides) if sides[0] != sides[1] else None
        cursor = page.next_cursor
        if cursor is None:
            return


def _said(settings: Settings, database: Database, identifier: str, runner: Runner) -> Said | None:
    upload = _Under(settings, runner)
    try:
        upload.replay(repository.inputs(database, identifier))
        return said(upload.finish().report)
    except (IntakeError, Problem):
        return None


def said(report: Report) -> Said:
    """A report in brief."""
    outcome = report.outcome
    return Said(
        outcome.state.value,
        outcome.stage,
        outcome.cause,
        outcome.confidence.value,
        tuple(finding.cause or finding.title.en for finding in report.findings),
        tuple(fix.title.en for finding in report.findings for fix in finding.fixes),
        len(report.facts),
    )


def lines(change: Change) -> Iterator[str]:
    """The change as a person reads it."""
    yield f"{change.id}  {change.created:%Y-%m-%d %H:%M}  {', '.join(change.inputs)}"
    if change.old is None or change.new is None:
        yield f"  {'cannot be read' if change.old is None else 'read'} → {'cannot be read' if change.new is None else 'read'}"
        return
    for name in ("state", "stage", "cause", "confidence", "facts"):
        before, after = getattr(change.old, name), getattr(change.new, name)
        if before != after:
            yield f"  {name}: {before} → {after}"
    for name, what in (("findings", "finding"), ("fixes", "fix")):
        before, after = getattr(change.old, name), getattr(change.new, name)
        for sign, mine, other in (("-", before, after), ("+", after, before)):
            yield from (f"  {sign} {what}: {one}" for one in mine if one not in other)
