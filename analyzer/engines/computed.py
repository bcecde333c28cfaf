"""What a solver answers for one named fix: numbers and changes; the words come from patterns/advice."""

from __future__ import annotations

from dataclasses import dataclass, field

from analyzer.model import Change, Ledger, Text


@dataclass(frozen=True, slots=True)
class Computed:
    """``values`` fill the advice's placeholders. ``verified`` is False where the input lacks a figure of the check."""

    changes: tuple[Change, ...]
    values: dict[str, str | Text] = field(default_factory=dict)
    predicted: Ledger | None = None
    versions: str | None = None
    verified: bool = False
