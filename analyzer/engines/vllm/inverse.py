"""The solver that turns the identity around: which utilization (or pool) a wanted KV size asks for, and whether the card allows it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from analyzer.engines.vllm.eras import Era, Others
from analyzer.engines.vllm.identity import budget_bytes

#: Utilization is proposed in steps of one hundredth.
STEP = Fraction(1, 100)

#: Kept free by vLLM's own suggestion of a pool size (``vllm/v1/worker/gpu_worker.py``, 0.10.2+).
SUGGESTION_MARGIN = 150 * 2**20


@dataclass(frozen=True, slots=True)
class Window:
    """The utilizations, in hundredths, that fit: ``low`` gives the pool what it needs, ``high`` is the most that the card allows.

    ``feasible``: low <= high. ``limit`` names what sets the upper end: ``free0`` (start check, other processes), ``graphs`` (room outside
    the budget), ``total``. ``verified``: every figure that the upper end depends on was given.
    """

    low: float
    high: float
    feasible: bool
    limit: str
    verified: bool


def budget_needed(budget: int, kv_cache: int, kv_needed: int) -> int:
    """The budget with which the pool would be ``kv_needed``: everything else of it stays as measured. Bytes; all eras."""
    return budget - kv_cache + kv_needed


def utilization_up(total: int, budget: int) -> float:
    """The smallest hundredth whose budget is at least ``budget``; may be above 1. ValueError for a total that is not positive."""
    return float(_hundredths(total, budget, up=True) * STEP)


def utilization_down(total: int, budget: int) -> float:
    """The largest hundredth whose budget is at most ``budget``; never below 0. ValueError for a total that is not positive."""
    return float(max(0, _hundredths(total, budget, up=False)) * STEP)


def _hundredths(total: int, budget: int, *, up: bool) -> int:
    if total <= 0:
        raise ValueError(f"a card of {total} bytes has no share")
    return -(-100 * budget // total) if up else 100 * budget // total


def utilization_needed(total: int, budget: int, kv_cache: int, kv_needed: int) -> float:
    """The smallest utilization, in hundredths, that leaves ``kv_needed`` for the pool: ``(budget − kv_cache + kv_needed) / total``, up.

    All eras: raising the share raises the budget and nothing else of the identity. ``kv_cache`` may be negative (nothing was left).
    """
    return utilization_up(total, budget_needed(budget, kv_cache, kv_needed))


def kv_at(total: int, utilization: float, budget: int, kv_cache: int) -> int:
    """Bytes of the pool at another utilization, everything else as measured: ``total × utilization − (budget − kv_cache)``."""
    return budget_bytes(total, utilization) - (budget - kv_cache)


def room_outside(era: Era, total: int, budget: int, free0: int | None) -> int | None:
    """Bytes of the card beyond the budget that this instance can still take (graphs where they are outside, warm-up, late buffers).

    Where other processes count as this instance's own (V0-B, V0-D, V1-b) that is ``total − budget``; else ``free0 − budget``, and None
    without free0. Negative: the card cannot give the budget.
    """
    if era.others is Others.COUNTED:
        return total - budget
    return None if free0 is None else free0 - budget


def utilization_window(
    era: Era,
    *,
    total: int,
    budget: int,
    kv_cache: int,
    kv_needed: int,
    free0: int | None,
    graphs_outside: int | None,
) -> Window:
    """The window of utilization in which the start works.

    ``budget``, ``kv_cache``: as measured at the utilization that was used; ``kv_needed``: what the pool has to hold. ``free0``: free memory
    at vLLM's first snapshot, the bound of the start check (V1, 0.9.1+) and of what the card can give in every era but those that
    count other processes as their own. ``graphs_outside``: bytes that graphs take beyond the budget, 0 where they are inside or off,
    None where unknown (the window is then not verified).
    """
    low = utilization_needed(total, budget, kv_cache, kv_needed)
    outside = graphs_outside or 0
    bounds = {"total": total - outside if era.others is Others.COUNTED else total}
    if era.others is not Others.COUNTED and free0 is not None:
        bounds["free0"] = free0 - outside
    limit = min(bounds, key=lambda name: (bounds[name], name != "free0"))
    high = utilization_down(total, min(bounds[limit], total))
    if outside and (limit == "total" or (free0 is not None and utilization_down(total, min(free0, total)) > high)):
        limit = "graphs"
    verified = graphs_outside is not None and (free0 is not None or era.others is Others.COUNTED)
    return Window(low, high, low <= high, limit, verified)


def utilization_for_free(total: int, free0: int) -> float:
    """The largest hundredth that passes the start check ``free0 >= total × utilization`` (V1, 0.9.1+): ``free0 / total``, down."""
    return utilization_down(total, min(free0, total))


def equivalent_utilization_gap(total: int, utilization: float, equivalent: float) -> int:
    """The graph estimate out of the profiler's note (0.18.0+): ``|utilization − equivalent| × total``, exact to ±0.00005 × total."""
    return budget_bytes(total, abs(Fraction(str(utilization)) - Fraction(str(equivalent))))


def pinned_room(free0: int, kv_cache: int, *, weights: int, activation_peak: int = 0, non_torch: int = 0, graphs: int = 0) -> int:
    """Bytes left on the card with the pool set by hand (--kv-cache-memory-bytes, 0.10.2+): below 0 it runs out of memory.

    The utilization does not size the pool then, and nothing protects the other terms.
    """
    return free0 - kv_cache - weights - activation_peak - non_torch - graphs


def suggested_pool(limit: int, non_kv: int, graphs_actual: int) -> int:
    """The pool that vLLM's usage summary proposes: ``limit − non_kv − graphs − 150 MiB``; ``limit``: the budget, or free0 (whole card).

    (0.10.2+.) In 0.18.x with the estimate on, and in 0.27.0+, ``non_kv`` as summed there holds the graph estimate already, so the proposal
    is low by about that.
    """
    return limit - non_kv - graphs_actual - SUGGESTION_MARGIN
