"""What became of one attempt: state, stage, cause, and the line it rests on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from analyzer.diagnosis import kernel, order
from analyzer.facts.attempt import Attempt, Traceback, process_key
from analyzer.facts.observation import Event, Place
from analyzer.facts.view import View
from analyzer.model import Confidence, Severity, Source, State
from analyzer.patterns.model import Cause

#: Exit codes of a process that was noted to have died, and what they say by themselves (gpu-errors.md, section 6): ended from outside,
#: or a crash in native code. Any other code, and any other messenger alone, leaves the cause open.
KILLED, SEGFAULT, NO_SHM, NO_INSTRUCTION = "engine.process_killed", "process.segfault", "shm.too_small", "install.cpu_instruction_missing"
EXIT_CAUSES = {
    -9: KILLED, 137: KILLED, -11: SEGFAULT, 139: SEGFAULT, -7: NO_SHM, 135: NO_SHM, -4: NO_INSTRUCTION, 132: NO_INSTRUCTION,
}  # fmt: skip
#: Signals that have further senders than the cause they mostly stand for: a bus error also comes from a file that shrank.
EXIT_LIKELY = frozenset({NO_SHM, NO_INSTRUCTION})
#: Xids that mean the card, its memory, link or firmware (gpu-errors.md, section 3), and what the engine then reports.
CARD_FAILED = frozenset(f"gpu.xid.{code}" for code in (48, 62, 64, 74, 79, 94, 95, 119, 120, 140, 143))
ON_THE_CARD = ("cuda_error", "nccl", "gpu.")
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
    order.date_by_messengers(events, attempt)
    fatal: list[tuple[Event, str]] = []
    aside: list[tuple[Event, str]] = []  # the kernel's: they decide only what is this attempt's
    for event in events:
        cause = order.refined(event, causes)
        if cause is None or event.pattern.keeps_running:
            continue
        if kernel.is_kernel(event):
            mine = kernel.belongs(event, attempt) is not False and not kernel.of_another(event, attempt)
            if mine and severity(event, cause, causes) is Severity.ERROR:
                aside.append((event, cause))
            continue
        if order.overcome(event, attempt, causes):
            continue
        follows = causes[cause].echo or order.tears_down(event)
        if follows and attempt.shutdown_order is not None and attempt.shutdown_order < event.order:
            continue  # what a server says of its own parts while it is being stopped
        if severity(event, cause, causes) is Severity.ERROR:
            fatal.append((event, cause))
    found = order.root(_with_kernel(view, fatal, aside, events, causes), causes)
    if found is not None:
        event, cause = found
        confidence = Confidence(event.pattern.confidence) if event.pattern.confidence else Confidence.CERTAIN
        stage = _stage_beside(view, fatal) if kernel.is_kernel(event) else order.stage_of(event)
        return Verdict(State.FAILED, order.dated(stage, cause, causes), cause, confidence, event)
    if fatal:
        return _messengers(view, fatal, _undated(events, view, causes))
    # An exception before it was not the end, one after it follows.
    return _undated(events, view, causes) or _suspects(view, events, causes) or _cut_short(view) or _running(view, events, causes)


def _with_kernel(
    view: View, fatal: list[tuple[Event, str]], aside: list[tuple[Event, str]], events: list[Event], causes: Mapping[str, Cause]
) -> list[tuple[Event, str]]:
    """The engine's fatal errors, then the kernel's: which of them drags which behind is told by the causes, not by the order of the inputs.

    Before the engine's stands only what says that the card itself failed, where all that the engine reports is an error on the card.
    Where the engine reports nothing and serves, a kernel's line counts that names one of its processes, and a kill of a server's process:
    the killed one cannot report it. An Xid alone may be older, or another program's.
    """
    silent = not fatal and _suspects(view, events, causes) is None and _serving(view)
    kept = [
        (event, cause)
        for event, cause in aside
        if not kernel.long_after(event, [own for own, _ in fatal])
        and (not silent or kernel.belongs(event, view.attempt) or (cause.startswith("host_oom") and view.attempt.shutdown is None))
    ]
    first = next((cause for _, cause in fatal if not cause.startswith(("echo.", "symptom."))), "cuda_error")
    broken = [item for item in kept if item[1] in CARD_FAILED and first.startswith(ON_THE_CARD)]
    return [*broken, *fatal, *(item for item in kept if item not in broken)]


def _stage_beside(view: View, fatal: list[tuple[Event, str]]) -> str | None:
    """The stage in which the engine was when the kernel's line came: that of its own first error, else how far it had come."""
    own = next((order.stage_of(event) for event, _ in fatal if not kernel.is_kernel(event)), None)
    return own or ("serving" if _serving(view) else view.attempt.stage)


def _serving(view: View) -> bool:
    return view.attempt.ready is not None or view.attempt.last_statistics is not None


def _messengers(view: View, fatal: list[tuple[Event, str]], undated: Verdict | None) -> Verdict:
    """Only wrappers, and what failed while the engine was taken down: something failed elsewhere.

    A process that simply vanished is a finding of its own, though without an exit code a crash in native code looks the same
    (vllm#48966: a SIGSEGV); one of several that tear down did not vanish. ``undated``: the error of a known family among the rest, which
    tells more than any exception.
    """
    died = next(((event, cause) for event, cause in fatal if event.pattern.marks == "died"), None)
    codes = [seen.value for seen in died[0].figures if seen.name == "process.exit_code" and isinstance(seen.value, int)] if died else []
    if died is not None and (codes or not any(order.tears_down(event) for event, _ in fatal)):
        event, messenger = died
        cause = EXIT_CAUSES.get(codes[0]) if codes else KILLED
        confidence = Confidence.LIKELY if cause in EXIT_LIKELY or not codes else Confidence.CERTAIN
        if cause is None and undated is not None:  # a worker that was told to end (SIGTERM), or went with an error of its own
            return undated
        return Verdict(State.FAILED, order.stage_of(event), cause, confidence, event, follows=messenger if cause else None)
    messenger_event = fatal[0][0]
    event = undated.event if undated is not None and undated.event is not None else _first_error(view, fatal) or messenger_event
    found = _open(view, event)
    if event is not messenger_event:
        found.places.insert(0, messenger_event.places[0])
        found.stage = found.stage or order.stage_of(messenger_event)
    return found


def _open(view: View, event: Event) -> Verdict:
    """It failed with ``event``, of what is open; where that announces a traceback and the text ends within it, its frames date it."""
    cut, stage = _unfinished(view), order.stage_of(event)
    told = event.pattern.cause is not None and event.pattern.stage is not None
    if cut is None or told or event.frames or cut.process != event.process or cut.place.line <= event.places[0].line:
        return Verdict(State.FAILED, stage, None, event=event)
    dated = _dated_by(view, cut)
    return replace(dated, event=event, stage=dated.stage or stage)


def _unfinished(view: View) -> Traceback | None:
    """The first traceback whose last line is not in the text, and after which nothing went on."""
    attempt = view.attempt
    progress = max([attempt.ready_order or 0, *(seen for _, seen in attempt.progress.values())])
    cut = (traceback for traceback in attempt.unfinished.values() if traceback.order > progress)
    return min(cut, key=lambda traceback: traceback.order, default=None)


def _dated_by(view: View, cut: Traceback) -> Verdict:
    """It failed where the frames of ``cut`` say; of what is open, as the exception is not there."""
    frames = view.attempt.frames.get(process_key(cut.process) or "", ())
    places = [cut.place, *order.deciding(reversed(frames))]
    return Verdict(State.FAILED, order.stage_of_unfinished(cut, view.attempt), None, places=places)


def _cut_short(view: View) -> Verdict | None:
    """The text ends within a traceback of what ends its process: an exception that nobody caught, or one of a worker while it starts."""
    cut = _unfinished(view)
    if cut is None or not cut.ends or view.attempt.shutdown is not None or _serving(view):
        return None
    return _dated_by(view, cut)


def _first_error(view: View, messengers: list[tuple[Event, str]]) -> Event | None:
    """The exception that the messengers speak of: the first one of an engine's own process, else the first at all.

    What a front end raises is about a request, or repeats the engine's.
    """
    lines = {(place.input, place.line) for event, _ in messengers for place in event.places}
    found = [
        event
        for event in view.attempt.all_events()
        if event.pattern.marks == "suspect" and event.cause is None and not kernel.is_kernel(event)
        and not order.recovered(event, view.attempt)
        and (event.places[0].input, event.places[0].line) not in lines
    ]  # fmt: skip
    own = [event for event in found if event.process is not None and not event.process.name.startswith("APIServer")]
    graver = [event for event in found if event.level in ("ERROR", "CRITICAL")]
    return next(iter(own or graver or found), None)


def _suspects(view: View, events: list[Event], causes: Mapping[str, Cause]) -> Verdict | None:
    """Lines that look like the end: an exception that nothing followed, a bare ``Killed``.

    An exception that refuses one request is none, nor is what the kernel says: it names no server.
    """
    attempt = view.attempt
    refused = {_line(event) for event in events if event.pattern.keeps_running and event.pattern.stage == "serving"}
    open_ones = [
        event
        for event in events
        if event.pattern.marks == "suspect"
        and event.cause is None
        and not kernel.is_kernel(event)
        and not order.overcome(event, attempt, causes)
        and (event.pattern.severity == Severity.ERROR or not _outlived(view, event))
        and _line(event) not in refused
    ]
    if not open_ones or (attempt.shutdown is not None and attempt.ready is not None):
        return None
    latest_progress = max((seen for _, seen in attempt.progress.values()), default=0)
    after = [event for event in open_ones if event.order > latest_progress or _ends_service(event)]
    if not after:
        return None
    return _open(view, _telling(after))


def _telling(events: list[Event]) -> Event:
    """The first of ``events``, or what is known of the very line: a C++ exception is printed below the note that nothing caught it."""
    lines = {(place.input, place.line) for place in events[0].places}
    same = (event for event in events[1:] if (event.places[0].input, event.places[0].line) in lines)
    return next((event for event in same if event.pattern.stage is not None), events[0])


def _ends_service(event: Event) -> bool:
    """Whether the line is one that a server in service does not survive, wherever somebody quoted it."""
    return event.pattern.stage == "serving" and event.pattern.severity == Severity.ERROR


def _outlived(view: View, event: Event) -> bool:
    """Whether a server goes on after a suspicious line like this one: one that was ready does where its front end prints an exception."""
    front_end = event.process is None or event.process.name.startswith("APIServer")
    return view.attempt.ready is not None and front_end


def _undated(events: list[Event], view: View, causes: Mapping[str, Cause]) -> Verdict | None:
    """An error of a known family whose stage nothing tells, in a text that holds little else: it failed, of what exactly is open."""
    for event in events:
        unresolved = event.cause is not None and order.refined(event, causes) is None and not event.pattern.keeps_running
        if unresolved and not order.overcome(event, view.attempt, causes):
            stage = order.stage_of(event) if event.pattern.engine in order.TELLS_EVERY_STEP else None
            return Verdict(State.FAILED, stage, None, event=event)
    return None


def _line(event: Event) -> tuple[int, int]:
    """Input and line of the event."""
    return event.places[0].input, event.places[0].line


def _only_felt(event: Event, causes: Mapping[str, Cause]) -> bool:
    """Whether the event is one that a running server prints and survives."""
    cause = order.refined(event, causes)
    return cause is not None and (event.pattern.keeps_running or severity(event, cause, causes) is Severity.WARNING)


def _running(view: View, events: list[Event], causes: Mapping[str, Cause]) -> Verdict:
    attempt = view.attempt
    served = any(event.pattern.stage == "serving" and _only_felt(event, causes) for event in events)
    if _serving(view) or served or view.fact("init.seconds") is not None:
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
    cut = _unfinished(view)
    beside = next((event for event in events if event.pattern.marks == "suspect" and kernel.is_kernel(event)), None)
    return Verdict(State.UNKNOWN, attempt.stage if cut is None else order.stage_of_unfinished(cut, attempt), None, event=beside)


def _share(attempt: Attempt, event: Event) -> float:
    """How many of the requests that the access log shows were refused in this way."""
    return attempt.event_counts[event.pattern.id] / attempt.requests


def renamed(verdict: Verdict, cause: str, confidence: Confidence) -> Verdict:
    """The same verdict with a finer or truer cause; the former one follows from it."""
    evidence, places = list(verdict.evidence), list(verdict.places)
    return Verdict(verdict.state, verdict.stage, cause, confidence, verdict.event, evidence, places, verdict.cause)
