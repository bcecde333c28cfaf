"""Makes analyzer/engines/vllm/shapes.json out of the reference table of model shapes.

    python tools/model_shapes.py REFERENCE.json > analyzer/engines/vllm/shapes.json

One model a line, figures only. ``native`` is the format of the published weights where that is not 16 bit.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

KEYS = (
    "layers",
    "attention_heads",
    "kv_heads",
    "head_dim",
    "hidden_size",
    "vocab_size",
    "tied_embeddings",
    "max_position_embeddings",
    "params_total",
    "num_experts",
    "kv_lora_rank",
    "qk_rope_head_dim",
    "kv_layers",
)

#: Published in another format than 16 bit: the method, and the checkpoint's GiB where it is known.
NATIVE: dict[str, tuple[str, float | None]] = {
    "deepseek-ai/DeepSeek-R1": ("fp8", None),
    "deepseek-ai/DeepSeek-V3": ("fp8", None),
    "moonshotai/Kimi-K2-Instruct": ("fp8", None),
    "openai/gpt-oss-120b": ("mxfp4", 60.8),
    "openai/gpt-oss-20b": ("mxfp4", 12.8),
}

#: Width of a head's keys beside the rotated part, the same in every latent model of the table (config.json, qk_nope_head_dim).
NOPE = 128

#: Bytes of the index cache per token and layer: 128 values of a byte and a float32 scale (``DeepseekV32IndexerCache``).
INDEXER = {"deepseek-ai/DeepSeek-V3.2-Exp": 132}


def shape(name: str, facts: dict[str, Any]) -> dict[str, Any]:
    """The figures of one model."""
    made = {key: facts[key] for key in KEYS if facts.get(key) is not None}
    if "qk_rope_head_dim" in made:
        made["qk_nope_head_dim"] = NOPE
    made["dtype"] = facts["default_dtype"]
    window = facts.get("sliding_window")
    if window:
        made["window"] = window["size"]
        made["window_layers"] = window.get("local_layers", facts["layers"])
        if "chunked" in window["pattern"]:
            made["chunked"] = True
    if name in NATIVE:
        method, size = NATIVE[name]
        made["native"] = method
        if size is not None:
            made["checkpoint_gib"] = size
    if name in INDEXER:
        made["indexer"] = INDEXER[name]
    return made


def main(source: Path) -> str:
    """The text of shapes.json."""
    models = json.loads(source.read_text(encoding="utf-8"))["models"]
    rows = [f"{json.dumps(name)}: {json.dumps(shape(name, facts), separators=(',', ':'))}" for name, facts in sorted(models.items())]
    return "{\n" + ",\n".join(rows) + "\n}\n"


if __name__ == "__main__":
    sys.stdout.write(main(Path(sys.argv[1])))
