"""Models whose layers have windows: what the model's shape and the printed concurrency tell together of requests of other lengths.

Arithmetic: analyzer/engines/vllm/kv.py. The inputs seldom state how many tokens may be in flight: what gives the printed concurrency is so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from analyzer.engines.vllm import kv
from analyzer.engines.vllm.eras import Where
from analyzer.engines.vllm.shapes import Shape

#: How far a concurrency may lie from the printed one: two digits are printed, and the pool's size is rounded as well.
PART, LEAST = 0.02, 0.01

T = TypeVar("T")


def groups(shape: Shape, *, block_size: int, tensor_parallel: int, kv_cache_dtype: str | None, dtype: object) -> kv.Pool | None:
    """The pool's groups of layers by the model's shape; ``dtype``: the model's as the inputs state it (``auto``, ``torch.bfloat16``)."""
    named = str(dtype).removeprefix("torch.") if dtype not in (None, "auto") else None
    kinds = kv.layers_of(shape, block_size=block_size, tensor_parallel=tensor_parallel, kv_cache_dtype=kv_cache_dtype, model_dtype=named)
    return None if kinds is None else kv.group_layers(kinds)


def in_flight(where: Where, batched: int | None, asynchronous: object) -> list[kv.Run]:
    """What may be in flight: a step's tokens, from 0.26.0 on twice where scheduling is asynchronous; both where no input says which."""
    choices = [asynchronous] if isinstance(asynchronous, bool) else [False, True]
    sizes = {kv.in_flight_tokens(where, batched, async_scheduling=choice) for choice in choices}
    return [kv.Run(size) for size in sorted(size for size in sizes if size is not None)]


def fitting(runs: Sequence[kv.Run], pool: kv.Pool, size: int, length: int, printed: float) -> list[kv.Run]:
    """Those of ``runs`` with which a pool of ``size`` bytes holds the ``printed`` number of requests of ``length`` tokens."""
    blocks = kv.num_blocks(size, pool)
    return [run for run in runs if abs((kv.max_concurrency(pool, blocks, length, run) or 0) - printed) <= PART * printed + LEAST]


def agreed(values: Iterable[T]) -> T | None:
    """The one value; None where they differ, or there is none."""
    found = set(values)
    return found.pop() if len(found) == 1 else None
