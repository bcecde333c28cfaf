"""``pip list``, ``pip show``, ``pip freeze`` and vLLM's ``collect_env``: which engine is installed."""

from __future__ import annotations

import re

from analyzer.readers.base import Page, Reading

ANCHORS = (
    "vllm 0.",
    "vllm  ",
    "vllm==",
    "Name: vllm",
    "Name: sglang",
    "vLLM Version",
    "sglang  ",
    "sglang 0.",
    "sglang==",
    "lmdeploy",
    "pip list",
)

_VERSION = r"v?(?P<version>\d+\.\d+[\w.+-]*)"
_ROW = re.compile(
    rf"\s*(?:\[(?:pip3?|conda)\]\s*)?(?P<name>vllm(?:-(?:cpu|rocm|xpu|tpu|nightly))?|sglang|lmdeploy|tensorrt[_-]llm)(?:\s+|==){_VERSION}"
    r"(?:\s+(?:pypi_0\s+pypi|py\w*|/\S+|\S*conda\S*|pypi))*\s*$",
    re.IGNORECASE,
)
_SHOWN = re.compile(r"Name: (?P<name>vllm|sglang|lmdeploy)\s*$")
_COLLECTED = re.compile(rf"\s*vLLM Version\s*:\s*{_VERSION}")
_PACKAGE = re.compile(
    r"\s*(?:\[(?:pip3?|conda)\]\s*)?[A-Za-z][\w.-]*(?:\s+|==)v?\d[\w.+!-]*(?:\s+\S+){0,3}\s*$"
    r"|[\w-]+(?:\[[\w,]+\])? @ \S+$|-{3,}|Package\s+Version"
)
_COMMAND = re.compile(r".*\b(?:pip3?|uv|conda)\b.*\b(?:list|show|freeze|check)\b")
_CHECK = re.compile(r"\S+ \S+ has requirement \S+, but you have ")


def read(page: Page) -> list[Reading]:
    """Each list of packages in ``page`` that names an engine and its version."""
    found: list[Reading] = []
    for index, line in enumerate(page.lines):
        if found and index <= found[-1].last:
            continue
        name = version = None
        last = index
        row = _ROW.match(line)
        collected = _COLLECTED.match(line)
        if row is not None:
            name, version = row["name"].lower(), row["version"]
        elif collected is not None:
            name, version = "vllm", collected["version"]
        elif _SHOWN.match(line):
            for place in range(index + 1, min(index + 4, len(page.lines))):
                shown = re.match(rf"Version: {_VERSION}", page.lines[place])
                if shown:
                    name, version, last = line.split()[1], shown["version"], place
        if name is None or version is None:
            continue
        first = index
        while first > (found[-1].last + 1 if found else 0) and (
            _PACKAGE.match(page.lines[first - 1]) or _COMMAND.match(page.lines[first - 1])
        ):
            first -= 1
        while last + 1 < len(page.lines) and (_PACKAGE.match(page.lines[last + 1]) or _CHECK.match(page.lines[last + 1])):
            last += 1
        engine = "tensorrt-llm" if name.startswith("tensorrt") else name.partition("-")[0]
        found.append(Reading("packages", first, last, engine=engine, engine_version=version))
    return found
