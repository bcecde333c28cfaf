"""What vLLM's own lines say of the KV cache when the model's shape is not known: figures read back, with the room that rounding leaves."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from analyzer.engines.vllm.eras import as_range
from analyzer.model.units import GIB
from analyzer.model.versions import Range

if TYPE_CHECKING:
    from analyzer.engines.vllm.eras import Where
    from analyzer.engines.vllm.kv import Pool, Run

#: --swap-space when it is not given: per GPU, in V0.
SWAP_SPACE = 4 * GIB

#: Releases whose "GPU KV cache size" counts slots: ``blocks // groups × block size``; later ones say concurrency × length.
SLOTS = Range.parse("<0.20.1")
LATER = Range.parse(">=0.20.1")


#: Half of the last digit in which sizes are printed, bytes.
HALF_HUNDREDTH = GIB // 200

#: Releases whose check of one request takes the null block off the pool first (``vllm/v1/core/kv_cache_planning.py``).
NULL_BLOCK_COUNTS = Range.parse(">=0.33.0")


@dataclass(frozen=True, slots=True)
class Bounds:
    """A whole number that lies somewhere in [low, high]."""

    low: int
    high: int

    def __contains__(self, value: int) -> bool:
        return self.low <= value <= self.high

    @property
    def exact(self) -> bool:
        """Whether nothing is left open."""
        return self.low == self.high


def as_printed(value: float, unit: int = GIB, decimals: int = 2) -> Bounds:
    """The bytes that a figure rounded to ``decimals`` places may stand for: ``3.05 GiB`` is 3.045 to 3.055 GiB."""
    half = Fraction(1, 2 * 10**decimals)
    exact = Fraction(str(value))
    return Bounds(-((half - exact) * unit // 1), (exact + half) * unit // 1)


def block_bytes(needed: Bounds, length: int, block_size: int) -> Bounds:
    """Bytes of one block of the pool out of what ``length`` tokens need, for a model whose layers all keep every token."""
    blocks = -(-length // block_size)
    return Bounds(-(-needed.low // blocks), needed.high // blocks)


def token_bytes(needed: int, length: int, block_size: int = 1) -> float:
    """Bytes per token out of what ``length`` tokens need: the mean, right for plain models only."""
    return needed / (-(-length // block_size) * block_size)


def tokens_per_gib(needed: int, length: int, block_size: int = 1) -> int:
    """Tokens that one GiB of pool holds, rounded down, for plain models."""
    return int(GIB / token_bytes(needed, length, block_size))


def length_that_fits(needed: Bounds, length: int, available: Bounds, block_size: int) -> Bounds:
    """The longest request that fits into ``available`` where ``length`` tokens need ``needed``, for plain models, in whole blocks."""
    cost = block_bytes(needed, length, block_size)
    if available.high <= 0 or cost.high <= 0:
        return Bounds(0, 0)
    return Bounds(max(0, available.low) // cost.high * block_size, available.high // max(1, cost.low) * block_size)


@dataclass(frozen=True, slots=True)
class NeedLine:
    """What one request needs as ``fixed + per_token × length``: the share that does not grow (state, windows) and the one that does."""

    fixed: float
    per_token: float

    def at(self, length: int) -> int:
        """Bytes for ``length`` tokens, rounded up."""
        return int(-((-self.fixed - self.per_token * length) // 1))

    def length(self, available: int) -> int:
        """The longest request for ``available`` bytes, rounded down; 0 where even the fixed share does not fit."""
        return max(0, int((available - self.fixed) // self.per_token)) if self.per_token > 0 else 0


def need_line(needed: int, length: int, available: int, estimated_max_len: int) -> NeedLine | None:
    """The line through the two points that 0.9.1+ prints: ``length`` needs ``needed``, ``estimated_max_len`` needs ``available``.

    Never scale such a need in proportion: models with windows or states have a fixed share. None where the points do not make a rising
    line. The slope is as exact as the printed figures, some percent where the two are close.
    """
    if estimated_max_len >= length or available >= needed or estimated_max_len < 1:
        return None
    slope = (needed - available) / (length - estimated_max_len)
    fixed = needed - slope * length
    if fixed < 0:  # a plain model: what is below zero is rounding
        return NeedLine(0.0, needed / length)
    return NeedLine(fixed, slope)


def block_bytes_from_swap(cpu_blocks: int, swap_space: int = SWAP_SPACE) -> Bounds | None:
    """Bytes of a V0 block out of the CPU blocks that ``swap_space`` (per GPU) was cut into, rounded down. None for 0 blocks."""
    if cpu_blocks < 1:
        return None
    return Bounds(swap_space // (cpu_blocks + 1) + 1, swap_space // cpu_blocks)


def pool_from_blocks(blocks: int, cost: Bounds) -> Bounds:
    """Bytes of a pool of ``blocks``."""
    return Bounds(blocks * cost.low, blocks * cost.high)


def tokens_line(pool: Pool, blocks: int, max_model_len: int, run: Run, where: Where, *, context_parallel: int | None = None) -> int | None:
    """What "GPU KV cache size" prints (0.8.0+) for a pool of ``blocks``; None where the range spans the change or the need is not known.

    To 0.20.0 slots: ``blocks // groups × block size × context parallel``; from 0.20.1 ``int(concurrency × max_model_len)``.
    """
    from analyzer.engines.vllm.kv import max_concurrency

    span = as_range(where)
    slots, capacity = bool(span & SLOTS), bool(span & LATER)
    if slots and capacity:
        return None
    if slots:
        return blocks // pool.groups * pool.block_size * (run.context_parallel if context_parallel is None else context_parallel)
    concurrency = max_concurrency(pool, blocks, max_model_len, run)
    return None if concurrency is None else int(concurrency * max_model_len)


def blocks_from_tokens(
    tokens: int, block_size: int, where: Where, *, groups: int = 1, context_parallel: int = 1, max_model_len: int | None = None
) -> Bounds | None:
    """Blocks of the pool out of the "GPU KV cache size" line.

    To 0.20.0 exact up to the division by ``groups``. From 0.20.1 on only for one group of full attention (with ``max_model_len``): for
    models of several kinds the line cannot be read back. None there and where the range spans the change.
    """
    span = as_range(where)
    slots, capacity = bool(span & SLOTS), bool(span & LATER)
    if slots and capacity:
        return None
    if slots:
        per_group = tokens // (block_size * context_parallel)
        return Bounds(per_group * groups, per_group * groups + groups - 1)
    if groups != 1 or max_model_len is None:
        return None
    share = -(-max_model_len // context_parallel)
    one = -(-share // block_size)
    low = -(-tokens * one // max_model_len)
    return Bounds(low, max(low, ((tokens + 1) * one - 1) // max_model_len))


def blocks_of_v0_tokens(tokens: int, block_size: int) -> int:
    """Blocks out of V0's "tokens that can be stored in KV cache": ``tokens / block size``."""
    return tokens // block_size
