"""The rules of patterns/redactions.yaml made ready to be run: each one's expressions, and where in a text it is worth trying which."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from analyzer.patterns.model import RedactionRule

_LETTER_OR_DIGIT = re.compile(r"[a-z0-9]")


class Index:
    """What depends on the rules only: where to look, and for which of them. Expressions of rules are compiled when first tried."""

    def __init__(self, rules: Sequence[RedactionRule]) -> None:
        self.rules = [Rule(rule, place) for place, rule in enumerate(rules)]
        numbered = sorted({rule.kind for rule in rules if not rule.drop}) or [""]
        dropped = sorted({rule.kind for rule in rules if rule.drop}) or [""]
        self.stand_in = re.compile(
            rf"<(?P<kind>{'|'.join(map(re.escape, numbered))})-(?P<number>\d{{1,9}})>"
            rf"|<(?:{'|'.join(map(re.escape, dropped))}) dropped, \d{{1,12}} characters>"
        )
        word_starts: dict[str, list[int]] = defaultdict(list)
        anywhere: dict[str, list[int]] = defaultdict(list)
        gates: dict[str, list[int]] = defaultdict(list)
        for place, rule in enumerate(rules):
            for anchor in map(str.lower, rule.anchors):
                if anchor[0] == "*" and len(anchor) > 1:
                    anywhere[anchor[1:]].append(place)
                elif _LETTER_OR_DIGIT.match(anchor):
                    word_starts[anchor].append(place)
                else:
                    anywhere[anchor].append(place)
            for gate in rule.gates:
                gates[gate].append(place)
        # The longest literal is found first; where it stands, the ones it begins with stand too.
        self.word_starts = {
            word: [place for other, places in word_starts.items() if word.startswith(other) for place in places] for word in word_starts
        }
        words = _either(word_starts)
        self.words = re.compile(rf"[^a-z0-9](?=({words}))") if words else None
        self.anywhere = list(anywhere.items())
        # Looking for the literal that an expression begins with costs a quarter of trying the expression.
        by_beginning: dict[str, list[tuple[re.Pattern[str], list[int]]]] = defaultdict(list)
        for gate, places in gates.items():
            by_beginning[_beginning(gate)].append((re.compile(gate, re.MULTILINE), places))
        self.gates = list(by_beginning.items())


_INDICES: list[tuple[Sequence[RedactionRule], Index]] = []


def index_of(rules: Sequence[RedactionRule]) -> Index:
    """The index of ``rules``: the same one for the same list, of which there are few."""
    for known, made in _INDICES:
        if known is rules:
            return made
    made = Index(rules)
    if isinstance(rules, tuple):  # a list may change
        _INDICES[:] = [*_INDICES[-3:], (rules, made)]
    return made


class Rule:
    """A rule, compiled when it is first tried."""

    __slots__ = ("__dict__", "drop", "kind", "place", "rule")

    def __init__(self, rule: RedactionRule, place: int) -> None:
        self.rule = rule
        self.place = place
        self.kind = rule.kind
        self.drop = rule.drop

    @cached_property
    def _match(self) -> re.Pattern[str]:
        return re.compile(self.rule.match, re.MULTILINE | (re.IGNORECASE if self.rule.ignore_case else 0))

    @cached_property
    def _keep(self) -> re.Pattern[str] | None:
        return re.compile("|".join(f"(?:{keep})" for keep in self.rule.keep)) if self.rule.keep else None

    @cached_property
    def each(self) -> re.Pattern[str] | None:
        return re.compile(self.rule.each) if self.rule.each else None

    @cached_property
    def until(self) -> re.Pattern[str] | None:
        return re.compile(self.rule.until) if self.rule.until else None

    @cached_property
    def _groups(self) -> tuple[int, ...]:
        group = self.rule.group
        if group is None:
            return (0,)
        return tuple(index for name, index in self._match.groupindex.items() if name.rstrip("0123456789") == group)

    @cached_property
    def _telling(self) -> re.Pattern[str] | None:
        """Those alternatives of the expression that hold the group, where others only look alike and are passed over; else None."""
        group = self.rule.group
        if group is None:
            return None
        parts = _alternatives(self.rule.match)
        telling = [part for part in parts if f"(?P<{group}" in part]
        if not telling or len(telling) == len(parts):
            return None
        return re.compile(f"(?:{'|'.join(telling)})", re.MULTILINE | (re.IGNORECASE if self.rule.ignore_case else 0))

    def _matches(self, text: str) -> Iterator[re.Match[str]]:
        """All matches up to the last one with a group. The alternatives without one are slow to try: only before one that has it."""
        telling = self._telling
        if telling is None:
            yield from self._match.finditer(text)
            return
        position = 0
        while telling.search(text, position):
            match = self._match.search(text, position)
            assert match is not None  # at the place just found at the latest
            yield match
            position = match.end() if match.end() > position else position + 1

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """The places of what is to be replaced; where no group has a part in a match, it only looks alike."""
        keep = self._keep
        for match in self._matches(text):
            for group in self._groups:
                begin, end = match.span(group)
                if begin < 0:
                    continue
                if self.each is None or self.until is not None:
                    inner = [(begin, end)]
                else:
                    inner = [part.span() for part in self.each.finditer(text, begin, end)]
                for span in inner:
                    if keep is None or not keep.fullmatch(text, *span):
                        yield span


def _either(words: Iterable[str]) -> str:
    """An expression for any of ``words``, the longest first, by first letter: most places are left after one comparison a letter."""
    ends: dict[str, list[str]] = defaultdict(list)
    for word in words:
        ends[word[0]].append(re.escape(word[1:]))
    return "|".join(f"{re.escape(first)}(?:{'|'.join(sorted(rest, key=len, reverse=True))})" for first, rest in ends.items())


def _alternatives(expression: str) -> list[str]:
    """The alternatives of ``(?:a|b|…)``, where that is all of the expression; else it alone."""
    if not (expression.startswith("(?:") and expression.endswith(")")):
        return [expression]
    parts, depth, begin, place, in_class = [], 0, 3, 3, False
    while place < len(expression) - 1:
        sign = expression[place]
        if sign == "\\":
            place += 1
        elif in_class:
            in_class = sign != "]"
        elif sign == "[":
            in_class = True
            place += expression[place + 1 : place + 2] == "^"
            place += expression[place + 1 : place + 2] == "]"
        elif sign == "(":
            depth += 1
        elif sign == ")":
            depth -= 1
            if depth < 0:  # the first group ends before the expression does
                return [expression]
        elif sign == "|" and not depth:
            parts.append(expression[begin:place])
            begin = place + 1
        place += 1
    return [*parts, expression[begin:-1]]


def _beginning(expression: str) -> str:
    """The literal that every match of ``expression`` begins with; often there is none."""
    if "|" in re.sub(r"\([^()]*(?:\([^()]*\)[^()]*)*\)|\[[^\]]*\]", "", expression):
        return ""
    literal = re.match(r"(?:[a-z:_-]|\\\.)*(?![?*+{])", expression)
    return literal[0].replace("\\", "") if literal else ""
