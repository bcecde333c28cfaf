"""One start of the engine, as its lines come in. All of it is bounded, whatever the length of the log."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, field

from analyzer.facts.engine import leading
from analyzer.facts.observation import Event, Kept, Observation, Place
from analyzer.intake.lines import Process
from analyzer.model import STAGES, Series, Value
from analyzer.model.versions import Range
from analyzer.patterns.model import Frame

STAGE_ORDER = {stage: place for place, stage in enumerate(STAGES)}

#: Events of one pattern that are kept: the first ones and the last; the rest is counted.
EVENTS_OF_A_PATTERN = 8
#: Scopes (processes, GPUs, pids) that one fact name may have.
SCOPES_OF_A_NAME = 512
#: Last recognised lines that are kept, for a log that ends before anything is decided.
RECENT = 4
#: Lines of one sign that are kept; the rest is counted.
LINES_OF_A_SIGN = 16
#: Frames of one traceback; the outermost ones go first.
FRAMES = 64

Key = tuple[str, str | None, int | None, int | None, int | None]


@dataclass(slots=True)
class SettingSeen:
    """A setting's value and the line that states it; a stronger source (the engine's own dump) replaces a weaker one (a command)."""

    value: Value | None
    place: Place
    strength: int


@dataclass(slots=True)
class Sign:
    """A line that says nothing by itself (``marks: sign``) and tells rules something together with others.

    ``seen`` holds the first lines with their groups, ``last`` the last one.
    """

    seen: list[tuple[Place, dict[str, str]]]
    last: Place
    count: int = 1

    @property
    def first(self) -> Place:
        """Where it stood first."""
        return self.seen[0][0]

    def values(self, group: str) -> list[str]:
        """What ``group`` held in the kept lines, each once, in reading order."""
        return list(dict.fromkeys(groups[group] for _, groups in self.seen if group in groups))


@dataclass(slots=True)
class Traceback:
    """One whose last line, which names the exception, has not come. ``ends``: whether an exception that is shown so ends its process."""

    process: Process | None
    place: Place
    order: int
    ends: bool = False


@dataclass(slots=True)
class Attempt:
    """Facts, events and progress between one start marker and the next."""

    index: int
    input: int
    first_line: int
    last_line: int
    last_input: int
    engines: dict[str, int] = field(default_factory=dict)  # engine -> recognised lines that only it prints
    facts: dict[Key, Kept] = field(default_factory=dict)
    scopes: dict[str, int] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    event_counts: dict[str, int] = field(default_factory=dict)
    last_events: dict[str, Event] = field(default_factory=dict)
    settings: dict[str, SettingSeen] = field(default_factory=dict)
    environment: dict[str, SettingSeen] = field(default_factory=dict)
    series: dict[tuple[str, str | None], Series] = field(default_factory=dict)
    stages: dict[str, Place] = field(default_factory=dict)  # first line of each stage reached
    last_stage_places: dict[str, Place] = field(default_factory=dict)  # and the last one: of a progress bar its final state
    stage_times: dict[str, str] = field(default_factory=dict)
    stage: str | None = None
    progress: dict[tuple[str, int | None], tuple[int, int]] = field(default_factory=dict)  # process -> (latest stage, its reading order)
    processes: dict[str, Process] = field(default_factory=dict)
    markers: set[tuple[int, str]] = field(default_factory=set)
    marker_places: dict[int, Place] = field(default_factory=dict)  # level -> its first line
    ready: Place | None = None
    ready_order: int | None = None
    shutdown: Place | None = None
    shutdown_order: int | None = None
    refusals: list[Place] = field(default_factory=list)  # the first lines of an access log that show a refused request
    requests: int = 0  # lines of an access log that show a request
    versions: Range = field(default_factory=Range)
    version_conflict: bool = False
    generations: dict[str, int] = field(default_factory=dict)
    frames: dict[str, list[tuple[Frame, Place]]] = field(default_factory=dict)
    unfinished: dict[str, Traceback] = field(default_factory=dict)  # process -> its traceback that has not ended
    aside: dict[str, int] = field(default_factory=dict)  # process -> line at which a block begins that it prints and goes on
    last_statistics: Place | None = None
    trier: str | None = None  # the engine that loads by trying
    trial_order: int = -1  # of the last line that begins one of several tries at the load
    trying: bool = False  # whether that try is still on: no later step has come
    signs: dict[str, Sign] = field(default_factory=dict)  # pattern id -> its lines
    patterns: set[str] = field(default_factory=set)  # ids of the patterns that were seen
    recent: deque[Place] = field(default_factory=lambda: deque(maxlen=RECENT))  # the last lines that anything recognised

    @property
    def engine(self) -> str | None:
        """The engine that ran, as far as the lines tell."""
        return leading(self.engines)

    def observe(self, seen: Observation) -> None:
        """Keep a figure. Beyond SCOPES_OF_A_NAME a new scope of a name is dropped."""
        self.observe_of(seen, process_key(seen.process))

    def observe_of(self, seen: Observation, process: str | None) -> None:
        """The same, where the key of its process is known."""
        key = (seen.name, process, seen.gpu, seen.pid, seen.rank)
        kept = self.facts.get(key)
        if kept is not None:
            kept.add(seen)
            return
        count = self.scopes.get(seen.name, 0)
        if count < SCOPES_OF_A_NAME:
            self.scopes[seen.name] = count + 1
            self.facts[key] = Kept.of(seen)

    def add_event(self, event: Event) -> None:
        """Keep an event, or count it where its pattern has had enough."""
        name = event.pattern.id
        count = self.event_counts.get(name, 0) + 1
        self.event_counts[name] = count
        if event.frames and event.figures:
            self._lend_frames(event)
        if count <= EVENTS_OF_A_PATTERN:
            self.events.append(event)
        else:
            event.count = count
            self.last_events[name] = event

    def _lend_frames(self, event: Event) -> None:
        """An engine may print an error before its traceback, and then with it: the first one gets the frames of the second."""
        values = [(seen.name, seen.value) for seen in event.figures]
        for earlier in self.events:
            same = earlier.pattern.id == event.pattern.id and process_key(earlier.process) == process_key(event.process)
            if same and not earlier.frames and [(seen.name, seen.value) for seen in earlier.figures] == values:
                earlier.frames = event.frames

    def add_sign(self, name: str, place: Place, groups: dict[str, str]) -> None:
        """One more line of the sign ``name``."""
        known = self.signs.get(name)
        if known is None:
            self.signs[name] = Sign([(place, groups)], place)
            return
        known.last, known.count = place, known.count + 1
        if len(known.seen) < LINES_OF_A_SIGN:
            known.seen.append((place, groups))

    def all_events(self) -> list[Event]:
        """The kept events in reading order."""
        return sorted([*self.events, *self.last_events.values()], key=lambda event: event.order)

    def reach(self, stage: str, place: Place, order: int, time: str | None, process: Process | None) -> None:
        """A line of ``process`` shows that the run has come to ``stage``."""
        self.stages.setdefault(stage, place)
        self.last_stage_places[stage] = place
        self.trying = self.trying and STAGE_ORDER[stage] <= STAGE_ORDER["weight_load"]
        if time:
            self.stage_times.setdefault(stage, time)
        name, pid = (process.name, process.pid) if process else ("", None)
        if len(self.progress) < SCOPES_OF_A_NAME or (name, pid) in self.progress:
            self.progress[(name, pid)] = (STAGE_ORDER[stage], order)
        if self.stage is None or STAGE_ORDER[stage] > STAGE_ORDER[self.stage]:
            self.stage = stage

    def stage_of(self, process: Process | None) -> str | None:
        """How far ``process`` has come."""
        known = self.progress.get((process.name, process.pid) if process else ("", None))
        return STAGES[known[0]] if known is not None else None

    def narrow(self, versions: str) -> None:
        """A wording that only ``versions`` print. One that contradicts the others is left aside, and the contradiction kept."""
        narrowed = self.versions & Range.parse(versions)
        if narrowed:
            self.versions = narrowed
        else:
            self.version_conflict = True

    def add_frame(self, frame: Frame, within: Traceback) -> None:
        """A frame of ``within``, innermost last; it stands for a traceback whose first line is not there."""
        key, place = process_key(within.process) or "", within.place
        known = self.unfinished.setdefault(key, within)
        known.order, known.ends = within.order, known.ends or within.ends
        frames = self.frames.setdefault(key, [])
        if len(frames) >= FRAMES:
            del frames[0]
        frames.append((frame, place))

    def inherit(self, former: Attempt, until: Place | None) -> None:
        """Take over what the server said of itself before the load ``former`` began at ``until``: version, devices, settings."""

        def before(place: Place) -> bool:
            return until is None or (place.input, place.line) < (until.input, until.line)

        self.facts = {key: copy(kept) for key, kept in former.facts.items() if before(kept.last.place)}
        for name, *_ in self.facts:
            self.scopes[name] = self.scopes.get(name, 0) + 1
        self.settings = {name: seen for name, seen in former.settings.items() if before(seen.place)}
        self.environment = dict(former.environment)
        self.engines = {name: 1 for name in former.engines if name == former.engine}
        self.versions, self.version_conflict = former.versions, former.version_conflict
        for level, place in former.marker_places.items():
            if before(place):
                self.markers |= {(known, name) for known, name in former.markers if known == level}
                self.marker_places[level] = place

    def begin_traceback(self, begun: Traceback) -> None:
        """A new traceback begins in a process."""
        process, key = begun.process, process_key(begun.process) or ""
        self.frames.pop(key, None)
        if process is not None and process.pid is None:
            self.frames.pop("", None)  # SGLang tags the first line of a traceback only
        self.unfinished[key] = begun

    def end_traceback(self, process: Process | None, line: int) -> None:
        """What is said of the exception in ``line``: the last one of the traceback above it."""
        for key in {process_key(process) or "", ""}:
            if key in self.unfinished and self.unfinished[key].place.line < line:
                del self.unfinished[key]

    def observations(self) -> Iterator[Observation]:
        """Every kept observation."""
        for kept in self.facts.values():
            yield from kept.observations()

    def last(self, name: str) -> Observation | None:
        """The latest observation of ``name``, whoever printed it."""
        candidates = [kept.last for (known, *_), kept in self.facts.items() if known == name]
        return max(candidates, key=lambda seen: seen.order, default=None)


def process_key(process: Process | None) -> str | None:
    """One text for a process: its tag, pid and address."""
    if process is None:
        return None
    return f"{process.name} rank={process.rank} pid={process.pid} ip={process.ip}"
