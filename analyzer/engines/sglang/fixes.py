"""SGLang's fixes, by its identity (reference/engines.md, section 1): with F free before loading, A after it and f = mem_fraction_static,

``pool = A − F × (1 − f)`` and ``F × (1 − f)`` is the slack for activations, graphs and workspaces. Too small a pool wants a larger f, too
little slack a smaller one; both at once have no value that works.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from analyzer.engines.case import Case
from analyzer.engines.computed import Computed
from analyzer.engines.more_gpus import more_gpus
from analyzer.engines.neighbours import stop_process
from analyzer.engines.predicted import replaced
from analyzer.engines.sglang.ledger import free_after_weights, free_at_start
from analyzer.model import Action, FlagChange, Ledger, Text, Window
from analyzer.model.units import GIB, MIB, human

SHARE, CAP, CHUNK, GRAPHS = "--mem-fraction-static", "--max-total-tokens", "--chunked-prefill-size", "--cuda-graph-max-bs"
#: Default reserve of the 0.5 releases: so much, and so much for each token of a prefill chunk and each sequence of the largest graph.
RESERVE_BYTES, CHUNK_BYTES, GRAPH_BYTES = 512 * MIB, 3 * MIB // 2, 2 * MIB
#: Above this much memory the engine keeps at least LARGE_RESERVE.
LARGE_CARD, LARGE_RESERVE = 60 * GIB, 10 * GIB
#: Chunk that the engine takes when none is set, by the memory of the card (up to the first column).
DEFAULT_CHUNKS = ((35 * GIB, 2048), (60 * GIB, 4096), (1 << 62, 8192))
#: A pool of less is no service; the smallest step down; what a failed step may need beyond the allocation that was refused.
LEAST_POOL, STEP_DOWN, MARGIN = GIB // 4, 0.03, 1.25
HUNDREDTH = 0.01
TOO_SMALL = frozenset({"kv_cache.no_memory_left"})


@dataclass(frozen=True, slots=True)
class Figures:
    """F, A and f of the failing rank, the pool and its tokens; None where the inputs do not state them."""

    free0: int | None
    after: int | None
    share: float | None
    pool: int | None
    tokens: int | None
    missing: int | None
    ledger: Ledger | None

    def pool_at(self, share: float) -> int | None:
        """Bytes of the pool with ``share``; None where F or A is not known."""
        if self.free0 is None or self.after is None:
            return None
        return round(self.after - self.free0 * (1 - share))

    @property
    def low(self) -> float | None:
        """The smallest share, in whole hundredths, that leaves a pool."""
        if not self.free0 or self.after is None:
            return None
        return math.ceil(round((self.free0 - self.after + LEAST_POOL) / self.free0 / HUNDREDTH, 6)) / 100


def figures(case: Case) -> Figures:
    """What the identity needs, for the rank of the failing line."""
    view = case.view
    ledger = case.ledger
    rank = ledger.rank if ledger is not None and ledger.rank is not None else case.rank or 0
    start = free_at_start(view, rank)
    share = view.number("budget.utilization")
    tokens = view.number("kv_cache.tokens")
    return Figures(
        start.bytes if start is not None else None,
        free_after_weights(view, rank),
        float(share) if share else None,
        ledger.get("kv_cache") if ledger is not None else None,
        int(tokens) if tokens else None,
        _missing(case, ledger),
        ledger,
    )


def _missing(case: Case, ledger: Ledger | None) -> int | None:
    """Bytes that the failed step lacked: what was refused less what was free; of a capture without a sentence half of what it took."""
    named = {fact.name: fact.bytes for fact in case.figures}
    tried = named.get("oom.tried")
    if tried is not None:
        return max(tried - (named.get("oom.free") or 0), 0)
    graphs = ledger.get("cuda_graphs") if ledger is not None else None
    return graphs // 2 if graphs and case.stage == "graph_capture" else None


def _highest(case: Case, known: Figures) -> float | None:
    """The largest share that leaves the engine's own default reserve, in whole hundredths: an estimate."""
    if not known.free0:
        return None
    chunk = case.view.number("scheduler.max_num_batched_tokens")
    if not chunk or chunk <= 0:
        chunk = next((size for limit, size in DEFAULT_CHUNKS if known.free0 <= limit), DEFAULT_CHUNKS[-1][1])
    graphs = case.view.setting(GRAPHS)
    reserve = RESERVE_BYTES + int(chunk) * CHUNK_BYTES + (int(graphs) if isinstance(graphs, (int, float)) else 0) * GRAPH_BYTES
    if known.free0 > LARGE_CARD:
        reserve = max(reserve, LARGE_RESERVE)
    return math.floor(round((known.free0 - reserve) / known.free0 / HUNDREDTH, 6)) / 100


def raise_share(case: Case) -> Computed | None:
    """A share above what the weights take and below the engine's reserve; without the figures, the engine's own default."""
    known = figures(case)
    low, high = known.low, _highest(case, known)
    if low is not None and high is not None:
        if high < low or (known.share is not None and high <= known.share):
            return None
        pool = known.pool_at(high)
        values: dict[str, str | Text] = {"to": f"{high:g}", "arithmetic": _pool_words(known, high, pool)}
        return Computed((FlagChange(SHARE, known.share, high),), values, verified=False)
    if known.share is None:
        return None
    values = {
        "to": Text("the engine's default", "引擎默认值"),
        "arithmetic": Text("Left out, the engine keeps a reserve and takes the rest.", "去掉后引擎会留出余量并使用其余部分。"),
    }
    return Computed((FlagChange(SHARE, known.share, None),), values, verified=False)


def lower_share(case: Case) -> Computed | None:
    """A share whose slack holds what the failed step lacked, and that still leaves a pool."""
    known = figures(case)
    step = STEP_DOWN
    size = known.free0 or next((fact.bytes for fact in case.figures if fact.name == "oom.total"), None)
    if known.missing is not None and size:
        step = max(step, MARGIN * known.missing / size)
    if known.share is None:
        return _lower_by(step)
    to = math.floor(round((known.share - step) / HUNDREDTH, 6)) / 100
    pool = known.pool_at(to)
    if to <= 0 or (pool is not None and pool < LEAST_POOL):
        return None
    change = FlagChange(SHARE, known.share, to)
    values: dict[str, str | Text] = {"before": f"{known.share:g}", "to": f"{to:g}", "arithmetic": _slack_words(known, to, pool)}
    predicted = None
    if pool is not None and known.pool is not None and known.free0 is not None:
        freed = round(known.free0 * (known.share - to))
        after = {"kv_cache": max(known.pool - freed, 0), "budget": round(known.free0 * to)}
        predicted = replaced(known.ledger, after, f"free before loading × {to:g}")
    return Computed((change,), values, predicted, verified=known.missing is not None and pool is not None)


def _lower_by(step: float) -> Computed:
    """``step`` less than whatever the share is, where the inputs do not state it."""
    less = f"{math.ceil(round(step / HUNDREDTH, 6)) / 100:g}"
    action = Text(f"--mem-fraction-static {less} below its present value", f"--mem-fraction-static 比当前值小 {less}")
    values: dict[str, str | Text] = {
        "before": Text("its present value", "当前值"),
        "to": Text(f"{less} less", f"比它小 {less} 的值"),
        "arithmetic": Text("server_args, near the top of the log, states the present value.", "当前值见日志开头的 server_args。"),
    }
    return Computed((Action(action),), values, verified=False)


def cap_tokens(case: Case) -> Computed | None:
    """The same room from the pool's side: fewer tokens, by what each of them costs."""
    known = figures(case)
    if not known.pool or not known.tokens or known.missing is None or known.pool <= 0:
        return None
    freed = round(MARGIN * known.missing)
    to = int(known.tokens * (known.pool - freed) / known.pool) // 1024 * 1024
    length = case.view.number("model.max_len")
    if to <= 0 or (length and to < int(length)):
        return None
    cell = known.pool / known.tokens
    values: dict[str, str | Text] = {
        "to": str(to),
        "before": str(known.tokens),
        "each": human(round(cell)),
        "frees": human(round((known.tokens - to) * cell)),
    }
    before = case.view.setting(CAP)
    return Computed(
        (FlagChange(CAP, before if isinstance(before, int) else None, to),),
        values,
        replaced(known.ledger, {"kv_cache": round(to * cell)}, f"{to} tokens × {human(round(cell))}"),
        verified=True,
    )


def larger_pool(case: Case) -> Computed | None:
    """More tokens: by a larger share where the card has room that a step does not need, and by 8 bits per value."""
    known = figures(case)
    free = [fact.bytes for fact in case.view.all("device.free") if fact.bytes]
    spare = free[-1] - max(2 * GIB, (known.free0 or 0) // 20) if free else 0
    if known.share is not None and known.free0 and spare >= GIB // 2:
        to = math.floor(round((known.share + spare / known.free0) / HUNDREDTH, 6)) / 100
        if to > known.share:
            words = Text(
                f"{human(free[-1])} are free; {human(spare)} of it may go to the pool.",
                f"目前空闲 {human(free[-1])}，其中 {human(spare)} 可给池使用。",
            )
            return Computed((FlagChange(SHARE, known.share, to),), {"arithmetic": words}, verified=False)
    action = Text(
        "raise --mem-fraction-static a little if GPU memory is free, or --kv-cache-dtype fp8_e5m2, or more GPUs",
        "若有空闲显存，略微提高 --mem-fraction-static；或 --kv-cache-dtype fp8_e5m2；或增加 GPU",
    )
    words = Text("An 8-bit KV cache holds twice the tokens.", "8 位 KV cache 可容纳两倍 token。")
    return Computed((Action(action),), {"arithmetic": words}, verified=False)


def smaller_chunks(case: Case) -> Computed | None:
    """Half the tokens of a prefill step."""
    before = case.view.setting(CHUNK)
    if not isinstance(before, int) or before < 1024:
        return None
    to = 1 << ((before // 2).bit_length() - 1)
    return Computed((FlagChange(CHUNK, before, to),), {"before": str(before), "to": str(to)}, verified=False)


SOLVERS: dict[str, Callable[[Case], Computed | None]] = {
    "sglang_raise_mem_fraction": raise_share,
    "sglang_lower_mem_fraction": lower_share,
    "sglang_cap_tokens": cap_tokens,
    "sglang_larger_pool": larger_pool,
    "sglang_smaller_chunks": smaller_chunks,
    "more_gpus_or_smaller_weights": more_gpus("--tp-size"),
    "stop_process": stop_process,
}


def window(case: Case) -> Window | None:
    """Between the share that leaves a pool and the one that leaves the slack; for causes that one of its ends decides."""
    cause = case.cause or ""
    too_large = cause.startswith(("cuda_oom.graph_capture", "cuda_oom.serving", "cuda_oom.warmup"))
    if cause not in TOO_SMALL and not too_large:
        return None
    known = figures(case)
    low = known.low
    high: float | None
    if too_large:
        lower = lower_share(case)
        change = lower.changes[0] if lower is not None else None
        high = float(change.to) if isinstance(change, FlagChange) and isinstance(change.to, float) else None
        if high is None and known.share is not None:
            high = math.floor(round((known.share - HUNDREDTH) / HUNDREDTH, 6)) / 100
        limit = "failed"
    else:
        high, limit = _highest(case, known), "free0"
    if low is None and high is None:
        return None
    feasible = low is None or high is None or low <= high
    return Window(SHARE, low, high, limit if high is not None else None, feasible, False, _window_words(low, high, feasible=feasible))


def _pool_words(known: Figures, share: float, pool: int | None) -> Text:
    if known.free0 is None or known.after is None or pool is None:
        return Text("", "")
    sizes = f"{human(known.after)} − {human(known.free0)} × (1 − {share:g}) = {human(pool)}"
    return Text(f"The pool is then {sizes}.", f"此时池为 {sizes}。")


def _slack_words(known: Figures, share: float, pool: int | None) -> Text:
    if known.free0 is None or known.share is None:
        return Text("", "")
    now, then = human(known.free0 * (1 - known.share)), human(known.free0 * (1 - share))
    english, chinese = f"The slack grows from {now} to {then}", f"余量由 {now} 增至 {then}"
    if pool is not None:
        english, chinese = f"{english}; the pool by the engine's formula is {human(pool)}", f"{chinese}；按引擎公式，池为 {human(pool)}"
    return Text(english + ".", chinese + "。")


def _window_words(low: float | None, high: float | None, *, feasible: bool) -> Text:
    if not feasible:
        return Text(
            f"No value of {SHARE} works: the weights need at least {low:g}, the slack allows at most {high:g}.",
            f"{SHARE} 没有可行的值：权重至少需要 {low:g}，余量最多允许 {high:g}。",
        )
    if low is None:
        return Text(f"{SHARE} up to {high:g}.", f"{SHARE} 不超过 {high:g}。")
    if high is None:
        return Text(f"{SHARE} from {low:g}.", f"{SHARE} 不低于 {low:g}。")
    return Text(f"{SHARE} between {low:g} and {high:g}.", f"{SHARE} 在 {low:g} 与 {high:g} 之间。")
