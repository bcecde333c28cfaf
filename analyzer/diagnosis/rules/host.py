"""Rules over the host's memory, its files and processes, and the course of the card's memory."""

from __future__ import annotations

from analyzer.diagnosis.courses import Course, courses
from analyzer.diagnosis.growth import Kind
from analyzer.diagnosis.tracks import CARD, PROCESS, tracks
from analyzer.diagnosis.verdict import EXIT_CAUSES, KILLED, Verdict, renamed
from analyzer.facts.view import View
from analyzer.model import Confidence, Source, State
from analyzer.model.units import GIB

#: Host memory that a server's growth has to add before it is called growth: below, caches and first requests explain it.
GROWTH_BYTES = GIB
GROWTH_SHARE = 0.25
#: A course that was ended by its limit comes at least this near to it.
NEAR_LIMIT = 0.85
#: A card whose use varies by less than this takes no part.
FLAT_CARD = 0.05
#: Host memory as tables and tools name it: charged to the container, used on the host, resident in the process.
HOST = ("host.limit_used", "host.used", "process.rss")
#: A Git LFS pointer: three lines, some 130 bytes; no weight file is near that.
POINTER_BYTES = 1024
#: Somebody stops a container at a prompt.
CONTAINER_STOPPED = "linux.exit.container_stopped"
#: Settings that move KV blocks to the host.
OFFLOADING = ("--kv-offloading-backend", "--kv-offloading-size")


def rss_growth(view: View, verdict: Verdict) -> Verdict | None:
    """Ended by the host's limit after host memory had grown all along, while the card's stayed level.

    Grown: nearly every later reading above the earlier ones, no step brings most of it, in all at least 1 GiB and a quarter of the last
    reading; the last one is near the limit, where a limit is known.
    """
    killed = verdict.cause in ("host_oom.killed", "engine.process_killed") or _exit_137(view, verdict)
    if verdict.state is not State.FAILED or not killed:
        return None
    limit = max((fact.bytes or 0 for fact in view.documents if fact.name == "host.limit"), default=0)
    for name in HOST:
        for course in courses(view, name):
            if not course.rising or course.rise < max(GROWTH_BYTES, GROWTH_SHARE * course.values[-1]):
                continue
            if limit and name != "host.used" and course.values[-1] < NEAR_LIMIT * limit:
                continue
            cards = courses(view, "device.used")
            if any(not settled(card).level(FLAT_CARD) for card in cards):
                continue
            sure = Confidence.CERTAIN if verdict.cause == "host_oom.killed" and cards and limit else Confidence.LIKELY
            changed = renamed(verdict, "host_oom.killed.rss_growth", sure)
            changed.stage = "serving"
            changed.evidence += [course.facts[0].source, course.facts[-1].source]
            changed.evidence += [fact.source for fact in view.documents if fact.name in ("process.exit_code", "host.limit")][:3]
            return changed
    return None


def settled(course: Course) -> Course:
    """A course without its first fifth: what loading and the first requests take is no growth."""
    cut = len(course.values) // 5
    return Course(course.name, course.facts[cut:], course.values[cut:])


def gpu_leak(view: View, verdict: Verdict) -> Verdict | None:
    """The card's memory rose in a straight line until a step in service ran out of it (the test: growth.py)."""
    if verdict.cause not in ("cuda_oom.serving", "cuda_oom.fragmentation") or verdict.stage != "serving":
        return None
    own = {process.pid for process in view.attempt.processes.values() if process.pid is not None}
    found = [track for track in tracks(view) if track.name in (PROCESS, CARD)]
    if any(track.pid in own for track in found):
        found = [track for track in found if track.pid in own]
    for track in found:
        growth = track.judged()
        if growth.kind is Kind.LINE and growth.rise >= GROWTH_BYTES:
            offloading = [view.settings[flag] for flag in OFFLOADING if flag in view.settings]
            cause = "engine.version_bug.gpu_leak.kv_offload" if offloading else "engine.version_bug.gpu_leak"
            changed = renamed(verdict, cause, Confidence.LIKELY)
            changed.evidence += [track.readings[growth.first].source, track.readings[-1].source]
            changed.evidence += [setting.source for setting in offloading]
            return changed
    return None


def lfs_pointer(view: View, verdict: Verdict) -> Verdict | None:
    """A weight file that cannot be read and is as small as a pointer."""
    if verdict.cause != "checkpoint.corrupt_or_incomplete":
        return None
    facts = [*view.documents, *view.facts]
    small = [fact for fact in facts if fact.name == "file.size" and fact.bytes is not None and 0 < fact.bytes < POINTER_BYTES]
    if not small:
        return None
    changed = renamed(verdict, "checkpoint.lfs_pointer", Confidence.CERTAIN)
    changed.follows = None
    changed.evidence += [fact.source for fact in small[:3]]
    return changed


def container_exited(view: View, verdict: Verdict) -> Verdict | None:
    """The log just ends, and Docker says with which code its container ended: a signal from outside, or a crash in native code.

    A row of ``docker ps`` counts that names an engine, an inspected container where it does or an engine's log stands beside it.
    Kubernetes' last state may be of the run before the one that the log is of, so it does not count here.
    """
    if verdict.state not in (State.HEALTHY, State.UNKNOWN) or view.attempt.shutdown is not None:
        return None
    ended = [
        fact
        for reading in view.readings
        if reading.kind == "docker" and (reading.engine or (view.engine is not None and not reading.row))
        for fact in reading.facts
        if fact.name == "process.exit_code"
    ]
    cause = EXIT_CAUSES.get(ended[-1].value) if ended and isinstance(ended[-1].value, int) else None
    if cause is None or (cause == KILLED and _stopped_by_hand(view, ended[-1].source)):
        return None
    changed = renamed(verdict, cause, Confidence.LIKELY)
    changed.state, changed.follows = State.FAILED, None
    changed.evidence.append(ended[-1].source)
    return changed


def _stopped_by_hand(view: View, shown: Source) -> bool:
    """Whether somebody told Docker to stop the container, after the last sign of life and before its state was ``shown``.

    What does not end within ten seconds of ``docker stop`` is killed.
    """
    sign = view.attempt.signs.get(CONTAINER_STOPPED)
    if sign is None:
        return False
    alive = [place for place in (view.attempt.ready, view.attempt.last_statistics) if place is not None and place.input == sign.last.input]
    stopped = view.source(sign.last)
    return stopped.input == shown.input and stopped.line < shown.line and all(place.line < sign.last.line for place in alive)


def _exit_137(view: View, verdict: Verdict) -> bool:
    """A bare «Killed» or exit code 137: killed, by whom the line does not say."""
    if verdict.cause is not None or verdict.event is None:
        return False
    codes = [fact.value for fact in [*view.documents, *view.facts] if fact.name == "process.exit_code"]
    return "killed" in verdict.event.pattern.id or 137 in codes or -9 in codes
