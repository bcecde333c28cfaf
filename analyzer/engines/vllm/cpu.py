"""The CPU backend: how large the KV pool in host memory is (``vllm/worker/cpu_worker.py``, ``vllm/v1/worker/cpu_worker.py``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analyzer.engines.vllm.eras import as_range
from analyzer.engines.vllm.identity import budget_bytes
from analyzer.model.units import GIB
from analyzer.model.versions import Range

if TYPE_CHECKING:
    from analyzer.engines.vllm.eras import Where


def kv_space(where: Where, asked: int | None = None, *, node_total: int | None = None) -> int | None:
    """Bytes of the pool up to 0.19.1. ``asked``: VLLM_CPU_KVCACHE_SPACE in GiB, 0 or None where it is not set.

    Not set: 4 GiB up to 0.12.0, from 0.13.0 on half of the NUMA node's memory. None for later releases (kv_auto) and where it is open.
    """
    span = as_range(where)
    if asked:
        return asked * GIB
    fixed, half, later = (bool(span & Range.parse(text)) for text in ("<0.13.0", ">=0.13.0,<0.20.0", ">=0.20.0"))
    if later or fixed == half:
        return None
    if fixed:
        return 4 * GIB
    return None if node_total is None else node_total // 2


def kv_auto(node_total: int, utilization: float, consumed: int) -> int:
    """Bytes of the pool from 0.20.0 on where none is set: ``ceil(node × utilization) − resident memory``; may be negative."""
    return budget_bytes(node_total, utilization, up=True) - consumed


def space_fits(space: int, available: int) -> bool:
    """0.20.0+: the pool must not be larger than what the node has available."""
    return space <= available
