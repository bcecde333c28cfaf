"""What a reader is given and what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from analyzer.model import Fact, GpuSnapshot, Setting, Source
from analyzer.model.facts import EXCERPT


class Page:
    """Consecutive lines of one input, without colours and line ends. ``whole``: they are all that the input has."""

    def __init__(
        self,
        name: str,
        lines: Sequence[str],
        first_line: int = 1,
        *,
        whole: bool = True,
        redact: Callable[[str], str] = str,
        found: Callable[[str], Collection[str]] | None = None,
    ) -> None:
        """``found`` gives the readers' anchors that a text holds, faster than looking for one after the other."""
        self.name = name
        self.lines = lines
        self.first_line = first_line
        self.whole = whole
        self.redact = redact
        self._find = found
        self.held: frozenset[str] | None = None  # what ``found`` gives, where it is known
        self._last: tuple[int, str, Source] | None = None

    @cached_property
    def text(self) -> str:
        """The lines joined by newlines."""
        return "\n".join(self.lines)

    def holds(self, anchors: Iterable[str]) -> bool:
        """Whether one of a reader's ``anchors`` stands in the text."""
        if self.held is None and self._find is not None:
            self.held = frozenset(self._find(self.text))
        if self.held is None:
            return any(anchor in self.text for anchor in anchors)
        return not self.held.isdisjoint(anchors)

    def source(self, index: int, text: str | None = None) -> Source:
        """The Source of ``lines[index]``, redacted; ``text`` where another text than the whole line shows the figure better."""
        shown = text if text is not None else self.lines[index]
        # Several figures of one line are read one after the other: it is redacted once.
        if self._last is None or self._last[0] != index or self._last[1] != shown:
            self._last = (index, shown, Source(self.name, self.first_line + index, self.redact(shown)[:EXCERPT]))
        return self._last[2]


@dataclass(frozen=True, slots=True)
class HostProcess:
    """A row of ``ps``: who runs, and who started it."""

    pid: int
    parent: int | None
    command: str
    source: Source


@dataclass(frozen=True, slots=True)
class MemoryHolder:
    """A process and the host memory that it held when another tool listed the largest ones."""

    pid: int
    name: str
    bytes: int
    source: Source


@dataclass(slots=True)
class Reading:
    """One segment: ``lines[first]`` to ``lines[last]`` of the page (both included), and what they say.

    ``open`` means that the segment reaches the end of the page and may go on in the next one; it is then read again, longer.
    Every Source in here comes from ``page.source``; names that go into a report (process names) are redacted by ``page.redact``.
    """

    kind: str  # nvidia-smi | nvidia-smi-q | nvidia-smi-xml | nvidia-smi-csv | nvidia-smi-dmon | launch-command | model-config | …
    first: int
    last: int
    facts: list[Fact] = field(default_factory=list)
    snapshots: list[GpuSnapshot] = field(default_factory=list)
    settings: dict[str, Setting] = field(default_factory=dict)  # long flag as the engine spells it -> value
    environment: dict[str, Setting] = field(default_factory=dict)  # variable -> value
    engine: str | None = None
    engine_version: str | None = None
    notes: list[Source] = field(default_factory=list)  # comments beside a command: what the user says about machine and run
    command: str | None = None  # the launch command as the user wrote it, redacted
    start: bool = False  # the lines are a launch at a prompt inside a log: a new attempt begins here
    model: dict[str, object] | None = None  # a model's config.json
    open: bool = False
    row: bool = False  # one row of a list of things, most of which need not be engines
    processes: list[HostProcess] = field(default_factory=list)  # of a list of the host's processes
    holders: list[MemoryHolder] = field(default_factory=list)  # largest users of host memory, largest first
