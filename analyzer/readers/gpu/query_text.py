"""``nvidia-smi -q``: whole, one section (``-d``), or a piece that somebody cut out."""

from __future__ import annotations

import re
from collections.abc import Sequence

from analyzer.model import Gpu, GpuProcess, GpuSnapshot, MigDevice
from analyzer.readers.base import Page, Reading
from analyzer.readers.gpu.build import MAX_ROWS, Dump, reading
from analyzer.readers.gpu.cells import mebibytes, text_or_none, whole
from analyzer.readers.gpu.rows import BUS
from analyzer.readers.gpu.state import CardState, plausible_memory
from analyzer.readers.gpu.strip import bare

ANCHORS: tuple[str, ...] = ("NVSMI LOG", "FB Memory Usage", "Attached GPUs")

_SEED = re.compile(r"=+\s?NVSMI LOG\s?=+|^\W*FB Memory Usage\s*$|Attached GPUs\s*:\s")
_LOG = re.compile(r"=+\s?NVSMI LOG\s?=+")
_GPU = re.compile(rf"\s*GPU\s+({BUS})\s*$")
_KEY = re.compile(r"(?P<indent>\s*)(?P<key>[A-Za-z0-9][A-Za-z0-9 /()._&+-]{0,80}?)\s*:(?:\s+(?P<value>\S.*)|\s*)$")
_HEADING = re.compile(r"(?P<indent>\s*)(?P<key>[A-Z][A-Za-z0-9 /()._&+-]{1,80})\s*$")
#: A key without blanks before its colon could be any program's line; so it counts only in a text that has been read as -q already.
_SPACED = re.compile(r"\s:(?:\s|$)")
_OTHERS = 1  # lines of something else that may stand inside (grep's "--")
_BLANKS = 4


def read(page: Page) -> list[Reading]:
    """Every -q text of ``page``."""
    found: list[Reading] = []
    position = 0
    lines = page.lines
    while position < len(lines):
        if not _SEED.search(lines[position]):
            position += 1
            continue
        floor = found[-1].last + 1 if found else 0
        first = _start(lines, position, floor)
        last = _end(lines, position)
        dumps = [dump for dump in _Query(page).read(first, last) if _says_something(dump.snapshot)]
        if dumps:
            dumps[0].first, dumps[-1].last = first, last
            open_end = not page.whole and last >= len(lines) - 2
            if open_end and len(dumps) > 1:
                found.append(reading("nvidia-smi-q", dumps[:-1]))
                dumps = dumps[-1:]
            found.append(reading("nvidia-smi-q", dumps, open_end=open_end))
        position = last + 1
    return found


def _says_something(snapshot: GpuSnapshot) -> bool:
    return bool(snapshot.gpus or snapshot.driver)


def _is_line(text: str) -> bool:
    if len(text) > 400:
        return False
    return bool(
        _GPU.match(text)
        or (_KEY.match(text) and _SPACED.search(text))
        or (_HEADING.match(text) and text[:1] in (" ", "\t"))
        or _LOG.search(text)
        or text.strip() in _BLOCKS
    )


def _start(lines: Sequence[str], position: int, floor: int) -> int:
    """Upwards from the first sure sign: a piece may begin above it."""
    first = position
    for index in range(position - 1, max(floor, position - 400) - 1, -1):
        text = bare(lines[index])
        if not text.strip():
            continue
        if not _is_line(text):
            break
        first = index
    return first


def _end(lines: Sequence[str], position: int) -> int:
    last, blanks, others = position, 0, 0
    for index in range(position + 1, len(lines)):
        text = bare(lines[index])
        if not text.strip():
            blanks += 1
            if blanks > _BLANKS:
                break
        elif _is_line(text):
            last, blanks, others = index, 0, 0
        else:
            others += 1
            if others > _OTHERS or text.strip() not in ("--", "..."):
                break
    return last


#: Blocks whose headings are known even where the indentation is lost.
_BLOCKS = frozenset(
    {
        "FB Memory Usage", "BAR1 Memory Usage", "Conf Compute Protected Memory Usage", "Utilization", "Processes", "MIG Mode", "MIG Device",
        "MIG Devices", "Driver Model", "PCI", "ECC Mode", "ECC Errors", "Volatile", "Aggregate", "Temperature", "Power Readings",
        "GPU Power Readings", "Clocks", "Remapped Rows", "Retired Pages", "Clocks Event Reasons", "Clocks Throttle Reasons", "Fabric",
        "GPU Reset Status", "Device Attributes", "Shared", "Encoder Stats", "FBC Stats", "Max Clocks", "Applications Clocks",
        "Capabilities", "vGPU Software Licensed Product", "Inforom Version", "Accounting Mode", "Max Customer Boost Clocks",
    }
)  # fmt: skip
_IN_MIG = frozenset(
    {"Device Attributes", "Shared", "ECC Errors", "Volatile", "FB Memory Usage", "BAR1 Memory Usage", "MIG Device", "MIG Devices"}
)


class _Query:
    """Reads one region."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._dumps: list[Dump] = []
        self._blocks: list[tuple[int, str]] = []  # open headings: indentation and name
        self._card: CardState | None = None
        self._memory_line: int | None = None
        self._mig: MigDevice | None = None
        self._process: GpuProcess | None = None
        self._process_line = 0
        self._instances: dict[str, int | None] = {}

    def read(self, first: int, last: int) -> list[Dump]:
        """The snapshots of the page's lines ``first`` to ``last``."""
        for index in range(first, last + 1):
            text = bare(self._page.lines[index]).expandtabs(4)
            if text.strip() and len(text) <= 400:
                self._line(index, text)
        self._close_card()
        return self._dumps

    def _dump(self, index: int) -> Dump:
        if not self._dumps:
            self._new_dump(index)
        self._dumps[-1].last = index
        return self._dumps[-1]

    def _new_dump(self, index: int) -> None:
        self._close_card()
        self._blocks = []
        self._dumps.append(Dump(self._page, GpuSnapshot(self._page.source(index)), index, index))

    def _line(self, index: int, text: str) -> None:
        if _LOG.search(text):
            self._new_dump(index)
            return
        gpu = _GPU.match(text)
        if gpu is not None:
            snapshot = self._dump(index).snapshot
            if any(other.bus_id == gpu[1] for other in snapshot.gpus):
                self._new_dump(index)
                self._dumps[-1].snapshot.driver, self._dumps[-1].snapshot.cuda = snapshot.driver, snapshot.cuda
            self._new_card(index, Gpu(index=len(self._dump(index).snapshot.gpus), bus_id=gpu[1]))
            self._blocks = []
            return
        found = _KEY.match(text)
        if found is None:
            heading = _HEADING.match(text)
            if heading is not None:
                self._heading(index, len(heading["indent"]), heading["key"].strip())
            return
        value = found["value"]
        if value is None and found["key"] in _BLOCKS:
            self._heading(index, len(found["indent"]), found["key"])
            return
        self._key(index, len(found["indent"]), found["key"], (value or "").strip())

    def _heading(self, index: int, indent: int, name: str) -> None:
        while self._blocks and (self._blocks[-1][0] >= indent if indent or self._blocks[-1][0] else True):
            self._blocks.pop()
        if name == "FB Memory Usage" and not self._in_mig(indent) and (self._card is None or self._memory_line is not None):
            self._new_card(index, Gpu())  # cut out by a filter: whose memory it is is not in the text
        if self._mig is not None and not indent and name not in _IN_MIG:
            self._mig = None
        if name in ("MIG Device", "MIG Devices") and self._card is not None:
            self._mig = MigDevice(gpu=self._card.gpu.index, line=self._page.first_line + index)
        self._blocks.append((indent, name))

    def _in_mig(self, indent: int) -> bool:
        if self._mig is None:
            return False
        place = next((open_indent for open_indent, name in self._blocks if name in ("MIG Device", "MIG Devices")), None)
        if place is None and indent:
            self._mig = None
            return False
        return True

    def _key(self, index: int, indent: int, key: str, value: str) -> None:
        snapshot = self._dump(index).snapshot
        while self._blocks and indent and self._blocks[-1][0] >= indent:
            self._blocks.pop()
        if self._card is None and not self._blocks and self._top(index, snapshot, key, value):
            return
        names = [name for _, name in self._blocks]
        if self._mig is not None and ("MIG Device" in names or "MIG Devices" in names or not indent):
            self._slice(index, key, value, names)
            return
        if "Processes" in names or key in ("Process ID", "Used GPU Memory"):
            self._process_key(index, key, value)
            return
        if key == "Processes":
            snapshot.process_table = True
            return
        if self._card is not None:
            path = tuple(part.lower() for part in (*names, key))
            if self._card.put(path, value):
                self._memory_line = index

    def _top(self, index: int, snapshot: GpuSnapshot, key: str, value: str) -> bool:
        if key == "Timestamp":
            if snapshot.time is not None:
                self._new_dump(index)
                snapshot = self._dumps[-1].snapshot
            snapshot.time = value
        elif key == "Driver Version":
            snapshot.driver = text_or_none(value)
        elif key in ("CUDA Version", "CUDA UMD Version"):
            snapshot.cuda = text_or_none(value)
        elif key == "KMD Version":
            snapshot.driver = text_or_none(value)
        else:
            return key == "Attached GPUs"
        return True

    def _slice(self, index: int, key: str, value: str, names: Sequence[str]) -> None:
        device = self._mig
        if device is None:
            return
        block = names[-1] if names else ""
        if key == "Index" and block != "FB Memory Usage":
            if device.device is not None:  # headed once for all slices
                device = self._mig = MigDevice(gpu=device.gpu, line=self._page.first_line + index)
            device.device = whole(value)
            devices = self._dumps[-1].snapshot.mig_devices
            if len(devices) < MAX_ROWS:
                devices.append(device)
        elif key == "GPU Instance ID":
            device.gpu_instance = whole(value)
        elif key == "Compute Instance ID":
            device.compute_instance = whole(value)
        elif key == "Multiprocessor count":
            device.multiprocessors = whole(value)
        elif block == "FB Memory Usage" and key in ("Total", "Used", "Free"):
            setattr(device, f"memory_{key.lower()}_mib", mebibytes(value))

    def _process_key(self, index: int, key: str, value: str) -> None:
        self._dumps[-1].snapshot.process_table = True
        if key in ("GPU instance ID", "GPU Instance ID"):
            self._close_process()
            self._instances = {"gpu": whole(value)}
        elif key in ("Compute instance ID", "Compute Instance ID"):
            self._instances["compute"] = whole(value)
        elif key == "Process ID":
            self._close_process()
            gpu = self._card.gpu.index if self._card is not None else None
            self._process = GpuProcess(gpu, whole(value), None)
            self._process.gpu_instance, self._process.compute_instance = self._instances.get("gpu"), self._instances.get("compute")
            self._process_line = index
        elif self._process is not None:
            if key == "Type":
                self._process.type = text_or_none(value)
            elif key == "Name":
                self._process.name = value
            elif key == "Used GPU Memory":
                self._process.used_mib = mebibytes(value)
                self._process_line = index

    def _close_process(self) -> None:
        if self._process is not None:
            self._dumps[-1].process(self._process, self._process_line)
        self._process, self._instances = None, {}

    def _new_card(self, index: int, gpu: Gpu) -> None:
        self._close_card()
        dump = self._dump(index)
        if len(dump.snapshot.gpus) >= MAX_ROWS:
            return
        gpu.line = self._page.first_line + index
        dump.snapshot.gpus.append(gpu)
        self._card = CardState(gpu)

    def _close_card(self) -> None:
        self._close_process()
        if self._card is not None:
            self._card.finish()
            plausible_memory(self._card.gpu)
            self._facts(self._card.gpu)
        self._card, self._memory_line, self._mig = None, None, None

    def _facts(self, gpu: Gpu) -> None:
        """Each figure with the line of its own key, which stands next to the last one read."""
        if self._memory_line is None:
            return
        dump = self._dumps[-1]
        for name, value in (("total", gpu.memory_total_mib), ("used", gpu.memory_used_mib), ("free", gpu.memory_free_mib)):
            if value is None:
                continue
            wanted = re.compile(rf"\s*{name}\s*:\s", re.IGNORECASE)
            line = next((at for at in range(self._memory_line, max(dump.first, self._memory_line - 8) - 1, -1)
                         if wanted.match(bare(self._page.lines[at]))), self._memory_line)  # fmt: skip
            dump.device_fact(f"device.{name}", value, "MiB", gpu.index, line)
