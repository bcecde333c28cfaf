"""What a pattern file says, typed. docs/patterns.md explains every key for whoever writes one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, overload

#: Most lines after the hit that a pattern may look at.
MAX_WINDOW = 12


@dataclass(frozen=True, slots=True)
class FactSpec:
    """How a match becomes a fact: the group that holds the value (or a constant), the unit it means, and what else the line says."""

    name: str
    unit: str
    group: str | None = None
    value: int | float | str | None = None
    kind: str = "number"  # number | text
    gpu: str | None = None  # group that holds the GPU's index
    pid: str | None = None  # group that holds the process id
    rank: str | None = None  # group that holds the rank
    unit_group: str | None = None  # group that holds a printed unit (MiB, GiB, bytes …), where the line chooses it
    every: bool = False  # one fact per repetition of the group instead of the last one
    by_gpu: bool = False  # with every: the repetitions are those of GPU 0, 1, 2 …
    negative: bool = False  # printed without its sign: a signal, which as an exit code is below zero
    wraps: int | None = None  # negative amounts are printed as unsigned: from half of this number on it has to be taken off


@dataclass(frozen=True, slots=True)
class Frame:
    """What a traceback's frame tells: the stage it belongs to, and what an error of a family below it is called."""

    stage: str | None = None
    refines: dict[str, str] = field(default_factory=dict)  # cause (or family) while starting -> finer cause
    serving: dict[str, str] = field(default_factory=dict)  # the same once the server was ready
    ends: bool = False  # the traceback of an exception that nobody caught begins with it
    since: str | None = None  # while starting it says something only where the run, or another frame, had come to this stage


@dataclass(frozen=True, slots=True)
class Pattern:
    """One pattern of the library."""

    id: str
    topic: str
    anchors: tuple[str, ...]
    match: str | None
    file: str
    engine: str | None = None
    versions: str | None = None
    generation: str | None = None
    segment: str | None = None  # kind of segment that this line gives away (kernel-log, k8s, …)
    window: int = 0
    whole: bool = False  # match the whole line instead of the message after the engine's prefix
    facts: tuple[FactSpec, ...] = ()
    settings: dict[str, str] = field(default_factory=dict)  # flag -> group
    reader: str | None = None  # function that reads the group "body" (see analyzer/readers/settings.py)
    series: bool = False  # a statistics line: its numbers are a course over time
    stage: str | None = None  # without a cause: the run had come this far; with one: where the failure belongs
    start: int | None = None  # marks the beginning of an attempt; 0 is the earliest line of a start
    marks: str | None = (
        None  # ready | shutdown | traceback | suspect | died | request | refused | sign | trial | aside | resumes | interrupted
    )
    frame: Frame | None = None
    cause: str | None = None
    severity: str | None = None
    confidence: str | None = None
    keeps_running: bool = False  # an error of a request or a component after which the server goes on
    text: dict[str, str] | None = None
    fixes: tuple[str, ...] | None = None
    needs: tuple[str, ...] | None = None
    not_this: tuple[str, ...] | None = None
    examples: tuple[dict[str, Any], ...] = ()
    not_examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Cause:
    """A cause of reference/causes.yaml with its words and the names of what it suggests."""

    id: str
    severity: str
    title: dict[str, str]
    text: dict[str, str]
    detail: tuple[dict[str, str], ...] = ()  # sentences with {placeholders}: each is said where all its figures are known
    stages: tuple[str, ...] = ()
    echo: bool = False
    consequences: tuple[str, ...] = ()
    signs: tuple[str, ...] = ()  # patterns whose lines belong to the proof where they were seen
    fixes: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    not_this: tuple[str, ...] = ()
    engines: dict[str, dict[str, dict[str, str]]] = field(default_factory=dict)  # engine -> title, text: what is true of that one instead
    file: str = ""

    def of(self, engine: str | None) -> Cause:
        """The cause in the words that are true of ``engine``."""
        words = self.engines.get(engine or "")
        return replace(self, title=words.get("title", self.title), text=words.get("text", self.text)) if words else self


@dataclass(frozen=True, slots=True)
class Advice:
    """The words of a fix, a need or a "not this", by name.

    ``{placeholders}`` are figures: of the engine's solver for a computed fix, else facts of the finding, their dots as underscores
    (``{oom_tried}``). Advice one of whose figures is not known is not given.
    """

    name: str
    kind: str  # fix | need | not_this
    words: dict[str, dict[str, str]]  # fix: title, why, cost; need: text; not_this: advice, as people quote it, and why
    changes: tuple[dict[str, Any], ...] = ()  # fix: what to change where no arithmetic decides it, in the report's shape
    versions: str | None = None  # fix: the engine's versions in which it is valid, where flags alone do not tell
    engines: tuple[str, ...] = ()  # fix, not_this: only for these engines, where causes are shared and settings are not
    unless: tuple[str, ...] = ()  # fix: needs; where the inputs hold what one of them asks for, it shows that this is not the way


@dataclass(frozen=True, slots=True)
class RedactionRule:
    """One rule of redactions.yaml; analyzer/intake/redact.py runs it. Expressions are of ``re`` and never leave a line."""

    id: str
    kind: str  # what stands in for it: <kind-1>, or <kind dropped, N characters>
    match: str
    #: Literals, one of which every hit's line holds, in any case: at the beginning of a word, or anywhere behind a "*".
    anchors: tuple[str, ...] = ()
    gates: tuple[str, ...] = ()  # expressions of hyperscan, in the case of ``match``, one of which finds something in every hit's line
    group: str | None = None  # what is replaced, value2, value3 … beside value; none of them: a look-alike. Without it, the whole match
    each: str | None = None  # within the group, the pieces that are replaced one by one
    until: str | None = None  # the match opens a block that runs over lines up to this; ``each`` finds the block's part of a line
    text: dict[str, str] = field(default_factory=dict)
    keep: tuple[str, ...] = ()  # expressions; what one of them matches wholly is no secret
    drop: bool = False
    ignore_case: bool = False
    examples: tuple[dict[str, str], ...] = ()
    not_examples: tuple[str, ...] = ()


class StoredPatterns(Sequence[Pattern]):
    """Patterns in their stored form. Each is made when it is asked for: a log holds the lines of a few dozen of a thousand."""

    def __init__(
        self, heads: Sequence[tuple[Sequence[str], str | None]], stored: Sequence[bytes], make: Callable[[bytes], Pattern]
    ) -> None:
        """``heads``: see Library.anchors. ``make``: a pattern from one of ``stored``, which are as many."""
        self.heads = heads
        self._stored = stored
        self._make = make
        self._made: dict[int, Pattern] = {}

    def __len__(self) -> int:
        return len(self._stored)

    @overload
    def __getitem__(self, place: int) -> Pattern: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Pattern]: ...

    def __getitem__(self, place: int | slice) -> Pattern | Sequence[Pattern]:
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(len(self)))]
        pattern = self._made.get(place)
        if pattern is None:
            pattern = self._made[place] = self._make(self._stored[place])
        return pattern

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self._stored))


@dataclass(frozen=True, slots=True)
class Library:
    """All of it. ``version`` is a digest of the files: the same library, the same reports."""

    version: str
    patterns: Sequence[Pattern]
    causes: dict[str, Cause]
    advice: dict[str, Advice]
    redactions: tuple[RedactionRule, ...]
    scopes: dict[str, str] = field(default_factory=dict)  # fact name -> who owns the figure: gpu, rank, engine, process, host
    families: dict[str, Cause] = field(default_factory=dict)  # what is said where only the family of the cause is known

    def anchors(self) -> Sequence[tuple[Sequence[str], str | None]]:
        """(anchors, marks) of every pattern: what a scan has to know of those that it does not meet."""
        if isinstance(self.patterns, StoredPatterns):
            return self.patterns.heads
        return [(pattern.anchors, pattern.marks) for pattern in self.patterns]

    def pattern(self, identifier: str) -> Pattern | None:
        """The pattern with this id, or None."""
        return next((pattern for pattern in self.patterns if pattern.id == identifier), None)
