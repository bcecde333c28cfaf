"""Record → Report: a verdict on every attempt, ledgers and findings for the last one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from analyzer.diagnosis.findings import other_findings, root_finding
from analyzer.diagnosis.rules import refine
from analyzer.diagnosis.verdict import Verdict, verdict
from analyzer.engines import engine
from analyzer.engines.case import Case
from analyzer.facts.attempt import Attempt
from analyzer.facts.record import Record
from analyzer.facts.view import View, view
from analyzer.model import AttemptInfo, EngineInfo, Fact, InputInfo, Ledger, Outcome, Report, Segment

if TYPE_CHECKING:
    from analyzer.intake.redact import Redactor
    from analyzer.patterns.model import Library


def diagnose(record: Record, inputs: Sequence[InputInfo], library: Library, redactor: Redactor) -> Report:
    """The report on everything in ``record``. ``redactor`` sees every text before it goes into the report."""
    names = [redactor.clean(info.name) for info in inputs]
    attempts = record.attempts or [Attempt(0, 0, 1, inputs[0].lines if inputs else 0, 0)]
    subject = attempts[-1]
    shown = view(record, subject, names, redactor.clean, last=True)
    outcome = refine(shown, verdict(shown, library.causes))
    case = _case(shown, outcome)
    findings = [root_finding(case, outcome, library), *other_findings(case, outcome, library)]
    infos, earlier, earlier_facts = _earlier(record, attempts[:-1], names, library, redactor)
    infos.append(_info(subject, outcome, names))
    best = next((fix for fix in findings[0].fixes if fix.changes), None)
    arithmetic = engine(shown.engine)
    return Report(
        inputs=_inputs(record, inputs, names),
        engine=_engine(shown),
        settings=shown.settings,
        attempts=infos,
        outcome=Outcome(outcome.state, outcome.stage, outcome.cause, outcome.confidence),
        facts=[*earlier_facts, *shown.facts, *shown.documents],
        series=shown.series(),
        gpu_snapshots=shown.snapshots,
        ledgers=case.ledgers,
        earlier=earlier,
        findings=findings,
        command=arithmetic.rewrite(best.changes, shown) if best is not None else None,
        library=library.version,
    )


def _case(shown: View, outcome: Verdict) -> Case:
    figures = shown.event_facts(outcome.event) if outcome.event is not None else []
    case = Case(shown, outcome.state.value, outcome.stage, outcome.cause, outcome.event, figures)
    case.ledgers = engine(shown.engine).ledgers(case)
    return case


def _earlier(
    record: Record, attempts: Sequence[Attempt], names: Sequence[str], library: Library, redactor: Redactor
) -> tuple[list[AttemptInfo], list[Ledger], list[Fact]]:
    """Summary, ledgers and facts of every start before the last one."""
    infos: list[AttemptInfo] = []
    ledgers: list[Ledger] = []
    facts: list[Fact] = []
    for attempt in attempts:
        shown = view(record, attempt, names, redactor.clean, last=False)
        outcome = verdict(shown, library.causes)
        infos.append(_info(attempt, outcome, names))
        ledgers += _case(shown, outcome).ledgers
        facts += shown.facts
    return infos, ledgers, facts


def _info(attempt: Attempt, outcome: Verdict, names: Sequence[str]) -> AttemptInfo:
    name = names[attempt.input] if attempt.input < len(names) else ""
    return AttemptInfo(attempt.index, name, outcome.state, outcome.stage, attempt.first_line, attempt.last_line, outcome.cause)


def _engine(shown: View) -> EngineInfo:
    versions = str(shown.versions) if shown.version is None else ""
    return EngineInfo(shown.engine, shown.version, versions or None, shown.generation)


def _inputs(record: Record, inputs: Sequence[InputInfo], names: Sequence[str]) -> list[InputInfo]:
    found = []
    for index, info in enumerate(inputs):
        segments = [
            Segment(seen.kind, seen.first, seen.last, seen.engine)
            for seen in sorted(record.segments.get(index, []), key=lambda seen: (seen.first, seen.last))
        ]
        if not segments and info.lines:
            segments = [Segment("text", 1, info.lines)]
        found.append(InputInfo(names[index], info.bytes, info.lines, info.truncated, info.skipped_bytes, segments))
    return found
