"""What stands around a command: variables set before it, and remarks that name the engine's version."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from analyzer.readers.launch.shell import read

_SET = re.compile(
    r"^[ \t]*(?:[^\n$#>]{0,60}[$#]\s+)?"
    r"(?P<word>export[ \t]+|set[ \t]+|ENV[ \t]+|setenv[ \t]+|\$env:|declare -x[ \t]+)?(?=[A-Za-z_]\w*[ \t]?=)",
    re.MULTILINE,
)
_EXPORTED = re.compile(r"^[ \t]*export((?:[ \t]+[A-Za-z_]\w*)+)[ \t]*$", re.MULTILINE)
#: So many characters before a command are looked at for what it needs.
MAX_BEFORE = 20_000
_USED = re.compile(r"\$(?:\{(?P<braced>[A-Za-z_]\w*)(?::?-(?P<default>[^}]*))?\}|(?P<plain>[A-Za-z_]\w*))")
_VERSION = r"(?P<version>\d+\.\d+(?:\.\d+)*(?:\.?(?:post|rc|dev|a|b)\d+)*(?:\+[\w.]+)?)"
_NAMED = {
    "vllm": re.compile(
        rf"\bvllm(?:[ \t]+version)?[ \t]*(?:==|=|:[ \t]|[ \t(]|-(?=[\w.+]+-(?:cp|py)\d))[ \t]*v?{_VERSION}(?![\w.]*/)", re.IGNORECASE
    ),
    "sglang": re.compile(rf"\bsglang(?:[ \t]+version)?(?:==|[:=]|[ \t(-]|)[ \t]*v?{_VERSION}", re.IGNORECASE),
    "lmdeploy": re.compile(rf"\blmdeploy(?:[ \t]+version)?[ \t]*(?:==|[:=]|[ \t])[ \t]*v?{_VERSION}", re.IGNORECASE),
    "llama.cpp": re.compile(r"\bllama\.cpp[ \t]+(?:build[ \t]+)?(?P<version>b\d{3,6})\b", re.IGNORECASE),
    "tgi": re.compile(rf"\b(?:tgi|text-generation-inference)[ \t:]+v?{_VERSION}", re.IGNORECASE),
    "ollama": re.compile(rf"\bollama(?:[ \t]+version)?(?:[ \t]+is)?[ \t:]+v?{_VERSION}", re.IGNORECASE),
}


@dataclass(frozen=True, slots=True)
class Assigned:
    """A variable that the text sets: ``place`` of its value, whether it is exported; ``written`` as it is used, once expanded."""

    value: str
    place: int
    exported: bool
    written: str = ""


def assignments(text: str, stop: int) -> dict[str, Assigned]:
    """The variables that lines of ``text`` before ``stop`` set; the last value counts."""
    start = max(0, stop - MAX_BEFORE)
    text = text[:stop]
    found: dict[str, Assigned] = {}
    named = frozenset(name for matched in _EXPORTED.finditer(text, start) for name in matched[1].split())
    for matched in _SET.finditer(text, start):
        commands, _ = read(text, matched.end(), stop)
        if not commands:
            continue
        words = commands[0].words
        pairs = [(word, word.assignment) for word in words]
        if any(pair is None for _, pair in pairs):
            continue  # VAR=x command: the variable is the command's own
        exported = bool(matched["word"])
        for word, pair in pairs:
            if pair is not None:
                name, value = pair
                found[name] = Assigned(value, word.start + len(name) + 1, exported or name in named)
    return found


def expand(value: str, known: Mapping[str, Assigned]) -> tuple[str, Assigned | None]:
    """``value`` with ``$NAME`` and ``${NAME:-default}`` put in where they are known; and the last one that was."""
    used: Assigned | None = None

    def put(matched: re.Match[str]) -> str:
        nonlocal used
        name = matched["braced"] or matched["plain"]
        if name in known:
            assigned = known[name]
            used = Assigned(assigned.value, assigned.place, assigned.exported, matched[0])
            return assigned.value
        return matched["default"] if matched["default"] is not None else matched[0]

    return _USED.sub(put, value), used


def stated_version(engine: str | None, text: str) -> str | None:
    """The version of ``engine`` that a remark in ``text`` names ("vllm 0.15.2rc1", "vllm==0.8.5", a wheel's file name), or None.

    Of several that it names none is taken: one of them may be the release that works.
    """
    pattern = _NAMED.get(engine or "")
    found = {matched["version"] for matched in pattern.finditer(text)} if pattern else set()
    return found.pop() if len(found) == 1 else None
