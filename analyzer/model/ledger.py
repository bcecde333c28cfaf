"""Ledgers: where the memory of one GPU (or of the host) was at one moment."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from analyzer.model.facts import Source


class Basis(StrEnum):
    """What an amount rests on."""

    MEASURED = "measured"  # a line says it
    DERIVED = "derived"  # by an identity of the engine, from measured ones; the formula is kept
    ESTIMATED = "estimated"  # from the model's shape or a stated assumption


#: Ledger lines in the order in which they are shown; the names are those of reference/facts.yaml.
LINES = (
    "total",
    "budget",
    "weights",
    "draft_weights",
    "kv_cache",
    "state_cache",
    "activation_peak",
    "non_torch",
    "cuda_graphs_reserved",
    "cuda_graphs",
    "compute_buffers",
    "process",
    "torch_allocated",
    "reserved_unallocated",
    "process_non_torch",
    "other_processes",
    "free",
    "unaccounted",
    "host.total",
    "host.weights",
    "host.kv_cache",
    "host.compute_buffers",
    "host.other",
    "host.available",
)
_ORDER = {name: place for place, name in enumerate(LINES)}

#: Identities: the whole and its parts. A part that is absent counts as nothing, but ``needed`` ones must be there for a check.
BUDGET_PARTS = ("weights", "draft_weights", "kv_cache", "state_cache", "non_torch", "activation_peak", "cuda_graphs_reserved")
DEVICE_PARTS = ("process", "other_processes", "free", "unaccounted")
PROCESS_PARTS = ("torch_allocated", "reserved_unallocated", "process_non_torch")


@dataclass(frozen=True, slots=True)
class LedgerLine:
    """One amount, in bytes, with what it rests on: a source (measured) or a formula (derived, estimated)."""

    name: str
    bytes: int
    basis: Basis
    source: Source | None = None
    formula: str | None = None


@dataclass(frozen=True, slots=True)
class Ledger:
    """The lines of one GPU at one moment (a stage name, or ``ready``). ``gpu`` is the rank unless an input says otherwise."""

    attempt: int
    gpu: int | None
    rank: int | None
    moment: str | None
    lines: tuple[LedgerLine, ...]

    def get(self, name: str) -> int | None:
        """Bytes of the line ``name``; None where it is unknown."""
        return next((line.bytes for line in self.lines if line.name == name), None)

    def line(self, name: str) -> LedgerLine | None:
        """The line ``name``, or None."""
        return next((line for line in self.lines if line.name == name), None)


def ordered(lines: Iterable[LedgerLine]) -> tuple[LedgerLine, ...]:
    """The lines in the order of LINES."""
    return tuple(sorted(lines, key=lambda line: _ORDER[line.name]))
