"""Figures of one device out of an attempt's facts: which ones are its own, and sums of buffers that are printed one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from analyzer.engines.lines import Lines
from analyzer.facts.view import View
from analyzer.model import Fact, Source
from analyzer.model.units import human, to_bytes

#: Sums of rounded figures differ by less.
ROUNDING_BYTES = 64


def gpus(view: View, names: Iterable[str]) -> list[int]:
    """The GPUs that facts of these names are about, in order."""
    wanted = frozenset(names)
    return sorted({fact.gpu for fact in view.facts if fact.name in wanted and fact.gpu is not None})


def of_gpu(view: View, name: str, gpu: int, *, alone: bool) -> list[Fact]:
    """The facts ``name`` of one GPU, in reading order; with ``alone`` also those that name none."""
    return [fact for fact in view.facts if fact.name == name and (fact.gpu == gpu or (alone and fact.gpu is None))]


def of_rank(view: View, name: str, rank: int | None) -> list[Fact]:
    """The facts ``name`` of one rank, in reading order. What no rank signs is rank 0's: a progress bar, a run without parallelism."""
    return [fact for fact in view.facts if fact.name == name and (fact.rank == rank or (fact.rank is None and not rank))]


def pieces(view: View, facts: Sequence[Fact]) -> list[tuple[int, Source]]:
    """(bytes, line) of the buffers that ``facts`` (all of one name and device) stand for.

    Of a name that comes often not every figure is kept as a fact, but their sum is: what the kept ones lack of it is the last piece.
    """
    found = [(fact.bytes, fact.source) for fact in facts if fact.bytes]
    if not found:
        return []
    devices, name = {fact.gpu for fact in facts}, facts[0].name
    whole = 0
    for (known, _, gpu, _, _), kept in view.attempt.facts.items():
        if known == name and gpu in devices:
            whole += to_bytes(kept.total, kept.first.unit) or 0
    rest = whole - sum(size for size, _ in found)
    return [*found, (rest, found[-1][1])] if rest > ROUNDING_BYTES else found


def add_sum(lines: Lines, name: str, found: Sequence[tuple[int, Source]]) -> None:
    """The ledger line ``name`` out of buffers: measured where there is one, else their sum."""
    if len(found) == 1:
        size, source = found[0]
        lines.amount(name, size, source)
    elif found:
        lines.derived(name, sum(size for size, _ in found), " + ".join(human(size) for size, _ in found), found[0][1])


def by_pattern(facts: Iterable[Fact], test: Callable[[str], bool]) -> list[Fact]:
    """The facts whose pattern's id fulfils ``test``."""
    return [fact for fact in facts if test(fact.pattern or "")]
