"""The report: everything that is said about a set of inputs. Every surface renders this and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from analyzer.model.facts import Fact, Series, Source, Value
from analyzer.model.finding import Confidence, Finding
from analyzer.model.gpu import GpuSnapshot
from analyzer.model.ledger import Ledger

SCHEMA = "vramledger/report/1"

#: The steps of a start and a service, in order.
STAGES = ("launch", "device_init", "weight_load", "profiling", "kv_init", "graph_capture", "warmup", "serving", "shutdown")


class State(StrEnum):
    """What the inputs show to have happened."""

    FAILED = "failed"
    HEALTHY = "healthy"
    DEGRADED = "degraded"
    UNKNOWN = "unknown"


@dataclass(slots=True)
class Segment:
    """A run of lines of one kind: engine-log, nvidia-smi, launch-command, model-config, kernel-log, …"""

    kind: str
    first_line: int
    last_line: int
    engine: str | None = None


@dataclass(slots=True)
class InputInfo:
    """One input as it was read: sizes before redaction, and what was left out of an over-long or cut one."""

    name: str
    bytes: int = 0
    lines: int = 0
    truncated: bool = False
    skipped_bytes: int = 0  # the rests of lines longer than the limit
    segments: list[Segment] = field(default_factory=list)


@dataclass(slots=True)
class EngineInfo:
    """Which engine wrote the log. ``version`` only where an input states it; ``version_range`` is what the wordings leave (PEP 440)."""

    name: str | None = None
    version: str | None = None
    version_range: str | None = None
    generation: str | None = None


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting of the run and the line that states it."""

    value: Value | None
    source: Source


@dataclass(slots=True)
class AttemptInfo:
    """One start of the engine. ``input`` is where it begins."""

    index: int
    input: str
    state: State
    stage: str | None
    first_line: int
    last_line: int
    cause: str | None = None
    count: int = 1  # identical starts in a row, counted as one


@dataclass(slots=True)
class Outcome:
    state: State = State.UNKNOWN
    stage: str | None = None
    cause: str | None = None
    confidence: Confidence = Confidence.CERTAIN


@dataclass(frozen=True, slots=True)
class TimelineStep:
    """One step of a start. ``name``: download, load, compile, profile, capture, init, or a stage that only its lines' times give.

    ``seconds`` as the engine states it, else (``stated`` False) the difference of two lines' times, to the second. ``start`` is the time
    of the line, as printed. ``slowest`` marks the step that took the longest. ``within``: the step that this one is part of.
    """

    name: str
    seconds: float
    stated: bool
    source: Source
    start: str | None = None
    slowest: bool = False
    within: str | None = None


@dataclass(slots=True)
class Report:
    inputs: list[InputInfo]
    engine: EngineInfo
    settings: dict[str, Setting]
    attempts: list[AttemptInfo]
    outcome: Outcome
    facts: list[Fact]
    series: list[Series]
    gpu_snapshots: list[GpuSnapshot]
    ledgers: list[Ledger]
    earlier: list[Ledger]
    findings: list[Finding]
    command: str | None = None  # the user's own command, corrected
    fingerprint: str | None = None  # the same for the same failure in another run (diagnosis/fingerprint.py)
    likeness: str | None = None  # what it was made of: three lines
    library: str = ""  # version of the pattern library that made this report
    timeline: list[TimelineStep] = field(default_factory=list)  # the steps of the last start that the inputs time

    @property
    def root(self) -> Finding | None:
        """The finding that the outcome rests on, or None for a healthy or undecided one without it."""
        return next((finding for finding in self.findings if finding.root), None)

    def to_json(self, language: str = "en", *, indent: int | None = None) -> str:
        """The report as JSON text (report-contract.md), the same bytes for the same inputs."""
        from analyzer.model.as_json import dumps

        return dumps(self, language, indent)
