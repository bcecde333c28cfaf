"""``ps`` and ``ss``: which processes run and which ports they hold. A command in such a list was started before; it is no launch."""

from __future__ import annotations

import re

from analyzer.model import Fact
from analyzer.model.units import natural
from analyzer.readers.base import HostProcess, Page, Reading

ANCHORS = ("LISTEN", " PID ", "  PID")

#: Rows of one table that are kept.
PROCESSES = 256
_HEADER = re.compile(r"\s*(?:USER|UID|S|F)?\s*PID\b.*\b(?:CMD|COMMAND)\b")
_SOCKET = re.compile(r"\s*(?:tcp6?\s.*\bLISTEN\b|LISTEN\s+\d+|State\s+Recv-Q)")


def read(page: Page) -> list[Reading]:
    """Each process table and each run of listening sockets in ``page``; resident sizes (``ps``' RSS is KiB) as process.rss."""
    found: list[Reading] = []
    done = -1
    for index, line in enumerate(page.lines):
        if index <= done:
            continue
        if _SOCKET.match(line):
            done = index
            while done + 1 < len(page.lines) and _SOCKET.match(page.lines[done + 1]):
                done += 1
            found.append(Reading("processes", index, done))
        elif _HEADER.match(line) and "GPU" not in line and "PID" in line.split():
            reading = _table(page, index)
            found.append(reading)
            done = reading.last
    return found


def _table(page: Page, index: int) -> Reading:
    columns = page.lines[index].split()
    reading = Reading("processes", index, index)
    pid_at = columns.index("PID")
    rss_at = columns.index("RSS") if "RSS" in columns else None
    parent_at = columns.index("PPID") if "PPID" in columns else None
    for place in range(index + 1, len(page.lines)):
        cells = page.lines[place].split(None, len(columns) - 1)
        pid = natural(cells[pid_at]) if len(cells) == len(columns) else None
        if pid is None:
            break
        reading.last = place
        if len(reading.processes) < PROCESSES:
            parent = natural(cells[parent_at]) if parent_at is not None else None
            reading.processes.append(HostProcess(pid, parent, page.redact(cells[-1]), page.source(place)))
        resident = natural(cells[rss_at]) if rss_at is not None else None
        if resident is not None:
            reading.facts.append(Fact("process.rss", resident, "KiB", page.source(place), pid=pid))
    return reading
