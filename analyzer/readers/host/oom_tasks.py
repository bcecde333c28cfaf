"""Who held the memory when somebody was killed for it: the kernel's task table under «invoked oom-killer», Ray's «Top 10 memory users».

The killed process need not be the one that took too much (gpu-errors.md, section 5): the table tells the two apart.
"""

from __future__ import annotations

import re
from heapq import nlargest

from analyzer.model.units import GIB, KIB
from analyzer.readers.base import MemoryHolder, Page, Reading

ANCHORS = ("total_vm", "MEM(GB)")

#: Processes of one table that are kept: the largest.
HOLDERS = 8
#: The kernel counts pages; of 4 KiB but on some ARM servers.
PAGE = 4 * KIB
_HEADER = re.compile(r"\[\s*pid\s*\]\s+(?P<columns>uid\s+tgid\s+total_vm\s+rss\b[\w \t]*?\bname)\s*$")
_ROW = re.compile(r"\[\s*(?P<pid>\d+)\]\s+(?P<cells>\d+\s+\d+\s+\d+\s+\d+\s+.*\S)\s*$")
_RAY_HEADER = re.compile(r"(?:^|\s)PID\s+MEM\(GB\)\s+COMMAND\s*$")
_RAY_ROW = re.compile(r"(?:^|\s)(?P<pid>\d+)\s+(?P<size>\d+\.\d+)\s+(?P<command>\S.*)$")


def read(page: Page) -> list[Reading]:
    """Each such table in ``page`` with its largest processes."""
    found: list[Reading] = []
    done = -1
    for index, line in enumerate(page.lines):
        if index <= done or ("total_vm" not in line and "MEM(GB)" not in line):
            continue
        reading = _kernel(page, index, line) or _ray(page, index, line)
        if reading is not None:
            found.append(reading)
            done = reading.last
    return found


def _kernel(page: Page, index: int, line: str) -> Reading | None:
    header = _HEADER.search(line)
    if header is None:
        return None
    columns = header["columns"].split()
    rss = columns.index("rss")
    reading = Reading("oom-tasks", index, index)
    holders: list[MemoryHolder] = []
    for place in range(index + 1, len(page.lines)):
        row = _ROW.search(page.lines[place])
        cells = row["cells"].split(None, len(columns) - 1) if row is not None else []
        if row is None or len(cells) < len(columns) or not cells[rss].isdigit():
            break
        reading.last = place
        holders.append(MemoryHolder(int(row["pid"]), page.redact(cells[-1][:64]), int(cells[rss]) * PAGE, page.source(place)))
        if len(holders) > 4 * HOLDERS:
            holders = nlargest(HOLDERS, holders, key=lambda holder: holder.bytes)
    reading.holders = nlargest(HOLDERS, holders, key=lambda holder: holder.bytes)
    return reading if reading.holders else None


def _ray(page: Page, index: int, line: str) -> Reading | None:
    if not _RAY_HEADER.search(line):
        return None
    reading = Reading("ray-memory-users", index, index)
    for place in range(index + 1, min(index + 11, len(page.lines))):
        row = _RAY_ROW.search(page.lines[place])
        if row is None:
            break
        reading.last = place
        # Ray divides by 2**30 and prints GB.
        size = round(float(row["size"]) * GIB)
        reading.holders.append(MemoryHolder(int(row["pid"]), page.redact(row["command"][:64].strip()), size, page.source(place)))
    return reading if reading.holders else None
