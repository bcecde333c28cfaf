"""docs/engines.md, made from the pattern library and the engines' folders: what is read of each engine, and what is computed."""

from __future__ import annotations

import re
from importlib import import_module
from inspect import getdoc

from analyzer.engines import engine
from analyzer.engines.base import Engine
from analyzer.patterns.model import Library, Pattern

#: Methods of an engine that say what is computed, where they are its own and not those that hold for all.
COMPUTED = {
    "ledgers": "a memory ledger of its own accounting",
    "refine": "a finer verdict where several lines prove one",
    "window": "the window of values with which the start works",
    "rewrite": "your command with the changes made",
    "default_utilization": "the default share of the card, by version",
}
HEAD = """\
# Engines

Made by `vramledger engines` from `patterns/` and `analyzer/engines/`; a test holds it to them. A wording that is tied to versions also
tells which versions are possible when a log states none. Everything that is no engine's own (CUDA, PyTorch, NCCL, the kernel, Kubernetes,
nvidia-smi, the model hub) is read beside every engine: {shared} patterns.
"""


def engines_page(library: Library) -> str:
    """The page as Markdown: a table of all engines, then a section for each."""
    by_engine: dict[str, list[Pattern]] = {}
    for pattern in library.patterns:
        if pattern.engine is not None:
            by_engine.setdefault(pattern.engine, []).append(pattern)
    names = sorted(by_engine, key=lambda name: (-len(by_engine[name]), name))
    rows = ["| engine | patterns | figures | causes | computed fixes |", "|---|---:|---:|---:|---:|"]
    for name in names:
        counts = (len(by_engine[name]), len(_figures(by_engine[name])), len(_causes(by_engine[name])), len(_fixes(library, name)))
        rows.append(f"| [{name}](#{re.sub(r'[^a-z0-9-]', '', name)}) | " + " | ".join(map(str, counts)) + " |")
    head = HEAD.format(shared=len(library.patterns) - sum(map(len, by_engine.values())))
    return "\n".join([head, *rows, *(_section(library, name, by_engine[name]) for name in names)])


def _section(library: Library, name: str, patterns: list[Pattern]) -> str:
    own = type(engine(name))
    parts = [f"\n## {name}"]
    if own is not Engine:
        package = import_module(own.__module__.rpartition(".")[0])
        parts += [getdoc(package) or "", *(getdoc(import_module(own.__module__)) or "").split("\n\n", 1)[1:]]
    ranges = sorted({pattern.versions for pattern in patterns if pattern.versions}, key=_in_order)
    tied = ", ".join(f"`{versions}`" for versions in ranges)
    parts.append(f"**Versions.** Wordings tied to versions: {tied}." if tied else "**Versions.** No wording is tied to a version.")
    figures = ", ".join(f"`{figure}`" for figure in _figures(patterns))
    parts.append(f"**Read.** {figures or 'No figure of its own: the lines of CUDA and PyTorch are all there is'}.")
    causes = ", ".join(f"`{cause}`" for cause in _causes(patterns))
    if causes:
        parts.append(f"**Told by its own lines.** {causes}.")
    rows = [f"- {words}" for method, words in COMPUTED.items() if getattr(own, method) is not getattr(Engine, method)]
    rows += [f"- the fix `{fix}`: {_title(library, fix)}" for fix in _fixes(library, name)]
    parts.append("\n".join(["**Computed.**", "", *rows]))
    return "\n\n".join(parts)


def _figures(patterns: list[Pattern]) -> list[str]:
    return sorted({spec.name for pattern in patterns for spec in pattern.facts})


def _causes(patterns: list[Pattern]) -> list[str]:
    return sorted({pattern.cause for pattern in patterns if pattern.cause})


def _fixes(library: Library, name: str) -> list[str]:
    return [fix for fix in engine(name).solvers if name in (library.advice[fix].engines or (name,))]


def _title(library: Library, fix: str) -> str:
    return re.sub(r"\{\w+\}", "…", library.advice[fix].words["title"]["en"])


def _in_order(versions: str) -> tuple[list[int], str]:
    return [int(number) for number in re.findall(r"\d+", versions)], versions
