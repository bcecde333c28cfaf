"""Secrets, addresses and prompts out of a text, by the rules of patterns/redactions.yaml.

Everything that is stored or shown comes through here. The rules are data (:class:`analyzer.patterns.model.RedactionRule`); this
module only knows how to run them fast:

* One scan of the text for the rules' anchors and gates finds the few lines that may hold something, and the rules worth trying there.
  Expressions are compiled when they are first needed, as most runs need a handful of them.
* A line is matched as it stands, all rules beside each other; overlapping finds become one; then each find is replaced by a numbered
  stand-in. The same secret is the same stand-in as long as the Redactor lives, so two addresses that differ still differ.
* This is repeated until nothing is found any more, so cleaning what is clean changes nothing.
"""

from __future__ import annotations

import re
from collections import defaultdict
from contextlib import contextmanager
from typing import TYPE_CHECKING

from analyzer.intake.redaction_rules import index_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from analyzer.intake.redaction_rules import Rule
    from analyzer.patterns.model import RedactionRule

#: Rounds over a line until it is settled. One finds everything, the second sees that; more are for text made to need them.
_ROUNDS = 8
#: Texts of up to so many characters, and so many of them, are remembered as they were cleaned.
_KNOWN_TEXT, _KNOWN_TEXTS = 1 << 14, 1 << 10
#: A block (a private key) is given up after so many lines, or so many in a row that are none of its.
_BLOCK_LINES, _STRANGERS = 512, 3

# Colour codes and the escapes of a quoted text (\n in a JSON log) would hide where a word begins. Blank for the search, kept in the text.
_COLOUR = re.compile(r"\x1b\[[0-9;?]{0,40}[A-Za-z]")
_CARET_COLOUR = re.compile(r"\^\[\[[0-9;]{0,40}m")
_ESCAPE = re.compile(r"\\(?:(?<!:\\)(?<!:\\\\)[nrt]|(?:u001b|x1b|033)\[[0-9;]{0,40}m)")
# Where the text quotes a path its separators are doubled; what is not is an escape.
_LONE_ESCAPE = re.compile(r"(?<!\\)\\[nrt]")
#: So many stand-ins that came with texts are told from each other, of one kind.
_BROUGHT = 100_000

_Span = tuple[int, int, int]  # begin, end, place of the rule
_Marked = tuple[int, int, list[int]]  # begin and end of a line, in bytes; places of the rules worth trying there


class Redactor:
    """Cleans text, and remembers which stand-in a secret got.

    ``rules``: those of the library, the more telling ones first; of two that find the same piece, the earlier one names it.
    Not for use by several threads at once.
    """

    def __init__(self, rules: Sequence[RedactionRule]) -> None:
        index = index_of(rules)
        self._rules = index.rules
        self._stand_in = index.stand_in
        self._lines = index.lines
        self._known: dict[str, str] = {}  # texts that were cleaned: their stand-ins stay what they are
        self._numbers: dict[tuple[str, str], int] = {}
        self._last: dict[str, int] = {}
        self._brought: dict[str, set[int]] = defaultdict(set)  # numbers of stand-ins that texts held when they came

    def clean(self, text: str) -> str:
        """``text`` redacted; the number of its lines stays. Cleaning the lines one by one gives the same, except within a private key.

        The time grows linearly with the text, whatever it holds. Clean text comes back as it is, and so does ``clean(clean(text))``.
        """
        known = self._known.get(text)
        if known is not None:
            return known
        cleaned = self._clean(text, _Block())
        if len(text) <= _KNOWN_TEXT and len(self._known) < _KNOWN_TEXTS:
            self._known[text] = cleaned  # a report shows the same long line for many of its figures
        return cleaned

    def prime(self, text: str) -> None:
        """Take note of the numbered stand-ins that an already redacted text holds, so that new ones get other numbers."""
        for found in self._stand_in.finditer(text):
            if found["kind"]:
                number = int(found["number"])
                if len(self._brought[found["kind"]]) < _BROUGHT:
                    self._brought[found["kind"]].add(number)
                self._last[found["kind"]] = max(self._last.get(found["kind"], 0), number)

    def renumbering(self, shown: Redactor) -> Callable[[str], str] | None:
        """What gives a text that was cleaned here the stand-ins that ``shown`` gave to the same secrets; None where they agree.

        A secret that ``shown`` has not seen, and a stand-in that the text brought along, keep their number unless it is taken.
        """
        taken: dict[str, set[int]] = defaultdict(set)
        for (kind, _), number in shown._numbers.items():
            taken[kind].add(number)
        last = {kind: max(self._last.get(kind, 0), shown._last.get(kind, 0)) for kind in {*self._last, *shown._last}}
        changed: dict[str, str] = {}
        mine: dict[str, set[int]] = defaultdict(set)
        free = []
        for (kind, value), number in self._numbers.items():
            mine[kind].add(number)
            wanted = shown._numbers.get((kind, value))
            if wanted is None:
                free.append((kind, number))
            elif wanted != number:
                changed[f"<{kind}-{number}>"] = f"<{kind}-{wanted}>"
        for kind, numbers in self._brought.items():
            seen = shown._brought.get(kind, set())
            free += [(kind, number) for number in sorted(numbers - mine[kind] - seen)]
        for kind, number in free:
            if number in taken[kind]:
                last[kind] += 1
                changed[f"<{kind}-{number}>"] = f"<{kind}-{last[kind]}>"
        if not changed:
            return None
        return lambda text: self._stand_in.sub(lambda found: changed.get(found[0], found[0]), text)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """What is cleaned within leaves no trace: a stand-in given there is free again afterwards."""
        numbers, last = self._numbers.copy(), self._last.copy()
        brought = {kind: seen.copy() for kind, seen in self._brought.items()}
        known, self._known = self._known, {}
        try:
            yield
        finally:
            self._numbers, self._last, self._brought = numbers, last, defaultdict(set, brought)
            self._known = known

    # --- where to look -----------------------------------------------------------------------------------------------------------

    def _clean(self, text: str, block: _Block) -> str:
        masked = _masked(text)
        data = _encoded(masked)
        marked = list(self._lines(data))
        if not marked and block.rule is None:
            return text
        if masked is not text:
            data = _encoded(text)
        if block.rule is None and len(marked) > 1 and "-----" not in text:
            cleaned = self._at_once(data, marked)
            if cleaned is not None:
                return cleaned
        pieces: list[bytes] = []
        done = 0  # data up to here is in pieces
        for begin, end, candidates in self._within(data, marked, block):
            line = _decoded(data[begin:end])
            if block.rule is not None:
                line = block.line(line)
                candidates = self._candidates(line)
            elif candidates and "-----" in line:
                block.open(line, [self._rules[which] for which in candidates])
            pieces += [data[done:begin], _encoded(self._line(line, candidates))]
            done = end
        return _decoded(b"".join([*pieces, data[done:]]))

    @staticmethod
    def _within(data: bytes, marked: Iterable[_Marked], block: _Block) -> Iterator[_Marked]:
        """The lines of ``marked``, and, as long as ``block`` is open, every other one."""
        done = 0
        for begin, end, candidates in marked:
            while block.rule is not None and done < begin:
                stop = data.index(b"\n", done)
                yield done, stop, []
                done = stop + 1
            yield begin, end, candidates
            done = end + 1
        while block.rule is not None and done < len(data):
            stop = data.find(b"\n", done)
            stop = len(data) if stop < 0 else stop
            yield done, stop, []
            done = stop + 1

    def _at_once(self, data: bytes, marked: Iterable[_Marked]) -> str | None:
        """One round over every line, and one look at all that it changed: mostly nothing is left to do. None, and no trace, where it is."""
        before = self._numbers.copy(), self._last.copy(), {kind: seen.copy() for kind, seen in self._brought.items()}
        pieces: list[bytes] = []
        changed: list[bytes] = []
        done = 0
        for begin, end, candidates in marked:
            line = _decoded(data[begin:end])
            if "<" in line:
                self.prime(line)
            spans = self._spans(_masked(line), candidates)
            if spans:
                changed.append(_encoded(self._replaced(line, spans)))
                pieces += [data[done:begin], changed[-1]]
                done = end
        if not changed:
            return _decoded(data)
        if self._finds(_decoded(b"\n".join(changed))):
            self._numbers, self._last, self._brought = before[0], before[1], defaultdict(set, before[2])
            return None
        return _decoded(b"".join([*pieces, data[done:]]))

    def _finds(self, text: str) -> bool:
        """Whether something is to be replaced in ``text``."""
        data = _encoded(_masked(text))
        return any(self._spans(_decoded(data[begin:end]), candidates) for begin, end, candidates in self._lines(data))

    def _candidates(self, line: str) -> list[int]:
        """The places of the rules worth trying on one line."""
        return [place for _, _, places in self._lines(_encoded(_masked(line))) for place in places]

    # --- one line ----------------------------------------------------------------------------------------------------------------

    def _line(self, line: str, candidates: Sequence[int]) -> str:
        if "<" in line:
            self.prime(line)
        for _ in range(_ROUNDS):
            spans = self._spans(_masked(line), candidates)
            if not spans:
                break
            line = self._replaced(line, spans)
            candidates = self._candidates(line)
        return line

    def _replaced(self, line: str, spans: Sequence[_Span]) -> str:
        pieces = []
        done = 0
        for begin, end, place in spans:
            pieces += [line[done:begin], self._replacement(self._rules[place], line[begin:end])]
            done = end
        return "".join([*pieces, line[done:]])

    def _spans(self, masked: str, candidates: Iterable[int]) -> list[_Span]:
        """What to replace, by position, without overlaps."""
        found: list[_Span] = [(begin, end, place) for place in candidates for begin, end in self._rules[place].find(masked) if begin < end]
        if not found:
            return []
        stand_ins = [match.span() for match in self._stand_in.finditer(masked)] if "<" in masked else []
        found.sort()
        if stand_ins:
            found = _beside(found, stand_ins)
        merged: list[_Span] = []
        for span in found:
            if merged and span[0] < merged[-1][1]:
                begin, end, place = merged[-1]
                merged[-1] = (begin, max(end, span[1]), min(place, span[2]))
            else:
                merged.append(span)
        return merged

    def _replacement(self, rule: Rule, value: str) -> str:
        if rule.drop:
            return f"<{rule.kind} dropped, {len(value)} characters>"
        # An address is the same one however its letters are written, and within a host name (ip-10-0-0-1).
        same = (rule.kind, value.lower().replace("-", ".") if rule.kind == "ip" else value)
        number = self._numbers.get(same)
        if number is None:
            number = self._last[rule.kind] = self._last.get(rule.kind, 0) + 1
            self._numbers[same] = number
        return f"<{rule.kind}-{number}>"


def redact_lines(redactor: Redactor, lines: Iterable[str]) -> Iterator[str]:
    """``lines`` redacted one by one, line ends kept: any length in little memory. A private key may run over many lines."""
    block = _Block()
    for line in lines:
        yield redactor._clean(line, block)


class _Block:
    """Whether a block that runs over lines is open, and what of a line belongs to it."""

    def __init__(self) -> None:
        self.rule: Rule | None = None
        self._lines = self._strangers = 0

    def open(self, line: str, rules: Iterable[Rule]) -> None:
        """Open where the last beginning of a block in ``line`` has no end behind it."""
        for rule in rules:
            if rule.until is not None:
                begin = max((end for _, end in rule.find(line)), default=-1)
                if begin == len(line) and not rule.until.search(line):
                    self.rule, self._lines, self._strangers = rule, 0, 0

    def line(self, line: str) -> str:
        """The next line, its part of the block dropped. Other processes may print between the lines of a block."""
        rule = self.rule
        assert rule is not None and rule.until is not None and rule.each is not None  # noqa: PT018 - one condition: open() checks it
        self._lines += 1
        closing = rule.until.search(line)
        if closing:
            self.rule = None
            return f"<{rule.kind} dropped, {closing.end()} characters>{line[closing.end() :]}"
        part = rule.each.search(line)
        self._strangers = 0 if part else self._strangers + 1
        if self._lines >= _BLOCK_LINES or self._strangers >= _STRANGERS:
            self.rule = None
        if not part:
            return line
        begin, end = part.span(part.lastgroup or 0)
        return f"{line[:begin]}<{rule.kind} dropped, {end - begin} characters>{line[end:]}" if begin < end else line


def _beside(found: Sequence[_Span], stand_ins: Sequence[tuple[int, int]]) -> list[_Span]:
    """``found`` without what lies in a stand-in; what cuts one takes all of it. Both by position."""
    left: list[_Span] = []
    first = 0
    for begin, end, place in found:
        while first < len(stand_ins) and stand_ins[first][1] <= begin:
            first += 1
        inside = False
        for low, high in stand_ins[first:]:
            if low >= end:
                break
            if low <= begin and end <= high:
                inside = True
                break
            begin, end = min(begin, low), max(end, high)  # the span grows
        if not inside:
            left.append((begin, end, place))
    return sorted(left)


def _masked(text: str) -> str:
    """``text`` with colour codes and escaped white space blanked, character for character."""
    if "\x1b" in text:
        text = _COLOUR.sub(_blank, text)
    if "^[[" in text:
        text = _CARET_COLOUR.sub(_blank, text)
    if "\\Users" in text:  # on its own line \n, \r and \t begin the names of folders
        if "\n" in text:
            return "\n".join(map(_masked, text.split("\n")))
        return _LONE_ESCAPE.sub(_blank, text) if "\\\\Users" in text else text
    return _ESCAPE.sub(_blank, text) if "\\" in text else text


def _blank(found: re.Match[str]) -> str:
    return " " * len(found[0])


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")  # half a pair, which JSON may hold, is kept


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")
