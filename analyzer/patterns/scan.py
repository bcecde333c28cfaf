"""The multi-pattern scan: one pass of hyperscan over a block of bytes finds the lines that hold what is looked for."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256

import hyperscan

from analyzer.data import cache_folder, write_cache

#: Flags of an expression: ``^`` and ``$`` are the ends of a line; letters in either case.
BY_LINE, ANY_CASE = hyperscan.HS_FLAG_MULTILINE, hyperscan.HS_FLAG_CASELESS


class Scanner:
    """Finds literals, or expressions. Thread safe: a scratch is never shared by two scans at once."""

    def __init__(self, literals: Sequence[str], *, flags: Sequence[int] | None = None, cache: bool = False) -> None:
        """``literals`` are distinct, not empty texts; a hit is reported by its place in this list. ``cache``: keep it between runs.

        With ``flags``, one for each, they are expressions in hyperscan's syntax, which see bytes; every end of a match is a hit.
        Raises ValueError for an expression that hyperscan does not take.
        """
        encoded = [literal.encode() for literal in literals]
        self._database = _kept(encoded, flags) if cache else _compiled(encoded, flags)
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


def _compiled(literals: Sequence[bytes], flags: Sequence[int] | None) -> hyperscan.Database:
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    places = list(range(len(literals)))
    try:
        database.compile(
            expressions=list(literals), ids=places, elements=len(literals), flags=list(flags or [0] * len(literals)), literal=flags is None
        )
    except hyperscan.error as error:
        raise ValueError(str(error)) from error
    return database


def _kept(literals: Sequence[bytes], flags: Sequence[int] | None) -> hyperscan.Database:
    """The database from its cache. It carries a checksum, its own version and the processor's kind: one that does not fit is made anew."""
    kind = "anchors" if flags is None else "gates"
    path = cache_folder() / f"{kind}-{sha256(repr((literals, flags)).encode()).hexdigest()[:16]}.hs"
    try:
        return hyperscan.loadb(path.read_bytes(), hyperscan.HS_MODE_BLOCK)
    except (OSError, hyperscan.error):
        database = _compiled(literals, flags)
        write_cache(path, hyperscan.dumpb(database))
        return database


def distinct(literals: Iterable[str]) -> list[str]:
    """``literals`` without repetitions, in order."""
    return list(dict.fromkeys(literals))
