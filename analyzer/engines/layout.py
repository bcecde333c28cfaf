"""How the memory of a running server is laid out, in words: the same for every engine, from its ledgers."""

from __future__ import annotations

from collections.abc import Sequence

from analyzer.engines.case import Case
from analyzer.model import Ledger, Source, Text
from analyzer.model.units import human

#: Ledger lines that are named, with their words.
PARTS: tuple[tuple[str, str, str], ...] = (
    ("weights", "weights", "权重"),
    ("draft_weights", "draft model", "草稿模型"),
    ("kv_cache", "KV cache", "KV cache"),
    ("state_cache", "recurrent state", "循环状态"),
    ("compute_buffers", "compute buffers", "计算缓冲"),
    ("cuda_graphs", "CUDA graphs", "CUDA graph"),
    ("other_processes", "others", "其他进程"),
    ("free", "free", "空闲"),
)


def pool_note(case: Case) -> Sequence[tuple[str, list[Source]]]:
    """The note that a pool made at the start keeps its memory whatever the load; for engines that make one."""
    for ledger in case.ledgers:
        line = ledger.line("kv_cache")
        if line is not None and line.source is not None:
            return [("healthy.kv_preallocation", [line.source])]
    return ()


def memory_layout(case: Case) -> dict[str, str | Text]:
    """``{memory_layout}``: what lies on each GPU, for a running server whose ledger has parts."""
    if case.state not in ("healthy", "degraded"):
        return {}
    told = [(ledger, parts) for ledger in case.ledgers if (parts := _parts(ledger))]
    if not told:
        return {}
    english = "; ".join(f"GPU {ledger.gpu or 0}: " + ", ".join(f"{en} {size}" for en, _, size in parts) for ledger, parts in told)
    chinese = "；".join(f"GPU {ledger.gpu or 0}：" + "、".join(f"{zh} {size}" for _, zh, size in parts) for ledger, parts in told)
    return {"memory_layout": Text(english, chinese)}


def _parts(ledger: Ledger) -> list[tuple[str, str, str]]:
    return [(en, zh, human(size)) for name, en, zh in PARTS if (size := ledger.get(name)) is not None]
