"""Settings that an engine prints as a Python structure: dicts, Namespaces and the configuration banner.

The functions named in pattern files as ``reader:`` take the structured text (group ``body``) and give
``{long flag: (value, (start, end))}`` with the place of the value in that text. Nothing is evaluated; the text is walked once.
A value that the text breaks off in the middle of is left out: half a number is a wrong number.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import lru_cache

from analyzer.model import Value

__all__ = [
    "BANNER_FLAGS",
    "READERS",
    "SECRET",
    "SETTING_FACTS",
    "End",
    "engine_config",
    "is_secret",
    "keyword_items",
    "long_flag",
    "namespace",
    "non_default_args",
    "python_value",
    "rust_args",
    "setting_fact",
]

Span = tuple[int, int]
Settings = dict[str, tuple[Value | None, Span]]

#: Long flag or environment variable -> (fact, unit that its figure has). Other engines' flags carry names of their own.
SETTING_FACTS: dict[str, tuple[str, str]] = {
    "--gpu-memory-utilization": ("budget.utilization", "fraction"),
    "--max-model-len": ("model.max_len", "tokens"),
    "--tensor-parallel-size": ("parallel.tp", ""),
    "--max-num-seqs": ("scheduler.max_num_seqs", ""),
    "--max-num-batched-tokens": ("scheduler.max_num_batched_tokens", "tokens"),
    "--cpu-offload-gb": ("host.cpu_offload", "GiB"),
    "--num-gpu-blocks-override": ("kv_cache.gpu_blocks_override", "blocks"),
    "--kv-cache-memory-bytes": ("kv_cache.requested", "B"),
    "--kv-cache-memory": ("kv_cache.requested", "B"),
    "--block-size": ("kv_cache.block_size", "tokens"),
    "VLLM_CPU_KVCACHE_SPACE": ("kv_cache.requested", "GiB"),
    # SGLang
    "--mem-fraction-static": ("budget.utilization", "fraction"),
    "--context-length": ("model.max_len", "tokens"),
    "--tp-size": ("parallel.tp", ""),
    "--max-running-requests": ("scheduler.max_num_seqs", ""),
    "--page-size": ("kv_cache.block_size", "tokens"),
    "--chunked-prefill-size": ("scheduler.max_num_batched_tokens", "tokens"),
    # TGI
    "--num-shard": ("parallel.tp", ""),
    "--max-total-tokens": ("model.max_len", "tokens"),
    "--max-input-tokens": ("model.max_input_len", "tokens"),
    "--max-input-length": ("model.max_input_len", "tokens"),
    "--max-batch-prefill-tokens": ("scheduler.max_num_batched_tokens", "tokens"),
    "--max-batch-total-tokens": ("scheduler.max_batch_total_tokens", "tokens"),
    "--cuda-memory-fraction": ("budget.utilization", "fraction"),
    # llama.cpp and Ollama
    "--ctx-size": ("kv_cache.tokens_needed", "tokens"),
    "--parallel": ("scheduler.slots", ""),
    "OLLAMA_NUM_PARALLEL": ("scheduler.slots", ""),
    "OLLAMA_CONTEXT_LENGTH": ("model.max_len", "tokens"),
    # LMDeploy and TensorRT-LLM
    "--session-len": ("model.max_len", "tokens"),
    "--tp": ("parallel.tp", ""),
}

#: Engine -> names of SETTING_FACTS that mean something else there: SGLang's is a cap of the pool, no request's length.
OTHER_MEANINGS: dict[str, frozenset[str]] = {"sglang": frozenset({"--max-total-tokens"})}

#: Keys of the configuration banner (every era, "Initializing a… LLM engine (v…) with config: …") that are settings.
BANNER_FLAGS: dict[str, str] = {
    "max_seq_len": "--max-model-len",
    "chunked_prefill_enabled": "--enable-chunked-prefill",
    **{
        key: "--" + key.replace("_", "-")
        for key in (
            "model", "tokenizer", "tokenizer_mode", "revision", "tokenizer_revision", "trust_remote_code", "dtype", "download_dir",
            "load_format", "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "decode_context_parallel_size",
            "prefill_context_parallel_size", "disable_custom_all_reduce", "quantization", "enforce_eager", "kv_cache_dtype", "seed",
            "served_model_name", "enable_prefix_caching", "enable_chunked_prefill", "num_scheduler_steps", "use_v2_block_manager",
            "speculative_config", "skip_tokenizer_init", "rope_scaling", "rope_theta",
        )
    },
}  # fmt: skip

#: Flags and variables whose value is a secret: it is never taken.
SECRET = re.compile(
    r"(?:^|[-_])(?:api[-_]?key|passw(?:or)?d|secret|credentials?|(?:hf|hub|auth|access|bearer|api)[-_]token|access[-_]key(?:[-_]id)?)$"
    r"|^--token$|^[A-Z0-9_]*(?:TOKEN|PASSWORD|SECRET|API_KEY|ACCESS_KEY|ACCESS_KEY_ID)$",
)

#: Keys of a Namespace that are no settings of the engine.
_NO_FLAGS = frozenset({"subparser", "dispatch_function", "func", "command"})
_POSITIONAL = {"model_tag": "--model"}

_KEY = re.compile(r"\s*([A-Za-z_]\w*)\s*=\s*")
_UNBOUND = 2**32 - 1
_RUST_FIELD = re.compile(
    r"[{,]?\s*(?P<key>[a-z]\w*): (?P<value>Some\((?:\"(?:[^\"\\]|\\.)*\"|[^()\"]*|\w+\([^()]*\))\)"
    r"|\"(?:[^\"\\]|\\.)*\"|[^\s,{}()\[\]\"]+(?=[,\s}]))"
)
_QUOTED_KEY = re.compile(r"""\s*(?:'([^'\\\n]{1,200})'|"([^"\\\n]{1,200})")\s*:\s*""")
_PLAIN = re.compile(r"[^'\"()\[\]{},\s]+")
_SPACE = re.compile(r"\s+")
_NUMBER = re.compile(r"[+-]?(?:\d[\d_]*(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?$")
_ENUM = re.compile(r"<?(?:[A-Za-z_]\w*\.)+(\w+)(?::\s*(.*?)>)?$", re.DOTALL)
_MAX_NUMBER = 40  # characters: no setting is longer, and a hostile one is not worth converting
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_OPEN, _CLOSE = "([{", ")]}"


class End(Enum):
    """How a value ends: by a comma or bracket, with the text, or broken off inside a string or bracket."""

    CLOSED = 1
    TEXT = 2
    BROKEN = 3


def non_default_args(body: str) -> Settings:
    """From ``non-default args: {'model_tag': …, 'max_model_len': 4096}`` (0.9.0+). ``model_tag`` and ``model`` are both ``--model``."""
    found: Settings = {}
    start = body.find("{")
    for key, span, end in _dict_items(body, start + 1):
        if end is End.CLOSED:
            _put(found, key, body, span, keep_none=True)
    return found


def namespace(body: str) -> Settings:
    """From ``args: Namespace(host=None, …)`` (vLLM to 0.8.5) or another ``Name(key=value, …)``: defaults included, None and empty not."""
    found: Settings = {}
    for key, span, end in keyword_items(body, body.find("(") + 1):
        if end is End.CLOSED:
            _put(found, key, body, span, keep_none=False)
    return found


def engine_config(body: str) -> Settings:
    """From the banner ``model='…', dtype=torch.bfloat16, max_seq_len=40960, …``: the keys of BANNER_FLAGS that are not None.

    These are the values in force, also those that the engine derived itself (quantization, length, type).
    """
    found: Settings = {}
    lead = body.find("config: ")
    for key, span, end in keyword_items(body, lead + 8 if lead >= 0 else 0):
        flag = BANNER_FLAGS.get(key)
        # From 0.6.4 on nothing closes the banner: its last value may end with the line.
        if flag is None or end is End.BROKEN:
            continue
        value = python_value(body[slice(*span)])
        if value is not None and flag not in found:
            found[flag] = (value, span)
    return found


def rust_args(body: str) -> Settings:
    """From TGI's ``Args { model_id: "m", num_shard: Some(4), quantize: None }``: a value in ``Some`` is the value, None is left out."""
    found: Settings = {}
    for matched in _RUST_FIELD.finditer(body, body.find("{") + 1):
        key, text = matched["key"], matched["value"]
        if text == "None" or is_secret(long_flag(key)) or key.endswith("token"):
            continue
        start, end = matched.span("value")
        if text.startswith("Some("):
            if not text.endswith(")"):
                continue
            start, end = start + 5, end - 1
        value: Value | None = body[start:end]
        if value in ("true", "false"):
            value = value == "true"
        elif isinstance(value, str):
            value = python_value(value)
        # The default of a batch without bound is the greatest number of 32 bits: no setting.
        if value is not None and value != _UNBOUND and long_flag(key) not in found:
            found[long_flag(key)] = (value, (start, end))
    return found


#: The functions by the names that pattern files use.
READERS: Mapping[str, Callable[[str], Settings]] = {
    "non_default_args": non_default_args,
    "namespace": namespace,
    "engine_config": engine_config,
    "rust_args": rust_args,
}


def long_flag(key: str) -> str:
    """vLLM's long flag of an argument's Python name: ``max_model_len`` -> ``--max-model-len``, ``model_tag`` -> ``--model``."""
    return _POSITIONAL.get(key) or "--" + key.replace("_", "-")


def setting_fact(name: str, value: Value | None, engine: str | None = None) -> tuple[str, int | float, str] | None:
    """(fact, figure, unit) that a flag's or variable's value states; None where it states no figure (``auto``, a negative "not set").

    ``engine``: whose setting it is, where one name means different things.
    """
    if name not in SETTING_FACTS or name in OTHER_MEANINGS.get(engine or "", ()):
        return None
    if isinstance(value, str):
        value = python_value(value)
    if value is None or isinstance(value, (bool, str)) or value < 0:
        return None
    return SETTING_FACTS[name][0], value, SETTING_FACTS[name][1]


def python_value(text: str) -> Value | None:
    """The value that a Python literal prints: numbers, strings and booleans as such, an enum by its value, a structure as its text."""
    text = text.strip()
    if text in ("None", ""):
        return None
    if text in ("True", "False"):
        return text == "True"
    if len(text) <= _MAX_NUMBER and _NUMBER.match(text):
        plain = text.replace("_", "")
        if plain.lstrip("+-").isdigit():
            return int(plain)
        number = float(plain)
        return number if math.isfinite(number) else text
    if text[0] in "'\"" and len(text) > 1 and text[-1] == text[0]:
        return _ESCAPE.sub(_unescaped, text[1:-1])
    enum = _ENUM.match(text)
    if enum and not text.endswith((")", "]", "}")):
        member, inner = enum.groups()
        if inner is not None:
            return python_value(inner) if inner[:1] in ("'", '"') else member
        if text.startswith("torch."):
            return member
        if text.startswith("<") or not member.isupper():
            return text
        return member.lower()  # LoadFormat.AUTO: the value is the name in small letters
    if text[0] == "[" and text[-1] == "]":
        # A list of one string is what a flag with a single argument becomes (served_model_name).
        inner = text[1:-1].strip()
        if len(inner) > 1 and inner[0] in "'\"" and inner[-1] == inner[0] and inner.count(inner[0]) == 2:
            return inner[1:-1]
    return text


def _unescaped(matched: re.Match[str]) -> str:
    return {"n": "\n", "t": "\t", "r": "\r"}.get(matched[1], matched[1])


def _put(found: Settings, key: str, body: str, span: Span, *, keep_none: bool) -> None:
    flag = long_flag(key)
    if key in _NO_FLAGS or flag in found or is_secret(flag):
        return
    text = body[slice(*span)]
    value = python_value(text)
    if not keep_none and (value is None or text in ("[]", "{}", "()", "''", '""')):
        return
    found[flag] = (value, span)


@lru_cache(maxsize=2048)  # a Namespace names the same hundred arguments in every log
def is_secret(flag: str) -> bool:
    """Whether the value of ``flag`` is a secret, which no report may hold."""
    return SECRET.search(flag) is not None or SECRET.search(flag.lower()) is not None


def _dict_items(text: str, at: int) -> Iterator[tuple[str, Span, End]]:
    """(key, place of the value, how it ends) of a dict's items from ``at`` on."""
    while at < len(text):
        matched = _QUOTED_KEY.match(text, at)
        if matched:
            start = matched.end()
            at, how = _value_end(text, start, spaces=False)
            yield matched[1] or matched[2], _trimmed(text, start, at), how
        else:
            at, _ = _value_end(text, at, spaces=False)
        if at < len(text) and text[at] in _CLOSE:
            return
        at += 1


def keyword_items(text: str, at: int) -> Iterator[tuple[str, Span, End]]:
    """(key, place of the value, how it ends) of ``key=value, …`` from ``at`` on, up to the bracket that closes it."""
    while at < len(text):
        matched = _KEY.match(text, at)
        if matched:
            start = matched.end()
            at, how = _value_end(text, start, spaces=True)
            yield matched[1], _trimmed(text, start, at), how
        else:
            at, _ = _value_end(text, at, spaces=False)
        if at < len(text):
            if text[at] in _CLOSE:
                return
            if text[at] == ",":
                at += 1


def _trimmed(text: str, start: int, end: int) -> Span:
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end


def _value_end(text: str, at: int, *, spaces: bool) -> tuple[int, End]:
    """Where the value that begins at ``at`` ends (the comma or bracket behind it, or the text's end), and how.

    ``spaces``: blank and ``key=`` also end it (0.6 forgot a comma between two keys of its banner).
    """
    depth = 0
    bare = False  # inside an unquoted top-level value a quote is a plain character
    while at < len(text):
        char = text[at]
        if char.isspace():
            start, at = at, _SPACE.match(text, at).end()  # type: ignore[union-attr]
            if spaces and depth == 0 and _KEY.match(text, at):
                return start, End.CLOSED
        elif char in "'\"":
            if bare and depth == 0:
                at += 1
                continue
            at = _string_end(text, at)
            if at < 0:
                return len(text), End.BROKEN
        elif char in _OPEN:
            depth += 1
            at += 1
        elif char in _CLOSE:
            if depth == 0:
                return at, End.CLOSED
            depth -= 1
            at += 1
        elif char == ",":
            if depth == 0:
                return at, End.CLOSED
            at += 1
        else:
            bare = bare or (depth == 0 and char != "<")
            at = _PLAIN.match(text, at).end()  # type: ignore[union-attr]
    return len(text), End.BROKEN if depth else End.TEXT


def _string_end(text: str, at: int) -> int:
    """The place behind the string literal that begins at ``at``; -1 where the text breaks it off."""
    quote = text[at]
    place = at + 1
    while True:
        end = text.find(quote, place)
        if end < 0:
            return -1
        slashes = end
        while slashes > place and text[slashes - 1] == "\\":
            slashes -= 1
        if (end - slashes) % 2 == 0:
            return end + 1
        place = end + 1
