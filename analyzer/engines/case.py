"""What an engine's arithmetic is asked about: one attempt, and where and how it ended."""

from __future__ import annotations

from dataclasses import dataclass, field

from analyzer.facts.observation import Event
from analyzer.facts.view import View
from analyzer.model import Fact, Ledger


@dataclass(slots=True)
class Case:
    """``cause`` and ``stage`` are the outcome's; ``event`` is the line it rests on, ``figures`` what that line states."""

    view: View
    state: str
    stage: str | None
    cause: str | None = None
    event: Event | None = None
    figures: list[Fact] = field(default_factory=list)
    ledgers: list[Ledger] = field(default_factory=list)

    @property
    def moment(self) -> str | None:
        """The moment of the ledgers: the failing stage, or ready."""
        return "ready" if self.state in ("healthy", "degraded") else self.stage

    @property
    def rank(self) -> int | None:
        """The rank that failed first, where the inputs tell."""
        return self.view.ranks.of(self.event.process) if self.event is not None else None

    @property
    def ledger(self) -> Ledger | None:
        """The ledger of the GPU that failed; without one, of the first GPU."""
        gpu = next((fact.gpu for fact in self.figures if fact.gpu is not None), None)
        for ledger in self.ledgers:
            if (gpu is not None and ledger.gpu == gpu) or (gpu is None and self.rank is not None and ledger.rank == self.rank):
                return ledger
        return self.ledgers[0] if self.ledgers else None
