"""What the model's shape says where the log is silent: the pool's bytes from its blocks, the weights from the parameters. Estimates."""

from __future__ import annotations

from dataclasses import dataclass, replace

from analyzer.engines.vllm import kv, shapes
from analyzer.engines.vllm.changes import where
from analyzer.engines.vllm.eras import as_range
from analyzer.facts.view import View
from analyzer.model import Source
from analyzer.model.units import human
from analyzer.model.versions import Range

#: The line that says that the number of blocks was set by hand.
BLOCKS_OVERRIDE = "vllm.kv.blocks_override"
#: Lines that say what the profile left for the pool, before anything overrides it.
PROFILED = frozenset(f"vllm.profiling.{name}" for name in ("kv_available", "v0_terms", "v0_results", "multimodal_reserve"))
#: Releases that expand a latent into its heads, and those that cache it; those of them that align it.
WITHOUT_MLA, WITH_MLA, ALIGNED = (Range.parse(text) for text in ("<0.7.1", ">=0.7.1", ">=0.7.2,<0.8.0"))
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


@dataclass(frozen=True, slots=True)
class Override:
    """A pool of ``blocks`` by --num-gpu-blocks-override.

    ``profiled``: blocks that the memory found would have made; ``block``: bytes of one, as exact as printed figures make it; ``pool``:
    bytes of all of them. None: these inputs do not tell.
    """

    blocks: int
    profiled: int | None = None
    block: int | None = None
    source: Source | None = None

    @property
    def pool(self) -> int | None:
        return None if self.block is None else self.blocks * self.block


def overridden(view: View, rank: int | None) -> Override | None:
    """The override that a line shows to be in force; bytes of a block are what was available over the blocks that it would have made.

    The line stands after V0's profile, in V1 after the check of one request (to 0.20.0) or before it. 0.9.1 prints it to no effect.
    """
    sign = view.attempt.signs.get(BLOCKS_OVERRIDE)
    if sign is None or view.version == "0.9.1":
        return None
    available = [fact for fact in view.all("kv_cache.available") if fact.pattern in PROFILED and fact.bytes]
    own = next((fact for fact in reversed(available) if fact.rank == rank), available[0] if available else None)
    profiled = [int(value) for value in sign.values("profiled")]
    ranks = sorted({fact.rank for fact in available if fact.rank is not None})
    # Every worker has a line, equal ones fall together: as many as ranks stand in their order.
    index = ranks.index(rank) if rank in ranks and len(profiled) == len(ranks) else 0
    count = profiled[index] if profiled else None
    block = own.bytes // count if own is not None and own.bytes is not None and count else None
    return Override(int(sign.values("blocks")[-1]), count, block, view.source(sign.last))


def cached_shape(view: View) -> shapes.Shape | None:
    """The model's shape as this version caches it; None where it is not known or versions differ.

    A latent (MLA) is cached as such from 0.7.1 on, unless VLLM_MLA_DISABLE says otherwise; in 0.7.2 and 0.7.3 in whole 256 bytes. Else the
    heads are cached in full; before, their 192 values were padded to 256 (``ModelConfig.get_head_size``, ``CacheEngine``).
    """
    known = shape_of(view)
    if known is None or known[0].latent is None:
        return None if known is None else known[0]
    shape, span = known[0], as_range(where(view))
    padded = bool(span & WITHOUT_MLA)
    if padded and span & WITH_MLA:
        return None
    if not padded and _variable(view, "VLLM_MLA_DISABLE", "0") == "0":
        aligned = bool(span & ALIGNED) and _variable(view, "VLLM_CUDA_MEM_ALIGN_KV_CACHE", "1") != "0"
        return replace(shape, latent=-(-(shape.latent or 0) // 128) * 128) if aligned else shape
    if not padded and shape.key_dim is None:
        return None
    return replace(shape, latent=None, head_dim=256 if padded else shape.key_dim or 0)


def _variable(view: View, name: str, default: str) -> str:
    setting = view.environment.get(name)
    return default if setting is None or setting.value is None else str(setting.value)


def largest_stage(view: View, shape: shapes.Shape) -> int | None:
    """Layers of the largest pipeline stage, whose blocks are the largest: all without pipeline parallelism."""
    degree = view.setting("--pipeline-parallel-size")
    if not isinstance(degree, int) or degree < 2:
        return None
    try:
        stages = kv.stage_layers(shape.kv_layers, degree, _variable(view, "VLLM_PP_LAYER_PARTITION", "") or None)
    except ValueError:
        return None
    return max(stages) if stages is not None else -(-shape.kv_layers // degree)


def pool_estimate(view: View) -> Estimate | None:
    """The pool from the number of blocks (V0, early V1) and the bytes that a token takes by the model's shape."""
    blocks = view.number("kv_cache.gpu_blocks")
    shape = cached_shape(view)
    if blocks is None or shape is None:
        return None
    tensor = view.setting("--tensor-parallel-size")
    dtype = view.setting("--kv-cache-dtype")
    model_dtype = view.setting("--dtype")
    token = kv.bytes_per_token(
        shape,
        tensor_parallel=tensor if isinstance(tensor, int) and tensor > 0 else 1,
        kv_cache_dtype=str(dtype) if dtype is not None else None,
        model_dtype=str(model_dtype).removeprefix("torch.") if model_dtype not in (None, "auto") else None,
        layers=largest_stage(view, shape),
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
