"""What a launch is: the engine, its arguments and environment, each with its place in the text."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from analyzer.readers.launch.arguments import Argument
from analyzer.readers.launch.shell import Word

SHELL, YAML, PYTHON = "shell", "yaml", "python"


@dataclass(frozen=True, slots=True)
class Variable:
    """An environment variable; ``place`` is where its value stands, ``whole`` the text that sets it."""

    name: str
    value: str
    place: tuple[int, int]
    whole: tuple[int, int]


@dataclass(slots=True)
class Invocation:
    """One launch of an engine in a text.

    ``start`` to ``end`` is the command as it was written: the simple command, the YAML document, the statement with the call.
    """

    form: str
    engine: str | None
    start: int
    end: int
    words: list[Word] = field(default_factory=list)  # the engine's own words, in the order of the text
    arguments: list[Argument] = field(default_factory=list)
    environment: list[Variable] = field(default_factory=list)
    before: int = 0  # where a variable may be put in front (shell), or before the image (docker)
    after: int = 0  # where a further argument may be put when there is none yet
    docker: bool = False
    image: str | None = None
    options: dict[str, tuple[str, tuple[int, int]]] = field(default_factory=dict)  # docker's own options with a size
    comment: str = ""
    list_style: str = ""  # YAML: "block" or "flow" where the arguments are a list, else they are one string
    node: Any = None  # YAML: the container's mapping node


_TAG_VERSION = re.compile(r"v?(\d+\.\d+(?:\.\d+)*(?:\.?post\d+)?(?:\.?rc\d+)?(?:\.?dev\d+)?)(?![\d.])")
_NUMBERED = {"vllm": re.compile(r"v?0\.\d+"), "sglang": re.compile(r"v?0\.\d+"), "lmdeploy": re.compile(r"v?0\.\d+")}
_IMAGES = (
    ("vllm", re.compile(r"(?:^|[/_.-])vllm(?:[/_.:-]|$)|vllm-openai", re.IGNORECASE)),
    ("sglang", re.compile(r"sglang", re.IGNORECASE)),
    ("tgi", re.compile(r"text-generation-inference", re.IGNORECASE)),
    ("ollama", re.compile(r"(?:^|/)ollama(?:[:@/]|$)", re.IGNORECASE)),
    ("llama.cpp", re.compile(r"llama\.cpp|llama-cpp", re.IGNORECASE)),
    ("lmdeploy", re.compile(r"lmdeploy", re.IGNORECASE)),
    ("tensorrt-llm", re.compile(r"tensorrt-?llm|trtllm", re.IGNORECASE)),
)


def image_engine(image: str) -> str | None:
    """The engine that a container image holds, by its name."""
    return next((engine for engine, pattern in _IMAGES if pattern.search(image)), None)


def image_version(image: str, engine: str | None) -> str | None:
    """The engine's version that the image's tag states (``…:v0.8.5`` -> 0.8.5); None for latest, nightly, a vendor's own number.

    The number of an image that does not bear the engine's name is the image's own (``h2ogpt-runtime:0.1.0``).
    """
    name, _, tag = image.rpartition(":")
    if not name or "/" in tag:
        return None
    inner = re.search(rf"{re.escape(engine)}[-_]?(v?\d\S*)", tag, re.IGNORECASE) if engine else None  # cann8.3-sglang0.5.6.post1
    if inner is None and engine is not None and image_engine(image) != engine:
        return None
    tag = inner[1] if inner else tag
    numbered = _NUMBERED.get(engine or "")
    if numbered is not None and not numbered.match(tag):
        return None
    matched = _TAG_VERSION.match(tag)
    return matched[1] if matched else None
