"""A healthy start in figures: what is in use at rest, what the pool holds at typical lengths, what is left, and what would give more."""

from __future__ import annotations

import re
from collections.abc import Callable

from analyzer.engines.vllm import defaults, inverse, kv, windows
from analyzer.engines.vllm.eras import Others
from analyzer.engines.vllm.fixes.budget import feasible
from analyzer.engines.vllm.fixes.plan import Plan
from analyzer.model import Text
from analyzer.model.units import human

#: Lengths of requests that are common; those below max_model_len are worked out.
TYPICAL = (2048, 8192, 32768)
#: A process of a data parallel engine, by its tag.
DP_TAG = re.compile(r"(?:^|_)DP\d+\b")
#: Kept free beside the budget for buffers that come late (warm-up, sampler), as a share of the card.
LATE_SHARE = 0.01


def explain(plan: Plan) -> dict[str, str | Text]:
    """Figures by placeholder (patterns/causes/healthy.yaml); only those that are known."""
    if plan.case.state not in ("healthy", "degraded") or plan.case.on_cpu:
        return {}
    if plan.by_hand:  # the utilization sizes nothing: the pool has its own size, and the budget is not filled
        return {**_pool(plan), **_engines(plan), **_at_rest(plan), **_typical(plan)}
    return {**_pool(plan), **_engines(plan), **_at_rest(plan), **_typical(plan), **_headroom(plan), **_more(plan)}


def _pool(plan: Plan) -> dict[str, str | Text]:
    """The pool as it was made, where a profile's figure is another one: set by hand, or cut to the rank that found least."""
    found = {fact.bytes for fact in plan.view.all("kv_cache.available")}
    made = (plan.override is not None and plan.override.pool) or (not plan.by_hand and len(found) > 1)
    return {"kv_cache_available": human(plan.pool)} if made and plan.pool else {}


def _graphs(plan: Plan) -> int | None:
    """Bytes of CUDA graphs beside the budget; None where that is open."""
    actual, reserved = plan.line("cuda_graphs"), plan.line("cuda_graphs_reserved")
    if plan.setting("--enforce-eager"):
        return 0
    if actual is None:
        return None
    if reserved is not None:
        return max(0, actual - reserved)
    return actual if plan.graphs_inside is False else None


def _taken_before(plan: Plan) -> int:
    """Bytes of the card that were in use at the first snapshot (others, contexts) and are no part of the budget; 0 where that is open."""
    if plan.total is None or plan.free0 is None or plan.others is Others.COUNTED:
        return 0
    return max(0, plan.total - plan.free0)


def _at_rest(plan: Plan) -> dict[str, str | Text]:
    """What nvidia-smi shows with no request: the budget, and graphs beside it. Without a budget, the parts that were printed."""
    if plan.budget is not None and plan.total is not None and plan.line("kv_cache") and not plan.by_hand:
        taken = _taken_before(plan)
        size = min(plan.total, plan.budget + (_graphs(plan) or 0) + taken)
        part = f"{100 * size / plan.total:.0f} %"
        share = Text(f"{human(size)} ({part})", f"{human(size)}（{part}）")
        if taken:
            share = Text(
                f"{human(size)} ({part}; {human(taken)} of it was in use when the engine first looked)",
                f"{human(size)}（{part}；其中 {human(taken)} 在引擎首次测量时已占用）",
            )
        if len({ledger.get("total") for ledger in plan.case.ledgers}) > 1 and plan.ledger is not None:
            return {
                "idle_use": Text(
                    f"{share.en} of GPU {plan.ledger.gpu or plan.rank or 0}", f"GPU {plan.ledger.gpu or plan.rank or 0} 的 {share.zh}"
                )
            }
        return {"idle_use": share}
    parts = [plan.line(name) for name in ("weights", "kv_cache", "cuda_graphs")]
    if parts[0] is not None and parts[1] is not None:
        return {"idle_use_at_least": human(sum(part for part in parts if part is not None))}
    return {}


def _typical(plan: Plan) -> dict[str, str | Text]:
    """Concurrency at common lengths; nothing for several engines, whose pools are not one."""
    length = plan.view.number("concurrency.at_tokens") or plan.max_len
    if not length or len(_of_engines(plan, "concurrency.max")) > 1:
        return {}
    held = _windowed(plan) if plan.hybrid else _plain(plan) if plan.plain else None
    counted = [(typical, held(typical)) for typical in TYPICAL if typical < length] if held is not None else []
    found = [(typical, count) for typical, count in counted if count is not None]
    if not found:
        return {}
    return {
        "concurrency_typical": Text(
            ", ".join(f"{count:.1f} of {typical}" for typical, count in found),
            "，".join(f"{typical} token 时 {count:.1f} 个" for typical, count in found),
        )
    }


def _plain(plan: Plan) -> Callable[[int], float | None] | None:
    """Requests by their length where every layer keeps every token and the pool's tokens are what they seem."""
    tokens = plan.tokens
    return None if not tokens else lambda length: tokens / (-(-length // plan.block_size) * plan.block_size)


def _windowed(plan: Plan) -> Callable[[int], float | None] | None:
    """Requests by their length where layers have windows, by the model's shape; only where that gives the printed concurrency as well."""
    view, shape, size = plan.view, plan.shape, plan.pool
    printed, at = view.number("concurrency.max"), view.number("concurrency.at_tokens")
    if shape is None or shape.state_layers or size is None or not printed or not at or plan.stages != 1:
        return None
    pool = windows.groups(
        shape,
        block_size=plan.block_size,
        tensor_parallel=plan.tensor_parallel,
        kv_cache_dtype=plan.kv_dtype,
        dtype=plan.setting("--dtype"),
    )
    if pool is None:
        return None
    stated, generation = view.number("scheduler.max_num_batched_tokens"), view.generation if view.generation in ("v0", "v1") else None
    batched = int(stated) if stated is not None else defaults.max_num_batched_tokens(plan.where, generation, total=plan.total)  # type: ignore[arg-type]
    runs = windows.fitting(windows.in_flight(plan.where, batched, plan.setting("--async-scheduling")), pool, size, int(at), printed)
    blocks = kv.num_blocks(size, pool)
    return lambda length: windows.agreed(kv.max_concurrency(pool, blocks, length, run) for run in runs)


def _of_engines(plan: Plan, name: str) -> list[str]:
    """The figure ``name`` of every data parallel engine, in their order; each sizes its own pool and counts its own requests."""
    last = {fact.process: fact for fact in plan.view.all(name) if fact.process is not None and DP_TAG.search(fact.process)}
    return [str(last[process].value) for process in sorted(last, key=str)]


def _engines(plan: Plan) -> dict[str, str | Text]:
    """The pools, tokens and requests of several engines side by side: they add up, one engine's figure is not all."""
    degree, size = plan.whole("--data-parallel-size"), plan.view.ranks.world_size
    if degree is None or degree < 2:
        return {}
    pools: dict[int, int] = {}
    for ledger in plan.case.ledgers:
        pool = ledger.get("kv_cache")
        if ledger.rank is not None and pool is not None:
            pools[ledger.rank // size] = min(pool, pools.get(ledger.rank // size, pool))
    found = {
        "kv_cache_available": [human(pools[engine]) for engine in sorted(pools)],
        "kv_cache_tokens": _of_engines(plan, "kv_cache.tokens"),
        "concurrency_max": _of_engines(plan, "concurrency.max"),
    }
    return {name: " + ".join(values) for name, values in found.items() if len(values) > 1}


def _headroom(plan: Plan) -> dict[str, str | Text]:
    graphs = _graphs(plan)
    if plan.total is None or plan.budget is None:
        return {}
    left = max(0, plan.total - plan.budget - _taken_before(plan))
    if not graphs:
        return {"headroom": human(left)}
    took = human(graphs)
    return {"headroom": Text(f"{human(left)}, of which CUDA graphs took {took}", f"{human(left)}，其中 CUDA graph 占 {took}")}


def _more(plan: Plan) -> dict[str, str | Text]:
    """What a hundredth of the card is worth in tokens, and how far up it goes."""
    total, budget, pool, tokens = plan.total, plan.budget, plan.pool, plan.tokens
    if total is None or budget is None or not pool or pool <= 0 or plan.utilization is None:
        return {}
    step = total // 100
    found: dict[str, str | Text] = {"hundredth_alone": human(step)}
    if tokens and plan.plain and len(_of_engines(plan, "kv_cache.tokens")) < 2:
        found = {"hundredth": human(step), "hundredth_tokens": str(int(tokens * step / pool))}
    graphs = _graphs(plan)
    if graphs is None or (plan.free0 is None and plan.others is not Others.COUNTED):
        return found
    window = feasible(plan, total, budget, pool, plan.needed or 1)
    bound = (total if plan.free0 is None else min(plan.free0, total)) - graphs - int(LATE_SHARE * total)
    high = min(inverse.utilization_down(total, bound), window.high if window is not None else 1.0)
    if high > plan.utilization + 0.005:
        found["utilization_high"] = f"{high:.2f}"
    return found
