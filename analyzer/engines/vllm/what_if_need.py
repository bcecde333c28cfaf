"""What a request needs and a pool holds after a change: from the log's own figures, scaled by dtype, heads and layers (kv.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analyzer.engines.vllm import kv, printed, shapes, windows
from analyzer.engines.vllm.eras import as_range
from analyzer.engines.vllm.what_if_settings import BATCHED, DTYPE, EAGER, OVERRIDE, PINNED, PP, TP, UTILIZATION, whole
from analyzer.model import Ledger, Text, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from analyzer.engines.vllm.what_if import Run


#: No request is longer, tokens.
MOST = 1 << 27


def token_factor(run: Run) -> float | None:
    """Bytes of a token after the change by those before: the cache's dtype, the heads of a rank, the layers of a stage."""
    factor = 1.0
    match = shapes.lookup(str(run.start.settings.get("--model") or ""))
    shape = match.shape if match is not None else None
    dtype = str(run.start.settings.get("--dtype") or "auto").removeprefix("torch.")
    model_dtype = dtype if dtype != "auto" else (shape.dtype if shape is not None else None) or "bfloat16"
    if shape is not None:
        of_layer = [
            kv.token_bytes_of_layer(shape, tensor_parallel=whole(ranks), kv_cache_dtype=_format(name), model_dtype=model_dtype)
            for ranks, name in ((run.now(TP), run.now(DTYPE)), (run.after_change(TP), run.after_change(DTYPE)))
        ]
        if None in of_layer and (DTYPE in run.changes or TP in run.changes):
            _unknown_format(run)
            return None
        factor *= (of_layer[1] or 1) / (of_layer[0] or 1)
    else:
        if DTYPE in run.changes:
            sizes = [kv.cache_value_size(_format(value), model_dtype) for value in (run.now(DTYPE), run.changes[DTYPE])]
            if None in sizes:
                _unknown_format(run)
                return None
            factor *= (sizes[1] or 1) / (sizes[0] or 1)
        if TP in run.changes:
            run.notes.append(
                Text(
                    "KV heads are taken to be divided over the ranks; a rank never holds less than one.",
                    "按 KV head 能平均到各 rank 计算；每个 rank 至少一个。",
                )
            )
            factor *= whole(run.now(TP)) / whole(run.changes[TP])
    if PP in run.changes:
        factor *= whole(run.now(PP)) / whole(run.changes[PP])
    return factor


def _format(value: Value | None) -> str | None:
    return None if value is None else str(value)


def _unknown_format(run: Run) -> None:
    run.notes.append(Text("The size of this cache format is not known.", "该 KV cache 格式的大小未知。"))


def request_line(run: Run) -> printed.NeedLine | None:
    """What a request needs by its length, before the change: from needed, pool and estimate, or from pool and concurrency."""
    start = run.start
    length = start.number("model.max_len") or start.number("concurrency.at_tokens")
    tight = before_pool(run)
    needed = start.bytes("kv_cache.needed")
    estimated = start.number("kv_cache.estimated_max_len")
    if needed and length:
        if estimated and tight and not _plain(needed, tight, int(length), int(estimated)):
            found = printed.need_line(needed, int(length), tight, int(estimated))
            if found is not None:
                return found
        return printed.NeedLine(0.0, needed / length)
    concurrency, at = start.number("concurrency.max", smallest=True), start.number("concurrency.at_tokens")
    tokens = held(run)
    if tight and tokens and start.generation == "v0":
        return printed.NeedLine(0.0, tight / tokens)
    if tight and concurrency and at:
        return printed.NeedLine(0.0, tight / concurrency / at)
    return None


def _plain(needed: int, pool: int, length: int, estimated: int) -> bool:
    linear = pool / needed * length
    return abs(linear - estimated) <= 0.03 * linear + 32


def held(run: Run) -> int | None:
    """Tokens of the pool before the change."""
    tokens = run.start.number("kv_cache.tokens", smallest=True)
    if tokens is not None:
        return int(tokens)
    blocks = run.start.number("kv_cache.gpu_blocks", smallest=True)
    return int(blocks) * block_size(run) if blocks is not None else None


def is_plain(run: Run) -> bool | None:
    """Whether all layers keep every token: by the model's shape, else by tokens against concurrency; None where neither tells.

    From 0.20.1 on the tokens are the concurrency times the length by definition and tell nothing (printed.SLOTS).
    """
    start = run.start
    if start.number("mamba.blocks"):
        return False
    match = shapes.lookup(str(start.settings.get("--model") or ""))
    if match is not None:
        shape = match.shape
        return not shape.window_layers and not shape.state_layers if shape.windows_known else None
    tokens, at, concurrency = held(run), start.number("concurrency.at_tokens"), start.number("concurrency.max", smallest=True)
    if tokens is None or not at or not concurrency or as_range(run.where) & printed.LATER:
        return None
    return abs(tokens / at - concurrency) <= 0.02 * concurrency + 0.02


def block_size(run: Run) -> int:
    """Tokens of a block."""
    size = run.start.number("kv_cache.block_size")
    return int(size) if size else kv.BLOCK_SIZE


def needed(run: Run, length: int) -> int | None:
    """Bytes that one request of ``length`` needs after the change; None where these inputs do not tell exactly."""
    found = bounds(run, length)
    return found[0] if found is not None and found[0] == found[1] else None


def bounds(run: Run, length: int) -> tuple[int, int] | None:
    """(least, most) bytes that one request of ``length`` needs after the change.

    A model that is not known to be plain may have layers that do not grow: its need lies between that of the length that was printed and
    the one in proportion to it.
    """
    shaped = by_shape(run)
    exact = shaped(length) if shaped is not None else None
    if exact is not None:
        return exact, exact
    line, factor = request_line(run), token_factor(run)
    if line is None:
        plain = _plain_by_shape(run, length)
        return None if plain is None else (plain, plain)
    if factor is None:
        return None
    need = round(line.at(length) * factor)
    at = run.start.number("model.max_len") or run.start.number("concurrency.at_tokens")
    if not at or _grows(run):
        return need, need
    known = round(line.at(int(at)) * factor)
    return min(need, known), max(need, known)


def _plain_by_shape(run: Run, length: int) -> int | None:
    """Need of ``length`` by the model's shape where no figure was printed; None for models whose layers differ, latents and stages."""
    match = shapes.lookup(str(run.start.settings.get("--model") or ""))
    if match is None or not is_plain(run) or match.shape.latent is not None or whole(run.after_change(PP)) != 1:
        return None
    dtype = str(run.start.settings.get("--dtype") or "auto").removeprefix("torch.")
    token = kv.bytes_per_token(
        match.shape,
        tensor_parallel=whole(run.after_change(TP)),
        kv_cache_dtype=_format(run.after_change(DTYPE)),
        model_dtype=None if dtype == "auto" else dtype,
    )
    return None if token is None else token * block_size(run) * -(-length // block_size(run))


def _grows(run: Run) -> bool:
    """Whether the line of the need holds at every length: all layers keep every token, or two points were printed."""
    if run.start.bytes("kv_cache.needed") and run.start.number("kv_cache.estimated_max_len"):
        return True
    generation = run.start.generation if run.start.generation in ("v0", "v1") else None
    return bool(is_plain(run)) or kv.generation_sizes_windows(run.where, generation) is False  # type: ignore[arg-type]


def by_shape(run: Run) -> Callable[[int], int | None] | None:
    """Need by length where layers have windows, by the model's shape; only where that gives the printed concurrency as well."""
    match, size = shapes.lookup(str(run.start.settings.get("--model") or "")), before_pool(run)
    said, at = run.start.number("concurrency.max", smallest=True), run.start.number("concurrency.at_tokens")
    if match is None or match.shape.state_layers or not match.shape.window_layers or size is None or not said or not at:
        return None
    if whole(run.now(PP)) != 1 or whole(run.after_change(PP)) != 1:
        return None
    before, after = (
        windows.groups(
            match.shape,
            block_size=block_size(run),
            tensor_parallel=whole(ranks),
            kv_cache_dtype=_format(cache),
            dtype=run.start.settings.get("--dtype"),
        )
        for ranks, cache in ((run.now(TP), run.now(DTYPE)), (run.after_change(TP), run.after_change(DTYPE)))
    )
    if before is None or after is None:
        return None
    now, then = run.now(BATCHED), run.after_change(BATCHED)
    batched = int(now) if isinstance(now, (int, float)) else None
    runs = windows.in_flight(run.where, batched, run.start.settings.get("--async-scheduling"))
    sizes = [found.in_flight or 0 for found in windows.fitting(runs, before, size, int(at), said)]
    more = then / now if isinstance(now, (int, float)) and isinstance(then, (int, float)) else 1
    return lambda length: windows.agreed(kv.needed(after, length, kv.Run(round(tokens * more)), run.where) for tokens in sizes)


def null_block(run: Run) -> int:
    """Bytes that the check of one request takes off a pool first (0.33.0+), 0 elsewhere; an unchanged pool is printed without them."""
    line, factor = request_line(run), token_factor(run)
    pools_alike = not any(flag in run.changes for flag in (PINNED, OVERRIDE, UTILIZATION, TP, PP, BATCHED, EAGER))
    if run.start.generation == "v0" or not as_range(run.where) & printed.NULL_BLOCK_COUNTS or pools_alike or line is None or factor is None:
        return 0
    return round(line.per_token * block_size(run) * factor)


def longest(run: Run, ledgers: Sequence[Ledger]) -> int | None:
    """The longest request that the pools hold, in whole blocks: every token of a plain model's pool, else by need and length."""
    line, factor = request_line(run), token_factor(run)
    pools = [(size, ledger) for ledger in ledgers if (size := ledger.get("kv_cache")) is not None]
    if line is None or not factor or not pools:
        return None
    pool, ledger = min(pools, key=lambda item: item[0])
    estimated = run.start.number("kv_cache.estimated_max_len")
    if estimated and factor == 1 and pool == before_pool(run):
        return int(estimated)
    shaped = by_shape(run)
    if shaped is not None and shaped(1) is not None:
        return kv.longest(lambda length: (shaped(length) or 0) <= pool - null_block(run), MOST) // block_size(run) * block_size(run)
    if is_plain(run) is False and not _grows(run):
        run.notes.append(
            Text(
                "Layers of this model do not all grow with the length: how much other lengths need, these inputs do not tell.",
                "该模型并非所有层都随长度增长：其他长度需要多少，输入里看不出。",
            )
        )
        return None
    if not _grows(run):
        run.notes.append(
            Text(
                "Whether all layers of this model grow with the length is not known: the longest context is this at least.",
                "该模型是否所有层都随长度增长未知：最长上下文至少如此。",
            )
        )
    held_after = tokens(run, ledger) if run.start.generation == "v0" else None
    if held_after is not None:
        return held_after
    return max(0, line.length(int((pool - null_block(run)) / factor))) // block_size(run) * block_size(run)


def before_pool(run: Run) -> int | None:
    """Bytes of the smallest pool before the change."""
    return min((had for old in run.start.ledgers if (had := old.get("kv_cache")) is not None and had > 0), default=None)


def tokens(run: Run, ledger: Ledger) -> int | None:
    """Tokens of the pool after the change, in whole blocks."""
    before, size, was, factor = held(run), ledger.get("kv_cache"), before_pool(run), token_factor(run)
    if before is None or size is None or was is None or not factor:
        return None
    if size == was and factor == 1:
        return before
    return max(0, int(before * size / was / factor)) // block_size(run) * block_size(run)
