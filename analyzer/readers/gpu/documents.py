"""JSON of monitors: ``nvtop -s``, ``gpustat --json``, ``rocm-smi --json``."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from analyzer.model import Gpu, GpuProcess, GpuSnapshot
from analyzer.readers.base import Page, Reading
from analyzer.readers.gpu.build import MAX_ROWS, Dump, plausible, reading
from analyzer.readers.gpu.cells import amount, mebibytes, text_or_none, whole
from analyzer.readers.gpu.strip import bare

ANCHORS: tuple[str, ...] = ('"device_name"', '"memory.used"', '"memory.total"', '"VRAM Total Memory (B)"')

#: A document has this many lines at most; 16 cards with hundreds of processes have some 5,000.
MAX_LINES = 20_000
#: Beginnings that turn out to be none, per page: each costs a look at that many lines.
MAX_FAILURES = 8
_BEGIN = re.compile(r"\s*[\[{]")


def read(page: Page) -> list[Reading]:
    """Every such document of ``page``."""
    found: list[Reading] = []
    lines = page.lines
    hits = [index for index, line in enumerate(lines) if any(anchor in line for anchor in ANCHORS)]
    done, failures = -1, 0
    for hit in hits:
        if hit <= done:
            continue
        if failures >= MAX_FAILURES:
            break
        for first in _beginnings(lines, hit, done):
            parsed = _parse(lines, first)
            if parsed is None:
                failures += 1
                continue
            value, last = parsed
            outcome = _dump(page, value, first, last) if last >= hit else None
            if outcome is not None:
                kind, dump = outcome
                found.append(reading(kind, [dump]))
                done = last
                break
        else:
            done = max(done, hit)
    return found


def _beginnings(lines: Sequence[str], hit: int, done: int) -> list[int]:
    """Where the document that holds line ``hit`` may begin, outermost first."""
    candidates: list[int] = []
    for index in range(hit, max(done, hit - 64), -1):
        if _BEGIN.match(bare(lines[index])) and len(lines[index]) - len(lines[index].lstrip()) <= 4:
            candidates.append(index)
            if len(candidates) == 4:
                break
    return candidates[::-1]


def _parse(lines: Sequence[str], first: int) -> tuple[Any, int] | None:
    """(value, last line) of the JSON that begins in line ``first``."""
    texts = [bare(line) for line in lines[first : first + MAX_LINES]]
    text = "\n".join(texts)
    try:
        value, end = json.JSONDecoder().raw_decode(text.lstrip())
    except (ValueError, RecursionError):
        return None
    return value, first + text.count("\n", 0, end + len(text) - len(text.lstrip()))


def _dump(page: Page, value: Any, first: int, last: int) -> tuple[str, Dump] | None:
    if isinstance(value, list) and value and all(isinstance(item, dict) and "device_name" in item for item in value):
        return "nvtop-json", _nvtop(page, value, first, last)
    if isinstance(value, dict) and isinstance(value.get("gpus"), list) and all(isinstance(item, dict) for item in value["gpus"]):
        return "gpustat-json", _gpustat(page, value, first, last)
    if isinstance(value, dict) and any(isinstance(card, dict) and "VRAM Total Memory (B)" in card for card in value.values()):
        return "rocm-smi-json", _rocm(page, value, first, last)
    return None


def _new(page: Page, tool: str, first: int, last: int) -> Dump:
    return Dump(page, GpuSnapshot(page.source(first), tool=tool), first, last)


class _Lines:
    """The lines of a key, one after the other, as the objects of a document come."""

    def __init__(self, page: Page, first: int, last: int) -> None:
        self._page, self._first, self._last = page, first, last
        self._places: dict[str, list[int]] = {}

    def next(self, key: str, position: int) -> int:
        """The line of the ``position``-th ``key``; the document's first where it is not found."""
        if key not in self._places:
            quoted = f'"{key}"'
            self._places[key] = [
                index for index in range(self._first, self._last + 1) for _ in range(self._page.lines[index].count(quoted))
            ]
        places = self._places[key]
        return places[position] if position < len(places) else self._first


def _text(value: Any) -> str:
    return value if isinstance(value, str) else str(value) if isinstance(value, int) and not isinstance(value, bool) else ""


def _nvtop(page: Page, value: list[dict[str, Any]], first: int, last: int) -> Dump:
    """nvtop -s: bytes as text; ``mem_util`` is occupancy here."""
    dump = _new(page, "nvtop", first, last)
    lines = _Lines(page, first, last)
    seen = 0
    for place, item in enumerate(value[:MAX_ROWS]):
        gpu = Gpu(place, _text(item.get("device_name")) or None, line=page.first_line + lines.next("device_name", place))
        gpu.utilization_percent = amount(_text(item.get("gpu_util")), "%")
        gpu.temperature_c = amount(_text(item.get("temp")), "C")
        gpu.power_w = amount(_text(item.get("power_draw")), "W")
        gpu.fan_percent = amount(_text(item.get("fan_speed")), "%")
        sizes = {key: whole(_text(item.get(f"mem_{key}"))) for key in ("total", "used", "free")}
        if plausible(_mib(sizes["used"]), _mib(sizes["total"])):
            gpu.memory_total_mib, gpu.memory_used_mib = _mib(sizes["total"]), _mib(sizes["used"])
            gpu.memory_free_mib = _mib(sizes["free"])
            for key, size in sizes.items():
                if size is not None:
                    dump.device_fact(f"device.{key}", size, "B", place, lines.next(f"mem_{key}", place))
        dump.snapshot.gpus.append(gpu)
        processes = item.get("processes")
        if isinstance(processes, list):
            dump.snapshot.process_table = True
            for entry in processes:
                if isinstance(entry, dict):
                    size = whole(_text(entry.get("gpu_mem_bytes_alloc")))
                    kind = {"compute": "C", "graphic": "G", "graphics": "G"}.get(_text(entry.get("kind")))
                    process = GpuProcess(place, whole(_text(entry.get("pid"))), _text(entry.get("cmdline")) or None, kind, _mib(size))
                    dump.process(process, lines.next("gpu_mem_bytes_alloc", seen), printed=None if size is None else (size, "B"))
                    seen += 1
    return dump


def _gpustat(page: Page, value: dict[str, Any], first: int, last: int) -> Dump:
    dump = _new(page, "gpustat", first, last)
    lines = _Lines(page, first, last)
    dump.snapshot.time = _text(value.get("query_time")) or None
    dump.snapshot.driver = _text(value.get("driver_version")) or None
    seen = 0
    for place, item in enumerate(value["gpus"][:MAX_ROWS]):
        index = item.get("index")
        gpu = Gpu(index if isinstance(index, int) else place, _text(item.get("name")) or None, _text(item.get("uuid")) or None)
        gpu.line = page.first_line + lines.next("index", place)
        gpu.utilization_percent = amount(_text(item.get("utilization.gpu")), "%")
        gpu.temperature_c = amount(_text(item.get("temperature.gpu")), "C")
        used, total = whole(_text(item.get("memory.used"))), whole(_text(item.get("memory.total")))
        if plausible(used, total):
            gpu.memory_used_mib, gpu.memory_total_mib = used, total
        dump.snapshot.gpus.append(gpu)
        dump.device(gpu, lines.next("memory.used", place))
        processes = item.get("processes")
        if isinstance(processes, list):
            dump.snapshot.process_table = True
            for entry in processes:
                if isinstance(entry, dict):
                    size = whole(_text(entry.get("gpu_memory_usage")))
                    process = GpuProcess(gpu.index, whole(_text(entry.get("pid"))), _text(entry.get("command")) or None, None, size)
                    dump.process(process, lines.next("gpu_memory_usage", seen))
                    seen += 1
    return dump


def _rocm(page: Page, value: dict[str, Any], first: int, last: int) -> Dump:
    dump = _new(page, "rocm-smi", first, last)
    lines = _Lines(page, first, last)
    place = 0
    for key, item in list(value.items())[:MAX_ROWS]:
        found = re.fullmatch(r"card(\d{1,3})", key)
        if found is None or not isinstance(item, dict):
            continue
        gpu = Gpu(int(found[1]), line=page.first_line + lines.next(key, 0))
        gpu.utilization_percent = amount(_text(item.get("GPU use (%)")), "%")
        gpu.name = text_or_none(_text(item.get("Card Series", item.get("Card series"))))
        total, used = whole(_text(item.get("VRAM Total Memory (B)"))), whole(_text(item.get("VRAM Total Used Memory (B)")))
        if plausible(_mib(used), _mib(total)):
            gpu.memory_total_mib, gpu.memory_used_mib = _mib(total), _mib(used)
            for name, label, size in (("total", "VRAM Total Memory (B)", total), ("used", "VRAM Total Used Memory (B)", used)):
                if size is not None:
                    dump.device_fact(f"device.{name}", size, "B", gpu.index, lines.next(label, place))
        dump.snapshot.gpus.append(gpu)
        place += 1
    return dump


def _mib(size: int | None) -> float | None:
    return None if size is None else mebibytes(f"{size} B")
