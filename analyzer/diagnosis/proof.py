"""Lines that belong to a cause's proof because the library says so, and those that a rule over dumps adds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analyzer.model import Source, State

if TYPE_CHECKING:
    from analyzer.diagnosis.verdict import Verdict
    from analyzer.facts.view import View
    from analyzer.patterns.model import Library

#: Lines of one sign.
LINES_SHOWN = 2
#: Families of causes, and the figures of log and documents that belong to their proof; the smallest of a family's is shown.
FIGURES = {"ray": ("ray.gpus_used",), "checkpoint": ("file.size",)}


def signs(view: View, verdict: Verdict, library: Library) -> list[Source]:
    """The lines of the signs that the cause names, and of those that tell the cause it replaced."""
    found: list[Source] = []
    for name in (verdict.cause, verdict.follows):
        cause = library.causes.get(name or "")
        for identifier in cause.signs if cause is not None else ():
            sign = view.attempt.signs.get(identifier)
            if sign is not None:
                found += [view.source(place) for place, _ in sign.seen[:LINES_SHOWN]]
    return found


#: Signs whose groups a sentence may name: nothing personal.
NAMED = (("linux.socket_owner", "pid"), ("linux.socket_owner", "port"))


def named(view: View) -> dict[str, str]:
    """What signs say, by placeholder: the pattern's id and the group."""
    found: dict[str, str] = {}
    for name, group in NAMED:
        sign = view.attempt.signs.get(name)
        if sign is not None and sign.values(group):
            found[f"{name.replace('.', '_')}_{group}"] = sign.values(group)[0]
    return found


def figures(view: View, verdict: Verdict) -> list[Source]:
    """The lines with the figures of the family, smallest first: the file that is too short, the GPUs that Ray counts."""
    names = FIGURES.get((verdict.cause or "").split(".")[0], ())
    facts = [fact for fact in view.facts if fact.name in names and isinstance(fact.value, (int, float))]
    facts.sort(key=lambda fact: float(fact.bytes or fact.value))
    return [fact.source for fact in facts[:2]]


def dead_workers(view: View, verdict: Verdict) -> list[Source]:
    """The rows of a later dump that show this start's processes still on the cards (orphans.py says when)."""
    from analyzer.diagnosis.orphans import left_behind

    return [orphan.source for orphan in left_behind(view, verdict)][:2] if verdict.state is State.FAILED else []
