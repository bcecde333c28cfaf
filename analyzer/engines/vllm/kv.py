"""The KV cache: bytes per token and block, blocks from bytes, what one request needs, and the longest that fits.

Pages, groups and needs follow ``vllm/v1/kv_cache_interface.py`` and ``vllm/v1/core/kv_cache_utils.py`` (V1) and
``vllm/worker/cache_engine.py`` (V0). A *page* is one block of one layer; layers of one kind are cut into groups of equal size that share
one pool of blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from analyzer.engines.vllm.eras import as_range
from analyzer.engines.vllm.shapes import dtype_size
from analyzer.model.versions import Range

if TYPE_CHECKING:
    from collections.abc import Callable

    from analyzer.engines.vllm.eras import Generation, Where
    from analyzer.engines.vllm.shapes import Shape

#: Tokens per block on CUDA unless the option, the backend or a hybrid model sets another.
BLOCK_SIZE = 16

#: One-byte formats of --kv-cache-dtype.
_ONE_BYTE = frozenset({"fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc"})

#: One byte per value and two float32 scales per token and head (0.20.0+).
_PER_TOKEN_HEAD = frozenset({"fp8_per_token_head", "int8_per_token_head"})

#: Bytes per token and layer of the latent formats, whatever the model's width.
_LATENT_FORMATS = {"fp8_ds_mla": 656}


class LayerKind(StrEnum):
    """What a layer keeps of the past."""

    FULL = "full"  # every token
    SLIDING = "sliding"  # the last ``window`` tokens
    CHUNKED = "chunked"  # the current chunk of ``window`` tokens
    STATE = "state"  # a state of constant size (Mamba, linear attention)


@dataclass(frozen=True, slots=True)
class Layers:
    """Layers of one kind on one rank. ``page``: bytes of one block of one layer, whose ``block_size`` is in tokens.

    ``state_blocks``: blocks that a state takes per request: 1, more with prefix caching or speculative decoding.
    """

    kind: LayerKind
    count: int
    page: int
    block_size: int
    window: int | None = None
    state_blocks: int = 1


@dataclass(frozen=True, slots=True)
class Pool:
    """How the layers of a rank share the pool: ``group_size`` layers in each of the groups, padding included; one page size for all."""

    layers: tuple[Layers, ...]
    group_size: int
    page: int

    @property
    def block_bytes(self) -> int:
        """Bytes of one block of the pool."""
        return self.group_size * self.page

    @property
    def groups(self) -> int:
        """Number of groups; each has its own block table."""
        return sum(-(-layers.count // self.group_size) for layers in self.layers)

    @property
    def block_size(self) -> int:
        """Tokens per block, the smallest of any kind."""
        return min(layers.block_size for layers in self.layers)

    @property
    def padding(self) -> int:
        """Layers that stand in the groups and do not exist."""
        return sum(-(-layers.count // self.group_size) * self.group_size - layers.count for layers in self.layers)


@dataclass(frozen=True, slots=True)
class Run:
    """What beside the length decides a request's need.

    ``in_flight``: tokens scheduled at once: max_num_batched_tokens, from 0.26.0 on times the batches in flight (see in_flight_tokens);
    None where unknown, which only matters to windows and chunks. ``context_parallel``: ranks among which a request's tokens are split.
    """

    in_flight: int | None = None
    context_parallel: int = 1


def _ceil(value: int, by: int) -> int:
    return -(-value // by)


def kv_heads_per_rank(kv_heads: int, tensor_parallel: int) -> int:
    """KV heads that one rank holds: a rank never holds less than one, so beyond ``kv_heads`` ranks the cache is replicated."""
    if kv_heads < 1 or tensor_parallel < 1:
        raise ValueError("heads and ranks are at least 1")
    return max(1, kv_heads // tensor_parallel)


def cache_value_size(kv_cache_dtype: str | None, model_dtype: str | None) -> int | None:
    """Bytes of one cached value; ``auto`` (or not set) is the model's dtype. None for formats that are not whole bytes per value."""
    name = (kv_cache_dtype or "auto").lower()
    if name == "auto":
        return dtype_size(model_dtype)
    return 1 if name in _ONE_BYTE or name in _PER_TOKEN_HEAD else dtype_size(name)


def token_bytes_of_layer(
    shape: Shape, *, tensor_parallel: int = 1, kv_cache_dtype: str | None = None, model_dtype: str | None = None
) -> int | None:
    """Bytes that one token takes in one layer of one rank: ``2 × heads × head_dim × bytes``, for MLA ``latent × bytes`` on every rank.

    ``model_dtype`` None: the shape's. None where the format's size is not known. With an index cache fp8 is taken to be fp8_ds_mla, which
    it was before 0.20 and still is but where a backend wants it plain (``model_executor/models/config.py``, ``mla_attention.py``).
    """
    name = (kv_cache_dtype or "auto").lower()
    if shape.indexer and name in _ONE_BYTE:
        name = "fp8_ds_mla"
    if shape.latent is not None and name in _LATENT_FORMATS:
        return _LATENT_FORMATS[name] + shape.indexer
    size = cache_value_size(kv_cache_dtype, model_dtype or shape.dtype)
    if size is None:
        return None
    if shape.latent is not None:
        return shape.latent * size + shape.indexer
    heads = kv_heads_per_rank(shape.kv_heads, tensor_parallel)
    scales = 8 * heads if name in _PER_TOKEN_HEAD else 0
    return 2 * heads * shape.head_dim * size + scales


def bytes_per_token(
    shape: Shape,
    *,
    tensor_parallel: int = 1,
    kv_cache_dtype: str | None = None,
    model_dtype: str | None = None,
    layers: int | None = None,
) -> int | None:
    """Bytes that one more token takes on one rank while every layer keeps it. ``layers``: of this pipeline stage, None for all.

    Right for the growth of plain models, and an upper bound where windows apply. None where the format or the layers are not known.
    """
    one = token_bytes_of_layer(shape, tensor_parallel=tensor_parallel, kv_cache_dtype=kv_cache_dtype, model_dtype=model_dtype)
    return None if one is None else one * (shape.kv_layers if layers is None else layers)


def stage_layers(layers: int, pipeline_parallel: int, partition: str | None = None) -> tuple[int, ...] | None:
    """Layers of every pipeline stage. ``partition``: VLLM_PP_LAYER_PARTITION. None where they do not divide evenly and none is given.

    Raises ValueError for a partition that is not of these layers.
    """
    if partition:
        parts = tuple(int(part) for part in partition.split(","))
        if len(parts) != pipeline_parallel or sum(parts) != layers:
            raise ValueError(f"{partition!r} does not split {layers} layers into {pipeline_parallel} stages")
        return parts
    return None if layers % pipeline_parallel else (layers // pipeline_parallel,) * pipeline_parallel


def layers_of(
    shape: Shape,
    *,
    block_size: int = BLOCK_SIZE,
    tensor_parallel: int = 1,
    kv_cache_dtype: str | None = None,
    model_dtype: str | None = None,
    hybrid: bool = True,
    state_blocks: int | None = None,
) -> tuple[Layers, ...] | None:
    """The layers of one rank (without pipeline parallelism) as the cache sees them.

    ``hybrid``: the hybrid manager is on (V1, 0.9.1+); else windows are sized as full attention. With state layers ``block_size`` has to be
    the aligned one ("Setting attention block size to …"), their page is padded to the same bytes. None where the shape leaves it open.
    """
    one = token_bytes_of_layer(shape, tensor_parallel=tensor_parallel, kv_cache_dtype=kv_cache_dtype, model_dtype=model_dtype)
    if one is None or (hybrid and not shape.windows_known) or (shape.state_layers and state_blocks is None):
        return None
    page = one * block_size
    local = shape.window_layers if hybrid and shape.window is not None else 0
    found = []
    if shape.kv_layers > local:
        found.append(Layers(LayerKind.FULL, shape.kv_layers - local, page, block_size))
    if local:
        kind = LayerKind.CHUNKED if shape.chunked else LayerKind.SLIDING
        found.append(Layers(kind, local, page, block_size, shape.window))
    if shape.state_layers:
        found.append(Layers(LayerKind.STATE, shape.state_layers, page, block_size, state_blocks=state_blocks or 1))
    return tuple(found)


def group_layers(layers: tuple[Layers, ...]) -> Pool | None:
    """The groups of V1 (0.9.1+): as many layers in each as the kind with the fewest has.

    None where pages differ, and where one kind has a little more layers than the other (less than half again): versions differ there.
    """
    if not layers or len({kind.page for kind in layers}) > 1:
        return None
    counts = [kind.count for kind in layers]
    low, high = min(counts), max(counts)
    if low < high < 1.5 * low:
        return None
    return Pool(layers, low, layers[0].page)


def blocks_of_request(layers: Layers, length: int, run: Run) -> int | None:
    """Blocks of one layer that a request of ``length`` tokens takes; None where the tokens in flight are needed and not known.

    Full ``ceil(length / block)``; window ``ceil(min(window − 1 + in flight, length) / block) + 1`` (0.8.3+); chunk
    ``ceil(min(chunk + in flight, length) / block)``; a state its fixed number.
    """
    if layers.kind is LayerKind.STATE:
        return layers.state_blocks
    if layers.kind is LayerKind.FULL:
        return _ceil(_ceil(length, run.context_parallel), layers.block_size)
    if run.in_flight is None or layers.window is None:
        return None
    if layers.kind is LayerKind.SLIDING:
        return _ceil(min(layers.window - 1 + run.in_flight, length), layers.block_size) + 1
    return _ceil(min(layers.window + run.in_flight, length), layers.block_size)


def request_blocks(pool: Pool, length: int, run: Run) -> int | None:
    """Blocks of the pool that one request of ``length`` takes, over all groups; None where the tokens in flight are not known."""
    total = 0
    for layers in pool.layers:
        blocks = blocks_of_request(layers, length, run)
        if blocks is None:
            return None
        total += blocks * _ceil(layers.count, pool.group_size)
    return total


def needed(pool: Pool, length: int, run: Run, where: Where = None) -> int | None:
    """Bytes that vLLM asks for one request of ``length`` tokens (the check of V1).

    Before 0.14.0 summed over the layers that exist; from then on over the groups, padding included. None where the tokens in flight are
    not known, or where the range spans the change and there is padding.
    """
    if pool.padding:
        span = as_range(where)
        old, new = bool(span & Range.parse("<0.14.0")), bool(span & Range.parse(">=0.14.0"))
        if old and new:
            return None
        if old:
            total = 0
            for layers in pool.layers:
                blocks = blocks_of_request(layers, length, run)
                if blocks is None:
                    return None
                total += blocks * layers.count * layers.page
            return total
    blocks = request_blocks(pool, length, run)
    return None if blocks is None else blocks * pool.block_bytes


def longest(fits: Callable[[int], bool], most: int) -> int:
    """The largest length in [1, most] that ``fits`` (a length above one that does not, does not either), by bisection; 0: none."""
    if most < 1 or not fits(1):
        return 0
    low, high = 1, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def max_len_that_fits(available: int, pool: Pool, max_model_len: int, run: Run, where: Where = None) -> int | None:
    """The longest request (at most ``max_model_len``) whose need is within ``available`` bytes, as vLLM estimates it; 0 where none is.

    None where the need cannot be told.
    """
    if needed(pool, max_model_len, run, where) is None:
        return None
    return longest(lambda length: (needed(pool, length, run, where) or 0) <= available, max_model_len)


def num_blocks(available: int, pool: Pool) -> int:
    """Blocks of a pool of ``available`` bytes (V1): ``available // page // group size``, never below 0. One of them is the null block."""
    return max(0, available // pool.page // pool.group_size)


def v0_block_bytes(page: int, layers: int) -> int:
    """Bytes of a block of V0: one page in each attention layer of the rank."""
    return page * layers


def v0_blocks(available: int, block_bytes: int) -> int:
    """GPU (or, of the swap space, CPU) blocks of V0: ``available // block``, never below 0. The smallest rank decides."""
    return max(0, available // block_bytes)


def max_concurrency(pool: Pool, blocks: int, max_model_len: int, run: Run) -> float | None:
    """Full-length requests that the pool holds (V1, 0.9.1+): ``blocks / blocks of one request``; None where that is not known."""
    one = request_blocks(pool, max_model_len, run)
    return None if not one else blocks / one


def concurrency_from_tokens(tokens: int, max_model_len: int) -> float:
    """The printed concurrency of V0 and of V1 0.7.1 to 0.9.0.1: ``tokens / max_model_len``."""
    return tokens / max_model_len


def in_flight_tokens(
    where: Where,
    max_num_batched_tokens: int | None,
    *,
    async_scheduling: bool | None = None,
    pipeline_parallel: int = 1,
    v2_runner: bool | None = None,
) -> int | None:
    """Tokens that may be scheduled and not yet settled: one batch before 0.26.0, then one per stage and one more if async.

    (``vllm/config/vllm.py``.) None where a setting that decides it is not known.
    """
    if max_num_batched_tokens is None:
        return None
    span = as_range(where)
    old, new = bool(span & Range.parse("<0.26.0")), bool(span & Range.parse(">=0.26.0"))
    if not new:
        return max_num_batched_tokens
    if old or async_scheduling is None:
        return None
    if not async_scheduling:
        return pipeline_parallel * max_num_batched_tokens
    if pipeline_parallel > 1 and v2_runner is None:
        return None
    more = 1 if v2_runner or pipeline_parallel == 1 else 0
    return (pipeline_parallel + more) * max_num_batched_tokens


def generation_sizes_windows(where: Where, generation: Generation | None) -> bool | None:
    """Whether windows shrink what a request needs: V1 from 0.9.1 on (hybrid manager); V0 and earlier V1 size every layer as full attention.

    None where that is open. (A model whose layers all have a window is one type and bounded from 0.8.3 on.)
    """
    if generation == "v0":
        return False
    span = as_range(where)
    old, new = bool(span & Range.parse("<0.9.1")), bool(span & Range.parse(">=0.9.1"))
    if (old and new) or (generation is None and span & Range.parse("<0.11.0")):
        return None
    return new
