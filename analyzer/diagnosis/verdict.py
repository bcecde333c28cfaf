"""What became of one attempt: state, stage, cause, and the line it rests on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from analyzer.diagnosis import order
from analyzer.facts.attempt import Attempt
from analyzer.facts.observation import Event, Place
from analyzer.facts.view import View
from analyzer.model import Confidence, Severity, Source, State
from analyzer.patterns.model import Cause

#: Exit codes of a process that was noted to have died, and what they say by themselves (gpu-errors.md, section 6): ended from outside,
#: or a crash in native code. Any other code, and any other messenger alone, leaves the cause open.
KILLED, SEGFAULT = "engine.process_killed", "process.segfault"
EXIT_CAUSES = {-9: KILLED, 137: KILLED, -11: SEGFAULT, 139: SEGFAULT}
#: A request that is refused is the client's affair until this share of all requests is (one in ten).
REFUSED_SHARE = 0.1


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
        if causes[cause].echo and attempt.shutdown_order is not None and attempt.shutdown_order < event.order:
            continue  # what a server says of its own parts while it is being stopped
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
    """Only wrappers: something failed elsewhere. A process that simply vanished is a finding of its own."""
    died = next(((event, cause) for event, cause in fatal if event.pattern.marks == "died"), None)
    if died is not None:
        event, messenger = died
        codes = [seen.value for seen in event.figures if seen.name == "process.exit_code" and isinstance(seen.value, int)]
        cause = EXIT_CAUSES.get(codes[0]) if codes else KILLED
        return Verdict(State.FAILED, order.stage_of(event), cause, event=event, follows=messenger if cause else None)
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
            if event.pattern.keeps_running and attempt.requests and _share(attempt, event) < REFUSED_SHARE:
                continue
            if event.pattern.keeps_running or severity(event, cause, causes) is Severity.WARNING:
                confidence = Confidence(event.pattern.confidence) if event.pattern.confidence else Confidence.CERTAIN
                return Verdict(State.DEGRADED, order.stage_of(event) or "serving", cause, confidence, event)
        return Verdict(State.HEALTHY, stage, "healthy")
    return Verdict(State.UNKNOWN, attempt.stage, None)


def _share(attempt: Attempt, event: Event) -> float:
    """How many of the requests that the access log shows were refused in this way."""
    return attempt.event_counts[event.pattern.id] / attempt.requests


def renamed(verdict: Verdict, cause: str, confidence: Confidence) -> Verdict:
    """The same verdict with a finer or truer cause; the former one follows from it."""
    return Verdict(verdict.state, verdict.stage, cause, confidence, verdict.event, list(verdict.evidence), list(verdict.places), verdict.cause)
