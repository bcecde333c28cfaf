"""What the host's own tools print: memory, disks, containers, packages, processes."""

from __future__ import annotations

from analyzer.readers.base import Page, Reading
from analyzer.readers.host import containers, course, disk, memory, oom_tasks, packages, processes

_TOOLS = (oom_tasks, course, memory, disk, containers, packages, processes)

#: Literals one of which every output of these tools holds.
ANCHORS: tuple[str, ...] = tuple(anchor for tool in _TOOLS for anchor in tool.ANCHORS)


def read(page: Page) -> list[Reading]:
    """The outputs of the host's tools in ``page``; where two claim a line, the first in the order of the tools has it."""
    found: list[Reading] = []
    for tool in _TOOLS:
        if page.holds(tool.ANCHORS):
            for reading in tool.read(page):
                if not any(reading.first <= other.last and other.first <= reading.last for other in found):
                    found.append(reading)
    return sorted(found, key=lambda reading: reading.first)
