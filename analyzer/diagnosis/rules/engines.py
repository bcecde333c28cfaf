"""Asks the engine that ran: what several of its lines prove together, no single one shows."""

from __future__ import annotations

from dataclasses import replace

from analyzer.diagnosis.verdict import Verdict
from analyzer.engines import engine
from analyzer.engines.case import Case
from analyzer.facts.view import View
from analyzer.model import State


def refined_by_engine(view: View, verdict: Verdict) -> Verdict:
    """``verdict`` with what the engine's own rules add to it."""
    figures = view.event_facts(verdict.event) if verdict.event is not None else []
    found = engine(view.engine).refine(Case(view, verdict.state.value, verdict.stage, verdict.cause, verdict.event, figures))
    if found is None:
        return verdict
    changed = found.cause is not None and found.cause != verdict.cause
    return replace(
        verdict,
        state=State(found.state) if found.state is not None else verdict.state,
        stage=found.stage or verdict.stage,
        cause=None if found.open else found.cause or verdict.cause,
        confidence=found.confidence or verdict.confidence,
        evidence=[*verdict.evidence, *found.evidence],
        follows=verdict.cause if changed and verdict.cause is not None else verdict.follows,
    )
