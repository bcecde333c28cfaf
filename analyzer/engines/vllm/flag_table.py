"""The table of vLLM's options and variables (flags.json, made by tools/vllm_flags.py), read once and indexed by release."""

from __future__ import annotations

import json
from bisect import bisect_left
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analyzer.model.versions import base

if TYPE_CHECKING:
    from analyzer.engines.vllm.eras import Where

_DATA = Path(__file__).with_name("flags.json")


@dataclass(frozen=True, slots=True)
class Accepted:
    """Spelling to option (its canonical name and whether it negates it) in one version, and the long spellings in order."""

    spellings: dict[str, tuple[str, bool]]
    long: list[str]


@cache
def data() -> dict[str, Any]:
    """The whole file: ``versions``, ``flags``, ``env``."""
    table: dict[str, Any] = json.loads(_DATA.read_text(encoding="utf-8"))
    return table


def versions() -> tuple[str, ...]:
    """The releases that were read, oldest first."""
    return tuple(data()["versions"])


@cache
def _keys() -> list[Any]:
    return [base(version) for version in versions()]


def _neighbours(version: str) -> tuple[str, ...]:
    """The read release that ``version`` is, else those on both sides of it."""
    wanted, keys, names = base(version), _keys(), versions()
    place = bisect_left(keys, wanted)
    if place < len(keys) and keys[place] == wanted:
        return (names[place],)
    return names[max(0, place - 1) : place + 1]


def resolve(where: Where) -> tuple[str, ...]:
    """The read releases that answer for ``where``, oldest first. ValueError for text that is no version."""
    if where is None:
        return versions()
    if isinstance(where, str):
        return _neighbours(where)
    inside = {version for version in versions() if version in where}
    for bound in (where.low, where.high):
        if bound is not None and (not inside or len(_neighbours(bound)) > 1):
            inside.update(_neighbours(bound))  # the bound is a release that was not read: it may be like the one on either side
    return tuple(version for version in versions() if version in inside)


@cache
def position(version: str) -> int:
    """Where a release that was read stands among them."""
    return versions().index(version)


@cache
def stretches_of_spellings() -> dict[str, list[tuple[int, int, str, bool]]]:
    """For every spelling: first and last release that accepts it, the option it sets, whether it negates it."""
    found: dict[str, list[tuple[int, int, str, bool]]] = {}
    for name, facts in data()["flags"].items():
        if facts.get("never"):
            continue
        first, last = position(facts["first"]), position(facts["last"])
        option = facts.get("alias_of", name)
        found.setdefault(name, []).append((first, last, option, facts.get("negative", False)))
        changes = sorted((position(since), others) for since, others in facts.get("aliases", {}).items())
        for index, (since, others) in enumerate(changes):
            until = changes[index + 1][0] - 1 if index + 1 < len(changes) else last
            for other in others:
                if other != name:
                    found.setdefault(other, []).append((since, until, option, False))
        for kind in ("negation", "negation_alias"):
            if kind in facts:
                found.setdefault(facts[kind], []).append((position(facts[f"{kind}_since"]), last, name, True))
    return found


@cache
def accepted_by(version: str) -> Accepted:
    """What the parser of a release that was read accepts."""
    place = position(version)
    spellings: dict[str, tuple[str, bool]] = {}
    for spelling, stretches in stretches_of_spellings().items():
        for first, last, option, negative in stretches:
            if first <= place <= last:
                spellings.setdefault(spelling, (option, negative))
    return Accepted(spellings, sorted(spelling for spelling in spellings if spelling.startswith("--")))


def value_at(values: dict[str, Any], version: str) -> Any:
    """The value in force at ``version`` out of a map that lists only changes."""
    current = None
    for since, value in values.items():
        if position(since) <= position(version):
            current = value
    return current
