"""``nvidia-smi -L``: full names and UUIDs of cards and their MIG slices, no memory."""

from __future__ import annotations

import re

from analyzer.model import Gpu, GpuSnapshot, MigDevice
from analyzer.readers.base import Page, Reading
from analyzer.readers.gpu.build import MAX_ROWS, Dump, reading
from analyzer.readers.gpu.cells import is_cut
from analyzer.readers.gpu.strip import bare

ANCHORS: tuple[str, ...] = ("(UUID: GPU-", "(UUID: MIG-", "(UUID:GPU-")

_CARD = re.compile(r"\s*GPU\s+(?P<index>\d{1,3}):\s*(?P<name>\S.{0,100}?)\s*\(UUID:\s*(?P<uuid>GPU-[0-9A-Fa-f-]{4,40})\)?\s*$")
_SLICE = re.compile(
    r"\s*MIG\s+(?P<profile>\S{1,40}(?:\s\S{1,20})?)\s+Device\s+(?P<device>\d{1,3}):\s*\(UUID:\s*(?P<uuid>MIG-[0-9A-Za-z/-]{4,60})\)?\s*$"
)


def read(page: Page) -> list[Reading]:
    """Every listing of ``page``."""
    dumps: list[Dump] = []
    for index, line in enumerate(page.lines):
        if "UUID:" not in line or len(line) > 1000:
            continue
        text = bare(line)
        card, part = _CARD.match(text), _SLICE.match(text)
        if card is None and part is None:
            continue
        dump = dumps[-1] if dumps and index <= dumps[-1].last + 2 else None
        if dump is not None and card is not None and any(gpu.index == int(card["index"]) for gpu in dump.snapshot.gpus):
            dump = None
        if dump is None:
            dump = Dump(page, GpuSnapshot(page.source(index)), index, index)
            dumps.append(dump)
        dump.last = index
        gpus = dump.snapshot.gpus
        if card is not None and len(gpus) < MAX_ROWS:
            name = card["name"]
            gpus.append(Gpu(int(card["index"]), name, card["uuid"], name_truncated=is_cut(name), line=page.first_line + index))
        elif part is not None and len(dump.snapshot.mig_devices) < MAX_ROWS:
            owner = gpus[-1].index if gpus else None
            if gpus:
                gpus[-1].mig = True
            device = MigDevice(owner, device=int(part["device"]), profile=part["profile"], uuid=part["uuid"], line=page.first_line + index)
            instances = re.fullmatch(r"MIG-GPU-[^/]+/(\d{1,3})/(\d{1,3})", part["uuid"])
            if instances is not None:  # before driver 470
                device.gpu_instance, device.compute_instance = int(instances[1]), int(instances[2])
            dump.snapshot.mig_devices.append(device)
    return [reading("nvidia-smi-L", [dump], open_end=not page.whole and dump.last >= len(page.lines) - 2) for dump in dumps]
