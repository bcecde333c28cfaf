"""Formats with structure: GPU dumps, launch commands, model configs. Each reader finds its own segments in a page of lines.

Adding one: write a module with ``ANCHORS`` (literals, one of which every segment holds) and ``read(page) -> list[Reading]``, and name it
in ``READERS``. A page is only read when an anchor of some reader stands in it.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Protocol, cast

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
    "gpu.errors",
    "launch",
    "model_config",
    "host",
)


class Reader(Protocol):
    """A module of this package that reads one format."""

    ANCHORS: tuple[str, ...]

    def read(self, page: Page) -> list[Reading]:
        """The segments of this format in ``page``."""


@cache
def _modules() -> tuple[Reader, ...]:
    return tuple(cast("Reader", import_module(f"analyzer.readers.{name}")) for name in READERS)


def anchors() -> tuple[str, ...]:
    """The literals of all readers, once each."""
    return tuple(dict.fromkeys(anchor for module in _modules() for anchor in module.ANCHORS))


def read_page(page: Page) -> list[Reading]:
    """What all readers find in ``page``, in order of the lines; segments do not overlap."""
    found: list[Reading] = []
    taken = bytearray(len(page.lines))  # 1 for every line that a reading holds
    for module in _modules():
        if any(anchor in page.text for anchor in module.ANCHORS):
            for reading in module.read(page):
                span = slice(reading.first, reading.last + 1)
                if 1 not in taken[span]:
                    taken[span] = b"\1" * len(taken[span])
                    found.append(reading)
    return sorted(found, key=lambda reading: reading.first)
