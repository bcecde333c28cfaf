"""The reading order: which of an attempt's errors is the root, and which only follow from it.

1. Messengers (``echo`` causes) are never the root, nor is an error of the teardown that another failure set off.
2. An error after which the same start went on (a later stage, or ready) was recovered from and does not anchor.
3. What another error of the attempt drags behind it (``consequences`` of its cause) is not the root.
4. Of what is left, the first by the processes' own dates, else in reading order: the first error of the first process that failed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta

from analyzer.engines.moment import between, engine_time
from analyzer.facts.attempt import STAGE_ORDER, Attempt, Traceback, process_key
from analyzer.facts.observation import Event, Place
from analyzer.model import STAGES
from analyzer.model.units import MIB, to_bytes
from analyzer.patterns.model import Cause, Frame

#: Frames that are shown as evidence.
FRAMES_SHOWN = 3
#: The stage of frames that take an engine down.
TEARDOWN = "shutdown"
#: What a family is called where only the stage is known and the family has no cause of that name. Launch only where an
#: engine tells every step of its load: an out-of-memory below the head of another one's log may be of any later step.
NEAREST_STAGE = {"shutdown": "serving"}
TELLS_EVERY_STEP = frozenset({"llama.cpp", "ollama"})
#: Stages before anything of the model is on the card, and the most that PyTorch then holds or asks for: a barrier's tensor, buffers
#: of collectives.
BEFORE_THE_MODEL = frozenset({"launch", "device_init"})
TRIVIAL_BYTES = 256 * MIB


def past_device_init(event: Event, *, frames: bool = False) -> bool:
    """Whether an out-of-memory sentence itself shows that PyTorch was past the start of the device: it held, or asked for, too much.

    Against ``frames`` that say otherwise only what it held counts.
    """
    names = ("oom.torch_allocated",) if frames else ("oom.torch_allocated", "oom.tried")
    sizes = [to_bytes(seen.value, seen.unit) for seen in event.figures if seen.name in names and isinstance(seen.value, (int, float))]
    return any(size is not None and size > TRIVIAL_BYTES for size in sizes)


def _frames(event: Event) -> list[tuple[Frame, Place]]:
    """The frames of the event's traceback that say something and that its own figures do not belie, innermost first."""
    found = list(reversed(event.frames))
    if not event.serving:
        found = _saying(found, event.stage)
    if past_device_init(event, frames=True):
        found = [(frame, place) for frame, place in found if frame.stage not in BEFORE_THE_MODEL]
    return found


def _saying(frames: Sequence[tuple[Frame, Place]], stage: str | None) -> list[tuple[Frame, Place]]:
    """``frames`` without those that date nothing before a stage to which neither the run nor another frame had come."""
    reached = max((STAGE_ORDER[name] for name in (stage, *(frame.stage for frame, _ in frames if frame.since is None)) if name), default=-1)
    return [(frame, place) for frame, place in frames if frame.since is None or STAGE_ORDER[frame.since] <= reached]


def stage_of(event: Event) -> str | None:
    """The stage in which the event's error belongs: its pattern's, else its deepest frame's, else how far the run had come."""
    if event.pattern.stage is not None:
        return event.pattern.stage
    stages = _stages(_frames(event))
    if event.serving and (stages or event.stage != "shutdown"):
        return "serving"
    if not stages:
        return None if event.stage in BEFORE_THE_MODEL and past_device_init(event) else event.stage
    return _deepest(stages, event.own_stage)


def stage_of_unfinished(traceback: Traceback, attempt: Attempt) -> str | None:
    """The stage in which a traceback belongs whose exception is not in the text."""
    found = list(reversed(attempt.frames.get(process_key(traceback.process) or "", ())))
    stages = _stages(_saying(found, attempt.stage))
    if not stages:
        return attempt.stage
    if attempt.stage in ("serving", "shutdown") or "serving" in stages:
        return "serving"
    return _deepest(stages, attempt.stage_of(traceback.process))


def _stages(frames: Iterable[tuple[Frame, Place]]) -> list[str]:
    return [frame.stage for frame, _ in frames if frame.stage not in (None, TEARDOWN)]


def _deepest(stages: Sequence[str], own: str | None) -> str | None:
    """The first of ``stages`` (innermost first) that the very process, which had come to ``own``, could be in."""
    # A dry run that graph capture or warm-up makes looks like profiling: no frame dates an error before the process's own progress.
    reached = STAGE_ORDER[own] if own is not None else 0
    return next((stage for stage in stages if STAGE_ORDER[stage] >= reached), own)


def tears_down(event: Event) -> bool:
    """Whether the error was raised while the engine was taken down: what made it go down came before."""
    return any(frame.stage == TEARDOWN for frame, _ in event.frames)


def deciding_frames(event: Event) -> list[Place]:
    """The lines of the event's traceback that decided stage and finer cause, innermost first, for the evidence."""
    return deciding(_frames(event))


def deciding(frames: Iterable[tuple[Frame, Place]]) -> list[Place]:
    """The same of ``frames``, innermost first."""
    return [place for frame, place in frames if frame.stage is not None or frame.refines or frame.serving][:FRAMES_SHOWN]


def refined(event: Event, causes: Mapping[str, Cause]) -> str | None:
    """The finest cause that the event's own line and its traceback prove; None for a line without a cause."""
    cause = event.cause
    if cause is None:
        return None
    serving = event.serving
    reached = STAGE_ORDER[event.own_stage] if event.own_stage is not None else 0
    for frame, _ in _frames(event):
        if not serving and frame.stage is not None and STAGE_ORDER[frame.stage] < reached:
            continue  # a dry run within a later step: the frame around it names the step
        finer = _lookup(frame.serving if serving else frame.refines, cause)
        if finer is not None:
            return finer
    if cause in causes:
        return cause
    stage = stage_of(event)
    nearest = "device_init" if stage == "launch" and event.pattern.engine in TELLS_EVERY_STEP else NEAREST_STAGE.get(stage or "")
    for name in (stage, nearest):
        if name is not None and f"{cause}.{name}" in causes:
            return f"{cause}.{name}"
    return None


def _lookup(table: Mapping[str, str], cause: str) -> str | None:
    """The entry for ``cause`` or for a family it belongs to."""
    while True:
        if cause in table:
            return table[cause]
        if "." not in cause:
            return None
        cause = cause.rpartition(".")[0]


def recovered(event: Event, attempt: Attempt) -> bool:
    """Whether the run went on after the event: ready was reached later, or, by the same process, a later stage.

    Nothing is reached after service: what ended it stands above the log of a start where somebody quoted it first.
    """
    if event.serving or event.pattern.stage == "serving":
        return False
    if attempt.ready_order is not None and attempt.ready_order > event.order:
        return True
    here = STAGE_ORDER.get(stage_of(event) or STAGES[0], 0)
    name = event.process.name if event.process else ""
    pid = event.process.pid if event.process else None
    last = attempt.progress.get((name, pid))
    return last is not None and last[1] > event.order and last[0] > here


def date_by_messengers(events: Sequence[Event], attempt: Attempt) -> None:
    """Note on errors that nothing else dates that they happened in service, where a messenger says so that is printed only there.

    A log that was cut off its head shows no progress, and the sentence of an out-of-memory may stand without its traceback.
    """
    served = any(event.pattern.stage == "serving" and (event.cause or "").startswith("echo.") for event in events)
    for event in events:
        event.followed_service = False  # ``recovered`` asks for it
        event.followed_service = served and not _dated(event) and not recovered(event, attempt)


def _dated(event: Event) -> bool:
    """Whether the event's own line or its traceback belongs to one step of a start."""
    if event.pattern.cause is not None and event.pattern.stage is not None:
        return True
    return any(frame.stage is not None and not frame.serving for frame, _ in event.frames)


def overcome(event: Event, attempt: Attempt, causes: Mapping[str, Cause]) -> bool:
    """Whether the run went on after the event, or may have: it belongs to a try at the load after which another one follows.

    An engine that lays out its layers by trying (Ollama from 0.11.5 on) says in words of its own that it gave up. Where only a messenger
    says so, the tries are the reason.
    """
    if recovered(event, attempt):
        return True
    if not _of_a_trial(event, attempt):
        return False
    given_up = [later for later in attempt.all_events() if later.order > event.order and _ends(later, attempt, causes)]
    return not all(causes[later.cause or ""].echo for later in given_up) or not given_up


def _of_a_trial(event: Event, attempt: Attempt) -> bool:
    """Whether a buffer of a stated size was refused in a try. A call that aborts the runner states none; the trier's own words end it."""
    return bool(event.figures) and event.pattern.engine != attempt.trier and (event.tried or attempt.trial_order > event.order)


def _ends(event: Event, attempt: Attempt, causes: Mapping[str, Cause]) -> bool:
    """Whether the event ends the load: an error of no try."""
    known = causes.get(event.cause or "")
    return known is not None and known.severity == "error" and not event.pattern.keeps_running and not _of_a_trial(event, attempt)


def consequences(found: Sequence[tuple[Event, str]], causes: Mapping[str, Cause]) -> dict[int, str]:
    """place in ``found`` -> the cause it follows from, for every error that another one of ``found`` drags behind it."""
    present = [cause for _, cause in found]
    follows: dict[int, str] = {}
    for place, (_, cause) in enumerate(found):
        for other in dict.fromkeys(present):
            entry = causes.get(other)
            if other != cause and entry is not None and cause in entry.consequences and not _mutual(cause, other, causes):
                follows[place] = other
                break
    return follows


def _mutual(first: str, second: str, causes: Mapping[str, Cause]) -> bool:
    return second in causes[first].consequences if first in causes else False


def root(found: Sequence[tuple[Event, str]], causes: Mapping[str, Cause]) -> tuple[Event, str] | None:
    """The error on which the outcome rests; ``found`` are the fatal, unrecovered ones with their refined causes, in reading order."""
    candidates = [(event, cause) for event, cause in found if not causes[cause].echo and not tears_down(event)]
    follows = consequences(candidates, causes)
    own = [candidate for place, candidate in enumerate(candidates) if place not in follows]
    return first_by_time(own) if own else candidates[0] if candidates else None


def first_by_time(found: Sequence[tuple[Event, str]]) -> tuple[Event, str]:
    """The first in reading order, unless another process of the same host printed its own earlier by the dates of both.

    Ranks are interleaved as their pipes are emptied, or lie in files of their own: after a sticky error the rank that printed first is
    the origin. Clocks of different hosts are not compared.
    """
    chosen = found[0]
    for other in found[1:]:
        mine, theirs = chosen[0].process, other[0].process
        if mine is None or theirs is None or mine == theirs or mine.ip != theirs.ip:
            continue
        first, second = engine_time(chosen[0].time), engine_time(other[0].time)
        if first is not None and second is not None and timedelta(0) < between(first, second) < timedelta(hours=1):
            chosen = other
    return chosen


def dated(stage: str | None, cause: str, causes: Mapping[str, Cause]) -> str | None:
    """``stage``, or where the cause cannot end a run there the next stage at which it can: a log that shows no progress dates too early."""
    possible = causes[cause].stages if cause in causes else ()
    if stage is None or not possible or stage in possible:
        return stage
    later = [name for name in possible if STAGE_ORDER[name] > STAGE_ORDER[stage]]
    return min(later, key=lambda name: STAGE_ORDER[name], default=stage)
