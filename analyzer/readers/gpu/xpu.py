"""Intel's xpu-smi: the table of ``stats``, and the CSV of ``discovery --dump`` (sizes) and ``dump -m 18`` (use over time), all in MiB.

Figures of one tile are not the card's: a dump with a column TileId and a table that lists tiles are not read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from analyzer.model import Gpu, GpuSnapshot
from analyzer.model.units import Number
from analyzer.readers.base import Page, Reading
from analyzer.readers.gpu.build import MAX_ROWS, Dump, reading
from analyzer.readers.gpu.cells import amount, mebibytes, text_or_none, whole
from analyzer.readers.gpu.strip import bare, bars

USED, SIZE = "GPU Memory Used (MiB)", "Memory Physical Size"
ANCHORS: tuple[str, ...] = (USED, SIZE)

_ROW = re.compile(r"\s*\|\s*(?P<key>[A-Z][^|]{0,60}?)\s*\|\s*(?P<value>[^|]{0,120}?)\s*\|\s*$")
_CLOCK = re.compile(r"(?:\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d\.\d{3}$")
#: Lines of the table around the one with the memory.
_ABOVE, _BELOW = 24, 24
#: Cards of one moment; more are another's.
_CARDS = 64


def read(page: Page) -> list[Reading]:
    """Every output of xpu-smi in ``page``."""
    found: list[Reading] = []
    position = 0
    while position < len(page.lines):
        line = page.lines[position]
        dumps: list[Dump] = []
        if USED in line or SIZE in line:
            columns = _cells(bare(line))
            if columns[0] == "Timestamp" and USED in columns:
                dumps = _course(page, position, columns)
            elif columns[0] == "Device ID" and SIZE in columns:
                dumps = _sizes(page, position, columns)
            else:
                dumps = _table(page, position)
        if dumps:
            open_end = not page.whole and dumps[-1].last >= len(page.lines) - 2
            found.append(reading("xpu-smi", dumps, open_end=open_end))
            position = dumps[-1].last
        position += 1
    return found


def _cells(text: str) -> list[str]:
    """The cells of a line of CSV; names are quoted, and none holds a comma."""
    return [cell.strip().strip('"') for cell in text.split(",")] if len(text) < 4096 else [""]


def _new(page: Page, index: int) -> Dump:
    return Dump(page, GpuSnapshot(page.source(index), tool="xpu-smi"), index, index)


def _number(text: str) -> Number | None:
    return mebibytes(text, "MiB")


def _course(page: Page, position: int, columns: Sequence[str]) -> list[Dump]:
    """``xpu-smi dump``: a row a card and moment. A version that cannot tell prints N/A."""
    if "DeviceId" not in columns or "TileId" in columns:
        return []
    dumps: list[Dump] = []
    for index in range(position + 1, len(page.lines)):
        cells = _cells(bare(page.lines[index]))
        if len(cells) != len(columns) or not _CLOCK.match(cells[0]):
            break
        row = dict(zip(columns, cells, strict=True))
        number, used = whole(row["DeviceId"]), _number(row[USED])
        if number is None:
            break
        if not dumps or any(gpu.index == number for gpu in dumps[-1].snapshot.gpus) or len(dumps[-1].snapshot.gpus) >= _CARDS:
            dumps.append(_new(page, position if not dumps else index))
            dumps[-1].snapshot.time = row["Timestamp"]
        gpu = Gpu(number, memory_used_mib=used, line=page.first_line + index)
        dumps[-1].snapshot.gpus.append(gpu)
        dumps[-1].device(gpu, index)
        dumps[-1].last = index
    return dumps


def _sizes(page: Page, position: int, columns: Sequence[str]) -> list[Dump]:
    """``xpu-smi discovery --dump``: a row a card."""
    dump = _new(page, position)
    for index in range(position + 1, min(len(page.lines), position + 1 + MAX_ROWS)):
        cells = _cells(bare(page.lines[index]))
        number = whole(cells[0])
        if len(cells) != len(columns) or number is None:
            break
        row = dict(zip(columns, cells, strict=True))
        gpu = Gpu(number, text_or_none(row.get("Device Name")), bus_id=text_or_none(row.get("PCI BDF Address")))
        gpu.memory_total_mib, gpu.line = _number(row[SIZE]), page.first_line + index
        dump.snapshot.gpus.append(gpu)
        dump.device(gpu, index)
        dump.last = index
    return [dump] if dump.snapshot.gpus else []


def _table(page: Page, position: int) -> list[Dump]:
    """``xpu-smi stats -d n``: a table of two columns, one card."""
    used = _ROW.match(bars(page.lines[position]))
    if used is None or used["key"] != USED or _number(used["value"]) is None:
        return []
    first = last = position
    rows: dict[str, str] = {}
    for step, end in ((-1, max(-1, position - _ABOVE)), (1, min(len(page.lines), position + _BELOW))):
        for index in range(position, end, step):
            text = bars(page.lines[index]).strip()
            row = _ROW.match(text)
            if text[:1] not in ("|", "+") or (row is not None and row["key"] in rows and index != position):
                break
            if row is not None:
                rows[row["key"]] = row["value"]
            first, last = min(first, index), max(last, index)
    dump = Dump(page, GpuSnapshot(page.source(first), tool="xpu-smi"), first, last)
    gpu = Gpu(whole(rows.get("Device ID", "")), memory_used_mib=_number(used["value"]), line=page.first_line + position)
    gpu.utilization_percent = amount(rows.get("GPU Utilization (%)", ""), "%")
    gpu.temperature_c = amount(rows.get("GPU Core Temperature (C)", ""), "C")
    gpu.power_w = amount(rows.get("GPU Power (W)", ""), "W")
    gpu.memory_percent = amount(rows.get("GPU Memory Util (%)", ""), "%")
    dump.snapshot.gpus.append(gpu)
    dump.device(gpu, position)
    return [dump]
