"""The library at work: blocks of bytes in, hits in order of their lines out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from analyzer.intake.blocks import Block
from analyzer.intake.lines import Line, decode, parse
from analyzer.intake.unwrap import unwrap
from analyzer.patterns.extract import Extractor, Hit
from analyzer.patterns.load import load
from analyzer.patterns.model import Library
from analyzer.patterns.scan import Scanner, distinct


class Runner:
    """A library made ready to scan. Built once, used by every analysis and thread."""

    def __init__(self, library: Library, reader_anchors: Sequence[str] = (), *, cache: bool = False) -> None:
        """``reader_anchors`` are literals that make a block worth the readers' look (analyzer/readers). ``cache``: of the scanner."""
        self.library = library
        index = library.anchors()
        literals = distinct([*(anchor for anchors, _ in index for anchor in anchors), *reader_anchors])
        self._scanner = Scanner(literals, cache=cache)
        self._literals = literals
        by_literal: dict[str, list[int]] = {literal: [] for literal in literals}
        for place, (anchors, _) in enumerate(index):
            for anchor in dict.fromkeys(anchors):
                by_literal[anchor].append(place)
        self._patterns = [by_literal[literal] for literal in literals]  # literal -> places of the patterns that it may belong to
        self._extractors: dict[int, Extractor] = {}
        wanted = frozenset(reader_anchors)
        # Patterns that only count their hits (an access log's requests) have one anchor and no expression.
        self._counted = [literals.index(anchors[0]) for anchors, marks in index if marks == "request"]
        self._idle = frozenset(place for place, patterns in enumerate(self._patterns) if not patterns)  # only for readers
        self._for_readers = frozenset(place for place, literal in enumerate(literals) if literal in wanted)

    @property
    def extractors(self) -> Sequence[Extractor]:
        """Those that have been needed so far."""
        return list(self._extractors.values())

    def scan(self, block: Block) -> tuple[list[Hit], bool, int]:
        """The hits of ``block``, whether the readers should look at it, and how many requests of an access log it holds."""
        found: list[Hit] = []
        counters = dict.fromkeys(self._counted, 0)
        wanted = False
        for start, end, literals in self._scanner.lines(block.data, block.limit, counters):
            wanted = wanted or not self._for_readers.isdisjoint(literals)
            if self._idle.issuperset(literals):
                continue
            number = block.line_at(start)
            found += self._line_hits(decode(block.data[start:end]), number, literals, _Following(block.data, end, number))
        return found, wanted, sum(counters.values())

    def literals_in(self, text: str) -> frozenset[str]:
        """Which anchors, the readers' among them, ``text`` holds."""
        return frozenset(self._literals[place] for place in {literal for _, literal in self._scanner.hits(text.encode("utf-8", "replace"))})

    def scan_lines(self, lines: Sequence[str], first_line: int = 1) -> list[Hit]:
        """The hits in ``lines``: see scan_text."""
        return self.scan_text(lines, first_line)[0]

    def scan_text(self, lines: Sequence[str], first_line: int = 1) -> tuple[list[Hit], int]:
        """(hits, requests) in ``lines`` (text), wrapped ones put together first. For small inputs, whose wrapping can be told."""
        counters = dict.fromkeys(self._counted, 0)
        logical = unwrap(list(lines))
        texts = [text for _, text in logical]
        data = "\n".join(texts).encode()
        numbers = [first_line + index for index, _ in logical]
        found: list[Hit] = []
        counted = place = 0
        for start, end, literals in self._scanner.lines(data, len(data), counters):
            place += data.count(b"\n", counted, start)
            counted = start
            following = _Following(data, end, numbers[place])
            found += self._line_hits(decode(data[start:end]), numbers[place], literals, following)
        return found, sum(counters.values())

    def _line_hits(self, raw: str, number: int, literals: Sequence[int], following: _Following) -> Iterator[Hit]:
        parsed: dict[str | None, Line] = {}
        seen: set[str] = set()
        for literal in literals:
            # Only of a line with several states (a progress bar) does the anchor choose which one is read.
            key = self._literals[literal] if "\r" in raw else None
            line = parsed.get(key)
            if line is None:
                line = parsed[key] = parse(raw, number, key)
            for place in self._patterns[literal]:
                extractor = self._extractor(place)
                if extractor.pattern.id in seen:
                    continue
                hit = extractor.run(line, following.bodies(extractor.pattern.window) if extractor.pattern.window else ())
                if hit is not None:
                    seen.add(extractor.pattern.id)
                    yield hit

    def _extractor(self, place: int) -> Extractor:
        extractor = self._extractors.get(place)
        if extractor is None:
            extractor = self._extractors[place] = Extractor(self.library.patterns[place])
        return extractor


class _Following:
    """The lines after a hit, read only when a pattern asks for them."""

    def __init__(self, data: bytes, end: int, number: int) -> None:
        self._data, self._end, self._number = data, end, number
        self._bodies: list[str] = []

    def bodies(self, count: int) -> list[str]:
        position = self._end
        if len(self._bodies) < count:
            self._bodies = []
            for step in range(1, count + 1):
                if position >= len(self._data):
                    break
                stop = self._data.find(b"\n", position + 1)
                stop = len(self._data) if stop < 0 else stop
                self._bodies.append(parse(decode(self._data[position + 1 : stop]), self._number + step).body)
                position = stop
        return self._bodies[:count]


@lru_cache(maxsize=4)
def runner(extra: tuple[Path, ...] = (), reader_anchors: tuple[str, ...] = ()) -> Runner:
    """The runner of this installation's library, with a user's own folders ``extra``. Made once in a process."""
    return Runner(load(extra), reader_anchors, cache=True)
