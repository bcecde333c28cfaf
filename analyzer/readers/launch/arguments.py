"""An engine's words → its arguments: long flags, typed values, and which words they are made of."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from analyzer.model import Value
from analyzer.readers.launch import vllm_flags
from analyzer.readers.launch.shell import Word
from analyzer.readers.settings import python_value

_FLAG = re.compile(r"--?[A-Za-z][\w.+-]*$")
_HUMAN = re.compile(r"(\d+(?:\.\d+)?)\s*([kKmMgGtT])(?:i?[bB])?$")
_POWERS = "kmgt"

#: Other engines' short and older spellings -> the one that their documentation uses.
OTHER_ALIASES: dict[str, dict[str, str]] = {
    "sglang": {
        "--model": "--model-path",
        "--tp": "--tp-size",
        "-tp": "--tp-size",
        "--tensor-parallel-size": "--tp-size",
        "--dp": "--dp-size",
        "--data-parallel-size": "--dp-size",
        "--pp": "--pp-size",
        "--pipeline-parallel-size": "--pp-size",
        "--ep": "--ep-size",
        "--max-model-len": "--context-length",
    },
    "llama.cpp": {
        "-m": "--model",
        "-c": "--ctx-size",
        "-ngl": "--n-gpu-layers",
        "--gpu-layers": "--n-gpu-layers",
        "-np": "--parallel",
        "-b": "--batch-size",
        "-ub": "--ubatch-size",
        "-fa": "--flash-attn",
        "-ctk": "--cache-type-k",
        "-ctv": "--cache-type-v",
        "-ts": "--tensor-split",
        "-sm": "--split-mode",
        "-mg": "--main-gpu",
        "-ot": "--override-tensor",
        "-ncmoe": "--n-cpu-moe",
        "-cmoe": "--cpu-moe",
        "-md": "--model-draft",
        "-hf": "--hf-repo",
        "-t": "--threads",
    },
    "tgi": {"-p": "--port"},
}

#: Flags of the other engines that stand alone, whatever follows them.
OTHER_SWITCHES = frozenset(
    {"--verbose", "-v", "--trust-remote-code", "--no-mmap", "--mlock", "--jinja", "--metrics", "--no-warmup", "--disable-radix-cache",
     "--disable-cuda-graph", "--enable-torch-compile", "--enable-dp-attention", "--skip-server-warmup", "--disable-custom-all-reduce",
     "--no-kv-offload", "--embedding", "--reranking", "--swa-full", "--kv-unified", "--cpu-moe"}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument: the engine's long flag, its value, all of its words, and the place of its value (of a switch: its own)."""

    flag: str
    value: Value | None
    words: tuple[Word, ...]
    place: tuple[int, int]
    joined: bool = False  # --flag=value in one word
    positional: bool = False
    computed: bool = False  # the value is an expression of a program: not known
    switch: bool = False  # no value of its own: the flag alone, or --no-flag


@lru_cache(maxsize=1024)
def long_flag(written: str, engine: str | None) -> tuple[str, bool]:
    """(the long flag of ``written``, whether it is the ``--no-`` form). vLLM's parser takes underscores, aliases and unique beginnings.

    An unknown flag stays as it is written.
    """
    if engine not in (None, "vllm"):
        plain = written.replace("_", "-") if engine in ("sglang", "tgi") and written.startswith("--") else written
        return OTHER_ALIASES.get(engine or "", {}).get(plain, plain), False
    if not written.startswith("--"):
        return vllm_flags.ALIASES.get(written, written), False
    head, dot, rest = written[2:].partition(".")
    name = head.replace("_", "-")
    if name in vllm_flags.ALL:
        return _canonical(name) + dot + rest, False
    if name.startswith("no-") and name[3:] in vllm_flags.SWITCHES:
        return "--" + name[3:], True
    starts = {_canonical(known) for known in vllm_flags.ALL if known.startswith(name)}
    if len(starts) == 1:
        return starts.pop() + dot + rest, False
    return "--" + name + dot + rest, False


def _canonical(name: str) -> str:
    return "--gpu-memory-utilization" if name == "device-memory-utilization" else "--" + name


def is_flag(value: str) -> bool:
    """Whether a word is an option and no value: ``--x``, ``-tp``, ``--x=…``; ``-1`` and ``-`` are values."""
    return _FLAG.match(value.partition("=")[0]) is not None


def typed(flag: str, text: str, engine: str | None) -> Value:
    """``text`` as the value of ``flag``: a number where it is one ("4k" too, where the engine takes that), else the text itself."""
    if engine in (None, "vllm"):
        if flag in vllm_flags.HUMAN_SIZES:
            human = _HUMAN.match(text)
            if human:
                power = _POWERS.index(human[2].lower()) + 1
                size = float(human[1]) * (1024 if human[2].isupper() else 1000) ** power
                return int(size) if size == int(size) else size
        if flag[2:] in vllm_flags.TEXTS | vllm_flags.SEVERAL:
            return text
    if flag in ("--model", "--model-path", "--model-id", "--tokenizer", "--served-model-name"):
        return text
    value = python_value(text) if re.match(r"[-+.\d]", text) else text
    return text if value is None else value


def arguments(words: Sequence[Word], engine: str | None, *, takes_model: bool = False) -> list[Argument]:
    """The arguments that ``words`` make, in their order. ``takes_model``: the first bare word is the model (``vllm serve MODEL``)."""
    found: list[Argument] = []
    place = 0
    while place < len(words):
        word = words[place]
        place += 1
        if not is_flag(word.value):
            if takes_model and word.value not in ("--", "-"):
                takes_model = False
                found.append(Argument("--model", word.value, (word,), (word.start, word.end), positional=True))
            continue
        written, equals, joined = word.value.partition("=")
        flag, negated = long_flag(written, engine)
        if equals:
            value = typed(flag, joined, engine)
            if _stands_alone(flag, negated, engine) and joined.lower() in ("true", "false"):
                value = (joined.lower() == "true") is not negated
            found.append(Argument(flag, value, (word,), (word.start, word.end), joined=True))
            continue
        alone = _stands_alone(flag, negated, engine)
        several = engine in (None, "vllm") and flag[2:] in vllm_flags.SEVERAL
        values: list[Word] = []
        while place < len(words) and not is_flag(words[place].value) and (several or not values):
            if alone and words[place].value.lower() not in ("true", "false"):
                break
            values.append(words[place])
            place += 1
        if not values:
            found.append(Argument(flag, not negated, (word,), (word.start, word.end), switch=True))
        elif alone:
            said = values[0].value.lower() == "true"
            found.append(Argument(flag, said is not negated, (word, *values), (values[0].start, values[0].end)))
        else:
            text = " ".join(value.value for value in values)
            value = typed(flag, text, engine)
            found.append(Argument(flag, value, (word, *values), (values[0].start, values[-1].end)))
    return found


def _stands_alone(flag: str, negated: bool, engine: str | None) -> bool:
    if engine in (None, "vllm"):
        return negated or flag[2:] in vllm_flags.SWITCHES or flag.startswith(("--enable-", "--disable-", "--no-"))
    return flag in OTHER_SWITCHES or flag.startswith(("--enable-", "--disable-", "--no-"))
