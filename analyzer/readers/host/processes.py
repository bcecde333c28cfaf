"""``ps`` and ``ss``: which processes run and which ports they hold. A command in such a list was started before; it is no launch."""

from __future__ import annotations

import re

from analyzer.model import Fact
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
        if len(cells) < len(columns) or not cells[pid_at].isdigit():
            break
        reading.last = place
        if len(reading.processes) < PROCESSES:
            parent = int(cells[parent_at]) if parent_at is not None and cells[parent_at].isdigit() else None
            reading.processes.append(HostProcess(int(cells[pid_at]), parent, page.redact(cells[-1]), page.source(place)))
        if rss_at is not None and cells[rss_at].isdigit():
            reading.facts.append(Fact("process.rss", int(cells[rss_at]), "KiB", page.source(place), pid=int(cells[pid_at])))
    return reading
