"""What the model's shape says where the log is silent: the pool's bytes from its blocks, the weights from the parameters. Estimates."""

from __future__ import annotations

from dataclasses import dataclass

from analyzer.engines.vllm import kv, shapes
from analyzer.facts.view import View
from analyzer.model.units import human

#: Tokens of a block on CUDA where nothing states another size (vllm/config.py; vllm-memory-model.md, section 5).
BLOCK = 16


@dataclass(frozen=True, slots=True)
class Estimate:
    """Bytes and how they come about."""

    bytes: int
    formula: str


def shape_of(view: View) -> tuple[shapes.Shape, str | None] | None:
    """(shape, quantization that the name tells) of the model that ran: from its config.json, else from its name."""
    name = str(view.setting("--model") or "")
    if view.model is not None:
        found = shapes.from_config(view.model)
        if found is not None:
            return found, shapes.quantization_of(name) if name else None
    match = shapes.lookup(name) if name else None
    return None if match is None else (match.shape, match.quantization)


def pool_estimate(view: View) -> Estimate | None:
    """The pool from the number of blocks (V0, early V1) and the bytes that a token takes by the model's shape."""
    blocks = view.number("kv_cache.gpu_blocks")
    known = shape_of(view)
    if blocks is None or known is None:
        return None
    shape = known[0]
    tensor = view.setting("--tensor-parallel-size")
    dtype = view.setting("--kv-cache-dtype")
    model_dtype = view.setting("--dtype")
    token = kv.bytes_per_token(
        shape,
        tensor_parallel=tensor if isinstance(tensor, int) and tensor > 0 else 1,
        kv_cache_dtype=str(dtype) if dtype is not None else None,
        model_dtype=str(model_dtype).removeprefix("torch.") if model_dtype not in (None, "auto") else None,
    )
    if token is None or shape.state_layers:
        return None
    size = view.number("kv_cache.block_size") or BLOCK
    return Estimate(int(blocks) * int(size) * token, f"{int(blocks)} blocks × {int(size)} tokens × {human(token)} a token (model's shape)")


def weights_estimate(view: View) -> int | None:
    """Bytes of all weights, by the model's parameters and the format that its name or ``--quantization`` tells."""
    known = shape_of(view)
    if known is None:
        return None
    shape, quantization = known
    chosen = view.setting("--quantization")
    dtype = view.setting("--dtype")
    method = quantization or (str(chosen) if chosen not in (None, "None") else None)
    return shapes.weights_bytes(shape, method, str(dtype).removeprefix("torch.") if dtype is not None else None)
