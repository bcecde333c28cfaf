"""``nvidia-smi topo -m``: how the cards of a machine reach each other."""

from __future__ import annotations

import re

from analyzer.model import Gpu, GpuSnapshot
from analyzer.readers.base import Page, Reading
from analyzer.readers.gpu.build import Dump, reading
from analyzer.readers.gpu.strip import bare

ANCHORS: tuple[str, ...] = ("CPU Affinity", "GPU0\tGPU1", "\tGPU0")

_HEADER = re.compile(r"\s*(?:GPU\d{1,3}\s+){0,63}GPU\d{1,3}(?=\s|$)")
_ROW = re.compile(r"\s*GPU(?P<index>\d{1,3})\s+(?P<cells>\S.*)$")
_OTHER_ROW = re.compile(r"\s*(?:NIC\d|mlx\d|ib\d|bnxt|rocep|irdma|hfi)\S*\s")
_CELL = re.compile(r"X|NV\d{1,2}|SYS|NODE|PHB|PXB|PIX|PSB|SOC|CNS|OK|N/A")
_LEGEND = re.compile(r"\s*(?:Legend:|NIC Legend:|(?:X|SYS|NODE|PHB|PXB|PIX|PSB|SOC|NV#)\s+=\s|NIC\d{1,3}:\s)")


def read(page: Page) -> list[Reading]:
    """Every matrix of ``page``."""
    found: list[Reading] = []
    lines = page.lines
    position = 0
    while position < len(lines):
        text = bare(lines[position]) if "GPU0" in lines[position] and len(lines[position]) < 4096 else ""
        names = re.findall(r"\bGPU(\d{1,3})\b", text) if _HEADER.match(text) else []
        if len(names) == 0 or _CELL.fullmatch(text.split()[1] if len(text.split()) > 1 else ""):
            position += 1
            continue
        dump, last = _matrix(page, position, [int(name) for name in names])
        if dump is not None:
            found.append(reading("nvidia-smi-topo", [dump], open_end=not page.whole and last >= len(lines) - 2))
        position = last + 1
    return found


def _matrix(page: Page, first: int, names: list[int]) -> tuple[Dump | None, int]:
    snapshot = GpuSnapshot(page.source(first))
    last = first
    for index in range(first + 1, min(len(page.lines), first + 256)):
        text = bare(page.lines[index])
        row = _ROW.match(text) if len(text) < 4096 else None
        if row is None:
            if text.strip() and not _OTHER_ROW.match(text) and not _LEGEND.match(text):
                break
            last = index if text.strip() else last
            continue
        cells = row["cells"].split()
        if len(cells) < len(names) or not all(_CELL.fullmatch(cell) for cell in cells[: len(names)]):
            break
        number = int(row["index"])
        if any(gpu.index == number for gpu in snapshot.gpus):
            break
        snapshot.gpus.append(Gpu(number, line=page.first_line + index))
        for other, cell in zip(names, cells, strict=False):
            if other > number:
                snapshot.links[f"{number}-{other}"] = cell
        last = index
    return (Dump(page, snapshot, first, last) if snapshot.gpus else None), last
