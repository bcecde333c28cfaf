"""``nvidia-smi dmon`` and ``pmon``: a header that says what the columns are, repeated about once a screen, then rows for ever."""

from __future__ import annotations

import re
from collections.abc import Sequence

from analyzer.model import Gpu, GpuProcess, GpuSnapshot
from analyzer.readers.base import Page, Reading
from analyzer.readers.gpu.build import MAX_ROWS, Dump, reading
from analyzer.readers.gpu.cells import amount, text_or_none, whole
from analyzer.readers.gpu.strip import bare

ANCHORS: tuple[str, ...] = ("# gpu", "#gpu", "#Date", "# Date", "#Time", "# Time")

_HEADER = re.compile(r"\s*#\s?(?:date|time|gpu)\b", re.IGNORECASE)
_UNITS = re.compile(r"\s*#\s?(?:idx|yyyymmdd|hh:mm:ss)\b", re.IGNORECASE)
_SEPARATOR = re.compile(r"\s*,\s*|\s+")
#: Columns of a pmon row that are no number.
_WORDS = frozenset({"type", "command", "date", "time"})


def read(page: Page) -> list[Reading]:
    """Every run of dmon or pmon in ``page``."""
    found: list[Reading] = []
    lines = page.lines
    position = 0
    while position < len(lines):
        columns = _columns(lines[position]) if "#" in lines[position] else None
        if columns is None:
            position += 1
            continue
        run = _Run(page, position, columns)
        last = run.read()
        if run.dumps:
            kind = "nvidia-smi-pmon" if "pid" in columns else "nvidia-smi-dmon"
            run.dumps[0].first, run.dumps[-1].last = position, last
            found.append(reading(kind, run.dumps, open_end=not page.whole and last >= len(lines) - 2))
        position = last + 1
    return found


def _columns(line: str) -> list[str] | None:
    if len(line) > 2048:
        return None
    text = bare(line)
    if not _HEADER.match(text):
        return None
    columns = _SEPARATOR.split(text.strip().lstrip("#").strip().lower().rstrip(","))
    return columns if "gpu" in columns and len(columns) >= 2 else None


class _Run:
    """Reads rows until something else comes."""

    def __init__(self, page: Page, first: int, columns: list[str]) -> None:
        self.dumps: list[Dump] = []
        self._page, self._first, self._columns = page, first, columns
        self._processes = "pid" in columns
        self._seen: set[object] = set()
        self._highest = -1

    def read(self) -> int:
        """The last line that belongs to the run."""
        last, blanks = self._first, 0
        lines = self._page.lines
        for index in range(self._first + 1, len(lines)):
            text = bare(lines[index])
            if not text.strip():
                blanks += 1
                if blanks > 1:
                    break
                continue
            if text.lstrip().startswith("#"):
                columns = _columns(text)
                if columns is not None and ("pid" in columns) != self._processes:
                    break
                if columns is None and not _UNITS.match(text):
                    break
                self._columns = columns or self._columns
            elif len(text) > 2048 or not self._row(text, index):
                break
            last, blanks = index, 0
        return last

    def _row(self, text: str, index: int) -> bool:
        parts = _fields(text, self._columns)
        if parts is None:
            return False
        row = dict(zip(self._columns, parts, strict=True))
        number = whole(row["gpu"])
        if number is None or any(
            amount(value, "") is None and value != "-" and column not in _WORDS and not _is_word(value) for column, value in row.items()
        ):
            return False
        if self._processes:
            self._process(number, row, index)
        else:
            self._card(number, row, index)
        return True

    def _dump(self, key: object, row: dict[str, str], index: int, *, again: bool) -> Dump:
        time = " ".join(row[name] for name in ("date", "time") if name in row) or None
        if not self.dumps or again or key in self._seen:
            if self.dumps:
                self.dumps[-1].last = index - 1
            snapshot = GpuSnapshot(self._page.source(index), time=time)
            self.dumps.append(Dump(self._page, snapshot, index, index))
            self._seen = set()
            self._highest = -1
        self._seen.add(key)
        self.dumps[-1].last = index
        return self.dumps[-1]

    def _card(self, number: int, row: dict[str, str], index: int) -> None:
        dump = self._dump(number, row, index, again=False)
        if len(dump.snapshot.gpus) >= MAX_ROWS:
            return
        gpu = Gpu(number, line=self._page.first_line + index)
        gpu.memory_used_mib = amount(row.get("fb", "-"), "")  # labelled MB, meaning MiB
        share = amount(row.get("sm", "-"), "")
        gpu.utilization_percent = share if share is not None and share <= 100 else None
        gpu.power_w = amount(row.get("pwr", "-"), "")
        gpu.temperature_c = amount(row.get("gtemp", row.get("temp", "-")), "")
        dump.snapshot.gpus.append(gpu)
        dump.device(gpu, index)

    def _process(self, number: int, row: dict[str, str], index: int) -> None:
        pid = whole(row.get("pid", "-"))
        dump = self._dump((number, pid), row, index, again=number < self._highest)
        self._highest = number
        dump.snapshot.process_table = True
        if all(gpu.index != number for gpu in dump.snapshot.gpus[-1:]):
            dump.snapshot.gpus.append(Gpu(number, line=self._page.first_line + index))
        if pid is not None:
            used = amount(row.get("fb", "-"), "")
            name = row.get("command")
            dump.process(GpuProcess(number, pid, name, text_or_none(row.get("type")), used), index)
            if name is not None and dump.snapshot.processes and len(name) >= 15:
                dump.snapshot.processes[-1].name_truncated = True  # the tool keeps 15 characters


def _fields(text: str, columns: Sequence[str]) -> list[str] | None:
    """A row's fields; a command may hold blanks, and is the last."""
    parts = _SEPARATOR.split(text.strip().rstrip(","))
    if len(parts) > len(columns) and columns[-1] == "command":
        parts = _SEPARATOR.split(text.strip(), maxsplit=len(columns) - 1)
    return parts if len(parts) == len(columns) else None


def _is_word(value: str) -> bool:
    return value in ("N/A", "ERR!", "[N/A]")
