"""Fixes that move the budget: utilization up, down or to what is free, and what is held out of it for others.

Arithmetic: analyzer/engines/vllm/inverse.py (all eras).
"""

from __future__ import annotations

import math

from analyzer.engines.computed import Computed
from analyzer.engines.vllm import inverse
from analyzer.engines.vllm.eras import Others
from analyzer.engines.vllm.fixes.plan import HIGHEST, Plan
from analyzer.engines.vllm.printed import HALF_HUNDREDTH
from analyzer.model import Action, FlagChange, Ledger, Text
from analyzer.model.units import GIB, human

FLAG = "--gpu-memory-utilization"
#: A share below this part of the one that was asked for starts nothing useful: the holder has to go instead.
LEAST_SHARE = 0.6
#: Graphs outside the budget: how much lower a next try goes where the log cannot tell what they take in all (0.95 to 0.90), and the
#: highest share at which they commonly fit (vllm-memory-model.md, section 4).
STEP_DOWN, OUTSIDE_CEILING = 0.05, 0.92
HUNDREDTH = 0.01
#: The highest share that is proposed for a need that the engine did not print: what is free and what comes late is seldom less than this.
HIGHEST_UNCHECKED = 0.95
#: gpu_memory_utilization where nothing is stated, in every release that prints no pool (eras.default_utilization).
DEFAULT = 0.9
#: Where CPU and GPU share one memory, system and page cache live in it too: 0.6 to 0.7 is usual (claims.md; patterns/advice).
SHARED = 0.6
#: A pool is taken to be at least one part in so many of its budget.
SMALL_POOL = 10
#: Bytes of the largest card there is (288 GB): more than what its rest holds is beyond any utilization.
LARGEST_CARD = 288 * 10**9
# The first allocation that is refused is not the last one that is made: a step of warm-up or service gets a hundredth more.


def raise_utilization(plan: Plan) -> Computed | None:
    """The smallest share that leaves the pool what one request needs, inside what is free and beside graphs that lie outside."""
    if plan.by_hand:
        return None
    total, budget, pool, needed = plan.total, plan.budget, plan.pool, plan.least_pool
    open_ = needed is None and pool is not None and pool <= 0 and plan.case.cause == "kv_cache.no_memory_left"
    if open_:
        needed = HALF_HUNDREDTH  # how much one request takes is not known: anything at all
    if total is None or budget is None or pool is None or needed is None or plan.utilization is None or pool >= needed:
        return None
    window = feasible(plan, total, budget, pool, needed)
    to = round(window.low, 2) if window is not None else inverse.utilization_needed(total, budget, pool, needed)
    highest = HIGHEST if plan.needed is not None else HIGHEST_UNCHECKED
    if to <= plan.utilization or to > min(highest, window.high if window is not None else highest):
        return None
    predicted = plan.with_budget(to)
    if predicted is None or not plan.fits(predicted):
        return None
    values: dict[str, str | Text] = {
        "before": _share(plan.utilization),
        "to": _share(to),
        "gain": human((predicted.get("kv_cache") or 0) - pool),
        "needed": human(needed),
    }
    if open_:
        values["needed"] = Text(
            "room for one request at least; how much that is, this log does not say", "至少一个请求的空间（需要多少，日志未给出）"
        )
    elif plan.needed is None:
        values["needed"] = Text(f"{human(needed)} for one request, by the model's shape", f"一个请求所需的 {human(needed)}（按模型结构）")
    verified = window is not None and window.verified and plan.needed is not None
    return Computed((FlagChange(FLAG, plan.utilization, to),), values, predicted, verified=verified)


def raise_utilization_above(plan: Plan) -> Computed | None:
    """Nothing was left, and how far below nothing is not printed (V1 to 0.8.x): more than weights and one request take of the card.

    Only for a share below the default, or below what those two take: else the share is hardly what is wrong.
    """
    before, weights, needed = plan.utilization, plan.line("weights"), plan.needed_by_shape
    if plan.pool is not None or before is None or weights is None or plan.by_hand or plan.beyond_card:
        return None
    held = weights + (needed or 0)
    least = inverse.utilization_up(plan.total, held) if plan.total is not None else None
    if (least or 0) > HIGHEST or (before >= DEFAULT and (least is None or least <= before)):
        return None
    of = Text("Weights and one request", "权重和一个请求") if needed is not None else Text("The weights", "权重")
    than = Text(f"{human(held)} / the card's total", f"{human(held)} / 显卡总显存")
    if least is not None:
        than = Text(_share(max(before, least)), _share(max(before, least)))
    action = Action(Text(f"raise {FLAG} to more than {than.en}", f"把 {FLAG} 提高到 {than.zh} 以上"))
    return Computed((action,), {"before": _share(before), "than": than, "of": of, "held": human(held)}, verified=False)


def feasible(plan: Plan, total: int, budget: int, pool: int, needed: int) -> inverse.Window | None:
    """The window of utilization for a pool of ``needed``; None where the possible eras differ in what bounds it."""
    eras = plan.eras
    if len({(era.others, era.check_at_start) for era in eras}) != 1:
        return None
    outside = 0 if plan.graphs_inside or plan.setting("--enforce-eager") else plan.view.bytes("cuda_graphs.actual", plan.rank)
    return inverse.utilization_window(
        eras[0], total=total, budget=budget, kv_cache=pool, kv_needed=needed, free0=plan.free0, graphs_outside=outside
    )


def lower_utilization(plan: Plan) -> Computed | None:
    """A share that leaves room outside the budget for what failed there, and still holds one request."""
    if plan.by_hand:
        return None
    before = plan.utilization if sequences_and_utilization(plan) is None else None
    if before is None:
        return None
    measured = plan.case.earlier_pool
    if plan.total is None and plan.pool and measured and measured < plan.pool and "sleep_mode" in (plan.case.cause or ""):
        return _lower_by(plan.pool - measured, before)
    to = next_lower(plan, before)
    if to is None:
        return None
    total, budget, pool = plan.total, plan.budget, plan.pool
    if total is not None and budget is not None and pool is not None and pool > 0:
        predicted = plan.with_budget(to)
        if predicted is None or not plan.fits(predicted):
            return None
        after = predicted.get("kv_cache") or 0
        kept = predicted.get("budget") or 0
        values: dict[str, str | Text] = {
            "before": _share(before),
            "to": _share(to),
            "frees": human(budget - kept),
            "kv_before": human(pool),
            "kv_after": human(after),
            "room": human(total - kept),
            "kv_note": _requests(plan, after),
        }
        # What graphs that were not captured yet would have taken no line says.
        verified = plan.needed is not None and plan.case.stage != "graph_capture"
        return Computed((FlagChange(FLAG, before, to),), values, predicted, verified=verified)
    share = round(100 * (before - to))
    freed: str | Text = human(total * (before - to)) if total is not None else Text(f"{share} % of the card", f"显卡的 {share}%")
    in_en, in_zh = (freed, freed) if isinstance(freed, str) else (freed.en, freed.zh)
    after_words = Text(f"smaller by {in_en}", f"减少 {in_zh}")
    values = {"before": _share(before), "to": _share(to), "frees": freed, "kv_after": after_words, "kv_note": ""}
    return Computed((FlagChange(FLAG, before, to),), values, verified=False)


def lower_utilization_by(plan: Plan) -> Computed | None:
    """The same where the share in force is not known: by how much, at least a common step."""
    if plan.by_hand or plan.utilization is not None or plan.case.on_cpu:
        return None
    missing = plan.shortfall.missing if plan.shortfall is not None else 0
    needed = math.ceil(100 * missing / plan.total) / 100 if plan.total is not None else 0.0
    share = _share(max(STEP_DOWN, needed))
    action = Action(Text(f"lower {FLAG} by {share} from what it is now", f"把 {FLAG} 在当前值的基础上降低 {share}"))
    return Computed((action,), {"share": share}, verified=False)


def _lower_by(size: int, before: float) -> Computed:
    """The formula, where the size is known and the card's total is not."""
    to = Text(f"{before:.2f} − {human(size)} / the card's total", f"{before:.2f} − {human(size)} / 显卡总显存")
    action = Action(
        Text(
            f"lower {FLAG} to {before:.2f} − ({human(size)} / the card's total memory, see nvidia-smi), rounded down to a hundredth",
            f"把 {FLAG} 降到 {before:.2f} −（{human(size)} / 显卡总显存，见 nvidia-smi），向下取整到 0.01",
        )
    )
    after = Text(f"smaller by {human(size)}", f"减少 {human(size)}")
    return Computed((action,), {"before": _share(before), "to": to, "frees": human(size), "kv_after": after, "kv_note": ""}, verified=False)


def next_lower(plan: Plan, before: float) -> float | None:
    """The next share to try, in hundredths; None where none below ``before`` can work."""
    total, budget, pool, needed = plan.total, plan.budget, plan.pool, plan.needed
    if (plan.case.cause or "").startswith("unified_memory"):
        return SHARED if before > SHARED else None
    missing = plan.shortfall.missing if plan.shortfall is not None else None
    outside = plan.case.stage == "graph_capture" and plan.graphs_inside is not True
    estimate = plan.view.bytes("cuda_graphs.estimated", plan.rank)
    if missing is not None and not outside and estimate is not None:
        missing += max(0, plan.captured - estimate)  # so much the estimate is wrong already, with graphs still to come
    to = round(min(before - STEP_DOWN, OUTSIDE_CEILING), 2) if outside or missing is None else before - HUNDREDTH
    if missing is not None and total is not None:
        margin = 0.0 if outside or plan.case.stage == "graph_capture" or "sampler" in (plan.case.cause or "") else HUNDREDTH
        to = min(to, math.floor(100 * (before - missing / total - margin) + 1e-9) / 100)
    too_low = [share for share, cause in plan.case.earlier if cause == "kv_cache.no_memory_left" and share < before]
    if too_low:
        to = max(to, math.ceil(50 * (max(too_low) + before) - 1e-9) / 100)  # an earlier start with less had no pool: meet in the middle
    if total is not None and budget is not None and pool is not None and needed is not None:
        to = max(to, inverse.utilization_needed(total, budget, pool, needed))
    to = round(to, 2)
    return to if 0 < to < before else None


def _earlier(plan: Plan, share: float) -> Text:
    """The utilization of an earlier start, as far as the inputs tell it."""
    if plan.case.earlier_assumed:
        return Text(f"the default ({share:.2f} at most)", f"默认值（最多 {share:.2f}）")
    return Text(f"{share:.2f}", f"{share:.2f}")


def floor_of(plan: Plan) -> tuple[float | None, Text]:
    """(smallest utilization that can work, what asks for it): one request of full length, or an earlier start that left no pool."""
    total, budget, pool, needed = plan.total, plan.budget, plan.pool, plan.needed
    low: float | None = None
    why = Text("", "")
    if total is not None and budget is not None and pool is not None and needed is not None:
        low = round(inverse.utilization_needed(total, budget, pool, needed), 2)
        length = plan.view.number("concurrency.at_tokens", plan.rank) or plan.max_len
        of = Text(f" of {int(length)} tokens", f"{int(length)} token，") if length else Text("", "")
        why = Text(f"one request{of.en} ({human(needed)} of KV cache)", f"一个请求（{of.zh}KV cache {human(needed)}）")
    failed = [share for share, cause in plan.case.earlier if cause == "kv_cache.no_memory_left" and share < (plan.utilization or 0)]
    if failed and max(failed) + HUNDREDTH > (low or 0):
        low = round(max(failed) + HUNDREDTH, 2)
        at = _earlier(plan, max(failed))
        why = Text(
            f"the start before, which had nothing left for the KV cache at {at.en},",
            f"上一次启动（{at.zh} 时 KV cache 没有空间）",
        )
    return low, why


def _requests(plan: Plan, pool: int) -> str:
    """``, 1.54 × 40000 tokens``: full requests in a pool, where one request's need is known."""
    length = plan.view.number("concurrency.at_tokens", plan.rank) or plan.max_len
    if not plan.needed or not length:
        return ""
    return f", {pool / plan.needed:.2f} × {int(length)} tokens"


def sequences_and_utilization(plan: Plan) -> Computed | None:
    """Two changes that belong together: an earlier start with less budget had no pool, this one no room beside it.

    Half way between the two shares, and a sixteenth of the sequences, for the pool at that share is small and the sampler's matrix has to
    fit beside it.
    """
    if plan.by_hand:
        return None
    before, floor = plan.utilization, [share for share, cause in plan.case.earlier if cause == "kv_cache.no_memory_left"]
    asked = plan.view.number("scheduler.max_num_seqs")
    if before is None or not floor or max(floor) >= before or asked is None or asked < 64 or "sampler" not in (plan.case.cause or ""):
        return None
    share = next_lower(plan, before)
    if share is None:
        return None
    to = 1 << (int(asked) // 16).bit_length() - 1
    values: dict[str, str | Text] = {
        "before": str(int(asked)),
        "to": str(to),
        "share_before": _share(before),
        "share": _share(share),
        "share_low": _earlier(plan, max(floor)),
    }
    changes = (FlagChange(FLAG, before, share), FlagChange("--max-num-seqs", plan.whole("--max-num-seqs"), to))
    return Computed(changes, values, plan.with_budget(share), verified=False)


def raise_by_missing(plan: Plan) -> Computed | None:
    """What is missing is known and the card's total is not: the formula, to be filled in with the total from nvidia-smi."""
    if plan.by_hand:
        return None
    if plan.total is not None or plan.case.on_cpu:
        return None
    if (plan.whole("--pipeline-parallel-size") or 1) > 1:
        return None  # needs and pools of different stages are not of one card
    pool, needed = plan.pool, plan.least_pool
    missing: Text | str | None = None
    if pool is not None and needed is not None and needed > pool:
        if needed - pool > (1 - (plan.utilization or 0.9)) * LARGEST_CARD:
            return None
        missing = human(needed - pool)
    elif plan.case.cause == "kv_cache.too_small_for_max_len" and plan.tokens and plan.max_len and plan.tokens < plan.max_len:
        blocks = -(-plan.max_len // plan.block_size) - plan.tokens // plan.block_size
        if plan.swapped_block is not None:
            missing = human(blocks * plan.swapped_block)
        else:
            share = 100 * blocks * plan.block_size / plan.tokens
            if plan.utilization is not None and share > SMALL_POOL * 100 * (HIGHEST - plan.utilization) / plan.utilization:
                return None  # so much is left above only where the pool is hardly a part of the budget
            missing = Text(f"{share:.1f} % of the KV pool", f"KV 池的 {share:.1f}%")
    elif (held := plan.view.bytes("budget.multimodal_reserve")) is not None and pool is not None and held > pool:
        size = human(held - pool)
        missing = Text(f"more than {size}", f"超过 {size}")
    if missing is None:
        return None
    words = missing if isinstance(missing, Text) else Text(missing, missing)
    action = Action(
        Text(
            f"raise {FLAG} by ({words.en} / the card's total memory), rounded up to a hundredth",
            f"把 {FLAG} 提高（{words.zh} / 显卡总显存），向上取整到 0.01",
        )
    )
    values: dict[str, str | Text] = {"missing": words}
    return Computed((action,), values, verified=False)


def utilization_to_free(plan: Plan) -> Computed | None:
    """The start check: the largest share of the card that is free now. Only where that is still most of what was asked for."""
    total, free0, before = plan.total, plan.free0, plan.utilization
    if total is None or free0 is None or before is None:
        return None
    to = round(inverse.utilization_for_free(total, free0), 2)
    if to >= before or to < LEAST_SHARE * before:
        return None
    predicted = plan.replaced()
    values: dict[str, str | Text] = {"before": _share(before), "to": _share(to), "free": human(free0), "total": human(total)}
    return Computed((FlagChange(FLAG, before, to),), values, _budget_only(plan, to) or predicted, verified=True)


def _budget_only(plan: Plan, to: float) -> Ledger | None:
    from analyzer.engines.vllm.identity import budget_bytes
    from analyzer.model import Basis, LedgerLine

    if plan.total is None:
        return None
    return plan.replaced(LedgerLine("budget", budget_bytes(plan.total, to), Basis.DERIVED, formula=f"total × {to}"))


def cumulative_utilization(plan: Plan) -> Computed | None:
    """Versions that count other processes as their own (V0-B, V0-D, V1-b): the share has to hold both."""
    if plan.by_hand:
        return None
    total, before = plan.total, plan.utilization
    used = plan.line("other_processes")
    if plan.others is not Others.COUNTED or before is None:
        return None
    if total is None or used is None:
        if plan.case.cause != "startup.other_process":
            return None
        sum_ = Text(f"{before:g} + what the neighbour holds / total", f"{before:g} + 邻居占用 / 总显存")
        action = Action(
            Text(
                f"set {FLAG} to {before:g} + (memory that the neighbour holds / the card's total), both from nvidia-smi",
                f"把 {FLAG} 设为 {before:g} +（邻居占用的显存 / 显卡总显存），两个数都在 nvidia-smi 里",
            )
        )
        what = Text("as nvidia-smi shows it", "显存（见 nvidia-smi）")
        return Computed((action,), {"before": _share(before), "to": sum_, "used": what}, verified=False)
    to = inverse.utilization_up(total, used + round(before * total))
    if not before < to <= 0.98:
        return None
    values: dict[str, str | Text] = {"before": _share(before), "to": _share(to), "used": human(used)}
    return Computed((FlagChange(FLAG, before, round(to, 2)),), values, verified=False)


def mm_ipc_memory(plan: Plan) -> Computed | None:
    """A smaller reservation for the front end's decoding (0.25.0+): what is left for the pool, less what one request needs.

    The reservation holds the decoders' fixed part besides (``multimodal/gpu_ipc_memory.py``). Where the need is not known half is left.
    """
    flag, before = "--mm-ipc-gpu-memory-gb", plan.setting("--mm-ipc-gpu-memory-gb")
    held, available = plan.view.bytes("budget.multimodal_reserve"), plan.view.bytes("kv_cache.available")
    if held is None or available is None or isinstance(before, bool) or not isinstance(before, (int, float)):
        return None
    needed = plan.needed_by_shape
    room = available - (needed if needed is not None else available // 2) - max(0, held - round(before * GIB))
    to = math.floor(10 * room / GIB) / 10
    if not 0 < to < before:
        return None
    needs = Text(
        "Half of that is left to it; what one request needs, this log does not say.", "其中一半留给它；一个请求需要多少，日志未给出。"
    )
    if needed is not None:
        needs = Text(f"One request needs {human(needed)} of it by the model's shape.", f"按模型结构，一个请求需要其中 {human(needed)}。")
    values: dict[str, str | Text] = {
        "flag": flag,
        "before": f"{before:g}",
        "to": f"{to:g}",
        "reserve": human(held),
        "available": human(available),
        "needs": needs,
    }
    return Computed((FlagChange(flag, before, to),), values, verified=False)


def utilization_for_external(plan: Plan) -> Computed | None:
    """Weights that another process holds are above the budget (0.32.0+): the share that is above them, and one request by the shape."""
    total, before, external = plan.total, plan.utilization, plan.view.bytes("weights.external", plan.rank)
    if total is None or before is None or external is None:
        return None
    least, needed = inverse.utilization_up(total, external + 1), plan.needed_by_shape
    to = least if needed is None else inverse.utilization_up(total, external + needed)
    if not before < to <= HIGHEST:
        return None
    needs = Text("Activations and KV cache come on top.", "激活和 KV cache 还要另算。")
    if needed is not None:
        needs = Text(
            f"One request needs {human(needed)} of KV cache by the model's shape; activations come on top.",
            f"按模型结构，一个请求需要 {human(needed)} 的 KV cache；激活还要另算。",
        )
    values: dict[str, str | Text] = {
        "before": _share(before),
        "to": _share(to),
        "external": human(external),
        "total": human(total),
        "least": _share(least),
        "needs": needs,
    }
    return Computed((FlagChange(FLAG, before, round(to, 2)),), values, verified=False)


def _share(value: float) -> str:
    return f"{value:.2f}"
