"""Tables of memory over time as people keep or export them: comma, semicolon or tab between columns, a header that names them.

What a column means is told by its name (``host_rss_gib``, ``container_memory_working_set_bytes``, ``gpu0_used_mib``) and, where that
states no unit, by the unit in its cells. A column without either is left out: a bare number has no size.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from analyzer.model import Fact
from analyzer.model.units import number
from analyzer.readers.base import Page, Reading
from analyzer.readers.host.sizes import size_fact

ANCHORS = (
    "rss_", "_rss", "rss,", ",rss", "RSS,", ",RSS", "rss;", ";rss", "rss\t", "\trss", "RSS (", "working_set",
    "gpu_used", "gpu_mem_", "gpu_mem,", ",gpu_mem", ";gpu_mem", "\tgpu_mem", "gpu_mem (", "gpu_mem [", "gpu_memory_used", "used_mib",
    "used_gib", "mem_used", "memory_used", "host_mem", "vram_used", "vram_mib",
)  # fmt: skip

#: Rows that are kept as facts; of more, every n-th, and the last.
ROWS = 512
_SPLIT = re.compile(r"\s*[,;\t]\s*")
_TIME = re.compile(r"(?i)(?:date|day|hours?|minutes?|seconds?|elapsed|t|ts|time\w*|timestamp\w*|uptime\w*)(?:[ _(\[].*)?$")
_HOST = re.compile(r"(?i)(?:container|cgroup|pod|working_set)")
_RSS = re.compile(r"(?i)(?:^|_)rss(?:_|$|[ (\[])|resident")
_MACHINE = re.compile(r"(?i)(?:host|sys(?:tem)?|ram|node)\w*(?:mem|used|ram)|^ram(?:_|$)")
_CARD = re.compile(r"(?i)(?:gpu|vram|fb_used|framebuffer|device)")
_INDEX = re.compile(r"(?i)gpu[_ ]?(\d{1,2})")
_UNIT = re.compile(r"(?i)(?:^|[_ (\[])(bytes?|[kmgt]i?b|[kmgt])(?:[)\]]|$)")
_NOT_USE = re.compile(r"(?i)util|temp|power|total|limit|free|avail|clock|percent|%|fan|count|util")
_UNITS = {"b": "B", "byte": "B", "bytes": "B"}


@dataclass(slots=True)
class _Column:
    place: int
    name: str
    unit: str | None
    gpu: int | None


def read(page: Page) -> list[Reading]:
    """Each table in ``page`` whose header names a time and at least one size of memory."""
    found: list[Reading] = []
    done = -1
    present = [anchor for anchor in ANCHORS if page.holds((anchor,))]
    for index, line in enumerate(page.lines):
        if index > done and any(anchor in line for anchor in present):
            reading = _table(page, index)
            if reading is not None:
                found.append(reading)
                done = reading.last
    return found


def _table(page: Page, index: int) -> Reading | None:
    names = _SPLIT.split(page.lines[index].strip().lstrip("#").strip())
    if len(names) < 2 or len(names) > 64:
        return None
    time = next((place for place, name in enumerate(names) if _TIME.match(name.strip('"'))), None)
    if time is None:
        return None
    columns = [column for place, name in enumerate(names) if place != time and (column := _column(place, name.strip('"'))) is not None]
    if not columns:
        return None
    rows: list[tuple[int, list[str]]] = []
    for place in range(index + 1, len(page.lines)):
        cells = _SPLIT.split(page.lines[place].strip())
        if len(cells) != len(names) or not re.search(r"\d", cells[time]):
            break
        rows.append((place, [cell.strip('"') for cell in cells]))
    if not rows:
        return None
    reading = Reading("memory-course", index, rows[-1][0], open=rows[-1][0] == len(page.lines) - 1)
    stride = -(-len(rows) // ROWS)
    for place, cells in [*rows[:-1:stride], rows[-1]]:
        for column in columns:
            measured = _size(cells[column.place], column.unit)
            if measured is not None:
                value, unit = measured
                reading.facts.append(Fact(column.name, value, unit, page.source(place), gpu=column.gpu, time=page.redact(cells[time])[:40]))
    return reading if reading.facts else None


def _column(place: int, name: str) -> _Column | None:
    """What a column holds; None for anything that is no use of memory."""
    if _NOT_USE.search(name):
        return None
    card = _CARD.search(name) is not None
    if card and re.search(r"(?i)used|use|mem|vram|fb|[kmg]i?b", name):
        index = _INDEX.search(name)
        return _Column(place, "device.used", _unit(name), int(index[1]) if index else None)
    if card:
        return None
    if _HOST.search(name) or (_RSS.search(name) and re.search(r"(?i)host|container|pod", name)):
        return _Column(place, "host.limit_used", _unit(name), None)
    if _RSS.search(name):
        return _Column(place, "process.rss", _unit(name), None)
    if _MACHINE.search(name):
        return _Column(place, "host.used", _unit(name), None)
    return None


def _unit(name: str) -> str | None:
    """The unit that a column's name states; "mb" and "gb" are taken as binary, as the tools that such tables are made from count."""
    matched = _UNIT.search(name)
    if matched is None:
        return None
    letters = matched[1].lower()
    return _UNITS.get(letters) or letters[0].upper() + "iB"


def _size(cell: str, unit: str | None) -> tuple[int | float, str] | None:
    if unit is not None and re.fullmatch(r"\d{1,20}(?:\.\d{1,15})?(?:[eE][+-]?\d{1,2})?", cell):
        return number(cell), unit
    measured = size_fact(cell, docker=True) if re.search(r"[A-Za-z]", cell) else None
    return None if measured is None or (measured[1] == "B" and unit is not None) else measured
