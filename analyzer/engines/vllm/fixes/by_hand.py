"""Fixes of a pool whose size is set by hand, in bytes or blocks: the utilization sizes nothing then.

Arithmetic: analyzer/engines/vllm/inverse.py, pool.py (Override).
"""

from __future__ import annotations

from analyzer.engines.computed import Computed
from analyzer.engines.vllm import inverse
from analyzer.engines.vllm.fixes.budget import next_lower
from analyzer.engines.vllm.fixes.plan import Plan
from analyzer.engines.vllm.printed import HALF_HUNDREDTH
from analyzer.model import FlagChange, Text
from analyzer.model.units import human

BYTES, BLOCKS = "--kv-cache-memory-bytes", "--num-gpu-blocks-override"


def kv_cache_memory_bytes(plan: Plan) -> Computed | None:
    """The pool by hand: the engine's own advice that stays in the budget, or what an equal start without sleep mode measured."""
    flag = plan.spelled(BYTES)
    suggested = plan.view.bytes("kv_cache.suggested", plan.rank)
    if flag is None or plan.override is not None:
        return None
    size, verified = suggested, suggested is not None
    if size is None and plan.case.cause == "engine.version_bug.sleep_mode_kv_overestimate":
        size = plan.case.earlier_pool
        size = None if size is None else size // 10**8 * 10**8
    if size is None and plan.case.stage in ("graph_capture", "warmup") and plan.utilization is not None:
        # What the pool would be at the utilization that is proposed as the next try.
        to = next_lower(plan, plan.utilization)
        lower = plan.with_budget(to) if to is not None else None
        size = (lower.get("kv_cache") or 0) // 10**8 * 10**8 if lower is not None else None
    if plan.pinned is not None:
        size = _smaller_pin(plan, plan.pinned)
        verified = False
    if size is None or size <= 0 or (plan.needed is not None and size < plan.needed):
        return None
    predicted = plan.with_pool(size, "set by hand")
    return Computed(
        (FlagChange(flag, plan.pinned, size),), {"flag": flag, "to": str(size), "size": human(size)}, predicted, verified=verified
    )


def _smaller_pin(plan: Plan, pinned: int) -> int | None:
    """A pool set by hand that left too little: less by what was missing and a hundredth of the card, in whole 100 MB."""
    if plan.shortfall is None or plan.total is None:
        return None
    return (pinned - plan.shortfall.missing - plan.total // 100) // 10**8 * 10**8


def larger_pinned_pool(plan: Plan) -> Computed | None:
    """A pool set by hand that holds no full request: what one needs and the null block, as printed at most, in whole 100 MB.

    Nothing where the card was measured not to have it. What activations and graphs take besides is not measured in this mode.
    """
    flag, pinned, needed = plan.spelled(BYTES), plan.pinned, plan.needed
    if flag is None or pinned is None or needed is None or pinned >= needed or plan.override is not None:
        return None
    null = plan.null_blocks * needed * plan.block_size // (plan.max_len or plan.block_size)
    to = ((needed + HALF_HUNDREDTH + null) // 10**8 + 1) * 10**8
    weights = plan.line("weights")
    room = Text("", "")
    if plan.free0 is not None and weights is not None:
        rest = inverse.pinned_room(plan.free0, to, weights=weights)
        if rest <= 0:
            return None
        room = Text(
            f" {human(rest)} of what was free at start remain for activations and CUDA graphs.",
            f"启动时的空闲显存还剩 {human(rest)} 给激活和 CUDA graph。",
        )
    values: dict[str, str | Text] = {"flag": flag, "before": str(pinned), "to": str(to), "needed": human(needed), "room": room}
    return Computed((FlagChange(flag, pinned, to),), values, plan.with_pool(to, "set by hand"), verified=False)


def blocks_override(plan: Plan) -> Computed | None:
    """Another --num-gpu-blocks-override: as many blocks as one request needs, or, where memory ran out beside the pool, fewer.

    Fewer: by what was missing and a hundredth of the card, and no more than the profile found room for.
    """
    override = plan.override
    if override is None or override.block is None:
        return None
    least = _blocks_needed(plan)
    if plan.shortfall is None:
        if least is None or least <= override.blocks or (override.profiled is not None and least > override.profiled):
            return None
        to = least
        why = Text(
            f"One request needs {human(plan.needed or 0)}, {least} blocks. The profile found room for {override.profiled}.",
            f"一个请求需要 {human(plan.needed or 0)}，即 {least} 个 block；profile 得到的空间够 {override.profiled} 个。",
        )
    else:
        to = override.blocks - -(-(plan.shortfall.missing + (plan.total or 0) // 100) // override.block)
        to = to if override.profiled is None else min(to, override.profiled)
        if to < max(1, least or 1):
            return None
        freed = human((override.blocks - to) * override.block)
        why = Text(f"Leaves {freed} more beside the pool, where it was missing.", f"池外多留出 {freed}，缺的正是这部分。")
        if override.profiled is not None and override.profiled < override.blocks:
            why = Text(
                f"{why.en} The profile found room for {override.profiled} blocks.",
                f"{why.zh}profile 得到的空间只够 {override.profiled} 个 block。",
            )
    values: dict[str, str | Text] = {
        "flag": BLOCKS,
        "before": str(override.blocks),
        "to": str(to),
        "size": human(to * override.block),
        "why_number": why,
    }
    predicted = plan.with_pool(to * override.block, f"{to} blocks")
    return Computed((FlagChange(BLOCKS, override.blocks, to),), values, predicted, verified=plan.shortfall is None)


def _blocks_needed(plan: Plan) -> int | None:
    """Blocks for one request of full length: by its tokens where all layers keep all of them, else by its bytes."""
    if plan.override is None or plan.override.block is None:
        return None
    if plan.max_len and not plan.hybrid:
        return -(-plan.max_len // plan.block_size) + plan.null_blocks
    return None if plan.needed is None else -(-plan.needed // plan.override.block) + plan.null_blocks


def cap_kv_blocks(plan: Plan) -> Computed | None:
    """On unified memory: the pool by number of blocks, half of what the budget computed (V0; V1 keeps the profiled number)."""
    blocks = plan.view.number("kv_cache.gpu_blocks")
    if blocks is None or plan.view.generation != "v0":
        return None
    to = int(blocks) // 2
    size = plan.pool // 2 if plan.pool else None
    values: dict[str, str | Text] = {
        "flag": BLOCKS,
        "to": str(to),
        "size": human(size) if size else f"{to} × {plan.block_size} tokens",
    }
    return Computed((FlagChange(BLOCKS, None, to),), values, verified=False)
