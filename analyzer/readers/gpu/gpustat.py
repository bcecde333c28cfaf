"""gpustat: one line a card, with the processes behind it. Its MB are MiB."""

from __future__ import annotations

import re

from analyzer.model import Gpu, GpuProcess, GpuSnapshot
from analyzer.readers.base import Page, Reading
from analyzer.readers.gpu.build import MAX_ROWS, Dump, plausible, reading
from analyzer.readers.gpu.cells import amount, mebibytes, whole
from analyzer.readers.gpu.strip import bare

ANCHORS: tuple[str, ...] = ("'C,", "°C,", "’C,", "'C |", "°C |")

_CARD = re.compile(
    r"\s*\[(?P<index>\d{1,3})\]\s+(?P<name>\S[^|]{0,80}?)\s*\|\s*(?P<temperature>\d{1,3}|\?\?)\s?['°’]C\s?,?(?P<middle>[^|]{0,120})"
    r"\|\s*(?P<used>\d{1,9}|\?\?)\s*/\s*(?P<total>\d{1,9}|\?\?)\s*MB\s*(?:\|(?P<processes>.*))?$"
)
_HEAD = re.compile(
    r"\s*\S{1,100}\s+(?P<time>(?:[A-Z][a-z]{2}\s+)?[A-Z][a-z]{2}\s+\d{1,2}\s+\d\d:\d\d:\d\d\s+\d{4})(?:\s+(?P<driver>\d{3}[\d.]*))?\s*$"
)
_SHARE = re.compile(r"(?<![ED]:)(?<!\d)\s(\d{1,3}|\?\?)\s?%")
_POWER = re.compile(r"(\d{1,5})\s?/\s?(\d{1,5})\s?W")
_PROCESS = re.compile(
    r"(?P<owner>[^\s:/()]{1,64})(?::(?P<command>[^\s()]{1,128}?))?(?:/(?P<pid>\d{1,10}))?\((?P<used>\d{1,9}|\?|\?\?|None)M\)(?=\s|,|$)"
)


def read(page: Page) -> list[Reading]:
    """Every output of gpustat in ``page``; repeated ones are a series."""
    groups: list[list[Dump]] = []
    lines = page.lines
    for index, line in enumerate(lines):
        if "]" not in line or "MB" not in line or len(line) > 8192:
            continue
        found = _CARD.match(bare(line))
        if found is None:
            continue
        if groups and index <= groups[-1][-1].last + 4:
            dump = groups[-1][-1]
            if any(gpu.index == int(found["index"]) for gpu in dump.snapshot.gpus):
                dump = _begin(page, index)
                groups[-1].append(dump)
        else:
            dump = _begin(page, index)
            groups.append([dump])
        dump.last = index
        _card(dump, found, index)
    return [reading("gpustat", dumps, open_end=not page.whole and dumps[-1].last >= len(lines) - 2) for dumps in groups]


def _begin(page: Page, index: int) -> Dump:
    snapshot = GpuSnapshot(page.source(index), tool="gpustat")
    dump = Dump(page, snapshot, index, index)
    above = bare(page.lines[index - 1]) if index else ""
    head = _HEAD.match(above) if len(above) < 400 else None
    if head is not None:
        snapshot.time, snapshot.driver = head["time"], head["driver"]
        dump.first = index - 1
    return dump


def _card(dump: Dump, found: re.Match[str], index: int) -> None:
    snapshot = dump.snapshot
    if len(snapshot.gpus) >= MAX_ROWS:
        return
    gpu = Gpu(int(found["index"]), found["name"], temperature_c=whole(found["temperature"]), line=dump.page.first_line + index)
    middle = " " + found["middle"].split("E:")[0]
    shares = _SHARE.findall(middle)
    gpu.utilization_percent = amount(shares[-1], "%") if shares else None  # a fan's share stands before it
    power = _POWER.search(middle)
    if power is not None:
        gpu.power_w, gpu.power_cap_w = int(power[1]), int(power[2])
    used, total = mebibytes(found["used"], "MiB"), mebibytes(found["total"], "MiB")
    if plausible(used, total):
        gpu.memory_used_mib, gpu.memory_total_mib = used, total
    snapshot.gpus.append(gpu)
    dump.device(gpu, index)
    if found["processes"] is None:
        return
    snapshot.process_table = True
    for process in _PROCESS.finditer(found["processes"]):
        size = mebibytes(process["used"], "MiB")
        dump.process(GpuProcess(gpu.index, whole(process["pid"] or ""), process["command"], None, size), index)
