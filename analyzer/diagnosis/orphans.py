"""Processes of an engine that outlived their server and still hold a card: told by who started them, or by a dump after the crash."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from analyzer.diagnosis import words
from analyzer.diagnosis.kernel import ENGINE_TIME, date_of
from analyzer.model import Action, Confidence, Finding, Fix, Severity, Source, State, Text
from analyzer.model.units import human

if TYPE_CHECKING:
    from analyzer.diagnosis.verdict import Verdict
    from analyzer.facts.view import View
    from analyzer.patterns.model import Library

CAUSE = "startup.orphan_process"
#: How an engine's own processes are called in lists.
_WORKERS = re.compile(r"VLLM::|EngineCore|VllmWorker|sglang::|ray::\S*[Ww]orker|multiprocessing[.-](?:spawn|fork)")
#: Dumps say their date in several ways.
_DUMP_TIMES = ("%a %b %d %H:%M:%S %Y", "%Y/%m/%d %H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S")
#: A process may take this long to go; what is there later stays. Beyond the second bound the dump belongs to another day.
GRACE, SAME_STORY = timedelta(seconds=30), timedelta(hours=12)


@dataclass(frozen=True, slots=True)
class Orphan:
    """One process that was left behind, and the line that shows it."""

    pid: int
    name: str
    size: int | None  # bytes on the cards
    source: Source
    sure: Confidence


def findings(view: View, verdict: Verdict, library: Library) -> list[Finding]:
    """The finding on orphans, or none. A start that failed is also told which of its own processes are still there."""
    cause = library.causes.get(CAUSE)
    orphans = without_parent(view) or left_behind(view, verdict)
    if cause is None or not orphans or verdict.cause == CAUSE:
        return []
    return [
        Finding(
            CAUSE,
            Severity.WARNING if verdict.state is not State.HEALTHY else Severity.INFO,
            min((orphan.sure for orphan in orphans), key=[Confidence.CERTAIN, Confidence.LIKELY, Confidence.POSSIBLE].index),
            Text.of(cause.title),
            words.explanation(cause, None, {}),
            tuple(orphan.source for orphan in orphans[:8]),
            fixes=tuple(fix for orphan in orphans[:8] if (fix := _stop(orphan, library)) is not None),
            not_this=words.not_this(cause.not_this, library, {}),
            stage=verdict.stage,
        )
    ]


def without_parent(view: View) -> list[Orphan]:
    """Engine processes of a process list whose parent is 1, where 1 is no server: in a container the server itself is often 1."""
    rows = [row for reading in view.readings for row in reading.processes]
    if any(row.pid == 1 and re.search(r"vllm|sglang|python", row.command) for row in rows):
        return []
    if any(process.pid == 1 for process in view.attempt.processes.values()):
        return []
    return [
        Orphan(row.pid, row.command.split()[0] if row.command else "", _held(view, row.pid), row.source, Confidence.LIKELY)
        for row in rows
        if row.parent == 1 and _WORKERS.search(row.command)
    ]


def left_behind(view: View, verdict: Verdict) -> list[Orphan]:
    """Processes that the failed start's own tags name and that a dump made after the failure still lists."""
    if verdict.state is not State.FAILED or verdict.event is None:
        return []
    ended = date_of(ENGINE_TIME.search(verdict.event.time or ""))
    tags = {process.pid: process.name for process in view.attempt.processes.values() if process.pid is not None}
    if ended is None:
        return []
    found: dict[int, Orphan] = {}
    for fact in view.documents:
        if fact.name != "process.used" or fact.pid not in tags or fact.pid is None:
            continue
        seen = _dump_time(fact.time)
        if seen is not None and GRACE <= seen - ended <= SAME_STORY:
            found.setdefault(fact.pid, Orphan(fact.pid, tags[fact.pid], _held(view, fact.pid), fact.source, Confidence.LIKELY))
    return list(found.values())


def _held(view: View, pid: int) -> int | None:
    sizes = {fact.gpu: fact.bytes or 0 for fact in view.documents if fact.name == "process.used" and fact.pid == pid}
    return sum(sizes.values()) or None


def _dump_time(text: str | None) -> datetime | None:
    """A dump's date in the leap year that ``date_of`` uses, as an engine prints no year."""
    for layout in _DUMP_TIMES:
        try:
            return datetime.strptime((text or "").split(".")[0].strip(), layout).replace(year=2000)
        except ValueError:
            continue
    return None


def _stop(orphan: Orphan, library: Library) -> Fix | None:
    """The advice «stop_process» for this one; None where the dump does not say what it holds."""
    advice = library.advice.get("stop_process")
    if advice is None or orphan.size is None:
        return None
    known = {"pid": str(orphan.pid), "who": f"{orphan.name}, " if orphan.name else "", "size": human(orphan.size)}
    title, why = words.fill(advice.words["title"], known), words.fill(advice.words["why"], known)
    if title is None or why is None:
        return None
    action = Action(Text(f"end process {orphan.pid} ({human(orphan.size)})", f"结束进程 {orphan.pid}（{human(orphan.size)}）"))
    return Fix(title, (action,), why, None, None, None, True)
