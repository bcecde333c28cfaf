"""TGI's ledger: the pool by the model's shape (its log prints tokens only), and the card where an out-of-memory sentence shows it.

``KV bytes = tokens × layers × 2 × kv heads of a shard × head size × bytes`` (reference/engines.md, section 4).
Weights and peak are never printed.
"""

from __future__ import annotations

from collections.abc import Mapping

from analyzer.engines import device
from analyzer.engines.case import Case
from analyzer.engines.lines import Lines, spell
from analyzer.facts.view import View
from analyzer.model import Ledger
from analyzer.model.units import human

#: Bytes of a cache's value by the names that TGI and config.json give its type.
BYTES = {"float16": 2, "bfloat16": 2, "half": 2, "float32": 4, "fp8_e5m2": 1, "fp8_e4m3fn": 1, "fp8e4m3fn": 1, "fp8e5m2": 1}


def ledgers(case: Case) -> list[Ledger]:
    """One ledger a shard that a line is about: those of out-of-memory sentences, else shard 0's (all have the same pool)."""
    return device.sentence_ledgers(case, _plan)


def _plan(view: View, lines: Lines) -> None:
    _pool(view, lines)
    total, share = lines.get("total"), view.number("budget.utilization")
    if total is not None and share:
        lines.derived("budget", round(total * share), spell("total × cuda_memory_fraction = {t} × {f}", t=total, f=float(share)))


def _pool(view: View, lines: Lines) -> None:
    blocks, size, tokens = (view.number(name) for name in ("kv_cache.gpu_blocks", "kv_cache.block_size", "kv_cache.tokens"))
    held = int(blocks) * int(size) if blocks and size else int(tokens) if tokens else None
    each = token_bytes(view)
    if held is not None and each is not None:
        lines.estimated("kv_cache", held * each, f"{held} tokens × {human(each)} by the model's shape")


def token_bytes(view: View) -> int | None:
    """Bytes of one token in the cache of one shard, by config.json; None without it, or for a latent (MLA) cache."""
    config = view.model
    if config is None:
        return None
    inner = config.get("text_config")
    shape: Mapping[str, object] = inner if isinstance(inner, dict) else config
    if shape.get("kv_lora_rank"):
        return None
    layers, heads, hidden = (_whole(shape, name) for name in ("num_hidden_layers", "num_attention_heads", "hidden_size"))
    kv_heads = _whole(shape, "num_key_value_heads") or heads
    head = _whole(shape, "head_dim") or (hidden // heads if hidden and heads else None)
    stated = view.setting("--kv-cache-dtype")
    kind = str(stated or view.setting("--dtype") or shape.get("torch_dtype") or shape.get("dtype") or config.get("torch_dtype") or "")
    width = BYTES.get(kind.lower().replace("-", "_"))
    if not layers or not kv_heads or not head or width is None:
        return None
    shards = int(view.number("parallel.tp") or 1)
    return layers * 2 * max(kv_heads // shards, 1) * head * width


def _whole(shape: Mapping[str, object], name: str) -> int | None:
    value = shape.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
