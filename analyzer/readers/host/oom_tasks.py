"""Who held the memory when somebody was killed for it: the kernel's task table under «invoked oom-killer», Ray's «Top 10 memory users».

The killed process need not be the one that took too much (gpu-errors.md, section 5): the table tells the two apart.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from heapq import nlargest

from analyzer.model.units import GIB, KIB, natural
from analyzer.readers.base import MemoryHolder, Page, Reading

ANCHORS = ("total_vm", "MEM(GB)")

#: Processes of one table that are kept: the largest.
HOLDERS = 8
#: The kernel counts pages: of 4 KiB, but of 16 or 64 KiB on some ARM servers, where the line about the victim tells.
PAGES_KIB = (4, 16, 64)
#: How far below the table that line stands: a line or two for the cgroup come first.
VICTIM_WITHIN = 16
_HEADER = re.compile(r"\[\s*pid\s*\]\s+(?P<columns>uid\s+tgid\s+total_vm\s+rss\b[\w \t]*?\bname)\s*$")
_ROW = re.compile(r"\[\s*(?P<pid>\d{1,10})\]\s+(?P<cells>\d+\s+\d+\s+\d+\s+\d+\s+.*\S)\s*$")
_VICTIM = re.compile(r"Killed process (?P<pid>\d{1,10}) .{0,200}?\btotal-vm:(?P<size>\d{1,18})kB")
_RAY_HEADER = re.compile(r"(?:^|\s)PID\s+MEM\(GB\)\s+COMMAND\s*$")
_RAY_ROW = re.compile(r"(?:^|\s)(?P<pid>\d{1,10})\s+(?P<size>\d{1,9}\.\d{1,9})\s+(?P<command>\S.*)$")


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
    rss, virtual = columns.index("rss"), columns.index("total_vm")
    reading = Reading("oom-tasks", index, index)
    holders: list[MemoryHolder] = []  # their bytes are pages until the size of one is known
    virtual_pages: dict[str, int] = {}
    for place in range(index + 1, len(page.lines)):
        row = _ROW.search(page.lines[place])
        cells = row["cells"].split(None, len(columns) - 1) if row is not None else []
        pages, virtual_size = (natural(cells[column]) if len(cells) == len(columns) else None for column in (rss, virtual))
        if row is None or pages is None or virtual_size is None:
            break
        reading.last = place
        holders.append(MemoryHolder(int(row["pid"]), page.redact(cells[-1])[:64], pages, page.source(place)))
        virtual_pages[row["pid"]] = virtual_size
        if len(holders) > 4 * HOLDERS:
            holders = nlargest(HOLDERS, holders, key=lambda holder: holder.bytes)
    size = _page_bytes(page, reading.last, virtual_pages)
    largest = nlargest(HOLDERS, holders, key=lambda holder: holder.bytes)
    reading.holders = [replace(holder, bytes=holder.bytes * size) for holder in largest]
    return reading if reading.holders else None


def _page_bytes(page: Page, last: int, virtual_pages: Mapping[str, int]) -> int:
    """Bytes of one page: what the victim's line says in kB of virtual memory, the table says in pages (Linux, mm/oom_kill.c)."""
    for line in page.lines[last + 1 : last + 1 + VICTIM_WITHIN]:
        victim = _VICTIM.search(line)
        if victim is not None:
            pages = virtual_pages.get(victim["pid"], 0)
            return next((kib for kib in PAGES_KIB if pages and pages * kib == int(victim["size"])), PAGES_KIB[0]) * KIB
    return PAGES_KIB[0] * KIB


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
        reading.holders.append(MemoryHolder(int(row["pid"]), page.redact(row["command"].strip())[:64], size, page.source(place)))
    return reading if reading.holders else None
