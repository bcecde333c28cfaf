"""What an engine's own rules make of a verdict: diagnosis takes it over (analyzer/diagnosis/rules/engines.py)."""

from __future__ import annotations

from dataclasses import dataclass, field

from analyzer.model import Confidence, Source


@dataclass(frozen=True, slots=True)
class Refinement:
    """What is None stays as it was; ``evidence`` is added to what proves it."""

    cause: str | None = None
    state: str | None = None
    stage: str | None = None
    confidence: Confidence | None = None
    evidence: list[Source] = field(default_factory=list)
    open: bool = False  # the cause that the stage suggests is not proven: it stays open
