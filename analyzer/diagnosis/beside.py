"""What stands beside an engine's log (the kernel's lines, the host's tools) belongs to the last start, wherever among the inputs it came.

The record sorts lines into starts in reading order. A kernel log that was sent first would so become a start of its own, or the first of
several; this puts it where the question is.
"""

from __future__ import annotations

from analyzer.diagnosis.kernel import is_kernel
from analyzer.facts.attempt import Attempt
from analyzer.facts.record import Record


def settle(record: Record) -> None:
    """Move kernel lines and signs of earlier attempts to the last one, as far as they stand in an input without an engine's lines.

    An attempt that held nothing else goes, and those after it count one less. Doing it again changes nothing.
    """
    if len(record.attempts) < 2:
        return
    inputs = _engine_inputs(record)
    subject = record.attempts[-1]
    for attempt in record.attempts[:-1]:
        loose = [event for event in attempt.events if event.places[0].input not in inputs and is_kernel(event)]
        if loose:
            attempt.events = [event for event in attempt.events if event not in loose]
            subject.events += loose
            for event in loose:
                attempt.event_counts.pop(event.pattern.id, None)
                subject.event_counts[event.pattern.id] = subject.event_counts.get(event.pattern.id, 0) + 1
        for name in [name for name, sign in attempt.signs.items() if sign.first.input not in inputs]:
            sign = attempt.signs.pop(name)
            known = subject.signs.setdefault(name, sign)
            if known is not sign:
                known.seen = [*sign.seen, *known.seen]
                known.count += sign.count
    kept = [attempt for attempt in record.attempts[:-1] if not _empty(attempt)]
    for attempt in record.attempts[:-1]:
        if attempt not in kept:
            for key, facts in attempt.facts.items():
                subject.facts.setdefault(key, facts)
    if len(kept) + 1 < len(record.attempts):
        first = record.attempts[0].index
        record.attempts[:] = [*kept, subject]
        for place, attempt in enumerate(record.attempts):
            attempt.index = first + place


def _engine_inputs(record: Record) -> set[int]:
    """Inputs that hold lines of an engine: starts, progress, settings, or lines that an engine's process printed."""
    found: set[int] = set()
    for attempt in record.attempts:
        places = [*attempt.stages.values(), *(seen.place for seen in attempt.settings.values())]
        found |= {place.input for place in places}
        found |= {event.places[0].input for event in attempt.events if event.process is not None or event.level is not None}
        if attempt.last_statistics is not None:
            found.add(attempt.last_statistics.input)
        if attempt.markers:
            found.add(attempt.input)
    return found


def _empty(attempt: Attempt) -> bool:
    """Nothing of a start is left in it."""
    return not (attempt.markers or attempt.events or attempt.stages or attempt.settings or attempt.processes or attempt.signs)
