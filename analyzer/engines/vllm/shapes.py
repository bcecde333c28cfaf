"""Shapes of models: from the table of well-known ones (shapes.json, made by tools/model_shapes.py) or from a config.json.

A shape gives what the KV cache and the weights cost. What a table row or a config does not say is None, never a guess.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analyzer.model.units import GIB

if TYPE_CHECKING:
    from collections.abc import Mapping

_DATA = Path(__file__).with_name("shapes.json")


@dataclass(frozen=True, slots=True)
class Shape:
    """What of a model decides its memory.

    ``kv_layers``: layers whose cache grows with the length; the other ``state_layers`` keep a state of constant size per sequence.
    ``window``: tokens that ``window_layers`` of them look back (``chunked``: they look at chunks of that size instead). MLA: ``latent``
    values per token and layer, not divided by tensor parallelism; ``key_dim``: a head's keys where the latent is expanded; ``indexer``:
    bytes per token and layer of an index cache besides (sparse attention). ``windows_known`` False: whether windows apply could not be
    told.
    """

    layers: int
    kv_layers: int
    kv_heads: int
    head_dim: int
    attention_heads: int | None = None
    latent: int | None = None
    key_dim: int | None = None
    indexer: int = 0
    window: int | None = None
    window_layers: int = 0
    chunked: bool = False
    windows_known: bool = True
    dtype: str | None = None
    hidden_size: int | None = None
    vocab_size: int | None = None
    tied_embeddings: bool | None = None
    max_position_embeddings: int | None = None
    params_total: int | None = None
    experts: int | None = None
    native: str | None = None
    checkpoint: int | None = None

    @property
    def state_layers(self) -> int:
        """Layers that keep a state instead of keys and values."""
        return self.layers - self.kv_layers


@dataclass(frozen=True, slots=True)
class Match:
    """A table row found for a name. ``exact``: the row is of this very model; else of its sibling (base for instruct or the reverse),
    which has the same shape but perhaps another context length. ``quantization``: what the name says of its weights."""

    name: str
    shape: Shape
    exact: bool
    quantization: str | None


_QUANTIZATION = (
    ("awq", re.compile(r"awq")),
    ("gptq-int8", re.compile(r"gptq-?int8|gptq-8bit")),
    ("gptq", re.compile(r"gptq")),
    ("nvfp4", re.compile(r"nvfp4|fp4")),
    ("mxfp4", re.compile(r"mxfp4")),
    ("fp8", re.compile(r"fp8|w8a8-?fp8")),
    ("int4", re.compile(r"w4a16|w4a8|int4|autoround|auto-round|4bit|bnb|q4|hqq|exl2|marlin")),
    ("int8", re.compile(r"w8a8|w8a16|int8|8bit|q8")),
)
#: One word that says how weights are stored, at the end of a name.
_STORED = re.compile(
    r"[-.](?:awq|gptq|marlin|fp8|nvfp4|mxfp4|fp4|bf16|fp16|int4|int8|4bit|8bit|bnb|unsloth|gguf|autoround|auto-round|quantized|dynamic"
    r"|block|static|w4a16|w8a8|w8a16|w4a8|g128|q\d[\w-]*|mlx|hqq|exl2|gs128|sym|kv|tensor|per|channel)$"
)
_SIBLING = re.compile(r"(?:-(?:instruct|chat|it|base|pt|hf|thinking|\d{4}))+$")


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = json.loads(_DATA.read_text(encoding="utf-8"))
    return table


def _name(text: str) -> str:
    """The model's own name out of a hub id, a path or a cache folder, in lower case with dashes."""
    path = text.strip().rstrip("/").replace("\\", "/")
    cached = re.search(r"models--[^/]*?--([^/]+)", path)
    name = cached[1] if cached else re.sub(r"/snapshots/[0-9a-f]+$", "", path).rsplit("/", 1)[-1]
    return re.sub(r"^meta-(?=llama)", "", name.lower().replace("_", "-"))


@cache
def _names() -> dict[str, str]:
    return {_name(known): known for known in _table()}


def quantization_of(name: str) -> str | None:
    """What the end of a model's name says of its weights (``awq``, ``gptq``, ``int4``, ``int8``, ``fp8``, ``nvfp4`` …), None: nothing."""
    whole = _name(name)
    bare = _bare(whole)
    said = whole[len(bare) :]
    return next((method for method, words in _QUANTIZATION if words.search(said)), None)


def _bare(name: str) -> str:
    """``name`` without the words at its end that say how the weights are stored."""
    while matched := _STORED.search(name):
        name = name[: matched.start()]
    return name


@lru_cache(maxsize=256)
def lookup(name: str) -> Match | None:
    """The table's row for a model's name or path; None where there is none. Organisations, folders and quantization are looked through.

    A name that says more (a fine-tune, another size) finds nothing: a wrong shape is worse than none.
    """
    whole = _name(name)
    quantization = quantization_of(name)
    for candidate in dict.fromkeys((whole, _bare(whole))):
        known = _names().get(candidate)
        if known is not None:
            return Match(known, _shape(known), True, quantization)
    stem = _SIBLING.sub("", _bare(whole))
    siblings = [known for other, known in _names().items() if _SIBLING.sub("", other) == stem]
    shapes = {replace(_shape(known), max_position_embeddings=None) for known in siblings}
    if len(shapes) != 1:
        return None
    return Match(siblings[0], shapes.pop(), False, quantization)


@cache
def _shape(name: str) -> Shape:
    row = _table()[name]
    latent = row["kv_lora_rank"] + row["qk_rope_head_dim"] if "kv_lora_rank" in row else None
    key_dim = row["qk_nope_head_dim"] + row["qk_rope_head_dim"] if "qk_nope_head_dim" in row else None
    size = row.get("checkpoint_gib")
    return Shape(
        layers=row["layers"],
        kv_layers=row.get("kv_layers", row["layers"]),
        kv_heads=row["kv_heads"],
        head_dim=row.get("head_dim") or latent or 0,
        attention_heads=row.get("attention_heads"),
        latent=latent,
        key_dim=key_dim,
        indexer=row.get("indexer", 0),
        window=row.get("window"),
        window_layers=row.get("window_layers", 0),
        chunked=row.get("chunked", False),
        dtype=row.get("dtype"),
        hidden_size=row.get("hidden_size"),
        vocab_size=row.get("vocab_size"),
        tied_embeddings=row.get("tied_embeddings"),
        max_position_embeddings=row.get("max_position_embeddings"),
        params_total=row.get("params_total"),
        experts=row.get("num_experts"),
        native=row.get("native"),
        checkpoint=round(size * GIB) if size is not None else None,
    )


def _whole(config: Mapping[str, Any], *names: str) -> int | None:
    for name in names:
        value = config.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None


def from_config(config: Mapping[str, Any]) -> Shape | None:
    """The shape out of a config.json (Hugging Face), its ``text_config`` for a multimodal model; None where layers or heads are missing."""
    nested = config.get("text_config")
    text: dict[str, Any] = {**config, **nested} if isinstance(nested, dict) else dict(config)
    layers = _whole(text, "num_hidden_layers", "n_layer", "num_layers")
    heads = _whole(text, "num_attention_heads", "n_head")
    kv_heads = _whole(text, "num_key_value_heads", "multi_query_group_num") or heads
    hidden = _whole(text, "hidden_size", "n_embd")
    head_dim = _whole(text, "head_dim", "kv_channels")
    if head_dim is None and hidden is not None and heads:
        head_dim = hidden // heads
    rank, rope, nope = (_whole(text, name) for name in ("kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim"))
    latent = rank + rope if rank is not None and rope is not None else None
    index = _whole(text, "index_head_dim") if latent is not None else None
    indexer = index + 4 * -(-index // 128) if index is not None and text.get("model_type") == "deepseek_v32" else 0
    if latent is not None:
        head_dim = head_dim or latent
    if not layers or not kv_heads or not head_dim:
        return None
    kinds = _kinds(text, layers)
    window, window_layers, chunked, known = _windows(text, layers, kinds)
    states = _states(text, layers, kinds)
    return Shape(
        layers=layers,
        kv_layers=layers - (states or 0),
        kv_heads=kv_heads,
        head_dim=head_dim,
        attention_heads=heads,
        latent=latent,
        key_dim=nope + rope if nope is not None and rope is not None else None,
        indexer=indexer,
        window=window,
        window_layers=window_layers,
        chunked=chunked,
        windows_known=known and states is not None and ("index_head_dim" not in text or indexer > 0),
        dtype=_dtype(config, text),
        hidden_size=hidden,
        vocab_size=_whole(text, "vocab_size"),
        tied_embeddings=text.get("tie_word_embeddings") if isinstance(text.get("tie_word_embeddings"), bool) else None,
        max_position_embeddings=_whole(text, "max_position_embeddings", "n_positions", "seq_length"),
        experts=_whole(text, "num_experts", "num_local_experts", "n_routed_experts"),
        native=_native(config),
    )


def _dtype(config: Mapping[str, Any], text: Mapping[str, Any]) -> str | None:
    for source in (text, config):
        for name in ("torch_dtype", "dtype"):
            if isinstance(source.get(name), str):
                return str(source[name]).removeprefix("torch.")
    return None


def _native(config: Mapping[str, Any]) -> str | None:
    quantization = config.get("quantization_config")
    if not isinstance(quantization, dict):
        return None
    method = quantization.get("quant_method")
    bits = quantization.get("bits") or quantization.get("w_bit")
    if method == "gptq" and bits == 8:
        return "gptq-int8"
    return method if isinstance(method, str) else None


def _kinds(text: Mapping[str, Any], layers: int) -> list[str] | None:
    for name in ("layer_types", "layers_block_type"):
        kinds = text.get(name)
        if isinstance(kinds, list) and len(kinds) == layers:
            return [str(kind) for kind in kinds]
    return None


def _windows(text: Mapping[str, Any], layers: int, kinds: list[str] | None) -> tuple[int | None, int, bool, bool]:
    """Window, layers that have it, whether it is a chunk, and whether that is certain."""
    size = _whole(text, "sliding_window")
    chunk = _whole(text, "attention_chunk_size")
    if kinds is not None:
        local = sum(kind == "sliding_attention" for kind in kinds)
        chunked = sum(kind == "chunked_attention" for kind in kinds)
        if chunked:
            return chunk, chunked, True, chunk is not None
        return (size, local, False, size is not None) if local else (None, 0, False, True)
    if chunk is not None:
        return chunk, 0, True, False
    if size is None or text.get("use_sliding_window") is False:
        return None, 0, False, True
    pattern = _whole(text, "sliding_window_pattern", "_sliding_window_pattern")
    model = text.get("model_type")
    if model == "gemma2":
        pattern = 2
    if pattern is not None and pattern > 1:
        return size, layers - layers // pattern, False, True
    if model in ("mistral", "mixtral", "phi3", "starcoder2"):
        return size, layers, False, True
    return size, 0, False, False


def _states(text: Mapping[str, Any], layers: int, kinds: list[str] | None) -> int | None:
    """Layers without keys and values (linear attention, Mamba); None where the config hints at some but not at how many."""
    if kinds is not None:
        return sum(kind in ("linear_attention", "mamba", "mamba2", "recurrent") for kind in kinds)
    every = _whole(text, "full_attention_interval")
    if every:
        return layers - layers // every
    hints = ("mamba_d_state", "mamba_d_conv", "ssm_state_size", "linear_num_key_heads", "hybrid_override_pattern", "linear_attn_config")
    return None if any(text.get(name) for name in hints) else 0


#: Bits per weight of the linear layers, scales and zero points included; embeddings and the output layer stay at 16.
#: awq/gptq: 4 bits and 20 bits per group of 128; nvfp4: a byte per 16; mxfp4: a byte per 32; bitsandbytes: nested scales per 64.
BITS: dict[str, Fraction] = {
    "awq": 4 + Fraction(20, 128),
    "awq_marlin": 4 + Fraction(20, 128),
    "gptq": 4 + Fraction(20, 128),
    "gptq_marlin": 4 + Fraction(20, 128),
    "int4": 4 + Fraction(20, 128),
    "auto-round": 4 + Fraction(20, 128),
    "bitsandbytes": 4 + Fraction(8, 64) + Fraction(32, 64 * 256),
    "nvfp4": 4 + Fraction(8, 16),
    "modelopt_fp4": 4 + Fraction(8, 16),
    "mxfp4": 4 + Fraction(8, 32),
    "fp8": Fraction(8),
    "int8": Fraction(8),
    "gptq-int8": Fraction(8),
}


def dtype_size(dtype: str | None) -> int | None:
    """Bytes of one value: 2 for half, float16 and bfloat16, 4 for float32 and float, None for others (``auto`` too)."""
    name = (dtype or "").lower().removeprefix("torch.")
    return {"half": 2, "float16": 2, "fp16": 2, "bfloat16": 2, "bf16": 2, "float32": 4, "float": 4, "fp32": 4}.get(name)


def weights_bytes(shape: Shape, quantization: str | None = None, dtype: str | None = None, tensor_parallel: int = 1) -> int | None:
    """Estimated bytes of the weights on one rank; None without the number of parameters or for an unknown method.

    ``quantization``: a method of BITS, None for the published weights (``shape.native`` or the dtype). Embeddings and output layer are
    counted at 16 bit beside quantized layers. Tensor parallelism is taken to divide everything evenly.
    """
    if tensor_parallel < 1:
        raise ValueError("tensor_parallel is at least 1")
    method = quantization or shape.native
    if quantization is None and shape.checkpoint is not None:
        return shape.checkpoint // tensor_parallel
    if shape.params_total is None:
        return None
    if method is None:
        size = dtype_size(dtype if dtype not in (None, "auto") else shape.dtype)
        return None if size is None else shape.params_total * size // tensor_parallel
    bits = BITS.get(method)
    if bits is None or shape.vocab_size is None or shape.hidden_size is None or shape.tied_embeddings is None:
        return None
    embeddings = shape.vocab_size * shape.hidden_size * (1 if shape.tied_embeddings else 2)
    linear = shape.params_total - embeddings
    return int((linear * bits + embeddings * 16) / 8) // tensor_parallel
