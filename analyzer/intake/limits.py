"""How much of an input is read. Every bound is a count, so that a report never depends on the machine."""

from __future__ import annotations

from dataclasses import dataclass

from analyzer.model.units import GIB, KIB, MIB


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one analysis, in bytes and counts (api-contract.md names the settings that change them)."""

    max_body_bytes: int = 2 * GIB
    max_expanded_bytes: int = 4 * GIB
    max_expansion_ratio: int = 200
    expansion_grace_bytes: int = 64 * MIB  # below this no ratio is looked at: honest health-check logs reach 300x
    max_line_bytes: int = 64 * KIB  # the rest of a longer line is skipped and counted
    block_bytes: int = MIB  # what is scanned at once
    max_files: int = 64


DEFAULT = Limits()
