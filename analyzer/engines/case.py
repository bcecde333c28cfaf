"""What an engine's arithmetic is asked about: one attempt, and where and how it ended."""

from __future__ import annotations

from dataclasses import dataclass, field

from analyzer.facts.observation import Event
from analyzer.facts.view import View
from analyzer.model import Fact, Ledger, Source

#: Words of a model's name that say that its weights are quantized.
_QUANTIZED = ("awq", "gptq", "fp8", "fp4", "int4", "int8", "gguf", "bnb", "4bit", "8bit", "mxfp", "quant", "w4a16", "w8a8")


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
    earlier: list[tuple[float, str]] = field(default_factory=list)  # (utilization, cause) of earlier starts that failed
    earlier_assumed: bool = False  # whether such a utilization is only the largest default that is possible
    earlier_evidence: list[Source] = field(default_factory=list)  # the lines on which earlier failures rest
    earlier_pool: int | None = None  # KV pool in bytes of an earlier start that got further

    @property
    def on_cpu(self) -> bool:
        """Whether the run used a CPU backend, whose pool is host memory."""
        return self.view.on_cpu

    @property
    def quantized(self) -> bool:
        """Whether the model's name says that its weights are quantized."""
        name = str(self.view.setting("--model") or "").lower()
        return any(word in name for word in _QUANTIZED)

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
