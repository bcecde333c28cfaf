"""The conditions of a start after a change (vllm-memory-model.md, section 3; graphs: section 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analyzer.engines.vllm import checks as checked
from analyzer.engines.vllm import graphs, printed
from analyzer.engines.vllm.eras import Others, common_check, common_others
from analyzer.engines.vllm.identity import budget_bytes
from analyzer.engines.vllm.what_if_need import before_pool, bounds, null_block, token_factor
from analyzer.engines.vllm.what_if_settings import SEQS, UTILIZATION
from analyzer.engines.what_if import Check
from analyzer.model import Ledger, Text
from analyzer.model.units import human

if TYPE_CHECKING:
    from collections.abc import Sequence

    from analyzer.engines.vllm.what_if import Run

#: Stages after the pool is in place: what failed there lacked room beside the budget.
LATE = ("graph_capture", "warmup", "serving")


def checks(run: Run, before: Ledger, after: Ledger) -> list[Check]:
    """The conditions of a start, on one GPU."""
    found = [_kv_pool(run, after), *_one_request(run, after), *_card(run, before, after), *_start_free(run, before, after)]
    found += _pinned(run, after) if run.by_hand else _beside(run, before, after)
    return found


def _kv_pool(run: Run, after: Ledger) -> Check:
    pool = after.get("kv_cache")
    if pool is None:
        return Check(
            "kv_pool", None, None, Text("What is left for the KV cache cannot be told.", "留给 KV cache 的空间无法判断。"), after.rank
        )
    return Check("kv_pool", pool > 0, pool, Text(f"{human(pool)} is left for the KV cache.", f"留给 KV cache {human(pool)}。"), after.rank)


def _one_request(run: Run, after: Ledger) -> list[Check]:
    pool, length = after.get("kv_cache"), run.length
    needs = bounds(run, length) if length else None
    if pool is None or length is None:
        return []
    if needs is None:
        if run.start.state != "failed" or pool <= 0:
            return []
        words = Text("How much one request needs, these inputs do not tell.", "一个请求需要多少，输入里看不出。")
        return [Check("one_request", None, None, words, after.rank)]
    need, most = needs
    if need <= pool < most:
        words = Text(
            f"One request of {length} tokens needs {human(need)} to {human(most)}, these inputs tell no more; "
            f"the KV cache has {human(pool)}.",
            f"一个 {length} token 的请求需要 {human(need)} 到 {human(most)}，输入里看不出更准的数；KV cache 有 {human(pool)}。",
        )
        return [Check("one_request", None, None, words, after.rank)]
    need, upper = (most, need < most) if most <= pool else (need, False)
    margin, told = pool - need - null_block(run), _told(run, pool, length)
    if told and margin < 0:
        need, margin = pool, 0  # what is above is the rounding of printed figures
    words = Text(
        f"One request of {length} tokens needs {'at most ' * upper}{human(need)}; the KV cache has {human(pool)}.",
        f"一个 {length} token 的请求{'最多' * upper}需要 {human(need)}；KV cache 有 {human(pool)}。",
    )
    if told is None:
        told = margin >= 0 if not run.changes or abs(margin) > printed.HALF_HUNDREDTH else None
    return [Check("one_request", told, margin if told is not False else min(margin, -1), words, after.rank)]


def _told(run: Run, pool: int, length: int) -> bool | None:
    """Whether the log itself says that ``pool`` holds ``length``: by starting so, or by the longest that it estimates; None: neither."""
    if not run.changes and run.start.state in ("healthy", "degraded"):
        return True
    estimated = run.start.number("kv_cache.estimated_max_len")
    return length <= estimated if estimated and pool == before_pool(run) and token_factor(run) == 1 else None


def _card(run: Run, before: Ledger, after: Ledger) -> list[Check]:
    total, budget = before.get("total"), after.get("budget")
    if total is None or budget is None:
        return []
    words = Text(f"The budget is {human(budget)} of {human(total)}.", f"预算 {human(budget)}，显卡共 {human(total)}。")
    return [Check("card", budget <= total, total - budget, words, after.rank)]


def _start_free(run: Run, before: Ledger, after: Ledger) -> list[Check]:
    free0 = run.start.bytes("device.free_at_start", before.rank)
    budget = _budget(run, before) if run.by_hand else after.get("budget")
    checked = common_check(run.eras)
    if free0 is None or budget is None or checked is False:
        return []
    words = Text(
        f"{human(free0)} is free at start, the budget asks for {human(budget)}.",
        f"启动时空闲 {human(free0)}，预算要求 {human(budget)}。",
    )
    passed = free0 >= budget
    return [Check("start_free", passed if checked or passed else None, free0 - budget, words, after.rank)]


def _budget(run: Run, before: Ledger) -> int | None:
    """What the check at the start asks for where the budget sizes no pool."""
    total, share = before.get("total"), run.after_change(UTILIZATION)
    return budget_bytes(total, share) if total is not None and isinstance(share, float) else None


def _pinned(run: Run, after: Ledger) -> list[Check]:
    free0 = run.start.bytes("device.free_at_start", after.rank) or after.get("total")
    parts = [after.get(name) for name in ("kv_cache", "weights", "activation_peak", "non_torch")]
    known = sum(part for part in parts if part is not None)
    if free0 is not None and known > free0:
        words = Text(
            f"Pool, weights and what else is known take {human(known)}, and {human(free0)} is free at start.",
            f"KV 池、权重等已知部分共需 {human(known)}，而启动时空闲 {human(free0)}。",
        )
        return [Check("pinned_pool", False, free0 - known, words, after.rank)]
    if any(part is None for part in parts) and not run.takes_more and run.start.state in ("healthy", "degraded"):
        words = Text("Nothing beside the pool takes more than in the start that came up.", "池外各项都不比已成功的启动占用更多。")
        return [Check("pinned_pool", True, None, words, after.rank)]
    if free0 is None or any(part is None for part in parts):
        words = Text(
            "Whether everything fits beside a pool set by hand, these inputs do not tell.",
            "手工设定 KV 池后其余能否放下，输入里看不出。",
        )
        return [Check("pinned_pool", None, None, words, after.rank)]
    rest = free0 - sum(part for part in parts if part is not None) - (0 if run.eager else after.get("cuda_graphs") or 0)
    words = Text(f"{human(rest)} is left beside pool, weights and activations.", f"除 KV 池、权重和激活外还剩 {human(rest)}。")
    return [Check("pinned_pool", rest >= 0, rest, words, after.rank)]


def _beside(run: Run, before: Ledger, after: Ledger) -> list[Check]:
    """Room beside the budget for graphs and what comes after them."""
    total, budget = before.get("total"), after.get("budget")
    if total is None or budget is None:
        return _late_failure_without_total(run)
    free0 = run.start.bytes("device.free_at_start", before.rank)
    counted = common_others(run.eras) is Others.COUNTED
    room = (total if counted or free0 is None else min(total, free0)) - budget
    if run.start.state == "failed" and run.start.stage in LATE and run.start.cause is not None:
        return _after_late_failure(run, before, after, room)
    actual, reserved = after.get("cuda_graphs"), after.get("cuda_graphs_reserved")
    if run.eager:
        need: int | None = 0
    elif actual is not None:
        place = graphs.Place.INSIDE if reserved is not None else graphs.Place.OUTSIDE
        need = graphs.outside_the_budget(place, actual, reserved)
    elif reserved is not None:
        need = 0
    else:
        need = None
    if need is None:
        words = Text(
            f"{human(room)} is left beside the budget; what CUDA graphs take of it, these inputs do not tell.",
            f"预算之外剩 {human(room)}；CUDA graph 会占多少，输入里看不出。",
        )
        # An unknown that is the same before and after, in a start that came up, is no reason to doubt.
        passed = True if run.start.state in ("healthy", "degraded") and not _takes_room(run) else None
        return [Check("beside_budget", passed, None, words, after.rank)]
    words = Text(
        f"{human(room)} is left beside the budget, {human(need)} of it is needed.",
        f"预算之外剩 {human(room)}，需要其中 {human(need)}。",
    )
    return [Check("beside_budget", room >= need, room - need, words, after.rank)]


def _takes_room(run: Run) -> bool:
    share, before = run.changes.get(UTILIZATION), run.now(UTILIZATION)
    return isinstance(share, (int, float)) and isinstance(before, (int, float)) and share > before


def _after_late_failure(run: Run, before: Ledger, after: Ledger, room: int) -> list[Check]:
    """What failed beside the budget lacked more than it found there: as much again is not enough."""
    old = before.get("budget")
    missing = max(0, (run.start.bytes("oom.tried", before.rank) or 0) - (run.start.bytes("oom.free", before.rank) or 0))
    gained = (old - (after.get("budget") or 0) if old is not None else 0) + (before.get("cuda_graphs_reserved") or 0) * run.eager
    if run.eager and run.start.stage == "graph_capture":
        words = Text("No graphs are captured, which is what failed.", "不再捕获 CUDA graph，而失败的正是它。")
        return [Check("beside_budget", True, None, words, after.rank)]
    if gained <= missing:
        more = Text("", "")
        if missing > gained:
            more = Text(f", at least {human(missing - gained)} more is needed", f"，至少还缺 {human(missing - gained)}")
        words = Text(
            f"{human(room)} is left beside the budget, and the start failed there{more.en}.",
            f"预算之外剩 {human(room)}，上次正是在此失败{more.zh}。",
        )
        return [Check("beside_budget", False, gained - missing, words, after.rank)]
    known = Text("", "")
    if missing:
        known = Text(f" At least {human(missing)} was missing.", f"当时至少缺 {human(missing)}。")
    words = Text(
        f"{human(gained)} more than before is left beside the budget.{known.en} How much is needed in all is not known.",
        f"预算之外比之前多出 {human(gained)}。{known.zh}总共需要多少未知。",
    )
    return [Check("beside_budget", None, gained - missing, words, after.rank)]


def _late_failure_without_total(run: Run) -> list[Check]:
    if run.start.state == "failed" and run.start.stage in LATE:
        words = Text("Room beside the budget: the card's total is not known.", "预算之外的空间：显卡总显存未知。")
        return [Check("beside_budget", None, None, words)]
    return []


def state_blocks(run: Run, ledgers: Sequence[Ledger]) -> list[Check]:
    """Hybrid models: a state block for each sequence. Their number follows the pool, the bytes of one the ranks that share a state."""
    printed, asked = run.start.number("mamba.blocks"), run.after_change(SEQS)
    if not printed or not isinstance(asked, (int, float)) or run.eager:
        return []
    before, pools = before_pool(run), [ledger.get("kv_cache") for ledger in ledgers]
    least = min((pool for pool in pools if pool is not None), default=None)
    if before is None or least is None or None in pools:
        words = Text(
            f"{int(printed)} state blocks before the change; how many after it, these inputs do not tell.",
            f"更改前有 {int(printed)} 个状态块；更改后有多少，输入里看不出。",
        )
        return [Check("state_blocks", None, None, words, unit="blocks")]
    ranks = run.ranks
    blocks = int(printed) if least == before and ranks[0] == ranks[1] else int(printed * least * ranks[1] / (before * ranks[0]))
    found = checked.state_blocks(int(asked), blocks)
    words = Text(f"{blocks} state blocks for {int(asked)} sequences.", f"{blocks} 个状态块，{int(asked)} 个序列。")
    return [Check("state_blocks", found.passed, blocks - int(asked), words, unit="blocks")]
