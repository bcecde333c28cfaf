"""When a dump was taken: before, during or after a run. Told by clocks, by the engine's processes in it, by amounts; else unknown.

The engine's lines have no year, and container and host may keep different time zones: clocks alone decide only as far as nothing else
contradicts them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache

#: Dates of nvidia-smi's table and -q, of CSV, of dmon, and of ISO loggers, with blanks squeezed and fractions of a second cut off.
LAYOUTS = (
    "%a %b %d %H:%M:%S %Y",
    "%Y/%m/%d %H:%M:%S",
    "%Y-%m-%d %H:%M:%S",
    "%Y-%m-%dT%H:%M:%S",
    "%Y%m%d %H:%M:%S",
    "%Y-%m-%d %H:%M",
    "%Y/%m/%d %H:%M",
    "%Y-%m-%dT%H:%M",
    "%a %b %d %H:%M:%S %Z %Y",
)
#: The date of an engine's line, or of what wraps it: month-day, with or without a year before it.
_ENGINE = re.compile(r"(?:\b(?P<year>20\d\d)-)?\b(?P<date>[01]\d-[0-3]\d)[ T](?P<clock>\d\d:\d\d:\d\d)")
#: A process is still being torn down for so long after an error, and a line may be buffered for so long.
SLACK = timedelta(seconds=5)
#: Of two dates without a year the later one is at most this much later; beyond it the other order is meant.
HALF_YEAR = timedelta(days=183)


class When(StrEnum):
    """How a dump stands to the run."""

    BEFORE = "before"
    DURING = "during"
    AFTER = "after"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Run:
    """The run on the engine's clock: its first and last dated line, and whether it ended there (a failure or a shutdown)."""

    began: datetime | None = None
    last: datetime | None = None
    ended: bool = False


@dataclass(frozen=True, slots=True)
class Moment:
    """Where a dump stands. ``basis``: "clock", "pid" or "amount" (the strongest evidence); ``distance``: to the nearer end of the run."""

    when: When
    basis: str | None = None
    distance: timedelta | None = None


@lru_cache(maxsize=4096)
def dump_time(text: str | None) -> datetime | None:
    """The date of a dump as it prints it; None for none, for a time of day alone and for other languages' dates."""
    squeezed = " ".join((text or "").split())
    squeezed = re.sub(r"(?:(:\d\d)[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?$", r"\1", squeezed)
    for layout in LAYOUTS:
        try:
            return datetime.strptime(squeezed, layout).replace(tzinfo=None)
        except ValueError:
            continue
    return None


@lru_cache(maxsize=4096)
def engine_time(text: str | None, year: int = 2000) -> datetime | None:
    """The date of an engine's line, in ``year`` where the line has none."""
    matched = _ENGINE.search(text or "")
    if matched is None:
        return None
    try:
        return datetime.strptime(f"{matched['year'] or year}-{matched['date']} {matched['clock']}", "%Y-%m-%d %H:%M:%S")
    except ValueError:
        return None


def run_of(times: Iterable[str | None], ending: str | None = None, *, ended: bool = False, year: int = 2000) -> Run:
    """The run whose lines are dated ``times``; ``ending`` is the time of the line on which it ended, where it did."""
    known = sorted(moment for text in times if (moment := engine_time(text, year)) is not None)
    last = engine_time(ending, year) if ending else None
    began = known[0] if known else last
    return Run(began, last or (known[-1] if known else None), ended)


def between(later: datetime, earlier: datetime) -> timedelta:
    """``later`` − ``earlier``, where one of the two may have been put into the wrong year: the shorter way round."""
    gap = later - earlier
    year = timedelta(days=365)
    while gap > HALF_YEAR:
        gap -= year
    while gap < -HALF_YEAR:
        gap += year
    return gap


def place(
    taken: datetime | None,
    run: Run,
    *,
    alive: bool | None = None,
    occupied: bool | None = None,
) -> Moment:
    """Where a dump taken at ``taken`` stands to ``run``.

    ``alive``: processes that the engine's own tags name are in its list (True), a comparable list lacks them (False), or it cannot be told
    (None). ``occupied``: the card holds at least what the engine had put on it by then (True), clearly less (False), not known (None).
    """
    clock = _by_clock(taken, run)
    if alive:
        if clock is not None and clock.when is When.AFTER:
            return clock
        if run.ended and clock is None:
            return Moment(When.UNKNOWN, "pid")  # alive, or left behind: only a clock could tell
        return Moment(When.DURING, "clock" if clock is not None and clock.when is When.DURING else "pid", timedelta(0))
    if clock is None:
        if alive is None and occupied and not run.ended:
            return Moment(When.DURING, "amount")
        return Moment(When.UNKNOWN)
    if clock.when is When.DURING and occupied is False:
        # By the clocks it is of the run, but nothing of the engine is on the card: the clocks are not of one zone, or it is another card.
        return Moment(When.UNKNOWN, "amount")
    return clock


def _by_clock(taken: datetime | None, run: Run) -> Moment | None:
    if taken is None or run.began is None or run.last is None:
        return None
    since, past = between(taken, run.began), between(taken, run.last)
    if since < -SLACK:
        return Moment(When.BEFORE, "clock", -since)
    if run.ended and past > SLACK:
        return Moment(When.AFTER, "clock", past)
    return Moment(When.DURING, "clock", max(past, timedelta(0)) if not run.ended else max(-past, timedelta(0)))
