"""The multi-pattern scan: one pass of hyperscan over a block of bytes finds the lines that hold an anchor."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256

import hyperscan

from analyzer.data import cache_folder, write_cache


class Scanner:
    """Finds literals. Thread safe: a scratch is never shared by two scans at once."""

    def __init__(self, literals: Sequence[str], *, cache: bool = False) -> None:
        """``literals`` are distinct, not empty texts; a hit is reported by its place in this list. ``cache``: keep it between runs."""
        encoded = [literal.encode() for literal in literals]
        self._database = _kept(encoded) if cache else _compiled(encoded)
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


def _compiled(literals: Sequence[bytes]) -> hyperscan.Database:
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    database.compile(
        expressions=list(literals), ids=list(range(len(literals))), elements=len(literals), flags=[0] * len(literals), literal=True
    )
    return database


def _kept(literals: Sequence[bytes]) -> hyperscan.Database:
    """The database from its cache. It carries a checksum, its own version and the processor's kind: one that does not fit is made anew."""
    path = cache_folder() / f"anchors-{sha256(repr(literals).encode()).hexdigest()[:16]}.hs"
    try:
        return hyperscan.loadb(path.read_bytes(), hyperscan.HS_MODE_BLOCK)
    except (OSError, hyperscan.error):
        database = _compiled(literals)
        write_cache(path, hyperscan.dumpb(database))
        return database


def distinct(literals: Iterable[str]) -> list[str]:
    """``literals`` without repetitions, in order."""
    return list(dict.fromkeys(literals))
