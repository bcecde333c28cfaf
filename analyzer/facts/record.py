"""Takes hits and readings in reading order and sorts them into attempts. One Record holds all inputs of an analysis."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from analyzer.facts.attempt import Attempt, SettingSeen, Traceback, process_key
from analyzer.facts.engine import MANY_LOADS, foreign, of_process, outer
from analyzer.facts.observation import Event, Observation, Place, excerpt
from analyzer.facts.oom import own_process
from analyzer.intake.lines import Line
from analyzer.model import Fact, GpuSnapshot, Series
from analyzer.model.facts import EXCERPT
from analyzer.patterns.extract import Hit
from analyzer.patterns.model import Pattern
from analyzer.readers.base import Reading
from analyzer.readers.settings import READERS, setting_fact

#: Earlier attempts that are kept whole; of a crash loop the first ones and the latest are enough.
ATTEMPTS_KEPT = 16
#: Bounds of what dumps leave behind: beyond twice as many, every second snapshot goes and facts keep their extremes.
SNAPSHOTS, DOCUMENT_FACTS, READINGS, SEGMENTS = 250, 8000, 512, 256
#: Refused requests whose lines are kept.
REFUSALS = 4
#: How much a setting's source is worth: what was typed, what stands in the engine's banner, what the engine says it was given.
COMMAND, BANNER, ARGUMENTS = 0, 1, 2
_STRENGTH = {"engine_config": BANNER}
#: A line of arguments is the source of each of them, and may hold a hundred: of one longer than WHOLE so many characters are shown.
WHOLE, ARGUMENT_EXCERPT = 1024, 320
_CONTEXT = 32
#: How torch.distributed's hook for uncaught exceptions begins (distributed_c10d.py, _distributed_excepthook), and IPython's of a cell,
#: which names the exception.
UNCAUGHT = re.compile(
    r"(?:\[rank\d+\]:|^\s*(?:\w+\.)*(?!KeyboardInterrupt|SystemExit|CancelledError)[A-Z]\w+\s\s)\s*Traceback \(most recent call last\)"
)
#: Lines of a block that an ``aside`` opens, at most: two tracebacks, and a record of a few lines.
ASIDE_LINES = 400
#: Files of vLLM that log, while it starts, what ends engine or worker ("EngineCore failed to start.", "WorkerProc hit an exception.").
LAST_WORDS = ("core.py", "multiproc_executor.py")


def _offset(line: str, matched: str) -> int:
    """Where the text that was matched begins in its line: it is the line's end, or the end of its first part."""
    if line.endswith(matched):
        return len(line) - len(matched)
    return max(line.rfind(matched.split("\n", 1)[0]), 0)


def _moved(text: str, start: int, end: int, cleaned: str) -> tuple[int, int]:
    """Where ``text[start:end]`` stands in ``cleaned``, in which pieces of other lengths stand for secrets; else there."""
    for before, after in ((min(start, _CONTEXT), 0), (0, _CONTEXT), (0, 0)):  # what stands beside it tells it from others like it
        place = cleaned.find(text[start - before : end + after], max(0, start - before - abs(len(text) - len(cleaned))))
        if place >= 0:
            return place + before, place + before + end - start
    return start, end


@dataclass(slots=True)
class SegmentSeen:
    """Lines of one kind in an input; neighbours of the same kind grow together."""

    kind: str
    engine: str | None
    first: int
    last: int
    attempt: int | None = None


@dataclass(slots=True)
class Record:
    """Everything recognised so far."""

    attempts: list[Attempt] = field(default_factory=list)
    dropped_attempts: int = 0
    snapshots: list[tuple[int, GpuSnapshot]] = field(default_factory=list)
    readings: list[tuple[int, Reading]] = field(default_factory=list)
    document_facts: list[tuple[int, Fact]] = field(default_factory=list)
    segments: dict[int, list[SegmentSeen]] = field(default_factory=dict)
    order: int = 0
    redact: Callable[[str], str] = str  # of a line that is too long to be kept whole

    def excerpt(self, text: str, start: int, end: int, size: int = EXCERPT) -> str:
        """``observation.excerpt`` of a redacted line. A part alone could hold a secret whose name, which tells it, is not in it."""
        if len(text) <= max(size, WHOLE):
            return text
        cleaned = self.redact(text)
        if cleaned != text:
            start, end = _moved(text, start, end, cleaned)
        return excerpt(cleaned, start, end, size)

    # --- attempts ----------------------------------------------------------------------------------------------------------------

    def attempt(self, place: Place) -> Attempt:
        """The attempt that ``place`` belongs to: the current one, or a first one that begins here."""
        if not self.attempts:
            self._open(place)
        current = self.attempts[-1]
        current.last_input, current.last_line = place.input, place.line
        return current

    def _open(self, place: Place) -> Attempt:
        index = self.attempts[-1].index + 1 if self.attempts else 0
        if self.attempts and self.attempts[-1].last_input == place.input and self.attempts[-1].last_line == place.line:
            self.attempts[-1].last_line = max(self.attempts[-1].first_line, place.line - 1)  # the line that begins the next one
        attempt = Attempt(index, place.input, place.line, place.line, place.input)
        self.attempts.append(attempt)
        if len(self.attempts) > ATTEMPTS_KEPT:
            del self.attempts[ATTEMPTS_KEPT // 2]
            self.dropped_attempts += 1
        return attempt

    def _start(self, level: int, engine: str | None, line: Line, place: Place) -> Attempt:
        """A start marker: the same process says it a second time, or says it after an end, where a new attempt begins.

        So does one of another engine, and one of another input after lines of a run whose beginning is not there.
        """
        name = line.process.name if line.process else ""
        elsewhere = bool(self.attempts) and self.attempts[-1].input != place.input
        current = self.attempt(place)
        if _far(current) and (foreign(current.engine, engine) or (elsewhere and not current.markers)):
            current = self._open(place)
        repeated = (level, name) in current.markers
        after_end = bool(current.markers) and level <= min(known for known, _ in current.markers) and _ended(current)
        leads = bool(current.markers) and level < min(known for known, _ in current.markers) and level == 0
        if repeated or after_end or leads:
            former = current
            current = self._open(place)
            if former.engine in MANY_LOADS and any(known < level for known, _ in former.markers):
                current.inherit(former, former.marker_places.get(level))
        current.markers.add((level, name))
        current.marker_places.setdefault(level, place)
        return current

    # --- hits --------------------------------------------------------------------------------------------------------------------

    def take(self, hit: Hit, input_index: int) -> None:
        """One hit of the pattern library, in reading order."""
        self.order += 1
        pattern, line = hit.pattern, hit.line
        offset = _offset(line.text, hit.text)
        place = Place(input_index, line.number, self.excerpt(line.text, offset + hit.span[0], offset + hit.span[1]))
        printer = of_process(line.process.name, line.process.pid) if line.process is not None else None
        if printer is not None and foreign(printer, pattern.engine):
            self._borrowed(pattern, input_index, line, place, printer)
            return
        attempt = self._start(pattern.start, pattern.engine, line, place) if pattern.start is not None else self.attempt(place)
        if attempt.ready is not None and not pattern.series and _loads_again(attempt, hit, place):
            attempt = self._open(place)
        if pattern.engine is not None or pattern.marks != "sign":  # a card's name, a list of pods: nothing that a server printed
            attempt.recent.append(place)
            if pattern.id not in attempt.patterns:
                attempt.patterns.add(pattern.id)
                if pattern.versions:
                    attempt.narrow(pattern.versions)
        if pattern.engine:
            attempt.engines[pattern.engine] = attempt.engines.get(pattern.engine, 0) + 1
            around = outer(pattern.engine, line.unit) if line.unit is not None else None
            if around is not None:
                attempt.engines[around] = attempt.engines.get(around, 0) + 1
        elif printer is not None and not attempt.engines:
            attempt.engines[printer] = 1
        self._segment(input_index, pattern, line, attempt)
        if pattern.generation:
            attempt.generations[pattern.generation] = attempt.generations.get(pattern.generation, 0) + 1
        if line.process is not None:
            attempt.processes.setdefault(process_key(line.process) or "", line.process)
        if (attempt.aside or pattern.marks == "aside") and self._aside(pattern, line, attempt):
            return
        if pattern.frame is not None:
            within = self._traceback(line, place)
            within.ends = within.ends or pattern.frame.ends
            attempt.add_frame(pattern.frame, within)
            return
        figures = self._figures(hit, attempt, place, offset)
        self._settings(hit, attempt, place, offset)
        if pattern.marks is not None:
            self._mark(hit, attempt, place)
        if pattern.cause is not None or pattern.marks == "suspect":
            self._event(hit, attempt, place, figures)
        elif pattern.stage is not None:
            attempt.reach(pattern.stage, place, self.order, line.time, line.process)

    def _mark(self, hit: Hit, attempt: Attempt, place: Place) -> None:
        """What the pattern's ``marks`` says of the run."""
        pattern, line = hit.pattern, hit.line
        if pattern.marks == "traceback":
            attempt.begin_traceback(self._traceback(line, place))
        elif pattern.marks == "ready":
            attempt.ready, attempt.ready_order = place, self.order
        elif pattern.marks == "shutdown" and attempt.shutdown is None:
            attempt.shutdown, attempt.shutdown_order = place, self.order
        elif pattern.marks == "refused" and len(attempt.refusals) < REFUSALS:
            attempt.refusals.append(place)
        elif pattern.marks == "trial":
            attempt.trier, attempt.trial_order, attempt.trying = pattern.engine, self.order, True
        elif pattern.marks == "interrupted":
            attempt.end_traceback(line.process, line.number)
        elif pattern.marks == "sign":
            attempt.add_sign(pattern.id, place, hit.groups)

    def _borrowed(self, pattern: Pattern, input_index: int, line: Line, place: Place, printer: str) -> None:
        """Words of another engine in a process of ``printer``: kernels that both use (FlashInfer holds TensorRT-LLM's) speak so."""
        attempt = self.attempt(place)
        attempt.recent.append(place)
        attempt.engines.setdefault(printer, 1)
        self._segment(input_index, pattern, line, attempt)

    def _aside(self, pattern: Pattern, line: Line, attempt: Attempt) -> bool:
        """Whether the line belongs to a block that its process prints and goes on: what it raises and calls there ends nothing.

        The block's end may be cut off: a record of the process, or a line that shows it at work, ends it as well.
        """
        key = process_key(line.process) or ""
        if pattern.marks == "aside":
            attempt.aside[key] = line.number
            return True
        begun = attempt.aside.get(key)
        if begun is None:
            return False
        raised = pattern.frame is not None or pattern.cause is not None or pattern.marks in ("traceback", "suspect", "sign")
        if raised and line.level is None and 0 <= line.number - begun <= ASIDE_LINES:
            return True
        del attempt.aside[key]
        return pattern.marks == "resumes"

    def _traceback(self, line: Line, place: Place) -> Traceback:
        """A traceback of which ``line`` is a part."""
        ends = UNCAUGHT.search(line.text) is not None or (line.level == "ERROR" and (line.file or "").startswith(LAST_WORDS))
        return Traceback(line.process, place, self.order, ends)

    def _figures(self, hit: Hit, attempt: Attempt, place: Place, offset: int) -> list[Observation]:
        line, pattern = hit.line, hit.pattern
        seen: list[Observation] = []
        process = process_key(line.process)
        first_line = hit.text.find("\n")
        shortened = place.text is not line.text
        for figure in hit.figures:
            here = place
            if figure.span is not None and shortened:
                here = Place(place.input, place.line, self.excerpt(line.text, offset + figure.span[0], offset + figure.span[1]))
            if figure.span is not None and 0 <= first_line < figure.span[0]:
                here = Place(place.input, place.line, self.excerpt(hit.text, *figure.span))
            observation = Observation(
                figure.name,
                figure.value,
                figure.unit,
                here,
                pattern.id,
                figure.gpu,
                figure.pid,
                figure.rank,
                line.process,
                line.time,
                self.order,
            )
            attempt.observe_of(observation, process)
            seen.append(observation)
            if pattern.series and isinstance(figure.value, (int, float)):
                key = (figure.name, process)
                series = attempt.series.get(key)
                if series is None:
                    series = attempt.series[key] = Series(figure.name, figure.unit)
                if series.unit == figure.unit:  # a scrape beside the log may say it in another one
                    series.add(line.time or "", figure.value)
        if pattern.series:
            attempt.last_statistics = place
            if attempt.events and attempt.events[-1].statistics is None:
                attempt.events[-1].statistics = place
        own = own_process(seen, line.process)
        if own is not None:
            attempt.observe(own)
            seen.append(own)
        return seen

    def _settings(self, hit: Hit, attempt: Attempt, place: Place, offset: int) -> None:
        pattern, line = hit.pattern, hit.line
        for flag, group in pattern.settings.items():
            if group in hit.groups:
                self._set(attempt, flag, hit.groups[group], place, ARGUMENTS, line)
        if pattern.reader is None or "body" not in hit.groups:
            return
        body = hit.groups["body"]
        start = max(line.text.find(body[:64]), 0)
        for flag, (value, span) in READERS[pattern.reader](body).items():
            here = Place(place.input, place.line, self.excerpt(line.text, start + span[0], start + span[1], ARGUMENT_EXCERPT))
            self._set(attempt, flag, value, here, _STRENGTH.get(pattern.reader, ARGUMENTS), line)

    def _set(self, attempt: Attempt, flag: str, value: object, place: Place, strength: int, line: Line | None) -> None:
        if value is not None and not isinstance(value, (int, float, str, bool)):
            return
        known = attempt.settings.get(flag)
        if known is not None and known.strength > strength:
            return
        attempt.settings[flag] = SettingSeen(value, place, strength)
        fact = setting_fact(flag, value, attempt.engine)
        if fact is not None:
            name, figure, unit = fact
            process = line.process if line is not None else None
            time = line.time if line is not None else None
            attempt.observe(Observation(name, figure, unit, place, "setting", process=process, time=time, order=self.order))

    def _event(self, hit: Hit, attempt: Attempt, place: Place, figures: list[Observation]) -> None:
        line = hit.line
        places = [place]
        covered = hit.text.count("\n", hit.span[0], hit.span[1]) if "\n" in hit.text else 0
        following = hit.text.split("\n")
        places += [Place(place.input, line.number + step, self.excerpt(following[step], 0, 0)) for step in range(1, covered + 1)]
        frames = tuple(attempt.frames.get(process_key(line.process) or "", ()))
        attempt.end_traceback(line.process, line.number)
        attempt.add_event(
            Event(
                hit.pattern,
                tuple(places),
                self.order,
                line.process,
                line.time,
                line.level,
                attempt.stage,
                attempt.stage_of(line.process),
                frames,
                tuple(figures),
                hit.groups,
                tried=attempt.trying,
            )
        )

    def _segment(self, input_index: int, pattern: Pattern, line: Line, attempt: Attempt) -> None:
        kind = pattern.segment or ("engine-log" if pattern.engine or line.level or line.process else None)
        if kind is None:
            return
        segments = self.segments.setdefault(input_index, [])
        known = segments[-1] if segments else None
        wrote = attempt.engine if pattern.engine else None
        if known is not None and known.kind == kind and (known.attempt == attempt.index or not foreign(known.engine, wrote)):
            known.last, known.attempt = line.number, attempt.index
            known.engine = wrote or known.engine
        elif len(segments) < 256:
            segments.append(SegmentSeen(kind, wrote, line.number, line.number, attempt.index))

    # --- readings ----------------------------------------------------------------------------------------------------------------

    def take_reading(self, reading: Reading, input_index: int, first_line: int) -> None:
        """What a reader found. Its settings belong to the attempt that runs when it is read; diagnosis decides what they are worth."""
        self.order += 1
        first, last = first_line + reading.first, first_line + reading.last
        segments = self.segments.setdefault(input_index, [])
        if segments and segments[-1].kind == reading.kind and (segments[-1].last + 1 >= first or len(segments) >= SEGMENTS):
            segments[-1].last = last
        else:
            segments.append(SegmentSeen(reading.kind, reading.engine, first, last))
        self.snapshots += [(input_index, snapshot) for snapshot in reading.snapshots]
        if len(self.snapshots) > 2 * SNAPSHOTS:
            self.snapshots = [*self.snapshots[:-1:2], self.snapshots[-1]]
        self.document_facts += [(input_index, fact) for fact in reading.facts]
        if len(self.document_facts) > 2 * DOCUMENT_FACTS:
            self.document_facts = _extremes(self.document_facts)
        plain = not (reading.settings or reading.environment or reading.command or reading.notes or reading.model or reading.start)
        if reading.snapshots:
            reading.snapshots, reading.facts = [], []  # they stand above, bounded
        if not plain or len(self.readings) < READINGS:
            self.readings.append((input_index, reading))

    def count_requests(self, count: int, place: Place) -> None:
        """``count`` lines of an access log, whose requests are only counted."""
        self.attempt(place).requests += count

    def end_input(self, input_index: int, last_line: int) -> None:
        """The input is over: its last line belongs to the attempt that runs."""
        if self.attempts and self.attempts[-1].last_input == input_index:
            self.attempts[-1].last_line = max(self.attempts[-1].last_line, last_line)


def _extremes(facts: list[tuple[int, Fact]]) -> list[tuple[int, Fact]]:
    """Of every figure of a long loop of dumps the first, last, smallest and greatest, in their order."""
    kept: dict[tuple[str, int | None, int | None], dict[str, int]] = {}
    for place, (_, fact) in enumerate(facts):
        slots = kept.setdefault((fact.name, fact.gpu, fact.pid), {"first": place, "low": place, "high": place})
        slots["last"] = place
        if isinstance(fact.value, (int, float)):
            low, high = facts[slots["low"]][1].value, facts[slots["high"]][1].value
            if isinstance(low, (int, float)) and fact.value < low:
                slots["low"] = place
            if isinstance(high, (int, float)) and fact.value > high:
                slots["high"] = place
    return [facts[place] for place in sorted({place for slots in kept.values() for place in slots.values()})]


def _far(attempt: Attempt) -> bool:
    """Whether the attempt has more than a first line or two of some library."""
    return attempt.stage not in (None, "launch") or bool(attempt.events)


def _loads_again(attempt: Attempt, hit: Hit, place: Place) -> bool:
    """Whether a model has been loaded below the word that the server is up: a second start whose own head is not in the text.

    vLLM says what the weights took once a process and start (``load_model``). A process that was not there before may be one that joined,
    and one of another service beside it says nothing of this one.
    """
    pattern = hit.pattern
    if attempt.ready is None or pattern.engine != "vllm" or pattern.cause is not None:
        return False
    if attempt.ready.input != place.input or hit.line.unit is not None or not any(figure.name == "weights" for figure in hit.figures):
        return False
    process = hit.line.process
    return process is None or any(process.name == other.name for other in attempt.processes.values())


def _ended(attempt: Attempt) -> bool:
    """Whether the attempt shows an end: a shutdown, or an error that stops a server."""
    if attempt.shutdown is not None:
        return True
    return any(event.cause is not None and not event.pattern.keeps_running for event in attempt.events)
