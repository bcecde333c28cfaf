"""``df``: what is left on disks and in shared memory."""

from __future__ import annotations

import re

from analyzer.model import Fact
from analyzer.model.units import Number, natural, number
from analyzer.readers.base import Page, Reading
from analyzer.readers.host.sizes import size_fact

ANCHORS = ("Filesystem", "文件系统")

_HEADER = re.compile(r"\s*(?:Filesystem|文件系统)\s+(?P<rest>.*(?:Use%|%).*)")
_BLOCKS = re.compile(r"(\d*)([KMG]?)(B?)-?(?:blocks|块)", re.IGNORECASE)
#: Filesystems that hold no files of a user.
_NO_DISK = re.compile(r"tmpfs|devtmpfs|udev|none|efivarfs|cgroup|proc|sysfs|/dev/loop\d+|snap")


def read(page: Page) -> list[Reading]:
    """Each table of ``df`` in ``page``: /dev/shm as shm.total and shm.free, every disk as disk.free."""
    found: list[Reading] = []
    for index, line in enumerate(page.lines):
        header = _HEADER.match(line)
        if header is None:
            continue
        command = index > 0 and re.search(r"\bdf\b", page.lines[index - 1])
        reading = Reading("df", index - 1 if command else index, index)
        decimal = bool(command) and re.search(r"\s-\w*H|--si", page.lines[index - 1]) is not None
        typed = header["rest"].split()[0] in ("Type", "类型")
        _rows(page, index + 1, header["rest"], reading, decimal=decimal, typed=typed)
        found.append(reading)
    return found


def _rows(page: Page, first: int, header: str, reading: Reading, *, decimal: bool, typed: bool) -> None:
    name: list[str] = []
    for place in range(first, len(page.lines)):
        cells = [*name, *page.lines[place].split()]
        if len(cells) == 1 and cells[0].startswith(("/", "//", "overlay")) and not name:
            name = cells  # a long name has a line of its own
            continue
        name = []
        if typed and len(cells) > 1:
            del cells[1]
        if len(cells) < 6 or not re.fullmatch(r"\d+%|-", cells[4]):
            break
        reading.last = place
        total, free = (_size(cell, header, decimal=decimal) for cell in (cells[1], cells[3]))
        source = page.source(place)
        if cells[5] == "/dev/shm":  # noqa: S108 - a mount point that is read about, not written to
            if total is not None:
                reading.facts.append(Fact("shm.total", *total, source))
            if free is not None:
                reading.facts.append(Fact("shm.free", *free, source))
        elif free is not None and not _NO_DISK.fullmatch(cells[0]):
            reading.facts.append(Fact("disk.free", *free, source))


def _size(cell: str, header: str, *, decimal: bool) -> tuple[Number, str] | None:
    if natural(cell) is not None:
        if cell == "0":
            return 0, "B"
        blocks = _BLOCKS.search(header)
        if blocks is None:
            return None
        factor, letter, bytes_ = blocks.groups()
        if factor not in ("", "1", "1024") or (factor == "1024" and letter):
            return None
        if factor == "1024":
            letter = "K"
        return number(cell), (letter.upper() + ("B" if bytes_ else "iB")) if letter else "KiB"
    return size_fact(cell, docker=not decimal)
