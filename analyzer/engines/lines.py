"""Puts a ledger together line by line; the first amount of a name stays."""

from __future__ import annotations

from analyzer.model import Basis, Fact, Ledger, LedgerLine, Source
from analyzer.model.ledger import ordered
from analyzer.model.units import human


class Lines:
    """The lines of one ledger while it is built."""

    def __init__(self) -> None:
        self._lines: dict[str, LedgerLine] = {}
        self._none: set[str] = set()  # stated to be zero: known, and no line

    def __contains__(self, name: str) -> bool:
        return name in self._lines

    def get(self, name: str) -> int | None:
        """Bytes of the line, 0 of one that is stated to be empty, or None."""
        line = self._lines.get(name)
        return (0 if name in self._none else None) if line is None else line.bytes

    def line(self, name: str) -> LedgerLine | None:
        """The line, or None."""
        return self._lines.get(name)

    def replace(self, name: str, size: int, formula: str, source: Source | None = None) -> None:
        """Put a derived amount in the place of the one that is there."""
        self._lines[name] = LedgerLine(name, size, Basis.DERIVED, source, formula)

    def measured(self, name: str, fact: Fact | None, formula: str | None = None) -> None:
        """A line that a fact states. Facts without a size, a zero (unknown and zero lines are left out), and a card of less add nothing."""
        if fact is not None and fact.bytes == 0 and name != "total":
            self._none.add(name)
        elif fact is not None and fact.bytes and (fact.bytes > 0 or name != "total"):
            self._put(name, fact.bytes, Basis.MEASURED, fact.source, formula)

    def amount(self, name: str, size: int, source: Source) -> None:
        """A line that ``source`` states."""
        if size:
            self._put(name, size, Basis.MEASURED, source, None)

    def derived(self, name: str, size: int | None, formula: str, source: Source | None = None) -> None:
        """A line that follows from others."""
        if size is not None:
            self._put(name, size, Basis.DERIVED, source, formula)

    def estimated(self, name: str, size: int | None, formula: str) -> None:
        """A line from the model's shape or a stated assumption."""
        if size is not None:
            self._put(name, size, Basis.ESTIMATED, None, formula)

    def _put(self, name: str, size: int, basis: Basis, source: Source | None, formula: str | None) -> None:
        self._lines.setdefault(name, LedgerLine(name, size, basis, source, formula))

    def ledger(self, attempt: int, gpu: int | None, rank: int | None, moment: str | None) -> Ledger:
        """The ledger of these lines."""
        return Ledger(attempt, gpu, rank, moment, ordered(self._lines.values()))

    def __bool__(self) -> bool:
        return bool(self._lines)


def spell(formula: str, **sizes: int | float) -> str:
    """``formula`` with its amounts: ``spell("{total} × {u}", total=…, u=0.9)``; integers are bytes, floats are factors."""
    return formula.format(**{name: human(size) if isinstance(size, int) else f"{size:g}" for name, size in sizes.items()})
