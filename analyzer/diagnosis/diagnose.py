"""Record → Report: a verdict on every attempt, ledgers and findings for the last one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from analyzer.diagnosis import beside, command
from analyzer.diagnosis.findings import other_findings, root_finding
from analyzer.diagnosis.fingerprint import fingerprint, likeness
from analyzer.diagnosis.rules import refine
from analyzer.diagnosis.rules.engines import refined_by_engine
from analyzer.diagnosis.timeline import timeline
from analyzer.diagnosis.verdict import Verdict, verdict
from analyzer.engines import engine
from analyzer.engines.case import Case
from analyzer.facts.attempt import Attempt
from analyzer.facts.record import Record
from analyzer.facts.view import View, view
from analyzer.model import AttemptInfo, EngineInfo, Fact, Finding, InputInfo, Ledger, Outcome, Report, Segment, Source, State

if TYPE_CHECKING:
    from analyzer.intake.redact import Redactor
    from analyzer.patterns.model import Library


def diagnose(record: Record, inputs: Sequence[InputInfo], library: Library, redactor: Redactor) -> Report:
    """The report on everything in ``record``. ``redactor`` sees every text before it goes into the report."""
    names = [redactor.clean(info.name) for info in inputs]
    beside.settle(record)
    attempts = record.attempts or [Attempt(0, 0, 1, inputs[0].lines if inputs else 0, 0)]
    subject = attempts[-1]
    shown = view(record, subject, names, redactor.clean, library.scopes, last=True)
    outcome = refine(shown, verdict(shown, library.causes))
    past = _earlier(record, attempts[:-1], names, library, redactor)
    infos, earlier = past.infos, past.ledgers
    case = _case(shown, outcome)
    _remember(case, past)
    findings = [root_finding(case, outcome, library), *other_findings(case, outcome, library)]
    further = command.findings(shown, outcome, library)
    if shown.snapshots or shown.documents or shown.readings or shown.attempt.series:
        findings = _with_dumps(case, outcome, library, findings, further)
    else:  # what reads dumps and courses is not loaded for a log alone: the command line's time is made of that
        findings += further
    infos.append(_info(subject, outcome, names))
    best = next((fix for fix in findings[0].fixes if fix.changes), None)
    arithmetic = engine(shown.engine)
    alike = likeness(shown, outcome)
    return Report(
        inputs=_inputs(record, inputs, names),
        engine=_engine(shown),
        settings=shown.settings,
        attempts=infos,
        outcome=Outcome(outcome.state, outcome.stage, outcome.cause, outcome.confidence),
        facts=[*past.facts, *shown.facts, *shown.documents],
        series=shown.series(),
        gpu_snapshots=shown.snapshots,
        ledgers=case.ledgers,
        earlier=earlier,
        findings=findings,
        command=arithmetic.rewrite(best.changes, shown) if best is not None else None,
        fingerprint=fingerprint(alike) if alike is not None else None,
        likeness=alike,
        library=library.version,
        timeline=timeline(shown),
    )


def _with_dumps(case: Case, outcome: Verdict, library: Library, findings: list[Finding], further: Sequence[Finding]) -> list[Finding]:
    """``findings`` with what dumps and courses of memory add to them, and ``further`` ones."""
    from analyzer.diagnosis import growth_findings, orphans
    from analyzer.diagnosis.dump_remarks import alone, culprit, joined, remarks

    seen = alone(case.view)
    if findings[0].cause is None and seen is not None:
        findings[0] = replace(findings[0], explanation=seen)
    found = growth_findings.apply(case, outcome, library, [*findings, *orphans.findings(case.view, outcome, library), *further])
    said = joined(found[0].explanation, [*remarks(case, outcome), *culprit(case.view, outcome)])
    return [replace(found[0], explanation=said), *found[1:]]


def _case(shown: View, outcome: Verdict) -> Case:
    figures = shown.event_facts(outcome.event) if outcome.event is not None else []
    case = Case(_of_the_failure(shown, figures), outcome.state.value, outcome.stage, outcome.cause, outcome.event, figures)
    case.ledgers = engine(shown.engine).ledgers(case)
    return case


def _of_the_failure(shown: View, figures: Sequence[Fact]) -> View:
    """``shown`` without what the same line says of another failure: two tests of one run must not be mixed in one answer."""
    own = {(fact.name, fact.rank, fact.pattern): fact.source for fact in figures}
    kept = [fact for fact in shown.facts if own.get((fact.name, fact.rank, fact.pattern), fact.source) == fact.source]
    return shown if len(kept) == len(shown.facts) else replace(shown, facts=kept)


#: vLLM's --gpu-memory-utilization from 0.20.0 on; 0.90 before.
LARGEST_DEFAULT = 0.92


@dataclass(slots=True)
class _Past:
    """What is said of the starts before the last one."""

    infos: list[AttemptInfo] = field(default_factory=list)
    ledgers: list[Ledger] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    evidence: list[Source] = field(default_factory=list)


def _remember(case: Case, past: _Past) -> None:
    """What earlier starts teach the solver: which utilization already failed and how, which pool was measured."""
    for info in past.infos:
        shares = [fact.value for fact in past.facts if fact.attempt == info.index and fact.name == "budget.utilization"]
        # Of two possible defaults the larger one: where it failed the smaller one does too.
        share = shares[-1] if shares else engine(case.view.engine).default_utilization(case.view) or LARGEST_DEFAULT
        if not shares and engine(case.view.engine).default_utilization(case.view) is None:
            case.earlier_assumed = True
        if info.cause is not None and isinstance(share, (int, float)):
            case.earlier.append((float(share), info.cause))
    pools = [size for ledger in past.ledgers if (size := ledger.get("kv_cache")) is not None and size > 0]
    case.earlier_pool = pools[-1] if pools else None
    case.earlier_evidence = past.evidence[-2:]


def _earlier(record: Record, attempts: Sequence[Attempt], names: Sequence[str], library: Library, redactor: Redactor) -> _Past:
    """Summary, ledgers and facts of every start before the last one."""
    past = _Past()
    for attempt in attempts:
        shown = view(record, attempt, names, redactor.clean, library.scopes, last=False)
        outcome = refined_by_engine(shown, verdict(shown, library.causes))
        past.infos.append(_info(attempt, outcome, names))
        past.ledgers += _case(shown, outcome).ledgers
        past.facts += shown.facts
        if outcome.event is not None and outcome.state is State.FAILED:
            past.evidence.append(shown.source(outcome.event.places[0]))
    return past


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
