"""A model's ``config.json``, whole or inside a paste, cut ones too."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from typing import Any

from analyzer.model import Fact
from analyzer.readers.base import Page, Reading

KIND = "model-config"
ANCHORS = ('"architectures"', '"num_hidden_layers"', '"max_position_embeddings"', '"num_attention_heads"', '"model_type"')

#: Longest configuration that is read, in characters, and most places of a page where one is looked for.
MAX_CONFIG, MAX_PLACES = 512 * 1024, 64
#: So many of these keys make a cut or bare run of lines a model's configuration.
SHAPE_KEYS = frozenset(
    {
        "architectures", "model_type", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "hidden_size", "head_dim",
        "intermediate_size", "max_position_embeddings", "vocab_size", "torch_dtype", "dtype", "rope_scaling", "rope_theta", "text_config",
        "quantization_config", "sliding_window", "kv_lora_rank", "num_experts", "n_routed_experts", "transformers_version",
    }
)  # fmt: skip
#: (fact, unit, keys that hold it by age of the architecture)
_FACTS = (
    ("model.layers", "", ("num_hidden_layers", "n_layer", "num_layers", "n_layers")),
    ("model.attention_heads", "", ("num_attention_heads", "n_head", "num_heads", "n_heads")),
    ("model.derived_max_len", "tokens", ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "max_sequence_length")),
)
#: Kinds of rope scaling that leave max_position_embeddings as the model's length; the others multiply it.
_LENGTH_STAYS = frozenset({"default", "llama3", "longrope", "su", "mrope"})
_ANCHOR = re.compile("|".join(ANCHORS))
_PAIR = re.compile(r'^\s*\{?\s*"(\w+)"\s*:\s*("(?:\\.|[^"\\])*"|-?\d[\d.eE+-]*|true|false|null|\[[^\[\]\n]*\])\s*,?\s*\}?\s*$')
_CONFIG_LINE = re.compile(r'\s*(?:[{}\[\]]+,?|"[^"]*"(?:\s*:.*)?,?|-?[\d.]+,?|\.\.\.|…|)\s*$')


def read(page: Page) -> list[Reading]:
    """The model configurations of ``page``. Other JSON (a tokenizer's, a request) is none."""
    text = page.text
    found: list[Reading] = []
    keys = [matched.start() for matched in _ANCHOR.finditer(text)]
    done = -1
    places = start = 0
    for index, line in enumerate(page.lines):
        brace, start = start + line.find("{"), start + len(line) + 1
        if index <= done or "{" not in line or (line.lstrip()[:1] != "{" and not line.rstrip().endswith("{")):
            continue
        following = bisect_left(keys, brace)
        if following == len(keys) or keys[following] - brace > MAX_CONFIG:
            continue
        places += 1
        if places > MAX_PLACES:
            break
        ahead = text[brace : brace + MAX_CONFIG]
        config, length = _whole(ahead)
        if config is not None and _is_model(config):
            done = index + ahead.count("\n", 0, max(length - 1, 0))
            found.append(_reading(page, config, index, done))
    return found or _loose(page)


def _whole(text: str) -> tuple[dict[str, Any] | None, int]:
    try:
        value, length = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return None, 0
    return (value, length) if isinstance(value, dict) else (None, 0)


def _is_model(config: dict[str, Any]) -> bool:
    return len(config.keys() & SHAPE_KEYS) >= 2 or "architectures" in config


def _loose(page: Page) -> list[Reading]:
    """A cut configuration, or bare lines of one: the longest run of its lines that holds at least three of its keys."""
    best: tuple[int, int, dict[str, Any]] | None = None
    first, config = 0, dict[str, Any]()
    for index, line in enumerate([*page.lines, "\0"]):
        pair = _PAIR.match(line) if len(line) < 4096 else None
        if pair is not None:
            try:
                config.setdefault(pair[1], json.loads(pair[2]))
            except ValueError:
                continue
        elif len(line) >= 4096 or not _CONFIG_LINE.match(line):
            if len(config.keys() & SHAPE_KEYS) >= 3 and (best is None or len(config) > len(best[2])):
                best = (first, index - 1, config)
            first, config = index + 1, {}
    if best is None:
        return []
    first, last, config = best
    return [_reading(page, config, first, last)]


def _reading(page: Page, config: dict[str, Any], first: int, last: int) -> Reading:
    config = {key: value for key, value in config.items() if key != "_name_or_path"}  # may name a user's folder
    reading = Reading(KIND, first, last, model=config)
    inner = config.get("text_config")
    shapes = [config, *([inner] if isinstance(inner, dict) else [])]
    for name, unit, keys in _FACTS:
        for shape in shapes:
            key = next((key for key in keys if _whole_number(shape.get(key))), None)
            if key is not None:
                if name != "model.derived_max_len" or _keeps_length(shape):
                    source = page.source(_line_of(page, key, shape[key], first, last))
                    reading.facts.append(Fact(name, shape[key], unit, source))
                break
    return reading


def _whole_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _keeps_length(shape: dict[str, Any]) -> bool:
    scaling = shape.get("rope_scaling") or shape.get("rope_parameters")
    if not isinstance(scaling, dict):
        return True
    kind = scaling.get("rope_type", scaling.get("type"))
    return kind in _LENGTH_STAYS or (kind is None and "factor" not in scaling)


def _line_of(page: Page, key: str, value: int, first: int, last: int) -> int:
    stated = re.compile(rf'"{key}"\s*:\s*{value}(?!\d)')
    return next((index for index in range(first, last + 1) if stated.search(page.lines[index])), first)
