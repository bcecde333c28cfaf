"""nvidia-smi's default table, drivers 367 to 616, as printed or as it arrives in mail, chat and tickets; also ``nvidia-smi vgpu``."""

from __future__ import annotations

import re
from collections.abc import Sequence

from analyzer.model import Gpu, GpuSnapshot, VirtualGpu
from analyzer.model.units import Number, natural
from analyzer.readers.base import Page, Reading
from analyzer.readers.gpu import rows
from analyzer.readers.gpu.build import MAX_ROWS, Dump, reading
from analyzer.readers.gpu.cells import amount, text_or_none, word
from analyzer.readers.gpu.frame import BANNER, DATE, Text, regions

ANCHORS: tuple[str, ...] = (
    "NVIDIA-SMI ", "NVIDIA-SMI\t", "NVITOP", "Persistence-M", "Bus-Id", "MiB /", "MiB/", "MB /", "MlB /", "MIB /", "GiB / ",
    "ERR! /", "| Not Supported ", "Process name",
)  # fmt: skip
_KINDS = {"nvidia-smi": "nvidia-smi", "nvidia-smi vgpu": "nvidia-smi-vgpu", "nvitop": "nvitop"}

_SEED = re.compile(
    rf"(?:NVIDIA-SMI|NVITOP)\s+v?\d|Persistence-M|Bus-Id|{rows.BUS}\s+(?:On|Off|N/A)\b|M[iIlL1]?B\s{{0,3}}/\s{{0,8}}\d"
    r"|GPU\s.{0,60}PID\s+Type\s+Process name"
)
_HINTS = ("iB", "MlB", "MB", "Off", "On", "N/A", "NVIDIA-SMI", "NVITOP", "Bus-Id", "Persistence-M", "Process name")
_DRIVER = re.compile(r"(?<!CUDA )(?:Driver|KMD)\s*Version\s*:?\s*(?P<value>\d[\d.]*|N/A|Not Found|ERR!)")
_CUDA = re.compile(r"CUDA\s*(?:UMD\s*|Driver\s*)?Version\s*:?\s*(?P<value>\d[\d.]*|N/A|Not Found|ERR!)")
_SECTIONS = (
    ("vgpu", re.compile(r"vGPU ID\s.*VM Name|vGPU-Util")),
    ("mig", re.compile(r"MIG devices:")),
    ("processes", re.compile(r"Processes:|PID\s+Type\s+Process name|GPU\s+PID\s+USER\s+GPU-MEM")),
    ("gpus", re.compile(r"GPU\s+Name\s.*Bus-Id|Persistence-M")),
)
_NO_PROCESSES = re.compile(r"No running (?:compute )?processes found")
_RULE = re.compile(r"[+|][-=+]{8,}[+|]?$")
_VGPU_HOST = re.compile(rf"\s*(?P<index>\d{{1,3}})\s+(?P<name>\S.{{0,80}}?)\s+(?P<bus>{rows.BUS})\s+(?P<util>\d{{1,3}}\s?%|N/A)\s*$")


def read(page: Page) -> list[Reading]:
    """Every table of ``page``; consecutive ones are one Reading with a snapshot each."""
    found: list[Reading] = []
    for first, last, texts in regions(page.lines, _is_seed):
        dumps = [_Table(page, part).dump(time) for time, part in _split(texts)]
        told = [dump for dump in dumps if _says_something(dump.snapshot)]
        for tool, kind in _KINDS.items():
            of_kind = [dump for dump in told if dump.snapshot.tool == tool]
            if not of_kind:
                continue
            if len(of_kind) == len(dumps):
                of_kind[0].first, of_kind[-1].last = first, last
            reaches_end = not page.whole and of_kind[-1].last >= len(page.lines) - 2
            if reaches_end and len(of_kind) > 1:
                found.append(reading(kind, of_kind[:-1]))
                of_kind = of_kind[-1:]
            found.append(reading(kind, of_kind, open_end=reaches_end))
    return sorted(found, key=lambda item: item.first)


def _is_seed(line: str) -> bool:
    """Whether a table surely stands at ``line``. Most lines of a log are through with the literals."""
    return any(hint in line for hint in _HINTS) and _SEED.search(line) is not None


def _says_something(snapshot: GpuSnapshot) -> bool:
    return bool(snapshot.gpus or snapshot.processes or snapshot.mig_devices or snapshot.driver)


def _split(texts: Sequence[Text]) -> list[tuple[str | None, list[Text]]]:
    """The region cut where a new dump begins: a banner, or a header or card that was there already."""
    parts: list[tuple[str | None, list[Text]]] = []
    current: list[Text] = []
    date: Text | None = None
    time: str | None = None
    seen: set[str] = set()
    bannered = False
    for text in texts:
        if DATE.match(text.text):
            date = text
            continue
        banner = BANNER.search(text.text) is not None
        gpu = None if banner else rows.first(text.plain)
        key = None if gpu is None else f"{gpu.index} {gpu.bus_id}"
        header_again = bool(seen) and date is not None and not bannered and gpu is None and "Bus-Id" in text.text
        if (banner and (bannered or seen)) or key in seen or header_again:
            rule = current.pop() if current and not current[-1].blank and _RULE.match(current[-1].text) and key not in seen else None
            parts.append((time, current))
            current, seen, bannered, time = [rule] if rule else [], set(), False, None
        if banner or time is None:
            time = date.text if date is not None else time
            if date is not None and not current:
                current.append(date)
            date = None
        bannered = bannered or banner
        if key is not None:
            seen.add(key)
        current.append(text)
    parts.append((time, current))
    return [(time, part) for time, part in parts if any(not text.blank for text in part)]


class _Table:
    """Reads one dump."""

    def __init__(self, page: Page, texts: Sequence[Text]) -> None:
        filled = [text for text in texts if not text.blank]
        self._page, self._texts = page, filled
        self._snapshot = GpuSnapshot(page.source(filled[0].index), altered=_altered(filled))
        self._dump = Dump(page, self._snapshot, filled[0].index, filled[-1].index)
        self._section = ""
        self._gpu: Gpu | None = None  # the card whose row is being read
        self._lines = 0  # its lines so far
        self._rows = False  # the process table's body has begun
        self._unsupported = False

    def dump(self, time: str | None) -> Dump:
        """The snapshot and its facts."""
        self._snapshot.time = time.strip() if time is not None else None
        for text in self._texts:
            if self._banner(text) or self._header(text) or DATE.match(text.text):
                continue
            if self._section == "vgpu":
                self._vgpu(text)
            elif self._section == "mig":
                self._mig(text)
            elif self._section == "processes":
                self._process(text)
            else:
                self._card(text)
        self._dump.facts.sort(key=lambda fact: fact.source.line)
        return self._dump

    def _banner(self, text: Text) -> bool:
        banner = BANNER.search(text.text)
        if banner is None:
            return False
        self._snapshot.source = self._page.source(text.index)
        self._snapshot.tool = banner["tool"].lower()
        self._snapshot.tool_version = banner["version"].rstrip(".")
        driver, cuda = _DRIVER.search(text.text), _CUDA.search(text.text)
        self._snapshot.driver = text_or_none(driver["value"]) if driver else None
        self._snapshot.cuda = text_or_none(cuda["value"]) if cuda else None
        self._section = ""
        return True

    def _header(self, text: Text) -> bool:
        for section, pattern in _SECTIONS:
            if pattern.search(text.text):
                if section == "processes" and self._section != "processes":
                    self._rows = False
                if section == "vgpu":
                    self._snapshot.tool = "nvidia-smi vgpu"
                self._section, self._gpu = section, None
                return True
        return False

    def _card(self, text: Text) -> None:
        plain = text.plain
        gpu = rows.first(plain)
        if gpu is not None and len(self._snapshot.gpus) < MAX_ROWS:
            gpu.line = self._page.first_line + text.index
            self._snapshot.gpus.append(gpu)
            self._gpu, self._lines = gpu, 1
            return
        if self._gpu is not None and self._lines == 1:
            if rows.second(plain, self._gpu) is not None:
                self._lines = 2
                self._dump.device(self._gpu, text.index, text.text, _printed(text))
                return
        elif self._gpu is not None and self._lines == 2 and rows.mig_mode(plain, self._gpu):
            self._gpu = None
            return
        elif self._orphan(text):
            return
        if self._snapshot.gpus and rows.process(plain) is not None:  # the header between the tables is lost
            self._section = "processes"
            self._process(text)

    def _orphan(self, text: Text) -> bool:
        """A card's second line whose first one is not in the paste (or, with an index, nvitop's compact view).

        Only with its borders is it surely that.
        """
        gpu = rows.second(text.plain, None) if text.text.count("|") >= 3 else None
        if gpu is None or len(self._snapshot.gpus) >= MAX_ROWS:
            return False
        gpu.line = self._page.first_line + text.index
        self._snapshot.gpus.append(gpu)
        self._gpu, self._lines = gpu, 2
        self._dump.device(gpu, text.index, text.text, _printed(text))
        return True

    def _mig(self, text: Text) -> None:
        device = rows.mig_device(text.plain)
        if device is not None and len(self._snapshot.mig_devices) < MAX_ROWS:
            device.line = self._page.first_line + text.index
            self._snapshot.mig_devices.append(device)

    def _process(self, text: Text) -> None:
        stripped = text.text.strip()
        if _RULE.match(stripped):
            if (self._rows or "=" not in stripped) and not self._unsupported:
                self._snapshot.process_table = True
            self._rows = True
            return
        if "Not Supported" in stripped and not self._snapshot.processes:
            self._unsupported = True  # old GeForce drivers: the list exists and says nothing
        if self._unsupported:
            self._snapshot.process_table = None
            return
        if _NO_PROCESSES.search(stripped):
            self._snapshot.process_table = True
            return
        reader = rows.nvitop_process if self._snapshot.tool == "nvitop" else rows.process
        process = reader(stripped.strip("|"))
        if process is not None:
            sizes = rows.in_gibibytes(stripped) if self._snapshot.tool == "nvitop" and process.used_mib is not None else []
            self._dump.process(process, text.index, text.text, printed=sizes[0] if sizes else None)
            self._snapshot.process_table = True

    def _vgpu(self, text: Text) -> None:
        found = _VGPU_HOST.match(text.plain)
        if found is not None:
            gpu = Gpu(int(found["index"]), found["name"], bus_id=found["bus"], utilization_percent=amount(found["util"], "%"))
            gpu.line = self._page.first_line + text.index
            self._snapshot.gpus.append(gpu)
            return
        cells = [cell.strip() for cell in text.text.strip().strip("|").split("|")]
        if len(cells) != 3 or not self._snapshot.gpus:
            return
        identifier, _, name = cells[0].partition(" ")
        if natural(identifier) is None or len(self._snapshot.vgpus) >= MAX_ROWS:
            return
        machine = cells[1].split(None, 1)
        vm_name = self._page.redact(machine[1]) if len(machine) == 2 else None
        used = amount(cells[2], "%") if word(cells[2]) is None else None
        line = self._page.first_line + text.index
        self._snapshot.vgpus.append(VirtualGpu(self._snapshot.gpus[-1].index, identifier, name.strip() or None, vm_name, used, line))


def _printed(text: Text) -> dict[str, tuple[Number, str]]:
    """Use and size of the card's line as they are printed, where that is in GiB (nvitop)."""
    return {name: size for name, size in zip(("used", "total"), rows.in_gibibytes(text.plain), strict=False) if size is not None}


def _altered(texts: Sequence[Text]) -> bool:
    """Whether the lines differ in length, which the tool's own never do."""
    framed = {len(text.text.rstrip()) for text in texts if text.text.lstrip()[:1] in ("|", "+")}
    return len(framed) != 1
