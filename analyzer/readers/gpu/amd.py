"""rocm-smi and amd-smi as text. Their MB are 2**20 bytes (they divide by 1024 twice).

The concise view gives a percentage only; amd-smi's GB have one decimal: neither is a size for a ledger.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from analyzer.model import Gpu, GpuProcess, GpuSnapshot
from analyzer.readers.base import Page, Reading
from analyzer.readers.gpu.build import MAX_ROWS, Dump, plausible, reading
from analyzer.readers.gpu.cells import amount, is_cut, mebibytes, text_or_none, whole
from analyzer.readers.gpu.strip import bare, bars

ANCHORS: tuple[str, ...] = (
    "VRAM%", "VRAM Total Memory (B)", "VRAM Total Used Memory (B)", "VRAM_USAGE", "VRAM_USED", "VRAM_MEM", "TOTAL_VRAM",
    "USED_VRAM", "VRAM USED", "OAM-ID", "mem_info_vram_",
)  # fmt: skip

_BYTES = re.compile(r"\s*GPU\[(?P<index>\d{1,3})\]\s*:\s*VRAM Total (?P<used>Used )?Memory \(B\):\s*(?P<size>\d{1,18})\s*$")
_CSV = re.compile(r"\s*card(?P<index>\d{1,3}),")
_TOKEN = re.compile(r"[\d.]+/[\d.]+ ?(?:[KMGT]i?B|%|W)|N/A(?:/N/A)?|-?[\d.]+ ?(?:mV|V/s|[KMGT]i?B|MHz|°C|C|W|%)(?=\s|$)|\S+")
_BANNER = re.compile(r"AMD-SMI\s+v?(\d[\d.]*)")
_HEADER = re.compile(r"HIP-ID\s+OAM-ID\s+Partition-Mode")
_CARD = re.compile(
    r"\s*(?P<bus>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-9a-fA-F])\s+(?P<name>\S(?:.{0,80}?\S)?)\s+(?:\d+ %|N/A)"
    r"\s+(?P<temp>\d+ °C|N/A)\s+(?P<ecc>\d+|N/A)\s+(?P<power>[\d.]+|N/A)/(?:[\d.]+|N/A) W\s*$"
)
_CARD_REST = re.compile(
    r"\s*(?P<index>\d{1,3})\s+(?:\d{1,3}|N/A)\s+(?:\d{1,3}|N/A)\s+\S+\s+(?P<load>\d{1,3} %|N/A)\s+(?:[\d.]+(?: %)?|N/A)"
    r"\s+(?P<used>\d{1,9})/(?P<total>\d{1,9}) MB\s*$"
)
_AMOUNT = r"[\d.]{1,12} [KMGT]?B|N/A"
_RUNNING = re.compile(
    rf"\s*(\d{{1,3}})\s+(\d{{1,10}})\s+(\S(?:.{{0,60}}?\S)?)\s+(?:{_AMOUNT})\s+({_AMOUNT})\s+(?:{_AMOUNT})\s+\S+(?: %)?\s*$"
)
_INFO = re.compile(r"/card(?P<index>\d{1,3})/device/mem_info_vram_(?P<name>total|used)(?::(?P<same>\d{1,18}))?\s*$")
_METRIC = re.compile(r"\s*(?P<key>TOTAL_VRAM|USED_VRAM|FREE_VRAM|VRAM_MEM|PID|NAME|GPU)\s*:\s+(?P<value>\S.*?)\s*$")
_SIZES = re.compile(r"(\d+(?:\.\d+)?)\s*/\s*(\d+(?:\.\d+)?)\s*GB")
_FRAME = re.compile(r"\s*[=-]{10,}|\s*=+ .{0,60} =+\s*$|\s*\((?:DID|Junction)")


def read(page: Page) -> list[Reading]:
    """Every output of AMD's tools in ``page``."""
    found: list[Reading] = []
    lines = page.lines
    position = 0
    while position < len(lines):
        outcome = None
        if any(anchor in lines[position] for anchor in ANCHORS):
            for reader in (_concise, _sizes, _csv, _default, _monitor, _metrics, _kfd, _sysfs):
                outcome = reader(page, position)
                if outcome is not None:
                    break
        if outcome is None:
            position += 1
            continue
        kind, dump = outcome
        found.append(reading(kind, [dump], open_end=not page.whole and dump.last >= len(lines) - 2))
        position = dump.last + 1
    return found


_Outcome = tuple[str, Dump] | None


def _walk(dump: Dump, start: int, take: Callable[[str, int], bool | None], limit: int = 4096) -> None:
    """Give every following line to ``take`` until it says False; None passes over a line that is frame only."""
    blanks = 0
    for index in range(start, min(len(dump.page.lines), start + limit)):
        text = bare(dump.page.lines[index])
        if not text.strip():
            blanks += 1
            if blanks > 2:
                return
            continue
        blanks = 0
        taken = take(text, index) if len(text) < 2048 else False
        if taken is False:
            return
        dump.last = index


def _begin(page: Page, tool: str, index: int) -> Dump:
    first = index
    while first > 0 and index - first < 4 and _FRAME.match(bare(page.lines[first - 1])):
        first -= 1
    return Dump(page, GpuSnapshot(page.source(first), tool=tool), first, index)


def _concise(page: Page, position: int) -> _Outcome:
    """Share of memory and of time in the last two columns."""
    header = bare(page.lines[position])
    if not re.match(r"\s*(?:GPU|Device)\s.*VRAM%", header):
        return None
    names = header.split()
    use = names[-1] == "GPU%"
    dump = _begin(page, "rocm-smi", position)

    def take(text: str, index: int) -> bool | None:
        row = re.match(r"\s*(\d{1,3})\s.*?(\S+)\s+(\S+)\s*$", text)
        if row is None or not use:
            return None if _FRAME.match(text) or "(" in text else False
        gpu = Gpu(int(row[1]), line=page.first_line + index)
        gpu.memory_percent, gpu.utilization_percent = amount(row[2], "%"), amount(row[3], "%")
        if len(dump.snapshot.gpus) < MAX_ROWS:
            dump.snapshot.gpus.append(gpu)
        return True

    _walk(dump, position + 1, take)
    return ("rocm-smi", dump) if dump.snapshot.gpus else None


def _card(dump: Dump, number: int | None, index: int) -> Gpu:
    """The card ``number`` of the dump, added where it is new."""
    for gpu in reversed(dump.snapshot.gpus):
        if gpu.index == number:
            return gpu
    gpu = Gpu(number, line=dump.page.first_line + index)
    if len(dump.snapshot.gpus) < 512:
        dump.snapshot.gpus.append(gpu)
    return gpu


def _sizes(page: Page, position: int) -> _Outcome:
    """``rocm-smi --showmeminfo vram``: bytes."""
    if not _BYTES.match(bare(page.lines[position])):
        return None
    dump = _begin(page, "rocm-smi", position)

    def take(text: str, index: int) -> bool | None:
        row = _BYTES.match(text)
        if row is None:
            return None if _FRAME.match(text) or re.match(r"\s*GPU\[\d+\]", text) else False
        gpu = _card(dump, int(row["index"]), index)
        name = "used" if row["used"] else "total"
        setattr(gpu, f"memory_{name}_mib", mebibytes(row["size"], "B"))
        dump.device_fact(f"device.{name}", int(row["size"]), "B", gpu.index, index)
        return True

    _walk(dump, position, take)
    _refuse(dump)
    return "rocm-smi", dump


def _refuse(dump: Dump) -> None:
    """Take back figures that cannot both be true."""
    wrong = {gpu.index for gpu in dump.snapshot.gpus if not plausible(gpu.memory_used_mib, gpu.memory_total_mib)}
    for gpu in dump.snapshot.gpus:
        if gpu.index in wrong:
            gpu.memory_total_mib = gpu.memory_used_mib = None
    dump.facts = [fact for fact in dump.facts if fact.gpu not in wrong or fact.gpu is None]


def _csv(page: Page, position: int) -> _Outcome:
    """``rocm-smi --showmeminfo vram --csv``."""
    columns = [cell.strip() for cell in bare(page.lines[position]).split(",")]
    if columns[0] != "device" or "VRAM Total Memory (B)" not in columns:
        return None
    dump = _begin(page, "rocm-smi", position)

    def take(text: str, index: int) -> bool | None:
        row = _CSV.match(text)
        cells = [cell.strip() for cell in text.split(",")]
        if row is None or len(cells) != len(columns):
            return False
        gpu = _card(dump, int(row["index"]), index)
        for label, name in (("VRAM Total Memory (B)", "total"), ("VRAM Total Used Memory (B)", "used")):
            size = whole(cells[columns.index(label)]) if label in columns else None
            if size is not None:
                setattr(gpu, f"memory_{name}_mib", mebibytes(str(size), "B"))
                dump.device_fact(f"device.{name}", size, "B", gpu.index, index)
        stated = dict(zip(columns, cells, strict=True))
        gpu.name = text_or_none(stated.get("Card Series", stated.get("Card series")))
        gpu.utilization_percent = amount(stated.get("GPU use (%)", ""), "%")
        return True

    _walk(dump, position + 1, take)
    _refuse(dump)
    return ("rocm-smi", dump) if dump.snapshot.gpus else None


def _default(page: Page, position: int) -> _Outcome:
    """``amd-smi`` without a command (ROCm 7): a table of two lines a card, and one of processes."""
    if _HEADER.search(bars(page.lines[position])) is None:
        return None
    first, banner = position, None
    while banner is None and first > 0 and position - first < 8 and bars(page.lines[first - 1]).lstrip()[:1] in ("|", "+"):
        first -= 1
        banner = _BANNER.search(bars(page.lines[first]))
    dump = Dump(page, GpuSnapshot(page.source(first), tool="amd-smi"), first, position)
    dump.snapshot.tool_version = banner[1] if banner is not None else None
    opened: list[Gpu] = []

    def take(text: str, index: int) -> bool | None:
        text = bars(text)
        if text.lstrip()[:1] not in ("|", "+") or _HEADER.search(text) or _BANNER.search(text):
            return False  # the end, or the next dump of a loop
        plain = text.replace("|", " ")
        row, rest = _CARD.match(plain), _CARD_REST.match(plain)
        if row is not None and len(dump.snapshot.gpus) < MAX_ROWS:
            gpu = Gpu(name=row["name"], name_truncated=is_cut(row["name"]), bus_id=row["bus"], ecc=row["ecc"])
            gpu.temperature_c, gpu.power_w = amount(row["temp"], "°C"), amount(row["power"], "W")
            gpu.line = page.first_line + index
            opened[:] = [gpu]
        elif rest is not None and opened:
            gpu = opened.pop()
            gpu.index, gpu.utilization_percent = int(rest["index"]), amount(rest["load"], "%")
            used, total = mebibytes(rest["used"], "MB"), mebibytes(rest["total"], "MB")
            if plausible(used, total):
                gpu.memory_used_mib, gpu.memory_total_mib = used, total
                dump.device(gpu, index)
            dump.snapshot.gpus.append(gpu)
        elif "No running processes found" in plain:
            dump.snapshot.process_table = True
        elif (process := _RUNNING.match(plain)) is not None:
            dump.snapshot.process_table = True
            dump.process(GpuProcess(int(process[1]), int(process[2]), process[3], "C", _exact(process[4])), index)
        return True

    _walk(dump, position + 1, take)
    return ("amd-smi", dump) if dump.snapshot.gpus else None


def _monitor(page: Page, position: int) -> _Outcome:
    """``amd-smi monitor``: values and units are two words, so they are joined before they are counted."""
    columns = bare(page.lines[position]).split()
    if len(columns) < 2 or columns[0] != "GPU" or not any(name.startswith("VRAM_") for name in columns):
        return None
    dump = _begin(page, "amd-smi", position)

    def take(text: str, index: int) -> bool | None:
        tokens = _TOKEN.findall(text)
        number = whole(tokens[0]) if tokens else None
        if number is None or len(tokens) != len(columns):
            return False
        row = dict(zip(columns, tokens, strict=True))
        gpu = _card(dump, number, index)
        gpu.utilization_percent = amount(row.get("GFX%", row.get("GFX_UTIL", "")), "%")
        gpu.power_w = amount(row.get("POWER", ""), "W")
        pair = _SIZES.search(row.get("VRAM_USAGE", ""))
        if pair is not None:
            gpu.vram_used_gb, gpu.vram_total_gb = float(pair[1]), float(pair[2])
        used, total = _exact(row.get("VRAM_USED", "")), _exact(row.get("VRAM_TOTAL", ""))
        if plausible(used, total):
            gpu.memory_used_mib, gpu.memory_total_mib = used, total
            dump.device(gpu, index)
        return True

    _walk(dump, position + 1, take)
    return ("amd-smi", dump) if dump.snapshot.gpus else None


def _exact(text: str) -> float | None:
    """A size in MB (which are MiB); what is rounded to GB is none."""
    return mebibytes(text) if text.endswith(("MB", "MiB")) else None


def _metrics(page: Page, position: int) -> _Outcome:
    """``amd-smi metric``, ``static`` and ``process``: keys below ``GPU: n``."""
    if not _METRIC.match(bare(page.lines[position])):
        return None
    first = position
    for index in range(position, max(-1, position - 64), -1):
        text = bare(page.lines[index])
        if re.match(r"\s*GPU:\s+\d{1,3}\s*$", text):
            first = index
            break
        if text.strip() and ":" not in text:
            break
    dump = Dump(page, GpuSnapshot(page.source(first), tool="amd-smi"), first, position)
    state: dict[str, str] = {}
    gpu: list[Gpu] = []

    def take(text: str, index: int) -> bool | None:
        row = _METRIC.match(text)
        if row is None:
            return None if re.match(r"\s*[A-Z][A-Z0-9_ ]*:", text) else False
        key, value = row["key"], row["value"]
        if key == "GPU":
            gpu[:] = [_card(dump, whole(value), index)]
        elif key in ("NAME", "PID"):
            state[key] = value
        elif key == "VRAM_MEM":
            number = gpu[0].index if gpu else None
            dump.process(GpuProcess(number, whole(state.pop("PID", "")), state.pop("NAME", None), "C", _exact(value)), index)
        else:
            if not gpu:
                gpu.append(_card(dump, None, index))
            name = key.split("_")[0].lower()
            size = _exact(value)
            setattr(gpu[0], f"memory_{name}_mib", size)
            if size is not None:
                dump.device_fact(f"device.{name}", size, "MiB", gpu[0].index, index)
        return True

    _walk(dump, first, take)
    _refuse(dump)
    dump.last = max(dump.last, position)
    return ("amd-smi", dump) if dump.snapshot.gpus or dump.snapshot.processes else None


def _sysfs(page: Page, position: int) -> _Outcome:
    """``/sys/class/drm/cardN/device/mem_info_vram_total`` and ``…_used`` as ``cat`` or ``grep`` prints them: bytes."""
    dump = Dump(page, GpuSnapshot(page.source(position), tool="sysfs"), position, position)
    for index in range(position, min(len(page.lines), position + 32)):
        found = _INFO.search(bare(page.lines[index]))
        if found is None:
            continue
        if found["same"] is None and index + 1 >= len(page.lines):
            break
        at = index if found["same"] is not None else index + 1
        size = whole(found["same"] or bare(page.lines[at]))
        if size is None:
            break
        gpu = _card(dump, int(found["index"]), at)
        setattr(gpu, f"memory_{found['name']}_mib", mebibytes(str(size), "B"))
        dump.device_fact(f"device.{found['name']}", size, "B", gpu.index, at)
        dump.last = at
    _refuse(dump)
    return ("amd-sysfs", dump) if dump.facts else None


def _kfd(page: Page, position: int) -> _Outcome:
    """``rocm-smi --showpids``: bytes per process; the GPU column is a count, so the card is not known."""
    if not re.match(r"\s*PID\s+PROCESS NAME\s+GPU\(s\)\s+VRAM USED\b", bare(page.lines[position])):
        return None
    dump = _begin(page, "rocm-smi", position)

    def take(text: str, index: int) -> bool | None:
        row = re.match(r"\s*(\d{1,10})\s+(\S.{0,100}?)\s+(\d{1,3})\s+(\d{1,18})\s+\d{1,18}\s+\S+\s*$", text)
        if row is None:
            return None if _FRAME.match(text) else False
        dump.process(GpuProcess(None, int(row[1]), row[2], "C", mebibytes(row[4], "B")), index, printed=(int(row[4]), "B"))
        return True

    _walk(dump, position + 1, take)
    return ("rocm-smi", dump) if dump.snapshot.processes else None
