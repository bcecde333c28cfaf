"""The rules of patterns/redactions.yaml made ready to be run: each one's expressions, and on which lines it is worth trying which."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING

from analyzer.patterns.scan import ANY_CASE, BY_LINE, Scanner

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from analyzer.patterns.model import RedactionRule

# ASCII: a Chinese letter beside an address or a name does not make it part of a word.
_FLAGS = re.MULTILINE | re.ASCII
_LETTER_OR_DIGIT = re.compile(r"[a-z0-9]", re.IGNORECASE)


class Index:
    """What depends on the rules only: where to look, and for which of them. Expressions of rules are compiled when first tried."""

    def __init__(self, rules: Sequence[RedactionRule], *, cache: bool) -> None:
        """``cache``: keep what is compiled between runs."""
        self.rules = [Rule(rule) for rule in rules]
        numbered = sorted({rule.kind for rule in rules if not rule.drop}) or [""]
        dropped = sorted({rule.kind for rule in rules if rule.drop}) or [""]
        self.stand_in = re.compile(
            rf"<(?P<kind>{'|'.join(map(re.escape, numbered))})-(?P<number>\d{{1,9}})>"
            rf"|<(?:{'|'.join(map(re.escape, dropped))}) dropped, \d{{1,12}} characters>",
            re.ASCII,
        )
        signs: dict[tuple[str, int], list[int]] = defaultdict(list)  # (expression, flags) -> places of the rules that it is a sign of
        for kind in numbered:
            signs[f"<{kind}-[0-9]", BY_LINE] = []  # a line whose stand-ins are to be known
        for place, rule in enumerate(rules):
            for anchor in rule.anchors:
                signs[_expression(anchor), BY_LINE | ANY_CASE].append(place)
            for gate in rule.gates:
                signs[gate, BY_LINE | (ANY_CASE if rule.ignore_case else 0)].append(place)
        self._scanner = Scanner([expression for expression, _ in signs], flags=[flags for _, flags in signs], cache=cache)
        self._places = list(signs.values())

    def lines(self, data: bytes) -> Iterator[tuple[int, int, list[int]]]:
        """(start, end, places of the rules worth trying) of every line of ``data`` that may hold something, in order."""
        for start, end, signs in self._scanner.lines(data, len(data), {}):
            yield start, end, sorted({place for sign in signs for place in self._places[sign]})


def _expression(anchor: str) -> str:
    """An anchor as an expression: a literal at the beginning of a word, or anywhere behind a "*"."""
    if anchor[0] == "*" and len(anchor) > 1:
        return re.escape(anchor[1:])
    return f"(?:^|[^A-Za-z0-9]){re.escape(anchor)}" if _LETTER_OR_DIGIT.match(anchor) else re.escape(anchor)


_INDICES: list[tuple[Sequence[RedactionRule], Index]] = []


def index_of(rules: Sequence[RedactionRule]) -> Index:
    """The index of ``rules``: the same one for the same list, of which there are few."""
    for known, made in _INDICES:
        if known is rules:
            return made
    of_a_library = isinstance(rules, tuple)  # a list may change
    made = Index(rules, cache=of_a_library)
    if of_a_library:
        _INDICES[:] = [*_INDICES[-3:], (rules, made)]
    return made


class Rule:
    """A rule, compiled when it is first tried."""

    __slots__ = ("__dict__", "drop", "kind", "rule")

    def __init__(self, rule: RedactionRule) -> None:
        self.rule = rule
        self.kind = rule.kind
        self.drop = rule.drop

    @cached_property
    def _match(self) -> re.Pattern[str]:
        return re.compile(self.rule.match, _FLAGS | (re.IGNORECASE if self.rule.ignore_case else 0))

    @cached_property
    def _keep(self) -> re.Pattern[str] | None:
        return re.compile("|".join(f"(?:{keep})" for keep in self.rule.keep), re.ASCII) if self.rule.keep else None

    @cached_property
    def each(self) -> re.Pattern[str] | None:
        return re.compile(self.rule.each, re.ASCII) if self.rule.each else None

    @cached_property
    def until(self) -> re.Pattern[str] | None:
        return re.compile(self.rule.until, re.ASCII) if self.rule.until else None

    @cached_property
    def _groups(self) -> tuple[int, ...]:
        group = self.rule.group
        if group is None:
            return (0,)
        return tuple(index for name, index in self._match.groupindex.items() if name.rstrip("0123456789") == group)

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """The places of what is to be replaced; where no group has a part in a match, it only looks alike."""
        keep = self._keep
        for match in self._match.finditer(text):
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
