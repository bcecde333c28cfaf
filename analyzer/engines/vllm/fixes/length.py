"""Fixes of the pool's tokens: a shorter context, a smaller cache dtype."""

from __future__ import annotations

from analyzer.engines.computed import Computed
from analyzer.engines.vllm import flags, kv
from analyzer.engines.vllm.eras import as_range
from analyzer.engines.vllm.fixes.plan import Plan
from analyzer.engines.vllm.pool import cached_shape
from analyzer.engines.vllm.printed import HALF_HUNDREDTH
from analyzer.model import FlagChange, Text
from analyzer.model.units import human
from analyzer.model.versions import Range

FLAG = "--max-model-len"
FP8 = "--kv-cache-dtype"
#: What a cache of one byte a value is called; 0.3.0 to 0.4.0 know the second name only.
EIGHT_BITS = ("fp8", "fp8_e5m2")
#: Releases whose kernels for latents refuse an fp8 cache (NotImplementedError): all of them, and Triton's, which the line names.
WITHOUT_FP8_MLA, WITHOUT_FP8_TRITON_MLA = Range.parse("<0.10.2"), Range.parse("<0.15.0")
TRITON_MLA = "vllm.sign.triton_mla"


def max_model_len_fits(plan: Plan) -> Computed | None:
    """The longest context that the pool holds: the engine's own estimate, its tokens (V0), or in proportion to need and pool."""
    before = plan.max_len
    to, verified = longest(plan)
    if before is None or to is None or to >= before:
        return None
    needed, available = plan.needed, plan.pool if plan.pool is not None else plan.view.bytes("kv_cache.available")
    values: dict[str, str | Text] = {
        "flag": FLAG,
        "before": str(before),
        "to": str(to),
        "needed": human(needed) if needed is not None else f"{before} tokens",
        "available": human(available) if available is not None else f"{plan.tokens} tokens",
    }
    return Computed((FlagChange(FLAG, before, to),), values, plan.replaced(), verified=verified)


def longest(plan: Plan) -> tuple[int | None, bool]:
    """(longest context in tokens, whether the engine's own figures prove it); None where the inputs do not tell."""
    estimated = plan.view.number("kv_cache.estimated_max_len", plan.rank)
    if estimated:
        return int(estimated), True
    if plan.case.cause != "kv_cache.too_small_for_max_len":
        return None, False
    if plan.tokens and plan.view.generation != "v1":
        return plan.tokens, True  # V0: one request may take every block (vllm/worker/worker.py, raise_if_cache_size_invalid)
    if plan.pool and plan.needed and plan.max_len and not plan.hybrid:
        # 0.7.0 to 0.9.0.1 print need and pool without an estimate; plain attention grows in proportion.
        # Both are printed in hundredths of a GiB: the least pool over the largest need.
        share = (plan.pool - HALF_HUNDREDTH) / (plan.needed + HALF_HUNDREDTH)
        if plan.needed_by_shape is not None:
            share = (plan.pool - HALF_HUNDREDTH) / plan.needed_by_shape
        return max(0, int(share * plan.max_len)) // plan.block_size * plan.block_size or None, False
    return None, False


def kv_cache_fp8(plan: Plan) -> Computed | None:
    """One byte a value instead of two: twice the tokens in the same pool, less where the format keeps more.

    Not where the cache is that small already, for hybrids, nor where the number of blocks is set by hand.
    """
    if plan.kv_dtype not in ("auto", "bfloat16", "float16", "None") or plan.hybrid or plan.case.on_cpu or plan.override is not None:
        return None
    if plan.shape is not None and plan.shape.latent is not None and _latent_stays_wide(plan):
        return None
    dtype = str(plan.setting("--dtype") or "")
    if "float32" in dtype:
        return None
    tokens = plan.tokens
    if tokens is None and plan.pool and plan.needed and plan.max_len:
        tokens = int(plan.pool / plan.needed * plan.max_len)
    if tokens is None:
        return None
    after = int(tokens * _smaller(plan))
    if plan.case.cause == "kv_cache.too_small_for_max_len" and plan.max_len is not None and after < plan.max_len:
        return None
    newest = flags.resolve(plan.where)[-1:]
    to = next((name for name in EIGHT_BITS if newest and flags.takes(FP8, name, newest[0])), EIGHT_BITS[0])
    values: dict[str, str | Text] = {"flag": FP8, "to": to, "tokens_before": str(tokens), "tokens_after": str(after)}
    # Whether the checkpoint brings an fp8 cache of its own, and whether this GPU's backend takes one, the log does not say.
    stated = plan.setting(FP8)
    return Computed((FlagChange(FP8, None if stated is None else str(stated), to),), values, plan.replaced(), verified=False)


def _latent_stays_wide(plan: Plan) -> bool:
    """Whether no kernel for latents (MLA) takes an fp8 cache: none before 0.10.2, Triton's not to 0.14.x (``attention/backends/mla``)."""
    span = as_range(plan.where)
    return bool(span & WITHOUT_FP8_MLA) or (TRITON_MLA in plan.view.attempt.signs and bool(span & WITHOUT_FP8_TRITON_MLA))


def _smaller(plan: Plan) -> float:
    """How many times the tokens an fp8 cache holds: by the model's shape, two where that is not known."""
    shape = cached_shape(plan.view)
    now, then = (None if shape is None else kv.token_bytes_of_layer(shape, kv_cache_dtype=name) for name in (None, "fp8"))
    return now / then if now and then else 2
