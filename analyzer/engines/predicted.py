"""The ledger as it would be after a change: some lines replaced, what they give up goes to what is free."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from analyzer.model import Basis, Ledger
from analyzer.model.ledger import LedgerLine, ordered


def replaced(ledger: Ledger | None, sizes: Mapping[str, int], formula: str) -> Ledger | None:
    """``ledger`` with the lines of ``sizes`` (bytes) set by ``formula`` and its free memory moved by what the parts gave up.

    None where there is no ledger, or more would be needed than is free.
    """
    if ledger is None:
        return None
    freed = sum((ledger.get(name) or 0) - size for name, size in sizes.items() if name != "budget" and ledger.get(name) is not None)
    free = ledger.get("free")
    lines = {line.name: line for line in ledger.lines}
    for name, size in sizes.items():
        if name in lines:
            lines[name] = LedgerLine(name, size, Basis.DERIVED, None, formula)
    if free is not None:
        if free + freed < 0:
            return None
        lines["free"] = LedgerLine("free", free + freed, Basis.DERIVED, None, "free + what the change gives up")
    return replace(ledger, lines=ordered(lines.values()))
