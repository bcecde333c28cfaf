"""What became of one attempt: state, stage, cause, and the line it rests on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from analyzer.diagnosis import order
from analyzer.facts.observation import Event, Place
from analyzer.facts.view import View
from analyzer.model import Confidence, Severity, Source, State
from analyzer.patterns.model import Cause

#: Exit of a worker or core that nothing explains is this cause; any other messenger alone leaves the cause open.
KILLED = "engine.process_killed"
WORKER_DIED = "echo.worker_died"


@dataclass(slots=True)
class Verdict:
    """``cause`` None with state failed: it failed and the inputs do not show why. ``evidence`` is what rules add to the event's lines."""

    state: State
    stage: str | None
    cause: str | None
    confidence: Confidence = Confidence.CERTAIN
    event: Event | None = None
    evidence: list[Source] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    follows: str | None = None  # the cause that a rule replaced: it becomes a consequence


def severity(event: Event, cause: str | None, causes: Mapping[str, Cause]) -> Severity:
    """How grave the event is: its pattern's word, else its cause's; a line of unknown meaning counts as an error."""
    if event.pattern.severity is not None:
        return Severity(event.pattern.severity)
    return Severity(causes[cause].severity) if cause is not None and cause in causes else Severity.ERROR


def verdict(view: View, causes: Mapping[str, Cause]) -> Verdict:
    """The verdict by the reading order alone; rules over several facts refine it (rules.py)."""
    attempt = view.attempt
    events = attempt.all_events()
    fatal: list[tuple[Event, str]] = []
    for event in events:
        cause = order.refined(event, causes)
        if cause is None or event.pattern.keeps_running or order.recovered(event, attempt):
            continue
        if severity(event, cause, causes) is Severity.ERROR:
            fatal.append((event, cause))
    found = order.root(fatal, causes)
    if found is not None:
        event, cause = found
        confidence = Confidence(event.pattern.confidence) if event.pattern.confidence else Confidence.CERTAIN
        return Verdict(State.FAILED, order.stage_of(event), cause, confidence, event)
    if fatal:
        return _messengers(view, fatal)
    return _suspects(view, events) or _running(view, events, causes)


def _messengers(view: View, fatal: list[tuple[Event, str]]) -> Verdict:
    """Only wrappers: something failed elsewhere. A worker that simply vanished is a finding of its own."""
    died = next((event for event, cause in fatal if cause == WORKER_DIED), None)
    if died is not None:
        confidence = Confidence(died.pattern.confidence) if died.pattern.confidence else Confidence.CERTAIN
        return Verdict(State.FAILED, order.stage_of(died), KILLED, confidence, died, follows=WORKER_DIED)
    event = fatal[0][0]
    return Verdict(State.FAILED, order.stage_of(event), None, event=event)


def _suspects(view: View, events: list[Event]) -> Verdict | None:
    """Lines that look like the end: an exception that nothing followed, a bare ``Killed``."""
    attempt = view.attempt
    open_ones = [
        event
        for event in events
        if event.pattern.marks == "suspect"
        and event.cause is None
        and not order.recovered(event, attempt)
        and (event.pattern.severity == Severity.ERROR or attempt.ready is None)
    ]
    if not open_ones or (attempt.shutdown is not None and attempt.ready is not None):
        return None
    latest_progress = max((seen for _, seen in attempt.progress.values()), default=0)
    after = [event for event in open_ones if event.order > latest_progress]
    if not after:
        return None
    return Verdict(State.FAILED, order.stage_of(after[0]), None, event=after[0])


def _running(view: View, events: list[Event], causes: Mapping[str, Cause]) -> Verdict:
    attempt = view.attempt
    serving = attempt.ready is not None or attempt.last_statistics is not None
    if serving or view.fact("init.seconds") is not None:
        stage = "shutdown" if attempt.shutdown is not None else "serving"
        for event in events:
            cause = order.refined(event, causes)
            if cause is None or causes[cause].echo or severity(event, cause, causes) is Severity.INFO:
                continue
            if event.pattern.keeps_running or severity(event, cause, causes) is Severity.WARNING:
                confidence = Confidence(event.pattern.confidence) if event.pattern.confidence else Confidence.CERTAIN
                return Verdict(State.DEGRADED, order.stage_of(event) or "serving", cause, confidence, event)
        return Verdict(State.HEALTHY, stage, "healthy")
    return Verdict(State.UNKNOWN, attempt.stage, None)
