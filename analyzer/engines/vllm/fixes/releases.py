"""Fixes of what a release does by itself: its switches, and the release from which it does otherwise."""

from __future__ import annotations

from analyzer.engines.computed import Computed
from analyzer.engines.vllm import graphs
from analyzer.engines.vllm.eras import GraphRule, Others
from analyzer.engines.vllm.fixes.plan import Plan
from analyzer.model import Action, EnvChange, Text
from analyzer.model.units import human


def startup_plan_off(plan: Plan) -> Computed | None:
    """The pool of an earlier start's plan (0.26.0+) left too little: profile once more. The plan's key leaves the utilization out."""
    if "vllm.profiling.startup_plan" not in plan.view.attempt.patterns or plan.pinned is None:
        return None
    return Computed((EnvChange("VLLM_ENABLE_STARTUP_PLAN", "0"),), {"size": human(plan.pinned)}, verified=False)


def graph_estimate_on(plan: Plan) -> Computed | None:
    """Graphs that are estimated and not taken out of the budget (0.18.0+): the variable that takes them out, where the pool bears it."""
    estimate = plan.view.bytes("cuda_graphs.estimated", plan.rank)
    rules = {era.graphs for era in plan.eras}
    if plan.graphs_inside is not False or GraphRule.OUTSIDE in rules or estimate is None or plan.by_hand:
        return None
    pool = plan.pool
    if pool is None or pool - estimate < (plan.needed or 1):
        return None
    words = Text(f" ({human(estimate)})", f"（{human(estimate)}）")
    return Computed((EnvChange(graphs.ESTIMATE, "1"),), {"estimate": words}, verified=False)


def upgrade_to(plan: Plan) -> Computed | None:
    """The release from which the behaviour behind this cause is another one (vllm-memory-model.md, sections 2 and 7)."""
    cause = plan.case.cause or ""
    version = None
    if cause in ("startup.other_process", "kv_cache.no_memory_left") and plan.others is Others.COUNTED:
        version = "0.9.1"  # V1-c: others cancel out, and the start check names what is free
    elif cause == "engine.version_bug.sleep_mode_kv_overestimate":
        version = "0.27.0"  # consumption is measured by free memory
    elif cause == "engine.version_bug.inductor_strides_torch26":
        version = "0.9.0"  # built on torch 2.7
    elif cause == "cuda_oom.fragmentation" and plan.case.stage != "serving" and _mxfp4(plan):
        version = "0.21.0"  # keeps the allocator from splitting blocks while MXFP4 weights are converted
    elif cause == "startup.memory_changed_during_profiling" and len({fact.bytes for fact in plan.case.figures}) == 1:
        version = "0.16.0"  # equal readings are no error any more (vllm-project/vllm#33358)
    if version is None:
        return None
    action = Action(Text(f"upgrade vLLM to {version} or later", f"把 vLLM 升级到 {version} 或更高版本"))
    return Computed((action,), {"version": version}, versions=f"<{version}", verified=True)


def _mxfp4(plan: Plan) -> bool:
    """Whether the weights are MXFP4: by the setting, or the model that comes so."""
    named = f"{plan.setting('--quantization')} {plan.setting('--model')}".lower()
    return "mxfp4" in named or "gpt-oss" in named
