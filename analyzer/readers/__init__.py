"""Formats with structure: GPU dumps, launch commands, model configs. Each reader finds its own segments in a page of lines.

Adding one: write a module with ``ANCHORS`` (literals, one of which every segment holds) and ``read(page) -> list[Reading]``, and name it
in ``READERS``. A page is only read when an anchor of some reader stands in it.
"""

from __future__ import annotations

import json
from functools import cache
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from analyzer.data import cache_folder, write_cache
from analyzer.readers.base import Page, Reading

__all__ = ["Page", "Reading", "anchors", "read_page"]

#: Module names, in the order in which they are asked; a line belongs to the first reader that claims it.
READERS: tuple[str, ...] = (
    "gpu.query_xml",
    "gpu.query_text",
    "gpu.documents",
    "gpu.table",
    "gpu.gpustat",
    "gpu.query_csv",
    "gpu.monitor",
    "gpu.listing",
    "gpu.topology",
    "gpu.amd",
    "gpu.dcgm",
    "gpu.xpu",
    "gpu.errors",
    "launch",
    "model_config",
    "host.oom_tasks",
    "host.course",
    "host.memory",
    "host.disk",
    "host.containers",
    "host.packages",
    "host.processes",
)


class Reader(Protocol):
    """A module of this package that reads one format."""

    ANCHORS: tuple[str, ...]

    def read(self, page: Page) -> list[Reading]:
        """The segments of this format in ``page``."""


def _module(name: str) -> Reader:
    return cast("Reader", import_module(f"analyzer.readers.{name}"))


@cache
def _table() -> dict[str, tuple[str, ...]]:
    """Reader -> its anchors. Kept between runs, so that a log without a dump loads no reader; made anew when a reader's file changes."""
    folder = Path(__file__).parent
    digest = sha256()
    for path in sorted(folder.rglob("*.py")):
        about = path.stat()
        digest.update(f"{path.relative_to(folder)} {about.st_size} {about.st_mtime_ns}\n".encode())
    kept = cache_folder() / f"readers-{digest.hexdigest()[:16]}.json"
    try:
        found: dict[str, list[str]] = json.loads(kept.read_bytes())
        if tuple(found) == READERS:
            return {name: tuple(literals) for name, literals in found.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        pass  # absent or damaged: made below
    table = {name: _module(name).ANCHORS for name in READERS}
    write_cache(kept, json.dumps(table, ensure_ascii=False).encode())
    return table


def anchors() -> tuple[str, ...]:
    """The literals of all readers, once each."""
    return tuple(dict.fromkeys(anchor for literals in _table().values() for anchor in literals))


def read_page(page: Page) -> list[Reading]:
    """What all readers find in ``page``, in order of the lines; segments do not overlap."""
    found: list[Reading] = []
    taken = bytearray(len(page.lines))  # 1 for every line that a reading holds
    for name, literals in _table().items():
        if page.holds(literals):
            for reading in _module(name).read(page):
                span = slice(reading.first, reading.last + 1)
                if 1 not in taken[span]:
                    taken[span] = b"\1" * len(taken[span])
                    found.append(reading)
    return sorted(found, key=lambda reading: reading.first)
