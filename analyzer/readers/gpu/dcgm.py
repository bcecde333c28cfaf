"""dcgm-exporter's metrics: a line a figure and card, ``DCGM_FI_DEV_FB_USED{gpu="0",…} 7531``; sizes in MiB (its HELP lines say so).

What is used and what is free need not add up to the card: the driver's reserve is a metric of its own, so no total is made of them. A
slice's figures carry the labels of its GPU instance: they are the slice's, not the card's. Xid errors are the pattern library's
(patterns/nvidia/xid.yaml).
"""

from __future__ import annotations

import re

from analyzer.model import Gpu, GpuSnapshot, MigDevice
from analyzer.readers.base import Page, Reading
from analyzer.readers.gpu.build import MAX_ROWS, Dump, reading
from analyzer.readers.gpu.cells import text_or_none
from analyzer.readers.gpu.strip import bare

ANCHORS: tuple[str, ...] = ("DCGM_FI_DEV_FB_",)

_METRIC = re.compile(
    r"\s*DCGM_FI_DEV_(?P<name>FB_USED|FB_FREE|FB_TOTAL|FB_RESERVED|GPU_UTIL)\{(?P<labels>[^{}]{1,2000})\}\s+(?P<value>\d{1,9})(?:\.0)?(?:\s|$)"
)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_SIZES = {"FB_USED": "used", "FB_FREE": "free", "FB_TOTAL": "total", "FB_RESERVED": "reserved"}
#: What a slice states of its memory.
_OF_A_SLICE = ("FB_USED", "FB_FREE", "FB_TOTAL")
#: Lines between two metrics that are still one scrape: its other metrics, a line a card, and their comments.
_APART = 2048


def read(page: Page) -> list[Reading]:
    """Every scrape in ``page``; those of a loop are a series."""
    dumps: list[Dump] = []
    seen: set[tuple[str, str, str]] = set()
    cards: dict[str, Gpu] = {}  # of the last dump
    slices: dict[tuple[str, str], MigDevice] = {}  # of the last dump: by card and instance
    for index, line in enumerate(page.lines):
        if "DCGM_FI_DEV_" not in line or len(line) > 4096:
            continue
        found = _METRIC.match(bare(line))
        if found is None:
            continue
        labels = dict(_LABEL.findall(found["labels"]))
        number = labels.get("gpu", "")
        instance = labels.get("GPU_I_ID", "")
        if not number.isdecimal() or (instance and not instance.isdecimal()):
            continue
        key = (found["name"], number, instance)
        if not dumps or key in seen or index > dumps[-1].last + _APART:
            seen.clear()
            cards.clear()
            slices.clear()
            dumps.append(Dump(page, GpuSnapshot(page.source(index), tool="dcgm-exporter"), index, index))
            dumps[-1].snapshot.driver = text_or_none(labels.get("DCGM_FI_DRIVER_VERSION"))
        seen.add(key)
        dumps[-1].last = index
        if number not in cards and len(cards) < MAX_ROWS:
            cards[number] = _card(labels, page.first_line + index)
            dumps[-1].snapshot.gpus.append(cards[number])
        if instance and number in cards:
            cards[number].mig = True
            if (number, instance) not in slices and len(slices) < MAX_ROWS:
                slices[number, instance] = _slice(labels, page.first_line + index)
                dumps[-1].snapshot.mig_devices.append(slices[number, instance])
            if (number, instance) in slices and found["name"] in _OF_A_SLICE:
                setattr(slices[number, instance], f"memory_{_SIZES[found['name']]}_mib", int(found["value"]))
        elif number in cards:
            _take(dumps[-1], cards[number], found, index)
    told = [dump for dump in dumps if dump.facts or dump.snapshot.mig_devices]
    return [reading("dcgm-exporter", told, open_end=not page.whole and told[-1].last >= len(page.lines) - 2)] if told else []


def _card(labels: dict[str, str], line: int) -> Gpu:
    return Gpu(int(labels["gpu"]), text_or_none(labels.get("modelName")), labels.get("UUID"), labels.get("pci_bus_id"), line=line)


def _slice(labels: dict[str, str], line: int) -> MigDevice:
    return MigDevice(int(labels["gpu"]), int(labels["GPU_I_ID"]), profile=text_or_none(labels.get("GPU_I_PROFILE")), line=line)


def _take(dump: Dump, gpu: Gpu, found: re.Match[str], index: int) -> None:
    """One figure of one card."""
    value = int(found["value"])
    if found["name"] == "GPU_UTIL":
        gpu.utilization_percent = value if value <= 100 else None
        return
    name = _SIZES[found["name"]]
    setattr(gpu, f"memory_{name}_mib", value)
    if name != "reserved":
        dump.device_fact(f"device.{name}", value, "MiB", gpu.index, index)
