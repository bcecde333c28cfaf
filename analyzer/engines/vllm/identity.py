"""The identity ``budget = kv_cache + parts`` forwards (the pool from the parts) and backwards (a missing term from the others).

Terms are whole bytes under the names of the ledger, plus what vLLM prints as sums of them:

- ``torch_peak`` = weights + activation_peak: torch's peak in the profile run (0.6.4 line, V0-A, V0-D, V1-b)
- ``consumed`` = weights + non_torch: what the device lost from the first snapshot to the end of profiling (0.27.0+)
- ``peak_with_graphs`` = activation_peak + graphs_estimated: what 0.27.0+ (and 0.18.x with the estimate on) prints as peak activation
- ``activation_and_non_torch``: the sum that eras without a line for either still give away
- ``non_kv``: everything of the budget that is not the pool
- ``external_weights`` (0.32.0+) is taken off the budget before anything else; absent counts as none
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from analyzer.engines.vllm.eras import Era

Terms = Mapping[str, int]

GRAPHS = "graphs_estimated"

#: Sums that vLLM prints or that can be told, and what is in them.
SUMS: dict[str, frozenset[str]] = {
    "torch_peak": frozenset({"weights", "activation_peak"}),
    "consumed": frozenset({"weights", "non_torch"}),
    "peak_with_graphs": frozenset({"activation_peak", GRAPHS}),
    "activation_and_non_torch": frozenset({"activation_peak", "non_torch"}),
}

#: Largest overdraft, per printed term, that rounding to two decimals of GiB explains: half of 0.01 GiB.
ROUNDING = 2**30 // 200


class MissingTermError(ValueError):
    """A term of the identity is not among those given; ``name`` says which."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the identity needs {name}")
        self.name = name


@dataclass(frozen=True, slots=True)
class Derived:
    """An amount that follows from others: bytes, the formula in the names of its terms, and those names in order."""

    name: str
    bytes: int
    formula: str
    terms: tuple[str, ...]


def budget_bytes(total: int, utilization: float | Fraction, *, up: bool = False) -> int:
    """``total × utilization`` in whole bytes; ``up``: rounded up, as 0.14.0+ does (see eras.rounds_budget_up)."""
    exact = total * _share(utilization)
    return -(-exact.numerator // exact.denominator) if up else exact.numerator // exact.denominator


def _share(utilization: float | Fraction) -> Fraction:
    """The decimal share that was written, e.g. 0.9 as nine tenths and not as the float next to it."""
    return utilization if isinstance(utilization, Fraction) else Fraction(str(utilization))


def parts_of(era: Era, graphs_inside: bool) -> tuple[str, ...]:
    """The terms that the budget of this era holds beside the pool."""
    return (*era.parts, GRAPHS) if graphs_inside else era.parts


def forward(era: Era, terms: Terms, *, graphs_inside: bool) -> int:
    """Bytes left for the KV pool (negative where nothing is) from ``budget`` (or total and utilization worked out before) and the parts.

    A sum stands in for its parts (``torch_peak``, ``consumed`` …). Raises MissingTermError for a term that is neither given nor in a sum.
    """
    if "budget" not in terms:
        raise MissingTermError("budget")
    cover = _cover(frozenset(parts_of(era, graphs_inside)), terms)
    if cover is None:
        raise MissingTermError(next(name for name in parts_of(era, graphs_inside) if name not in terms))
    return terms["budget"] - terms.get("external_weights", 0) - sum(terms[name] for name in cover)


def backward(era: Era, terms: Terms, wanted: str, *, graphs_inside: bool) -> Derived | None:
    """The term ``wanted`` from the others, or None where they do not give it. A term that is given is not looked up but derived anew.

    ``wanted``: kv_cache, budget, a part, or one of SUMS and ``non_kv``. What comes out may be negative: that is for the caller to judge.
    """
    known = {name: value for name, value in terms.items() if name != wanted}
    candidates = list(_equations(era, known, wanted, graphs_inside))
    if not candidates:
        return None
    return min(candidates, key=lambda found: (len(found.terms), found.formula))


def closure(era: Era, terms: Terms, *, graphs_inside: bool) -> int | None:
    """What the budget and its parts are apart, in bytes: 0 where the ledger closes. None where a term is missing."""
    if "kv_cache" not in terms:
        return None
    try:
        return forward(era, terms, graphs_inside=graphs_inside) - terms["kv_cache"]
    except MissingTermError:
        return None


def _equations(era: Era, known: Terms, wanted: str, graphs_inside: bool) -> Iterator[Derived]:
    parts = frozenset(parts_of(era, graphs_inside))
    outer = ("external_weights",) if known.get("external_weights") else ()
    if wanted == "budget":
        cover = _cover(parts, known)
        if cover is not None and "kv_cache" in known:
            yield _plus("budget", ("kv_cache", *cover, *outer), known)
        return
    if wanted == "kv_cache":
        cover = _cover(parts, known)
        if cover is not None and "budget" in known:
            yield _minus("kv_cache", "budget", (*outer, *cover), known)
        return
    if wanted == "non_kv":
        if "budget" in known and "kv_cache" in known:
            yield _minus("non_kv", "budget", (*outer, "kv_cache"), known)
        return
    inside = SUMS.get(wanted, frozenset({wanted}))
    if wanted in SUMS:
        cover = _cover(inside, known)
        if cover is not None:
            yield _plus(wanted, cover, known)
    for name, members in SUMS.items():
        if name in known and inside < members:
            cover = _cover(members - inside, known)
            if cover is not None:
                yield _minus(wanted, name, cover, known)
    if inside <= parts and "budget" in known and "kv_cache" in known:
        cover = _cover(parts - inside, known)
        if cover is not None:
            yield _minus(wanted, "budget", (*outer, "kv_cache", *cover), known)


def _cover(parts: frozenset[str], known: Terms) -> tuple[str, ...] | None:
    """Known terms that make up exactly ``parts``, each part once; the fewest possible. None where there are none."""
    if not parts:
        return ()
    first = min(parts, key=_place)
    best: tuple[str, ...] | None = None
    for name, members in [*((sole, frozenset({sole})) for sole in (first,)), *SUMS.items()]:
        if name in known and first in members and members <= parts:
            rest = _cover(parts - members, known)
            if rest is not None and (best is None or len(rest) + 1 < len(best)):
                best = (name, *rest)
    return best


_ORDER = ("weights", "non_torch", "activation_peak", GRAPHS)


def _place(name: str) -> int:
    return _ORDER.index(name)


def _plus(name: str, terms: tuple[str, ...], known: Terms) -> Derived:
    return Derived(name, sum(known[term] for term in terms), " + ".join(terms), terms)


def _minus(name: str, whole: str, terms: tuple[str, ...], known: Terms) -> Derived:
    return Derived(name, known[whole] - sum(known[term] for term in terms), " − ".join((whole, *terms)), (whole, *terms))
