"""The steps of a start with their durations: as the engine states them, else by the times of its lines."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING

from analyzer.model import TimelineStep

if TYPE_CHECKING:
    from analyzer.facts.view import View
    from analyzer.model import Fact

#: Steps that the engine times itself, in order: name, fact, step that they are part of.
STATED = (
    ("download", "download.seconds", "load"),
    ("load", "weights.load_seconds", None),
    ("compile", "compile.seconds", "init"),
    ("capture", "cuda_graphs.seconds", "init"),
    ("init", "init.seconds", None),
)
#: Stages whose step is only known by the times of lines, and what that step is called.
BY_TIME = {"launch": "launch", "device_init": "device", "weight_load": "load", "graph_capture": "capture", "warmup": "warmup"}
_MONTH_DAY = re.compile(r"(\d\d-\d\d) (\d\d:\d\d:\d\d)")
_ISO = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)")
#: Longer than this between two lines is another start, or a clock that was set.
LONGEST_SECONDS = 24 * 3600


def timeline(view: View) -> list[TimelineStep]:
    """The steps of the attempt in order, the slowest marked; empty where nothing times them."""
    steps = [
        TimelineStep(name, round(float(fact.value), 3), True, fact.source, fact.time, within=parent)
        for name, fact_name, parent in STATED
        if (fact := _longest(view, fact_name)) is not None and isinstance(fact.value, (int, float))
    ]
    named = {step.name for step in steps}
    steps = [replace(step, within=None) if step.within not in named else step for step in steps]
    steps += [step for step in _between(view) if step.name not in named and not ("init" in named and step.name == "warmup")]
    order = ("launch", "device", "download", "load", "compile", "capture", "warmup", "init")
    steps.sort(key=lambda step: order.index(step.name))
    return _marked(steps)


def _longest(view: View, name: str) -> Fact | None:
    """The rank that took the longest decides."""
    facts = [fact for fact in view.facts if fact.name == name and isinstance(fact.value, (int, float))]
    return max(facts, key=lambda fact: float(fact.value), default=None)


def _between(view: View) -> list[TimelineStep]:
    attempt = view.attempt
    moments = [(stage, attempt.stage_times[stage], when) for stage in attempt.stage_times if (when := moment(attempt.stage_times[stage]))]
    moments.sort(key=lambda item: item[2])
    found = []
    for (stage, text, start), (_, _, end) in pairwise(moments):
        seconds = (end - start).total_seconds()
        if stage in BY_TIME and 0 < seconds < LONGEST_SECONDS:
            found.append(TimelineStep(BY_TIME[stage], seconds, False, view.source(attempt.stages[stage]), text))
    return found


def moment(text: str) -> datetime | None:
    """A line's time (``12-20 20:25:46`` or ISO 8601), to the second; None for another form. Without a year, a leap year stands in."""
    iso = _ISO.search(text)
    short = None if iso else _MONTH_DAY.fullmatch(text.strip())
    date, clock = (iso[1], iso[2]) if iso else (f"2000-{short[1]}", short[2]) if short else (None, None)
    if date is None:
        return None
    try:
        return datetime.fromisoformat(f"{date}T{clock}")
    except ValueError:
        return None


def _marked(steps: list[TimelineStep]) -> list[TimelineStep]:
    """The step that took the longest by itself, what is within it taken off."""
    own = [step.seconds - sum(part.seconds for part in steps if part.within == step.name) for step in steps]
    if len(steps) < 2 or max(own) < 1:
        return steps
    slowest = own.index(max(own))
    return [replace(step, slowest=place == slowest) for place, step in enumerate(steps)]
