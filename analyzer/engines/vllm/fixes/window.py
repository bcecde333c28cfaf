"""The feasible window of the main setting: between what the pool needs and what the card, the host or the blocks allow.

Arithmetic: inverse.py (utilization, all eras), checks.py (states, swap space). Ends in whole hundredths, rounded the safe way.
"""

from __future__ import annotations

from collections.abc import Sequence

from analyzer.engines.vllm import checks, inverse
from analyzer.engines.vllm.fixes.budget import FLAG, LEAST_SHARE, feasible, floor_of
from analyzer.engines.vllm.fixes.length import FLAG as LENGTH
from analyzer.engines.vllm.fixes.length import longest
from analyzer.engines.vllm.fixes.plan import HIGHEST, Plan
from analyzer.model import EnvChange, Fix, FlagChange, Text, Window
from analyzer.model.units import GIB, human

SEQS, SWAP, CPU_SPACE = "--max-num-seqs", "--swap-space", "VLLM_CPU_KVCACHE_SPACE"
#: Causes whose cure is a lower budget: the memory was missing beside it.
BESIDE = (
    "cuda_oom.kv_init",
    "cuda_oom.graph_capture",
    "cuda_oom.warmup",
    "cuda_oom.serving",
    "engine.version_bug.sleep_mode_kv_overestimate",
)


_ANYTHING = Text("anything at all is to be left for the KV cache", "要给 KV cache 留下任何空间")


def window(plan: Plan, fixes: Sequence[Fix] = ()) -> Window | None:
    """The window for this cause, None where the inputs show neither end or the cause has no such setting.

    ``fixes``: those of the report; the first one that changes another setting is named where no value works.
    """
    cause = plan.case.cause or ""
    if plan.case.state != "failed":
        return None
    if cause.startswith("kv_cache.") and plan.case.on_cpu:
        return _cpu_space(plan)
    if plan.by_hand and not cause.startswith("startup."):
        return _for_length(plan)
    if cause in ("kv_cache.too_small_for_max_len", "kv_cache.no_memory_left"):
        return _for_pool(plan, fixes) or _for_length(plan)
    if cause == "kv_cache.mamba_blocks_below_max_num_seqs":
        return _states(plan)
    if cause in ("startup.free_below_requested", "startup.other_process"):
        return _at_start(plan)
    if cause.startswith(BESIDE):
        return _beside(plan, fixes)
    return _swap(plan) if cause == "args.swap_space_too_large" else None


def _for_pool(plan: Plan, fixes: Sequence[Fix]) -> Window | None:
    """Utilization between what one request needs and what the card gives."""
    total, budget, pool, needed = plan.total, plan.budget, plan.pool, plan.least_pool
    if total is None or budget is None or pool is None:
        return None
    if needed is None:
        least = inverse.utilization_needed(total, budget, pool, 1)
        if least > HIGHEST:
            opens = _opens(fixes, FLAG)
            return Window(
                FLAG, round(least, 2), None, "total", False, False, _none(_ANYTHING, least, _end(plan, None, HIGHEST), opens), opens
            )
        text = Text(
            f"Above {least:.2f} anything is left for the KV cache; how much one request needs, this log does not say.",
            f"高于 {least:.2f} 才会剩下 KV cache 空间；一个请求需要多少，日志未给出。",
        )
        return Window(FLAG, round(least, 2), None, None, True, False, text)
    found = feasible(plan, total, budget, pool, needed)
    low = round(found.low if found is not None else inverse.utilization_needed(total, budget, pool, needed), 2)
    high = min(round(found.high, 2), HIGHEST) if found is not None else None
    verified = found is not None and found.verified
    limit = found.limit if found is not None else None
    needs = Text(f"one request needs {human(needed)} of KV cache", f"一个请求需要 {human(needed)} 的 KV cache")
    if low > (high if high is not None else HIGHEST):
        opens = _opens(fixes, FLAG)
        end = _end(plan, limit, high if high is not None else HIGHEST)
        return Window(FLAG, low, high, limit, False, verified, _none(needs, low, end, opens), opens)
    if high is None or (not verified and limit == "total"):
        text = Text(
            f"Feasible: {low:.2f} or more ({needs.en}). How far up is decided by what is free at start and what CUDA graphs take "
            "beside the budget, which this log does not print.",
            f"可行范围：{low:.2f} 及以上（{needs.zh}）。上限取决于启动时的空闲显存和预算之外的 CUDA graph，日志未给出。",
        )
        return Window(FLAG, low, None, None, True, False, text)
    end = _end(plan, limit, high)
    word = ("", "") if verified else ("at most ", "最多 ")
    text = Text(
        f"Feasible: {low:.2f} to {word[0]}{high:.2f} ({needs.en}; {end.en}).",
        f"可行范围：{low:.2f} 到 {word[1]}{high:.2f}（{needs.zh}；{end.zh}）。",
    )
    return Window(FLAG, low, high, limit, True, verified, text)


def _end(plan: Plan, limit: str | None, high: float) -> Text:
    """What sets the upper end."""
    if limit == "free0" and plan.free0 is not None:
        return Text(f"{human(plan.free0)} is free at start, {high:.2f} of the card", f"启动时空闲 {human(plan.free0)}，即总量的 {high:.2f}")
    if limit == "graphs":
        graphs = plan.view.bytes("cuda_graphs.actual", plan.rank) or 0
        return Text(f"CUDA graphs need {human(graphs)} beside the budget", f"CUDA graph 需要预算之外的 {human(graphs)}")
    return Text(f"the card has {human(plan.total or 0)}", f"显卡共 {human(plan.total or 0)}")


def _none(needs: Text, low: float, end: Text, opens: str | None) -> Text:
    other = Text(f" {opens} opens it.", f" 改 {opens} 可行。") if opens else Text("", "")
    return Text(
        f"No utilization works: {needs.en}, which asks for {low:.2f}; {end.en}.{other.en}",
        f"任何 utilization 都不行：{needs.zh}，即至少 {low:.2f}；而{end.zh}。{other.zh}",
    )


def _opens(fixes: Sequence[Fix], flag: str) -> str | None:
    """The setting of the first fix that is not ``flag``."""
    for fix in fixes:
        for change in fix.changes:
            if isinstance(change, FlagChange) and change.flag != flag:
                return change.flag
            if isinstance(change, EnvChange):
                return change.env
    return None


def _for_length(plan: Plan) -> Window | None:
    """The lengths that fit, where the card's total is not known and no utilization can be told."""
    most, verified = longest(plan)
    if most is None or plan.case.cause != "kv_cache.too_small_for_max_len":
        return None
    text = Text(f"Feasible: {LENGTH} up to {most}.", f"可行范围：{LENGTH} 不超过 {most}。")
    return Window(LENGTH, 1, most, "kv_cache", True, verified, text)


def _beside(plan: Plan, fixes: Sequence[Fix]) -> Window | None:
    """Utilization below the one that failed, and not below what one request (or an earlier start) asks for."""
    before = plan.utilization
    if before is None or not plan.utilization_stated:
        return None
    missing = plan.shortfall.missing if plan.shortfall is not None else None
    high = round(before - 0.01, 2)
    if missing is not None and plan.total is not None:
        high = min(high, round(inverse.utilization_down(plan.total, int(plan.total * before) - missing), 2))
    low, why = floor_of(plan)
    failed = Text(f"{before:.2f} left too little beside the budget", f"{before:.2f} 时预算之外留得太少")
    if low is not None and low > high:
        opens = _opens(fixes, FLAG)
        text = Text(
            f"No utilization works: {why.en} asks for {low:.2f}, and {failed.en}." + (f" {opens} opens it." if opens else ""),
            f"任何 utilization 都不行：{why.zh}至少要 {low:.2f}，而{failed.zh}。" + (f"改 {opens} 可行。" if opens else ""),
        )
        return Window(FLAG, low, high, "failed", False, False, text, opens)
    tail = Text("", "")
    if plan.total is not None and plan.budget is not None and plan.case.stage == "graph_capture" and plan.graphs_inside is False:
        room, estimate = human(plan.total - plan.budget), plan.view.bytes("cuda_graphs.estimated", plan.rank)
        tail = (
            Text(
                f" The engine estimates the graphs at {human(estimate)}; {room} is beside the budget.",
                f"引擎预估 graph 需要 {human(estimate)}；预算之外有 {room}。",
            )
            if estimate is not None
            else Text(
                f" How much the graphs take in all, this log can't tell: more than the {room} beside the budget.",
                f"graph 总共需要多少，日志看不出：超过预算之外的 {room}。",
            )
        )
    elif missing:
        tail = Text(f" At least {human(missing)} were missing.", f"至少缺 {human(missing)}。")
    if low is None:
        if not tail.en:
            return None
        text = Text(f"Feasible: at most {high:.2f}; {failed.en}.{tail.en}", f"可行范围：最多 {high:.2f}；{failed.zh}。{tail.zh}")
    else:
        text = Text(
            f"Not below {low:.2f}: {why.en} needs that. At most {high:.2f}: {failed.en}.{tail.en}",
            f"不低于 {low:.2f}：{why.zh}的需要。最多 {high:.2f}：{failed.zh}。{tail.zh}",
        )
    return Window(FLAG, low, high, "failed", True, False, text)


def _at_start(plan: Plan) -> Window | None:
    """Up to what is free; the lower end is not known, nothing has been loaded."""
    total, free0 = plan.total, plan.free0
    if total is None or free0 is None:
        return None
    high = round(inverse.utilization_for_free(total, free0), 2)
    if plan.utilization is not None and high < LEAST_SHARE * plan.utilization:
        text = Text(
            f"No useful utilization works: {human(free0)} of {human(total)} is free, {high:.2f} of the card. Who holds the rest has to go.",
            f"没有可用的 utilization：{human(total)} 中只有 {human(free0)} 空闲（{high:.2f}）。需要先让占用者退出。",
        )
        return Window(FLAG, None, high, "free0", False, True, text)
    text = Text(
        f"Feasible: at most {high:.2f} ({human(free0)} of {human(total)} is free). What weights and one request need is not known yet.",
        f"可行范围：最多 {high:.2f}（{human(total)} 中空闲 {human(free0)}）。权重和一个请求需要多少，此时还不知道。",
    )
    return Window(FLAG, None, high, "free0", high > 0, True, text)


def _states(plan: Plan) -> Window | None:
    blocks, asked = plan.view.number("mamba.blocks"), plan.view.number("scheduler.max_num_seqs")
    if not blocks or asked is None:
        return None
    check = checks.state_blocks(int(asked), int(blocks))
    text = Text(
        f"Feasible: {SEQS} up to {check.value}, one state block each.",
        f"可行范围：{SEQS} 不超过 {check.value}，每个序列一个状态块。",
    )
    return Window(SEQS, 1, check.value, "blocks", True, True, text)


def _cpu_space(plan: Plan) -> Window | None:
    """GiB of host memory: from what one request needs to what the host has available."""
    needed, available = plan.view.bytes("kv_cache.needed"), plan.view.bytes("host.available")
    low = None if needed is None else needed // GIB + 1
    high = None if available is None else available // GIB
    if low is None and high is None:
        return None
    ends = [
        Text(f"one request needs {human(needed)}", f"一个请求需要 {human(needed)}") if needed is not None else None,
        Text(f"the host has {human(available)} available", f"主机可用 {human(available)}") if available is not None else None,
    ]
    why = [end for end in ends if end is not None]
    if high is None:
        span = Text(f"{low} or more", f"{low} 及以上")
    else:
        span = Text(f"at most {high}", f"最多 {high}") if low is None else Text(f"{low} to {high}", f"{low} 到 {high}")
    works = low is None or high is None or low <= high
    begin = Text(f"Feasible: {CPU_SPACE} {span.en}", f"可行范围：{CPU_SPACE} {span.zh}")
    if not works:
        begin = Text(f"No {CPU_SPACE} works", f"任何 {CPU_SPACE} 都不行")
    text = Text(f"{begin.en} ({'; '.join(end.en for end in why)}).", f"{begin.zh}（{'；'.join(end.zh for end in why)}）。")
    limit = "host" if high is not None else None
    return Window(CPU_SPACE, low, high, limit, works, None not in (low, high), text, None if works else LENGTH)


#: GiB of swap space a GPU, where none is given.
SWAP_DEFAULT = 4


def _swap(plan: Plan) -> Window | None:
    host = plan.view.bytes("host.total")
    if host is None:
        return None
    gpus = _swapping(plan)
    check = checks.swap_space(host, 0, gpus)
    high = int(check.value or 0)
    over = f"{gpus} GPU" if gpus == 1 else f"{gpus} GPUs"
    text = Text(
        f"Feasible: {SWAP} up to {high} (70 % of {human(host)} over {over}).",
        f"可行范围：{SWAP} 不超过 {high}（{human(host)} 的 70%，{gpus} 张 GPU）。",
    )
    return Window(SWAP, 0, high, "host", True, True, text)


def _swapping(plan: Plan) -> int:
    """GPUs that swap space is asked for: what is asked in all by what one GPU gets, where that is a whole number; else as stated."""
    asked, stated = plan.view.bytes("host.swap_space"), plan.setting(SWAP)
    each = (stated if isinstance(stated, (int, float)) else SWAP_DEFAULT) * GIB
    if asked and each and asked % each == 0:
        return int(asked // each)
    return plan.tensor_parallel
