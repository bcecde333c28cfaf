"""``free`` and ``/proc/meminfo``: the host's memory."""

from __future__ import annotations

import re

from analyzer.model import Fact
from analyzer.model.units import Number, natural, number
from analyzer.readers.base import Page, Reading

ANCHORS = ("Mem:", "内存", "MemTotal:", "MemAvailable:")

_COMMAND = re.compile(r"\bfree\b((?:[ \t]+--?[\w=]+)*)")
_COLUMNS = {
    "total": "total", "used": "used", "free": "free", "available": "available",
    "总计": "total", "已用": "used", "空闲": "free", "可用": "available",
}  # fmt: skip
_ROW = re.compile(r"\s*(?P<name>Mem|Swap|内存|交换)\s*[:：]\s*(?P<cells>[\d.].*)")
_CELL = re.compile(r"(\d{1,15}(?:,\d{1,3}){0,5}(?:\.\d{0,6})?)([BKMGTP]?)(i?)B?$")
_MEMINFO = re.compile(r"\s*(MemTotal|MemFree|MemAvailable|SwapFree):\s+(\d{1,18}) kB")
_MEMINFO_FACTS = {"MemTotal": "host.total", "MemFree": "host.free", "MemAvailable": "host.available", "SwapFree": "host.swap_free"}
_UNITS = {"b": "B", "k": "KiB", "m": "MiB", "g": "GiB", "t": "TiB"}


def read(page: Page) -> list[Reading]:
    """Each table of ``free`` and each ``/proc/meminfo`` in ``page``."""
    found: list[Reading] = []
    for index, line in enumerate(page.lines):
        names = [_COLUMNS[word] for word in line.split() if word in _COLUMNS]
        if names[:2] == ["total", "used"] and index + 1 < len(page.lines):
            reading = _table(page, index, line)
            if reading is not None:
                found.append(reading)
        elif line.lstrip().startswith("MemTotal:"):
            found.append(_meminfo(page, index))
    return found


def _table(page: Page, index: int, header: str) -> Reading | None:
    columns = [_COLUMNS.get(word) for word in header.split()]
    command = _COMMAND.search(page.lines[index - 1]) if index else None
    reading = Reading("free", index - 1 if command else index, index)
    for place in range(index + 1, min(index + 4, len(page.lines))):
        row = _ROW.match(page.lines[place])
        if row is None:
            break
        reading.last = place
        cells = row["cells"].split()
        if row["name"] in ("Swap", "交换"):
            wanted = {"free": "host.swap_free"}
        else:
            wanted = {"total": "host.total", "used": "host.used", "free": "host.free", "available": "host.available"}
        unit = _unit(cells, command[1] if command else "")
        for column, cell in zip(columns, cells, strict=False):
            measured = _cell(cell, unit)
            if column in wanted and measured is not None:
                reading.facts.append(Fact(wanted[column], measured[0], measured[1], page.source(place)))
    return reading if reading.facts else None


def _unit(cells: list[str], options: str) -> str | None:
    """The unit of bare numbers: what the options say, else what the size of the total leaves possible (the tool's own default is KiB)."""
    decimal = "--si" in options
    letters = (
        "".join(re.findall(r"(?<!-)-([a-z]+)", options)) + "".join(re.findall(r"--(byte|kibi|mebi|gibi|tebi|kilo|mega|giga)", options))[:1]
    )
    letter = next((char for char in letters if char in _UNITS), None)
    if letter is None:
        size = natural(cells[0]) if cells else None
        if size is None:
            return None
        letter = "b" if size >= 2**36 else "k" if size >= 2**22 else "m" if size >= 2**10 else "g"
    unit = _UNITS[letter]
    return unit.replace("i", "") if decimal else unit


def _cell(cell: str, unit: str | None) -> tuple[Number, str] | None:
    matched = _CELL.match(cell)
    if matched is None:
        return None
    figure, letter, _ = matched.groups()
    if letter:
        return number(figure), "B" if letter == "B" else letter + "iB"  # "G" of older releases is binary, too
    return (number(figure), unit) if unit else None


def _meminfo(page: Page, index: int) -> Reading:
    reading = Reading("meminfo", index, index)
    for place in range(index, min(index + 60, len(page.lines))):
        if not re.match(r"\s*[\w()]+:\s+\d+", page.lines[place]):
            break
        reading.last = place
        matched = _MEMINFO.match(page.lines[place])
        if matched:
            reading.facts.append(Fact(_MEMINFO_FACTS[matched[1]], int(matched[2]), "KiB", page.source(place)))
    return reading
