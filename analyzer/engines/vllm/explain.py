"""A healthy start in figures: what is in use at rest, what the pool holds at typical lengths, what is left, and what would give more."""

from __future__ import annotations

from analyzer.engines.vllm import inverse
from analyzer.engines.vllm.eras import Others
from analyzer.engines.vllm.fixes.budget import feasible
from analyzer.engines.vllm.fixes.plan import Plan
from analyzer.model import Text
from analyzer.model.units import human

#: Lengths of requests that are common; those below max_model_len are worked out.
TYPICAL = (2048, 8192, 32768)
#: Kept free beside the budget for buffers that come late (warm-up, sampler), as a share of the card.
LATE_SHARE = 0.01


def explain(plan: Plan) -> dict[str, str | Text]:
    """Figures by placeholder (patterns/causes/healthy.yaml); only those that are known."""
    if plan.case.state not in ("healthy", "degraded") or plan.case.on_cpu:
        return {}
    if plan.by_hand:  # the utilization sizes nothing: the pool has its own size, and the budget is not filled
        return {**_pool(plan), **_at_rest(plan), **_typical(plan)}
    return {**_at_rest(plan), **_typical(plan), **_headroom(plan), **_more(plan)}


def _pool(plan: Plan) -> dict[str, str | Text]:
    """The pool as it was made, where the profile's figure is another one."""
    return {"kv_cache_available": human(plan.pool)} if plan.override is not None and plan.override.pool and plan.pool else {}


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


def _at_rest(plan: Plan) -> dict[str, str | Text]:
    """What nvidia-smi shows with no request: the budget, and graphs beside it. Without a budget, the parts that were printed."""
    if plan.budget is not None and plan.total is not None and plan.line("kv_cache") and not plan.by_hand:
        size = plan.budget + (_graphs(plan) or 0)
        return {"idle_use": f"{human(size)} ({100 * size / plan.total:.0f} %)"}
    parts = [plan.line(name) for name in ("weights", "kv_cache", "cuda_graphs")]
    if parts[0] is not None and parts[1] is not None:
        return {"idle_use_at_least": human(sum(part for part in parts if part is not None))}
    return {}


def _typical(plan: Plan) -> dict[str, str | Text]:
    """Concurrency at common lengths, where every layer keeps every token and the pool's tokens are what they seem."""
    length = plan.view.number("concurrency.at_tokens") or plan.max_len
    if plan.hybrid or not plan.tokens or not length:
        return {}
    found = [(typical, plan.tokens / (-(-typical // plan.block_size) * plan.block_size)) for typical in TYPICAL if typical < length]
    if not found:
        return {}
    return {
        "concurrency_typical": Text(
            ", ".join(f"{count:.1f} of {typical}" for typical, count in found),
            "，".join(f"{typical} token 时 {count:.1f} 个" for typical, count in found),
        )
    }


def _headroom(plan: Plan) -> dict[str, str | Text]:
    graphs = _graphs(plan)
    if plan.total is None or plan.budget is None:
        return {}
    left = plan.total - plan.budget
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
    found: dict[str, str | Text] = {"hundredth": human(step)}
    if tokens and not plan.hybrid:
        found["hundredth_tokens"] = str(int(tokens * step / pool))
    graphs = _graphs(plan)
    if graphs is None or (plan.free0 is None and plan.others is not Others.COUNTED):
        return found
    window = feasible(plan, total, budget, pool, plan.needed or 1)
    bound = (total if plan.free0 is None else min(plan.free0, total)) - graphs - int(LATE_SHARE * total)
    high = min(inverse.utilization_down(total, bound), window.high if window is not None else 1.0)
    if high > plan.utilization + 0.005:
        found["utilization_high"] = f"{high:.2f}"
    return found
