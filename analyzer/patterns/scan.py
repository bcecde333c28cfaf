"""The multi-pattern scan: one pass of hyperscan over a block of bytes finds the lines that hold an anchor."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence

import hyperscan


class Scanner:
    """Finds literals. Thread safe: a scratch is never shared by two scans at once."""

    def __init__(self, literals: Sequence[str]) -> None:
        """``literals`` are distinct, not empty texts; a hit is reported by its place in this list."""
        encoded = [literal.encode() for literal in literals]
        self._database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        self._database.compile(
            expressions=encoded, ids=list(range(len(encoded))), elements=len(encoded), flags=[0] * len(encoded), literal=True
        )
        self._local = threading.local()

    def hits(self, data: bytes) -> list[tuple[int, int]]:
        """(end offset, literal) of every hit in ``data``, in order of the end."""
        found: list[tuple[int, int]] = []
        append = found.append

        def on_match(literal: int, start: int, end: int, flags: int, context: object) -> None:
            append((end, literal))

        if data:
            self._database.scan(data, match_event_handler=on_match, scratch=self._scratch())
        found.sort()
        return found

    def lines(self, data: bytes, limit: int, counters: dict[int, int]) -> Iterator[tuple[int, int, list[int]]]:
        """(start, end, literals) of every line of ``data`` that begins before ``limit`` and holds a literal, in order.

        ``end`` excludes the line's newline. A literal stands once, however often the line holds it. Hits of the literals in
        ``counters`` that end before ``limit`` are only counted there: their lines are not looked at.
        """
        start = end = -1
        literals: list[int] = []
        for offset, literal in self.hits(data):
            if literal in counters:
                counters[literal] += offset <= limit
                continue
            if offset > end:
                if literals:
                    yield start, end, literals
                start = data.rfind(b"\n", 0, offset) + 1
                if start >= limit:
                    return
                end = data.find(b"\n", offset)
                end = len(data) if end < 0 else end
                literals = []
            if literal not in literals:
                literals.append(literal)
        if literals:
            yield start, end, literals

    def _scratch(self) -> hyperscan.Scratch:
        scratch = getattr(self._local, "scratch", None)
        if scratch is None:
            scratch = self._local.scratch = hyperscan.Scratch(self._database)
        return scratch


def distinct(literals: Iterable[str]) -> list[str]:
    """``literals`` without repetitions, in order."""
    return list(dict.fromkeys(literals))
