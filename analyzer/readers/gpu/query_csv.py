"""``nvidia-smi --query-gpu`` and ``--query-compute-apps`` with ``--format=csv``: with and without header and units, once or in a loop.

A column without a header has the meaning that the command line gives it, where that is in the paste. Else only what a value's shape
alone proves is read (index, name, UUID, bus id, driver), and the snapshot says ``columns_unknown``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from analyzer.model import Gpu, GpuProcess, GpuSnapshot, Source
from analyzer.readers.base import Page, Reading
from analyzer.readers.gpu.build import MAX_ROWS, Dump, reading, thin
from analyzer.readers.gpu.cells import mebibytes, text_or_none, whole, word
from analyzer.readers.gpu.columns import canonical, card, cells, compute_app, header, split
from analyzer.readers.gpu.rows import BUS
from analyzer.readers.gpu.strip import bare

ANCHORS: tuple[str, ...] = (
    "memory.total", "memory.used", "memory.free", "utilization.gpu", "used_gpu_memory", "used_memory", "temperature.gpu", "gpu_uuid",
    "pci.bus_id", "gpu_bus_id", "power.draw", "driver_version", "index, name", "index, uuid", "name, uuid",
    "--query-gpu", "--query-compute-apps", ", python", "/python3, ", "/python, ", ", VLLM::",
    " MiB, ", ", NVIDIA ", ", Tesla ", ", Quadro ", ", GRID ", ", GeForce ",
)  # fmt: skip

#: What a line must hold to be looked at; the rest of a page costs nothing.
_CANDIDATES = (
    "memory.", "used_gpu_memory", "used_memory", "utilization.", "temperature.gpu", "driver_version", "index,", "name,", "uuid,", "bus_id,",
    "timestamp,", "power.draw", "index\t", "name\t", " MiB", ", NVIDIA ", ", Tesla ", ", Quadro ", ", GRID ", ", GeForce ", "GPU-", "MIG-",
)  # fmt: skip
_COMMAND = re.compile(r"nvidia-smi\b.{0,400}--query-(?P<what>gpu|compute-apps)[= ]\s?[\"']?(?P<columns>[A-Za-z0-9_.,]+)")
_NAMED = re.compile(r"(?:NVIDIA|Tesla|Quadro|GRID|GeForce|A10|A100|H100|H200|L4|L40)\b")
_UUID = re.compile(r"(?:GPU|MIG)-[0-9a-fA-F-]{8,}")
_BUS = re.compile(BUS)
_DRIVER = re.compile(r"\d{3}\.\d{1,3}(?:\.\d{1,3})?")
_STAMP = re.compile(r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d(?:\.\d+)?")
_PROGRAM = re.compile(r"[/\\]|::|python|\[(?:Not Found|Insufficient Permissions|N/A)\]|server|worker", re.IGNORECASE)


#: Narrower lines are not the pieces of a broken header.
MIN_WRAP = 60
#: The rows of one sample carry time stamps some milliseconds apart.
SAMPLE_SECONDS = 0.1
_UNREAD = Source("", 0, "")


@dataclass(slots=True)
class _Layout:
    """What the columns of the rows from ``first`` on are."""

    columns: list[str]
    first: int  # the header's line, or the first row
    rows_from: int
    separator: str = ","
    known: bool = True
    width: int = 0  # at which a terminal broke the lines; 0 where it did not

    @property
    def processes(self) -> bool:
        return "pid" in self.columns or "used_gpu_memory" in self.columns


def read(page: Page) -> list[Reading]:
    """Every CSV of ``page``."""
    found: list[Reading] = []
    lines = page.lines
    command: _Layout | None = None
    position = 0
    while position < len(lines):
        line = lines[position]
        if "--query-" in line:
            command = _from_command(line, position) or command
            position += 1
            continue
        layout = _layout(lines, position, command)
        if layout is None:
            position += 1
            continue
        rows = _Rows(page, layout)
        dumps, last = rows.read()
        if dumps:
            dumps = rows.kept()
            dumps[0].first = min(dumps[0].first, layout.first)
            kind = "nvidia-smi-csv-apps" if layout.processes else "nvidia-smi-csv"
            found.append(reading(kind, dumps, open_end=not page.whole and last >= len(lines) - 2))
            command = None
        position = max(last, position) + 1
    return found


def _layout(lines: Sequence[str], position: int, command: _Layout | None) -> _Layout | None:
    line = lines[position]
    if len(line) > 8192 or not (command is not None or any(literal in line for literal in _CANDIDATES)):
        return None
    text = bare(line)
    columns = header(text)
    if columns is not None:
        separator = "\t" if "\t" in text and "," not in text else ","
        return _Layout(columns, position, position + 1, separator)
    if len(text) >= MIN_WRAP and position + 1 < len(lines) and len(lines[position + 1]) <= len(text) + 8:
        columns = header(text + bare(lines[position + 1]))
        if columns is not None:
            return _Layout(columns, position, position + 2, width=len(text))
    if command is not None and position - command.first <= 4 and _fits(text, command):
        return _Layout(command.columns, position, position)
    if "," not in text:
        return None
    shapes = _shapes(cells(text))
    return _Layout(shapes, position, position, known=False) if shapes is not None else None


def _from_command(line: str, position: int) -> _Layout | None:
    found = _COMMAND.search(line[:4096])
    if found is None or "noheader" not in line:
        return None  # with a header the header says it
    return _Layout([canonical(name) for name in found["columns"].split(",") if name], position, position + 1)


def _fits(text: str, layout: _Layout) -> bool:
    parts = split(text, layout.columns, ",")
    if parts is None:
        return False
    row = dict(zip(layout.columns, parts, strict=True))
    return (compute_app(row) if layout.processes else card(row)) is not None


def _shapes(parts: Sequence[str]) -> list[str] | None:
    """Columns told from the values of one row without header: None where they do not look like nvidia-smi's at all.

    A size can be total, used or free and a share can be of anything: they get no name, so they are not read.
    """
    columns: list[str] = []
    for place, part in enumerate(parts):
        column = next((name for name, shape in _BY_SHAPE if shape.fullmatch(part)), None)
        if column is None and _NAMED.match(part) and not _PROGRAM.search(part):
            column = "name"
        leading = place == 0 or (place == 1 and columns[0] == "timestamp")
        if column is None and leading and whole(part) is not None and int(part) < 64:
            column = "index"
        columns.append(column if column is not None and column not in columns else f"unknown {place}")
    if _is_compute_app(parts, columns):
        return [*(["uuid"] if columns[0] == "uuid" else []), "pid", "process_name", "used_gpu_memory"]
    identified = {"index", "uuid", "pci.bus_id"}.intersection(columns)
    if not identified or not {"name", "uuid", "pci.bus_id"}.intersection(columns):
        return _sized(parts, columns)
    figures = [part for part, column in zip(parts, columns, strict=True) if column.startswith("unknown")]
    return columns if len(parts) >= 2 and all(_is_value(figure) for figure in figures) else None


_BY_SHAPE = (("uuid", _UUID), ("pci.bus_id", _BUS), ("driver_version", _DRIVER), ("timestamp", _STAMP))


def _is_value(text: str) -> bool:
    return (
        word(text) is not None
        or re.fullmatch(r"[\d.]+\s?(?:MiB|%|W|MHz|C)?|P\d+|Enabled|Disabled|Default|Active|Not Active", text) is not None
    )


def _sized(parts: Sequence[str], columns: list[str]) -> list[str] | None:
    """An index and sizes with their unit are still nvidia-smi's, nameless: index, 23034 MiB, 21006 MiB."""
    sizes = sum(1 for part in parts if part.endswith(" MiB") and mebibytes(part) is not None)
    if columns[0] in ("index", "timestamp") and sizes >= 1 and all(_is_value(part) or _STAMP.fullmatch(part) for part in parts):
        return columns if "index" in columns else None
    return None


def _is_compute_app(parts: Sequence[str], columns: Sequence[str]) -> bool:
    """``[uuid,] pid, process, N MiB``: the process's name tells it from a card's row."""
    rest = parts[1:] if columns[0] == "uuid" else parts
    if len(rest) < 3:
        return False
    name = ", ".join(rest[1:-1])
    size = rest[-1]
    return whole(rest[0]) is not None and bool(_PROGRAM.search(name)) and (size.endswith(" MiB") or word(size) is not None)


class _Rows:
    """Reads the rows below a header (or from the first row without one) and groups them into snapshots."""

    def __init__(self, page: Page, layout: _Layout) -> None:
        self._page, self._layout = page, layout
        self._dumps: list[Dump] = []
        self._seen: set[object] = set()
        self._time: float | None = None
        self._identified = bool({"index", "uuid", "pci.bus_id", "pid"}.intersection(layout.columns))

    def read(self) -> tuple[list[Dump], int]:
        """The snapshots, and the last line that belongs to them."""
        last = self._layout.rows_from - 1
        lines = self._page.lines
        for index in range(self._layout.rows_from, len(lines)):
            text = bare(lines[index])
            if not text.strip():
                if index > last + 1:
                    break
                continue
            columns = header(text) if text.strip()[:1].isalpha() else None
            if columns is not None:
                if columns != self._layout.columns:
                    break
                self._seen = {"header"}  # the output of another run was put behind the first
                self._time = None
                last = index
                continue
            if index <= last:
                continue  # the rest of a broken row
            if len(text) <= 8192 and self._row(text, index):
                last = index
                continue
            following = bare(lines[index + 1]) if 0 < self._layout.width <= len(text) + 1 and index + 1 < len(lines) else ""
            if not following or not self._row(text.ljust(self._layout.width) + following, index):
                break
            last = index + 1
        if not self._identified:
            self._number()
        return self._dumps, last

    def kept(self) -> list[Dump]:
        """The snapshots that a reading holds, with their facts and what shows them redacted."""
        first_line = self._page.first_line
        dumps = thin(self._dumps)
        for dump in dumps:
            dump.snapshot.source = self._page.source(dump.first)
            for gpu in dump.snapshot.gpus:
                dump.device(gpu, (gpu.line or 0) - first_line)
            processes, dump.snapshot.processes = dump.snapshot.processes, []
            for process in processes:
                dump.process(process, (process.line or 0) - first_line)
        return dumps

    def _row(self, text: str, index: int) -> bool:
        parts = split(text, self._layout.columns, self._layout.separator)
        if parts is None:
            return False
        if not self._layout.known and _shapes(cells(text)) != self._layout.columns:
            return False
        row = dict(zip(self._layout.columns, parts, strict=True))
        if self._layout.processes:
            process = compute_app(row)
            if process is None:
                return False
            self._process(process, row, index)
            return True
        gpu = card(row)
        if gpu is None:
            return False
        self._card(gpu, row, index)
        return True

    def _snapshot(self, key: object, row: dict[str, str], index: int, *, by_time: bool) -> Dump:
        """The snapshot that a row with identity ``key`` belongs to: what repeats, or comes later ``by_time``, begins a new one."""
        stamp = row.get("timestamp", "")
        time = _seconds(stamp)
        later = by_time and time is not None and self._time is not None and time - self._time > SAMPLE_SECONDS
        if not self._dumps or (key is not None and key in self._seen) or "header" in self._seen or later:
            # A loop's rows are mostly thinned out: only what is kept is shown, so only that is redacted (kept()).
            snapshot = GpuSnapshot(_UNREAD, time=text_or_none(stamp), columns_unknown=not self._layout.known)
            self._dumps.append(Dump(self._page, snapshot, index, index))
            self._seen = set()
        self._time = time
        self._seen.add(key)
        self._dumps[-1].last = index
        return self._dumps[-1]

    def _card(self, gpu: Gpu, row: dict[str, str], index: int) -> None:
        key = gpu.index if gpu.index is not None else gpu.uuid or gpu.bus_id
        dump = self._snapshot(key, row, index, by_time=key is None)
        if len(dump.snapshot.gpus) >= MAX_ROWS:
            return
        if gpu.index is None and key is not None:
            gpu.index = len(dump.snapshot.gpus)
        gpu.line = self._page.first_line + index
        dump.snapshot.driver = dump.snapshot.driver or text_or_none(row.get("driver_version"))
        dump.snapshot.gpus.append(gpu)

    def _process(self, process: GpuProcess, row: dict[str, str], index: int) -> None:
        dump = self._snapshot((process.gpu, process.pid), row, index, by_time=True)
        dump.snapshot.process_table = True
        if len(dump.snapshot.processes) < MAX_ROWS:
            process.line = self._page.first_line + index
            dump.snapshot.processes.append(process)

    def _number(self) -> None:
        """Rows without any identity are cards in the tool's order, unless there are more of them than any machine has."""
        for dump in self._dumps:
            gpus = dump.snapshot.gpus
            if len(gpus) > 16:
                continue
            for place, gpu in enumerate(gpus):
                gpu.index = place


def _seconds(stamp: str) -> float | None:
    """Seconds within the day (and days of a month as 86400 each), enough to tell one sample from the next."""
    found = re.fullmatch(r"\d{4}/\d\d/(\d\d) (\d\d):(\d\d):(\d\d(?:\.\d+)?)", stamp.strip())
    if found is None:
        return None
    return int(found[1]) * 86400 + int(found[2]) * 3600 + int(found[3]) * 60 + float(found[4])
