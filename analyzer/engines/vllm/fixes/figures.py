"""Derived figures that sentences may use, beside the facts."""

from __future__ import annotations

from collections.abc import Mapping

from analyzer.engines.case import Case
from analyzer.engines.vllm.fixes import arguments, stages
from analyzer.engines.vllm.fixes.plan import Plan
from analyzer.model import Text
from analyzer.model.units import human


def figures(case: Case) -> Mapping[str, str | Text]:
    """``kv_cache_shortfall``, ``budget_outside`` … by placeholder name; only those that are known."""
    plan = Plan(case)
    found: dict[str, str | Text] = {}
    if plan.needed is not None and plan.pool is not None and plan.needed > plan.pool:
        found["kv_cache_shortfall"] = human(plan.needed - plan.pool)
    pools = {ledger.get("kv_cache") for ledger in case.ledgers}
    if (case.cause or "").startswith("kv_cache.") and plan.pool is not None and len(pools) > 1:
        found["kv_cache_available"] = human(plan.pool)  # of the rank that decides, not of the last one that printed
    if plan.total is not None and plan.budget is not None:
        found["outside_budget"] = human(plan.total - plan.budget)
    if not plan.beyond_card:  # where it is, a shorter context is a part of the cure, and nothing is said against it
        found["at_any_length"] = ""
    if plan.shortfall is not None:
        found["oom_missing"] = human(plan.shortfall.missing)
    before, equal = plan.utilization, plan.view.number("budget.utilization_equivalent")
    if before is not None and equal is not None and "vllm.graphs.profiler_on" in plan.view.attempt.patterns:
        # The line that names the variable with 0 as a way out; where it is 0 the engine advises the reverse.
        found["graph_estimate_note"] = Text(f"With it {before:g} counts as {equal:g}. ", f"启用时 {before:g} 相当于 {equal:g}。")
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
