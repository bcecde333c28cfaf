"""The checks that stop a start of vLLM, and the setting with which each would have passed.

Sizes in bytes. Where the setting is a utilization it is in whole hundredths, rounded the safe way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from analyzer.engines.vllm.eras import as_range
from analyzer.engines.vllm.identity import budget_bytes
from analyzer.engines.vllm.inverse import utilization_for_free, utilization_needed
from analyzer.model.versions import Range

if TYPE_CHECKING:
    from analyzer.engines.vllm.eras import Where

#: Share of host memory above which the swap space is refused (``vllm/config.py``, to 0.17.1).
SWAP_REFUSED = 0.7


@dataclass(frozen=True, slots=True)
class Check:
    """Whether it passes; ``short``: what is missing (bytes, tokens or blocks, 0 where nothing is); ``flag`` and ``value`` that would pass.

    ``value`` is None where no value of this flag alone would do.
    """

    passed: bool
    short: int
    flag: str | None = None
    value: int | float | None = None


def start_free(free0: int, total: int, utilization: float) -> Check:
    """V1, 0.9.1+ (``startup-free-below``): the start is refused while ``free0 < total × utilization``."""
    budget = budget_bytes(total, utilization)
    fitting = utilization_for_free(total, max(0, free0))
    return Check(free0 >= budget, max(0, budget - free0), "--gpu-memory-utilization", fitting or None)


def profiling_sane(free0: int, free_after: int, where: Where) -> bool | None:
    """V1 (``profiling-error``): free memory must not have grown while profiling; to 0.14.1 it had to shrink, from 0.16.0 it may stay.

    None where equal figures meet a range that leaves both open (0.15 was not read).
    """
    if free0 != free_after:
        return free0 > free_after
    span = as_range(where)
    strict, lenient = bool(span & Range.parse("<0.16.0")), bool(span & Range.parse(">=0.15.0"))
    return None if strict and lenient else lenient


def pool_holds_one(
    total: int | None, budget: int | None, kv_cache: int, needed: int, free0: int | None = None, graphs_outside: int = 0
) -> Check:
    """V1, 0.7.0+ (``kv-too-small-v1``, per worker; ``kv-none-left``): a request of max_model_len needs ``needed`` bytes of ``kv_cache``.

    The value is the utilization that would have given them, None where total and budget are not known or the card cannot give it:
    ``utilization × total <= free0 − graphs_outside`` (or total, where free0 is not known).
    """
    passed = kv_cache > 0 and needed <= kv_cache
    value: float | None = None
    if total is not None and budget is not None:
        value = utilization_needed(total, budget, kv_cache, needed)
        bound = (total if free0 is None else min(free0, total)) - graphs_outside
        if value > 1 or budget_bytes(total, value) > bound:
            value = None
    return Check(passed, 0 if passed else max(1, needed - kv_cache), "--gpu-memory-utilization", value)


def v0_holds_one(blocks: int, block_size: int, max_model_len: int) -> Check:
    """V0, 0.2.7 to 0.10.2 (``kv-too-small-v0``): ``blocks × block_size`` tokens must hold max_model_len; 0 blocks are ``kv-none-left``.

    ``short`` is in tokens; the value is the largest --max-model-len that passes.
    """
    tokens = max(0, blocks) * block_size
    return Check(0 < max_model_len <= tokens, max(0, max_model_len - tokens), "--max-model-len", tokens or None)


def v0_blocks_missing(blocks: int, block_size: int, max_model_len: int) -> int:
    """Blocks that V0 lacks for one request of max_model_len."""
    return max(0, -(-max_model_len // block_size) - max(0, blocks))


def state_blocks(max_num_seqs: int, blocks: int) -> Check:
    """Hybrid models, 0.20.0+ (``mamba-blocks-too-few``): every sequence needs a block for its state: ``max_num_seqs <= blocks``."""
    return Check(max_num_seqs <= blocks, max(0, max_num_seqs - blocks), "--max-num-seqs", blocks if blocks > 0 else None)


def swap_space(host_total: int, per_gpu: int, gpus: int) -> Check:
    """The swap space (to 0.17.1), per GPU of this host: above 70 % of host memory the start is refused. The value is whole GiB per GPU."""
    asked = per_gpu * gpus
    most = int(host_total * SWAP_REFUSED)
    return Check(asked <= most, max(0, asked - most), "--swap-space", most // gpus // 2**30)


def batched_tokens(max_num_batched_tokens: int, max_model_len: int, *, chunked_prefill: bool) -> Check:
    """Without chunked prefill (V0) one step must hold a whole prompt: ``max_num_batched_tokens >= max_model_len``."""
    passed = chunked_prefill or max_num_batched_tokens >= max_model_len
    return Check(passed, 0 if passed else max_model_len - max_num_batched_tokens, "--max-num-batched-tokens", max_model_len)
