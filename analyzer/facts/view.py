"""One attempt made ready for engines and diagnosis: facts with ranks and redacted sources, settings, version."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from analyzer.facts.attempt import Attempt
from analyzer.facts.observation import Event, Observation, Place, excerpt
from analyzer.facts.ranks import Ranks
from analyzer.facts.record import ARGUMENTS, Record
from analyzer.model import Fact, GpuSnapshot, Series, Setting, Source, Value
from analyzer.model.versions import Range, is_version, key
from analyzer.readers.base import Reading
from analyzer.readers.settings import setting_fact

#: Figures of the engine that every worker may print with its own value: the smallest is in force (vllm-memory-model.md, section 5).
SMALLEST = frozenset({"kv_cache.tokens", "kv_cache.gpu_blocks", "concurrency.max"})

#: Patterns of lines that only a CPU backend prints, as their ids begin.
ON_CPU = ("vllm.sign.cpu_backend", "vllm.startup.cpu_", "vllm.graphs.cpu_warmup")

#: How the engines spell the degrees of parallelism.
TENSOR_FLAGS = ("--tensor-parallel-size", "--tp-size", "--num-shard", "--tp")
PIPELINE_FLAGS = ("--pipeline-parallel-size", "--pp-size")


@dataclass(slots=True)
class View:
    """What the inputs say about one attempt: ``facts`` of the log and its settings in reading order, ``documents`` of dumps and files."""

    attempt: Attempt
    facts: list[Fact]
    settings: dict[str, Setting]
    environment: dict[str, Setting]
    engine: str | None
    version: str | None
    versions: Range
    generation: str | None
    ranks: Ranks
    snapshots: list[GpuSnapshot] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)
    documents: list[Fact] = field(default_factory=list)
    model: dict[str, object] | None = None
    command: str | None = None
    scopes: Mapping[str, str] = field(default_factory=dict)
    redact: Callable[[str], str] = str
    source: Callable[[Place], Source] = field(default=lambda place: Source("", place.line, place.text))

    @property
    def arguments_seen(self) -> bool:
        """Whether the engine printed what it was started with, so that a setting that is not there has its default."""
        return any(seen.strength >= ARGUMENTS for seen in self.attempt.settings.values())

    @property
    def on_cpu(self) -> bool:
        """Whether the run used a CPU backend, whose pool is host memory: by a setting, the platform that a line names, or its errors."""
        return (
            "VLLM_CPU_KVCACHE_SPACE" in self.environment
            or any(name.startswith(ON_CPU) for name in self.attempt.patterns)
            or any(fact.pattern is not None and "cpu" in fact.pattern for fact in self.facts if fact.name.startswith("kv_cache."))
        )

    def all(self, name: str) -> list[Fact]:
        """Every fact ``name``, in reading order."""
        return [fact for fact in self.facts if fact.name == name]

    def fact(self, name: str, rank: int | None = None) -> Fact | None:
        """The latest fact ``name`` of ``rank``; one that names no rank stands in where the rank has none of its own."""
        own = shared = None
        for fact in self.facts:
            if fact.name == name:
                if rank is not None and fact.rank == rank:
                    own = fact
                elif rank is None or fact.rank is None:
                    shared = fact
        return own or shared

    def bytes(self, name: str, rank: int | None = None) -> int | None:
        """The bytes of ``fact(name, rank)``."""
        fact = self.fact(name, rank)
        return None if fact is None else fact.bytes

    def number(self, name: str, rank: int | None = None) -> float | int | None:
        """The plain number of ``fact(name, rank)``; of the figures that every worker prints, the smallest."""
        if name in SMALLEST:
            return min((fact.value for fact in self.facts if fact.name == name and isinstance(fact.value, (int, float))), default=None)
        fact = self.fact(name, rank)
        return fact.value if fact is not None and isinstance(fact.value, (int, float)) else None

    def groups(self, event: Event) -> dict[str, str]:
        """What the expression of ``event``'s pattern took out of its line, by group, safe to show.

        Only with its surroundings can a rule tell a secret: a redacted value is shown where it stands in the redacted lines as well.
        """
        shown = "\n".join(self.source(place).text for place in event.places)
        cleaned = {name: self.redact(value) for name, value in event.groups.items()}
        return {name: value for name, value in cleaned.items() if value in shown}

    def setting(self, flag: str) -> Value | None:
        """The value of a setting, by its long flag; None where the inputs do not state it."""
        setting = self.settings.get(flag)
        return None if setting is None else setting.value

    def fact_of(self, seen: Observation) -> Fact:
        """An observation as a Fact, with rank and redacted source."""
        rank = seen.rank
        unsigned = seen.gpu is not None and seen.process is None  # one process for all GPUs: the line says which GPU, not which rank
        if rank is None and not unsigned and self.scopes.get(seen.name) not in ("engine", "host"):
            rank = self.ranks.of(seen.process)
        process = None if seen.process is None else f"{seen.process.name} pid={seen.process.pid}"
        source = self.source(seen.place)
        value = seen.value
        if isinstance(value, str) and value not in source.text:
            value = "…"  # what the line does not show after redaction, the fact does not show
        return Fact(
            seen.name,
            value,
            seen.unit,
            source,
            self.attempt.index,
            rank,
            seen.gpu,
            seen.pid,
            seen.time,
            seen.pattern,
            process,
        )

    def event_facts(self, event: Event) -> list[Fact]:
        """The figures of one event's own line."""
        return [self.fact_of(seen) for seen in event.figures]

    def series(self) -> list[Series]:
        """The courses of the statistics lines, with ranks."""
        found = []
        for (_, process), series in self.attempt.series.items():
            rank = self.ranks.of(self.attempt.processes.get(process or ""))
            found.append(Series(series.name, series.unit, rank, series.count, series.points))
        return found


def view(
    record: Record, attempt: Attempt, names: Sequence[str], redact: Callable[[str], str], scopes: Mapping[str, str], *, last: bool
) -> View:
    """The View of ``attempt``. Documents (dumps, commands, configs) speak for the ``last`` attempt. ``scopes``: a fact's owner, by name."""

    def source(place: Place) -> Source:
        return Source(names[place.input], place.line, redact(excerpt(place.text)))

    tensor, pipeline = (_first_whole([attempt.settings.get(flag) for flag in flags]) for flags in (TENSOR_FLAGS, PIPELINE_FLAGS))
    settings = {flag: Setting(_clean(seen.value, redact), source(seen.place)) for flag, seen in attempt.settings.items()}
    environment = {name: Setting(_clean(seen.value, redact), source(seen.place)) for name, seen in attempt.environment.items()}
    readings = [reading for _, reading in record.readings] if last else []
    command = _subject(readings)
    extra: list[Fact] = []
    if command is not None:
        for flag, setting in command.settings.items():
            if flag not in settings:
                settings[flag] = setting
                extra += _setting_fact(flag, setting, attempt.index, attempt.engine or command.engine)
        for name, setting in command.environment.items():
            environment.setdefault(name, setting)
            extra += _setting_fact(name, setting, attempt.index, attempt.engine or command.engine)
        tensor = tensor or _first_whole([settings.get(flag) for flag in TENSOR_FLAGS])
        pipeline = pipeline or _first_whole([settings.get(flag) for flag in PIPELINE_FLAGS])
    version = attempt.last("engine.version")
    stated = str(version.value) if version is not None else None
    if stated is None:
        stated = next((reading.engine_version for reading in reversed(readings) if reading.engine_version), None)
    if stated is not None and attempt.engine == "vllm" and not is_version(stated):
        stated = None  # a damaged line: the wordings tell the range all the same
    shown = View(
        attempt,
        [],
        settings,
        environment,
        attempt.engine or next((reading.engine for reading in readings if reading.engine), None),
        stated,
        _of_generation(attempt),
        _generation(attempt, stated),
        Ranks(attempt.processes, tensor, pipeline),
        [snapshot for _, snapshot in record.snapshots] if last else [],
        readings,
        [_at(fact, attempt.index) for _, fact in record.document_facts] if last else [],
        next((reading.model for reading in readings if reading.model), None),
        command.command if command is not None else None,
        scopes,
        redact,
        source,
    )
    observations = sorted(attempt.observations(), key=lambda seen: seen.order)
    shown.facts = [shown.fact_of(seen) for seen in observations] + extra
    return shown


def _subject(readings: Sequence[Reading]) -> Reading | None:
    """The launch command that the failing run was started with: the last one that is not part of a log."""
    commands = [reading for reading in readings if reading.kind in ("launch-command", "k8s") and (reading.settings or reading.command)]
    return commands[-1] if commands else None


def _setting_fact(flag: str, setting: Setting, attempt: int, engine: str | None) -> list[Fact]:
    known = setting_fact(flag, setting.value, engine)
    if known is None:
        return []
    name, value, unit = known
    return [Fact(name, value, unit, setting.source, attempt, pattern="setting")]


def _at(fact: Fact, attempt: int) -> Fact:
    return Fact(
        fact.name, fact.value, fact.unit, fact.source, attempt, fact.rank, fact.gpu, fact.pid, fact.time, fact.pattern, fact.process
    )


#: The versions that a generation exists in: V1 came with 0.6.4, V0 went with 0.11.0.
_OF_GENERATION = {"v0": Range.parse("<=0.10.2"), "v1": Range.parse(">=0.6.4")}


def _of_generation(attempt: Attempt) -> Range:
    """The versions that print these wordings and have the engine that the lines prove."""
    generation = _generation(attempt, None)
    narrowed = attempt.versions & _OF_GENERATION.get(generation or "", Range())
    return narrowed if narrowed and attempt.engine == "vllm" else attempt.versions


def _generation(attempt: Attempt, version: str | None) -> str | None:
    """v0 or v1: what the lines prove, else what the version leaves possible (vllm-memory-model.md, section 1)."""
    if attempt.generations:
        return max(attempt.generations, key=lambda name: attempt.generations[name])
    if version is None or attempt.engine not in (None, "vllm"):
        return None
    try:
        release = key(version)
    except ValueError:
        return None
    if release < key("0.6.4"):
        return "v0"
    return "v1" if release >= key("0.11.0") else None


def _whole(seen: object) -> int | None:
    value = getattr(seen, "value", None)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _first_whole(seen: Sequence[object]) -> int | None:
    return next((value for one in seen if (value := _whole(one)) is not None), None)


def _clean(value: Value | None, redact: Callable[[str], str]) -> Value | None:
    return redact(value) if isinstance(value, str) else value
