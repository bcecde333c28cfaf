"""vLLM's command line options and environment variables by version, from the table in flag_table.py.

``where`` is a version, a range or None (all versions). A version between two that were read (development builds, the few releases
that were not available) is answered for by both neighbours; one newer than the last by the last.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any

from analyzer.engines.vllm.flag_table import accepted_by, data, position, resolve, stretches_of_spellings, value_at, versions
from analyzer.model.text import Text
from analyzer.model.versions import base

if TYPE_CHECKING:
    from analyzer.engines.vllm.eras import Where


class Kind(StrEnum):
    """What becomes of an option on the command line of a version."""

    OK = "ok"  # accepted as written
    ABBREVIATION = "abbreviation"  # accepted, but as a longer option that it begins
    AMBIGUOUS = "ambiguous"  # rejected: it begins several options
    REMOVED = "removed"  # rejected: it was there before
    RENAMED = "renamed"  # rejected: the same option has another name now
    NOT_YET = "not_yet"  # rejected: it came later
    NEVER = "never"  # rejected: popular, but never an option of the server
    UNKNOWN = "unknown"  # not in the table

    @property
    def accepted(self) -> bool:
        """Whether the parser takes it."""
        return self in (Kind.OK, Kind.ABBREVIATION)


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of ``flag``.

    ``since``, ``until``: first and last release that have it as it is written; ``deprecated``: the release from which it warns.
    ``instead``: what to write in this version where that is one option, or what it is read as (ABBREVIATION). ``candidates``: the options
    that it begins (AMBIGUOUS). ``sure``: all versions asked about agree; else this is the fate in the newest of them.
    """

    flag: str
    kind: Kind
    since: str | None = None
    until: str | None = None
    deprecated: str | None = None
    instead: str | None = None
    candidates: tuple[str, ...] = ()
    note: Text | None = None
    sure: bool = True


@dataclass(frozen=True, slots=True)
class Default:
    """What the parser holds when an option is not given; ``computed``: an expression of the source, not a literal."""

    value: Any
    computed: bool = False


def canonical(flag: str) -> str:
    """``flag`` as the table writes it, without value or key: ``--max_model_len=8`` is ``--max-model-len``, ``-O3`` is ``-O``."""
    name = flag.strip().split("=", 1)[0]
    if not name.startswith("--"):
        return "-O" if name.startswith("-O") else name.split(".", 1)[0]
    return "--" + name[2:].split(".", 1)[0].replace("_", "-")


def _entry(flag: str) -> dict[str, Any] | None:
    found: dict[str, Any] | None = data()["flags"].get(flag)
    return found


def _beginning(flag: str, version: str) -> tuple[str, ...]:
    """The long options that ``flag`` begins, as argparse completes them."""
    long = accepted_by(version).long
    place = bisect_left(long, flag)
    found = []
    while place < len(long) and long[place].startswith(flag):
        found.append(long[place])
        place += 1
    return tuple(found)


def exists(flag: str, where: Where) -> bool:
    """Whether every version of ``where`` accepts ``flag`` as it is written (aliases and negations count, abbreviations do not)."""
    return all(canonical(flag) in accepted_by(version).spellings for version in resolve(where))


def exists_somewhere(flag: str, where: Where) -> bool:
    """Whether at least one version of ``where`` accepts ``flag`` as it is written."""
    return any(canonical(flag) in accepted_by(version).spellings for version in resolve(where))


def option_of(flag: str, where: Where) -> tuple[str, bool] | None:
    """The option that ``flag`` sets (its long name) and whether it switches it off: aliases, negations and abbreviations resolved.

    None where no version of ``where`` accepts it or they disagree.
    """
    name = canonical(flag)
    found: set[tuple[str, bool]] = set()
    for version in resolve(where):
        spellings = accepted_by(version).spellings
        if name in spellings:
            found.add(spellings[name])
        elif name.startswith("--") and len(begun := _beginning(name, version)) == 1:
            found.add(spellings[begun[0]])
    return found.pop() if len(found) == 1 else None


def fate(flag: str, where: Where) -> Fate:
    """What becomes of ``flag`` in ``where``; where its versions disagree, in the newest, with ``sure`` False."""
    name = canonical(flag)
    fates = [_fate(name, version) for version in resolve(where)]
    newest = fates[-1]
    if all((one.kind, one.instead) == (newest.kind, newest.instead) for one in fates):
        return newest
    return Fate(
        newest.flag,
        newest.kind,
        newest.since,
        newest.until,
        newest.deprecated,
        newest.instead,
        newest.candidates,
        newest.note,
        sure=False,
    )


@cache
def _fate(name: str, version: str) -> Fate:
    accepted = accepted_by(version).spellings
    facts = _entry(name)
    since, until = _life(name)
    note = _note(facts)
    deprecated = facts.get("deprecated_in") if facts else None
    if deprecated and position(deprecated) > position(version):
        deprecated = None
    if name in accepted:
        return Fate(name, Kind.OK, since, until, deprecated, note=note)
    begun = _beginning(name, version) if name.startswith("--") and len(name) > 2 else ()
    if len(begun) == 1:
        return Fate(name, Kind.ABBREVIATION, since, until, instead=begun[0], candidates=begun, note=note)
    instead = spelled(name, version) or _successor(name, version) or _negation(name, version)
    if begun:
        return Fate(name, Kind.AMBIGUOUS, since, until, instead=instead, candidates=begun, note=note)
    if facts and facts.get("never"):
        return Fate(name, Kind.NEVER, instead=instead, note=note)
    if since is None or until is None:
        return Fate(name, Kind.UNKNOWN)
    if position(version) < position(since):
        return Fate(name, Kind.NOT_YET, since, until, instead=instead, note=note)
    kind = Kind.RENAMED if spelled(name, version) else Kind.REMOVED
    return Fate(name, kind, since, until, deprecated, instead, note=note)


def _life(name: str) -> tuple[str | None, str | None]:
    """First and last read release that accepts ``name`` (there may be a gap between); None, None for one that none accepts."""
    stretches = stretches_of_spellings().get(name)
    if not stretches:
        return None, None
    return versions()[min(first for first, *_ in stretches)], versions()[max(last for _, last, *_ in stretches)]


def _note(facts: dict[str, Any] | None) -> Text | None:
    return Text(*facts["note"]) if facts and "note" in facts else None


def _successor(name: str, version: str) -> str | None:
    facts = _entry(name)
    following = facts.get("replaced_by") if facts else None
    return following if following and following in accepted_by(version).spellings else None


def _negation(name: str, version: str) -> str | None:
    """Where ``name`` is a later way to switch an option off: the way of this version."""
    options = {option for _, _, option, negative in stretches_of_spellings().get(name, []) if negative}
    return switched_off(options.pop(), version) if len(options) == 1 else None


@cache
def _same(name: str) -> tuple[str, ...]:
    """Every name that an option has had, this one first: what changed was the name alone."""
    names = [name]
    for current in names:
        for old, facts in data()["flags"].items():
            if facts.get("renamed"):
                new = facts["replaced_by"]
                names += [other for one, other in ((old, new), (new, old)) if one == current and other not in names]
    return tuple(names)


def spelled(flag: str, where: Where) -> str | None:
    """The long option as this version spells it: itself, its full form, or the name it had or has there. None where it has no counterpart.

    Over a range: the spelling that all its versions accept.
    """
    found = {_spelled(canonical(flag), version) for version in resolve(where)}
    return found.pop() if len(found) == 1 else None


def _spelled(name: str, version: str) -> str | None:
    spellings = accepted_by(version).spellings
    if name in spellings:
        option, negative = spellings[name]
        return name if negative or option not in spellings else option
    return next((other for other in _same(name) if other in spellings), None)


def switched_off(flag: str, where: Where) -> str | None:
    """The spelling that switches the yes/no option ``flag`` off (``--no-enable-prefix-caching``), None where a version has none."""
    name = canonical(flag)
    found = set()
    for version in resolve(where):
        negative = sorted(
            (spelling for spelling, (option, off) in accepted_by(version).spellings.items() if option == name and off),
            key=lambda spelling: (not spelling.startswith("--no-"), spelling),
        )
        found.add(negative[0] if negative else None)
    return found.pop() if len(found) == 1 else None


def _agreed(flag: str, key: str, where: Where) -> list[Any] | None:
    """The one value of ``key`` in all versions of ``where``, in a list as it may be None; None where they differ or lack the option."""
    found: list[Any] = []
    for version in resolve(where):
        accepted = accepted_by(version).spellings.get(canonical(flag))
        facts = _entry(accepted[0]) if accepted else None
        if facts is None or key not in facts:
            return None
        value = value_at(facts[key], version)
        if found and found[0] != value:
            return None
        found = [value]
    return found


def default(flag: str, where: Where) -> Default | None:
    """What the parser holds for ``flag`` when it is not given; None where the versions differ or one lacks it.

    A value of None means that the engine works it out (see defaults.py).
    """
    found = _agreed(flag, "default", where)
    if found is None:
        return None
    value = found[0]
    return Default(value, isinstance(value, str) and value.startswith("<"))


def choices(flag: str, where: Where) -> tuple[Any, ...] | None:
    """The values that the parser accepts, None where it takes any (or the versions differ)."""
    found = _agreed(flag, "choices", where)
    return None if found is None or found[0] is None else tuple(found[0])


def takes(flag: str, value: object, where: Where) -> bool:
    """Whether every version of ``where`` that lists the values of ``flag`` lists ``value``."""
    listed = (choices(flag, version) for version in resolve(where))
    return all(values is None or value in values for values in listed)


def takes_since(flag: str, value: object, where: Where) -> str | None:
    """The release from which on the parser takes ``value``, up to the newest of ``where``; None: no bound is known."""
    newest = resolve(where)[-1]
    accepted = accepted_by(newest).spellings.get(canonical(flag))
    listed = (_entry(accepted[0]) or {}).get("choices") if accepted else None
    first = None
    for since, values in reversed((listed or {}).items()):
        if position(since) > position(newest):
            continue
        if values is not None and value not in values:
            return first
        first = since
    return None


def known_values(flag: str, where: Where) -> tuple[Any, ...] | None:
    """Choices, or where the parser takes anything the values that the engine knows."""
    enforced = choices(flag, where)
    if enforced is not None:
        return enforced
    found = _agreed(flag, "known_values", where)
    return None if found is None or found[0] is None else tuple(found[0])


def takes_value(flag: str, where: Where) -> bool | None:
    """Whether a value follows ``flag``; None where the versions differ or the option is unknown."""
    found = _agreed(flag, "no_value", where)
    return None if found is None or found[0] is None else not found[0]


def known(variable: str, where: Where = None) -> bool | None:
    """Whether the engine reads the environment variable in every version of ``where``.

    None where versions differ or the table leaves it open (before 0.4.2 the variables were not listed).
    """
    found = {_known(variable, version) for version in resolve(where)}
    return found.pop() if len(found) == 1 else None


def _known(variable: str, version: str) -> bool | None:
    facts = data()["env"].get(variable)
    if facts is None:
        return False if base(version) >= base("0.4.2") else None
    if base(version) < base(facts["first"]):
        return None if base(facts["first"]) <= base("0.4.2") else False
    if "absent_between" in facts and base(facts["absent_between"][0]) <= base(version) <= base(facts["absent_between"][1]):
        return None
    return base(version) <= base(facts["last"])


def variable_fate(variable: str, where: Where) -> Fate:
    """As ``fate``, for an environment variable. One that is not read is ignored without a word, not rejected."""
    facts = data()["env"].get(variable)
    if facts is None:
        return Fate(variable, Kind.UNKNOWN)
    kinds = []
    for version in resolve(where):
        before = base(version) < base(facts["first"])
        there = _known(variable, version) is not False
        kinds.append(Kind.OK if there else Kind.NOT_YET if before else Kind.REMOVED)
    return Fate(
        variable,
        kinds[-1],
        facts["first"],
        facts["last"],
        instead=facts.get("replaced_by"),
        note=_note(facts),
        sure=len(set(kinds)) == 1,
    )


def variable_default(variable: str, where: Where) -> Default | None:
    """The value in force when the variable is not set; None where versions differ or do not read it."""
    facts = data()["env"].get(variable)
    if facts is None or known(variable, where) is not True:
        return None
    values = [value_at(facts["default"], version) for version in resolve(where)]
    if any(value != values[0] for value in values):
        return None
    return Default(values[0], isinstance(values[0], str) and values[0].startswith("<"))


__all__ = [
    "Default",
    "Fate",
    "Kind",
    "canonical",
    "choices",
    "default",
    "exists",
    "exists_somewhere",
    "fate",
    "known",
    "known_values",
    "option_of",
    "resolve",
    "spelled",
    "switched_off",
    "takes_value",
    "variable_default",
    "variable_fate",
    "versions",
]
