"""Derived figures that sentences may use, beside the facts."""

from __future__ import annotations

from collections.abc import Mapping

from analyzer.engines.case import Case
from analyzer.engines.vllm.fixes import arguments, stages
from analyzer.engines.vllm.fixes.plan import Plan
from analyzer.model.units import human


def figures(case: Case) -> Mapping[str, str]:
    """``kv_cache_shortfall``, ``budget_outside`` … by placeholder name; only those that are known."""
    plan = Plan(case)
    found: dict[str, str] = {}
    if plan.needed is not None and plan.pool is not None and plan.needed > plan.pool:
        found["kv_cache_shortfall"] = human(plan.needed - plan.pool)
    pools = {ledger.get("kv_cache") for ledger in case.ledgers}
    if (case.cause or "").startswith("kv_cache.") and plan.pool is not None and len(pools) > 1:
        found["kv_cache_available"] = human(plan.pool)  # of the rank that decides, not of the last one that printed
    if plan.total is not None and plan.budget is not None:
        found["outside_budget"] = human(plan.total - plan.budget)
    if plan.shortfall is not None:
        found["oom_missing"] = human(plan.shortfall.missing)
    length = stages.really_fits(plan)
    if length is not None:
        found["stage_length"] = str(length)
    known = arguments.refused_though_known(plan)
    if known:
        found["refused_known"] = ", ".join(known)
    for name in ("process", "process_non_torch", "other_processes", "free", "unaccounted", "budget", "total"):
        size = plan.line(name)
        if size is not None:
            found[f"ledger_{name}"] = human(size)
    return found
