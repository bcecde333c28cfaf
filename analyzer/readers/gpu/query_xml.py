"""``nvidia-smi -q -x``, schemas v10 to v13: one document or several in a row, whole or cut."""

from __future__ import annotations

import re
from collections.abc import Sequence

from analyzer.model import Gpu, GpuProcess, GpuSnapshot, MigDevice
from analyzer.readers.base import Page, Reading
from analyzer.readers.gpu.build import MAX_ROWS, Dump, reading
from analyzer.readers.gpu.cells import mebibytes, text_or_none, whole
from analyzer.readers.gpu.state import CardState, plausible_memory
from analyzer.readers.gpu.strip import bare
from analyzer.readers.gpu.tree import Element, parse

ANCHORS: tuple[str, ...] = ("<nvidia_smi_log", "&lt;nvidia_smi_log")

_BEGIN = re.compile(r"<nvidia_smi_log\b")
_END = "</nvidia_smi_log>"
_DECLARATION = re.compile(r"^\s*(?:<\?xml[^>]{0,200}\?>|<!DOCTYPE[^>]{0,200}>)?\s*$")
#: A line of a document has a tag, or is the text between two; so many others in a row end a cut one.
_OTHERS = 3


def read(page: Page) -> list[Reading]:
    """Every document of ``page``; those that follow each other at once are one Reading."""
    lines = page.lines
    groups: list[list[Dump]] = []
    unfinished = False
    position = 0
    while position < len(lines):
        if "nvidia_smi_log" not in lines[position] or not _BEGIN.search(_text(lines[position])):
            position += 1
            continue
        first = position
        while first > 0 and position - first < 4 and _DECLARATION.match(_text(lines[first - 1])) and not _taken(groups, first - 1):
            first -= 1
        last, unfinished = _end(lines, position)
        dump = _document(page, first, position, last)
        if dump is not None:
            if groups and first <= groups[-1][-1].last + 2:
                groups[-1].append(dump)
            else:
                groups.append([dump])
        position = last + 1
    found = [reading("nvidia-smi-xml", dumps) for dumps in groups]
    if found and unfinished and not page.whole and found[-1].last >= len(lines) - 2:
        dumps = groups[-1]
        if len(dumps) > 1:
            found[-1:] = [reading("nvidia-smi-xml", dumps[:-1]), reading("nvidia-smi-xml", dumps[-1:])]
        found[-1].open = True
    return found


def _taken(groups: list[list[Dump]], index: int) -> bool:
    return bool(groups) and groups[-1][-1].last >= index


def _text(line: str) -> str:
    text = bare(line)
    if "&lt;" in text and "<" not in text:  # escaped as a whole
        text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", '"').replace("&amp;", "&")
    return text


def _end(lines: Sequence[str], position: int) -> tuple[int, bool]:
    """(last line of the document that begins at ``position``, whether its end is missing)."""
    others, last = 0, position
    for index in range(position, len(lines)):
        text = _text(lines[index])
        if index > position and (_BEGIN.search(text) or text.lstrip().startswith("<?xml")):
            return last, True
        if _END in text:
            return index, False
        if "<" in text or ">" in text:
            others, last = 0, index
        elif text.strip():
            others += 1
            if others > _OTHERS:
                return last, True
    return last, True


def _document(page: Page, first: int, begin: int, last: int) -> Dump | None:
    texts = [_text(line) for line in page.lines[begin : last + 1]]
    texts[0] = texts[0][texts[0].index("<nvidia_smi_log") :]
    if _END in texts[-1]:
        texts[-1] = texts[-1][: texts[-1].index(_END) + len(_END)]
    root = parse(texts)
    if root is None or root.tag != "nvidia_smi_log":
        return None
    dump = Dump(page, GpuSnapshot(page.source(first)), first, last)
    snapshot = dump.snapshot
    snapshot.time = text_or_none(root.value("timestamp"))
    snapshot.driver = text_or_none(root.value("driver_version") or root.value("kmd_version"))
    snapshot.cuda = text_or_none(root.value("cuda_version") or root.value("cuda_umd_version"))
    for element in root.children:
        if element.tag == "gpu" and len(snapshot.gpus) < MAX_ROWS:
            _gpu(dump, element, begin)
    return dump if snapshot.gpus or snapshot.driver else None


def _gpu(dump: Dump, element: Element, begin: int) -> None:
    """A card. Its index is its place: minor_number is another order."""
    snapshot = dump.snapshot
    gpu = Gpu(index=len(snapshot.gpus), line=dump.page.first_line + begin + element.line)
    snapshot.gpus.append(gpu)
    gpu.bus_id = element.attributes.get("id")
    card = CardState(gpu)
    for block in element.children:
        if block.tag in ("mig_devices", "processes", "accounted_processes"):
            continue
        for path, leaf in block.leaves((block.tag,)) if block.children else [((block.tag,), block)]:
            card.put(tuple(tag.lower().replace("_", " ") for tag in path), leaf.text.strip())
    card.finish()
    plausible_memory(gpu)
    memory = element.find("fb_memory_usage")
    for name, value in (("total", gpu.memory_total_mib), ("used", gpu.memory_used_mib), ("free", gpu.memory_free_mib)):
        figure = memory.find(name) if memory is not None else None
        if value is not None and figure is not None:
            dump.device_fact(f"device.{name}", value, "MiB", gpu.index, begin + figure.line)
    for device in _children(element, "mig_devices", "mig_device"):
        _mig(dump, gpu, device, begin)
    processes = element.find("processes")
    snapshot.process_table = snapshot.process_table or (True if processes is not None else None)
    for info in _children(element, "processes", "process_info"):
        _process(dump, gpu, info, begin)


def _children(element: Element, block: str, tag: str) -> list[Element]:
    found = element.find(block)
    return [] if found is None else [child for child in found.children if child.tag == tag]


def _mig(dump: Dump, gpu: Gpu, element: Element, begin: int) -> None:
    if len(dump.snapshot.mig_devices) >= MAX_ROWS:
        return
    device = MigDevice(
        gpu.index,
        whole(element.value("gpu_instance_id") or ""),
        whole(element.value("compute_instance_id") or ""),
        whole(element.value("index") or ""),
        line=dump.page.first_line + begin + element.line,
    )
    device.memory_total_mib = mebibytes(element.value("fb_memory_usage", "total") or "")
    device.memory_used_mib = mebibytes(element.value("fb_memory_usage", "used") or "")
    device.memory_free_mib = mebibytes(element.value("fb_memory_usage", "free") or "")
    device.multiprocessors = whole(element.value("device_attributes", "shared", "multiprocessor_count") or "")
    dump.snapshot.mig_devices.append(device)


def _process(dump: Dump, gpu: Gpu, element: Element, begin: int) -> None:
    process = GpuProcess(
        gpu.index,
        whole(element.value("pid") or ""),
        element.value("process_name"),
        text_or_none(element.value("type")),
        mebibytes(element.value("used_memory") or ""),
        whole(element.value("gpu_instance_id") or ""),
    )
    process.compute_instance = whole(element.value("compute_instance_id") or "")
    used = element.find("used_memory")
    line = used.line if used is not None and process.used_mib is not None else element.line
    dump.process(process, begin + line, None)
