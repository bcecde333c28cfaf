"""Fixes of the CPU backend, whose pool lies in host memory: its size by hand, or the share of the node that the worker may use (0.20.0+).

Arithmetic: analyzer/engines/vllm/cpu.py, inverse.py (a memory node in the place of a card).
"""

from __future__ import annotations

import math

from analyzer.engines.computed import Computed
from analyzer.engines.vllm import inverse
from analyzer.engines.vllm.fixes.budget import FLAG
from analyzer.engines.vllm.fixes.plan import Plan
from analyzer.model import Change, EnvChange, FlagChange, Text
from analyzer.model.units import GIB, human

SPACE, PINNED = "VLLM_CPU_KVCACHE_SPACE", "--kv-cache-memory-bytes"


def cpu_kv_space(plan: Plan) -> Computed | None:
    """The CPU backend's pool, in whole GiB: what one request needs and a block more (the null block, V1)."""
    needed = plan.view.bytes("kv_cache.needed")
    if needed is None and plan.view.generation == "v0" and plan.tokens and plan.max_len and plan.view.bytes("kv_cache.requested"):
        pool = plan.view.bytes("kv_cache.requested") or 0
        needed = math.ceil(pool * plan.max_len / plan.tokens)
    before = plan.env.get(SPACE)
    requested = plan.view.bytes("kv_cache.requested") or plan.view.bytes("kv_cache.available")
    if needed is None or requested is None or (before is None and not plan.case.on_cpu):
        return None
    to = needed // GIB + 1 if plan.view.generation != "v0" or needed % GIB else needed // GIB
    if to * GIB <= requested:
        return None
    host = plan.view.bytes("host.available")
    if host is not None and to * GIB > host:
        return None
    pinned = plan.whole(PINNED) if before is None else None  # the variable goes before the flag
    change: Change = EnvChange(SPACE, str(to)) if pinned is None else FlagChange(PINNED, pinned, to * GIB)
    values: dict[str, str | Text] = {
        "setting": SPACE if pinned is None else PINNED,
        "before": str(pinned) if pinned is not None else before or f"{requested / GIB:g}",
        "to": str(to if pinned is None else to * GIB),
        "needed": human(needed),
    }
    return Computed((change,), values, verified=host is not None)


def lower_cpu_kv_space(plan: Plan) -> Computed | None:
    """The CPU backend was asked for more than the host has left: the largest whole GiB that leaves a tenth of it to everything else."""
    available = plan.view.bytes("host.available")
    before = plan.env.get(SPACE)
    requested = plan.view.bytes("kv_cache.requested")
    if available is None or requested is None or available >= requested:
        return None
    to = int(0.9 * available // GIB)
    if to < 1:
        return None
    values: dict[str, str | Text] = {
        "before": before or f"{requested / GIB:g}",
        "to": str(to),
        "available": human(available),
        "needed": human(requested),
    }
    return Computed((EnvChange(SPACE, str(to)),), values, verified=True)


def cpu_utilization(plan: Plan) -> Computed | None:
    """The share of the memory node: no more than is available, or as much as the worker holds and one request needs besides.

    ``pool = ceil(node × share) − resident memory`` (cpu.kv_auto), for a pool that is not set by hand.
    """
    view, before = plan.view, plan.utilization
    budget, available = view.bytes("budget.bytes"), view.bytes("host.available")
    if not plan.case.on_cpu or before is None or budget is None or SPACE in plan.env or plan.whole(PINNED) is not None:
        return None
    total = view.bytes("host.total") or round(budget / before)
    if plan.case.cause == "startup.free_below_requested":
        if available is None:
            return None
        to = inverse.utilization_for_free(total, available)
        words = Text(f"{human(available)} is available.", f"可用 {human(available)}。")
        verified = True
    else:
        pool, used = view.bytes("kv_cache.available"), view.bytes("process.rss")
        held = budget - pool if pool is not None else used
        if held is None:
            return None
        printed = view.bytes("kv_cache.needed")
        needed, verified = printed or plan.needed_by_shape, printed is not None and available is not None
        to = inverse.utilization_up(total, held + (needed or 1))
        words = Text(f"The worker holds {human(held)}.", f"worker 自身占用 {human(held)}。")
        if needed is not None:
            words = Text(f"{words.en} One request needs {human(needed)}.", f"{words.zh}一个请求需要 {human(needed)}。")
    to = round(to, 2)
    lowers = plan.case.cause == "startup.free_below_requested"
    if not 0 < to < 1 or (to >= before if lowers else to <= before) or (not lowers and available is not None and to * total > available):
        return None
    values: dict[str, str | Text] = {"before": f"{before:.2f}", "to": f"{to:.2f}", "total": human(total), "arithmetic": words}
    return Computed((FlagChange(FLAG, before, to),), values, verified=verified)
