"""The rows of nvidia-smi's tables as token sequences. Bars are blanks here: no width, no column and no border is relied upon."""

from __future__ import annotations

import re

from analyzer.model import Gpu, GpuProcess, MigDevice
from analyzer.model.units import Number, number
from analyzer.readers.gpu.build import plausible
from analyzer.readers.gpu.cells import amount, is_cut, mebibytes, on_off, trouble, whole, word

#: No row of any layout is longer; what is longer is not matched.
LONGEST = 400

BUS = r"(?:[0-9A-Fa-f]{4}|[0-9A-Fa-f]{8}):[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]"
_SIZE = r"\d{1,12}(?:\.\d{1,4})?\s?[KMGT]?[iIlL1]?B"
_GONE = r"N/A|Not\sSupported|Unknown\sError|GPU\sis\slost|GPU\srequires\sreset|Insufficient\sPermissions|ERR!|\?\?"

#: ``index name state | bus-id display | ECC``
_FIRST = re.compile(
    rf"""\s*(?P<index>\d{{1,3}})\s+(?P<name>[^\s|](?:[^|]{{0,80}}?[^\s|])?)
    (?:\s+(?P<state>On|Off|N/A|WDDM|TCC|MCDM|ERR!|Enabled|Disabled))?
    \s+(?P<bus>{BUS})(?:\s+(?P<display>On|Off|N/A|ERR!))?(?:\s+(?P<ecc>N/A|Off|On|ERR!|\d{{1,9}}))?(?:\s+MEM:.*)?\s*$""",
    re.VERBOSE,
)
#: The same where the card has no bus id (Jetson): every word must be there, as it resembles other rows.
_FIRST_NO_BUS = re.compile(
    r"\s*(?P<index>\d{1,3})\s+(?P<name>[A-Za-z][^|]{0,80}?[^\s|])\s+(?P<state>On|Off|N/A)\s+(?P<bus>N/A)\s+(?P<display>On|Off|N/A)"
    r"\s+(?P<ecc>N/A|Off|On|\d{1,9})\s*$"
)
#: ``fan temp perf power / cap | used / total | util mode``; nvitop's compact view has the index in front.
_SECOND = re.compile(
    rf"""\s*(?:(?P<index>\d{{1,3}})\s+)?(?P<fan>\d{{1,3}}\s?%|N/A|ERR!|MAX|Off|Unknown(?:\sError)?)\s+
    (?P<temp>\d{{1,3}}\s?C?|N/A|ERR!)\s+(?P<perf>P\d{{1,2}}|N/A|ERR!)\s+
    (?P<power>\d{{1,5}}(?:\.\d+)?\s?W?|N/A|ERR!)\s*/\s*(?P<cap>\d{{1,5}}(?:\.\d+)?\s?W?|N/A|ERR!)
    \s+(?P<memory>{_SIZE}\s*/\s*{_SIZE}|(?:{_GONE})(?:\s*/\s*N/A)?)
    (?:\s+(?P<util>\d{{1,3}}\s?%|N/A|ERR!)(?:\s+(?P<mode>Default|E\.\ ?Process|E\.\ ?Thread|Prohibited|N/A|ERR!|[A-Z]\S{{0,20}}))?)?
    (?:\s+(?:UTL|MEM):.*)?\s*$""",
    re.VERBOSE,
)
#: What is left of the second line when somebody typed it again: the pair, and something that only a card's line has.
_PAIR = re.compile(rf"(?P<memory>{_SIZE}\s*/\s*{_SIZE})(?:\s+(?P<util>\d{{1,3}}\s?%|N/A))?")
_PRINTED = re.compile(r"(?<![\d.])(\d{1,12}(?:\.\d{1,4})?)\s?([KMGT]i?B)")
_TELLTALE = re.compile(r"\bP\d{1,2}\b|\b\d{1,3}C\b|\d\s?W\b|Default")
_MIG_MODE = re.compile(r"\s*(N/A|Enabled\*?|Disabled\*?|ERR!)\s*$")
_MIG = re.compile(
    rf"\s*(?P<gpu>\d{{1,3}})\s+(?P<gi>\d{{1,3}})\s+(?P<ci>\d{{1,3}})\s+(?P<dev>\d{{1,3}})\s+(?P<memory>{_SIZE}\s*/\s*(?:{_SIZE}|\d+\.\.\.)|{_GONE})"
    r"(?:\s+(?P<sm>\d{1,4})(?:\s+(?:\d{1,9}|N/A|ERR!))?(?:\s+(?:\d{1,3}|N/A|-)){0,6})?\s*$"
)
_INSTANCE = r"N/A|\d{1,3}"
_TYPE = r"C|G|C\+G|M\+C|M|\?|N/A|-"
_PROCESS = re.compile(
    rf"\s*(?P<gpu>\d{{1,3}})(?:\s+(?P<gi>{_INSTANCE})\s+(?P<ci>{_INSTANCE}))?\s+(?P<pid>\d{{1,10}})\s+(?P<type>{_TYPE})(?P<rest>\s.*)$"
)
_PROCESS_MEMORY = re.compile(rf"(?:^|\s)(?P<memory>{_SIZE}|{_GONE})\s*$")
#: nvitop: ``GPU PID type USER GPU-MEM %SM %CPU %MEM TIME COMMAND``
_NVITOP = re.compile(
    rf"\s*(?P<gpu>\d{{1,3}})\s+(?P<pid>\d{{1,10}})\s+(?P<type>C|G|C\+G|X)\s+\S+\s+(?P<memory>{_SIZE}|N/A|WDDM:N/A)"
    r"(?:\s+(?:[\d.>]+|N/A)%?){3}\s+(?:\d+:\d\d(?::\d\d)?|[\d.]+\s?days?|N/A)\s+(?P<name>\S.*?)\s*$"
)
_CUT_MEMORY = re.compile(r"\s{2,}\d{0,12}(?:M|Mi|N|N/)?$")


def first(text: str) -> Gpu | None:
    """A card from the first line of its row, or None where the line is no such line."""
    found = (_FIRST.match(text) or _FIRST_NO_BUS.match(text)) if len(text) <= LONGEST else None
    if found is None:
        return None
    state, name = found["state"], found["name"]
    bus = None if found["bus"] == "N/A" else found["bus"]
    return Gpu(
        index=int(found["index"]),
        name=name,
        name_truncated=is_cut(name),
        bus_id=bus,
        persistence_mode=on_off(state),
        driver_model=state if state in ("WDDM", "TCC", "MCDM") else None,
        display_active=on_off(found["display"]),
        ecc=found["ecc"],
        status=trouble(found["ecc"] or ""),
    )


def second(text: str, gpu: Gpu | None) -> Gpu | None:
    """Add what the second line of a row says to ``gpu`` (a new one without index where its first line is missing)."""
    if len(text) > LONGEST:
        return None
    found = _SECOND.match(text)
    if found is None:
        return _typed_again(text, gpu)
    if gpu is None:
        gpu = Gpu(index=whole(found["index"] or ""))
    elif found["index"] is not None:
        return None
    gpu.fan_percent = amount(found["fan"], "%")
    gpu.temperature_c = amount(found["temp"], "C")
    gpu.performance_state = found["perf"] if found["perf"][0] == "P" else None
    gpu.power_w = amount(found["power"], "W")
    gpu.power_cap_w = amount(found["cap"], "W")
    mode = found["mode"]
    gpu.compute_mode = None if mode is None or word(mode) is not None else mode
    _memory(gpu, found["memory"])
    _utilization(gpu, found["util"])
    return gpu


def mig_mode(text: str, gpu: Gpu) -> bool:
    """Read the third line of a row; False where it is another line."""
    found = _MIG_MODE.match(text)
    if found is None:
        return False
    gpu.mig = on_off(found[1])
    gpu.status = gpu.status or trouble(found[1])
    return True


def mig_device(text: str) -> MigDevice | None:
    """A slice from the first line of its row in the MIG table."""
    found = _MIG.match(text) if len(text) <= LONGEST else None
    if found is None:
        return None
    device = MigDevice(int(found["gpu"]), int(found["gi"]), int(found["ci"]), int(found["dev"]))
    device.multiprocessors = whole(found["sm"] or "")
    used, _, total = found["memory"].partition("/")
    if plausible(mebibytes(used), mebibytes(total)):
        device.memory_used_mib, device.memory_total_mib = mebibytes(used), mebibytes(total)
    return device


def process(text: str) -> GpuProcess | None:
    """A process from its row. A figure that the paste cut is None."""
    found = _PROCESS.match(text) if len(text) <= LONGEST else None
    if found is None:
        return None
    rest = found["rest"]
    memory = _PROCESS_MEMORY.search(rest)
    name = rest[: memory.start()] if memory else _CUT_MEMORY.sub("", rest)
    kind = found["type"]
    return GpuProcess(
        gpu=int(found["gpu"]),
        pid=int(found["pid"]),
        name=name.strip(),
        type=None if word(kind) is not None or kind == "?" else kind,
        used_mib=mebibytes(memory["memory"]) if memory else None,
        gpu_instance=whole(found["gi"] or ""),
        compute_instance=whole(found["ci"] or ""),
    )


def nvitop_process(text: str) -> GpuProcess | None:
    """A process from nvitop's table."""
    found = _NVITOP.match(text) if len(text) <= LONGEST else None
    if found is None:
        return None
    kind = found["type"].replace("X", "C+G")
    return GpuProcess(int(found["gpu"]), int(found["pid"]), found["name"], kind, mebibytes(found["memory"]))


def in_gibibytes(text: str) -> list[tuple[Number, str] | None]:
    """The sizes of a row, with their unit where nvitop prints GiB; None for one in MiB."""
    return [(number(found[1]), "GiB") if found[2][0] == "G" else None for found in _PRINTED.finditer(text)]


def looks_like_row(text: str) -> bool:
    """Whether a line without any border is one of these rows."""
    return len(text) <= LONGEST and any(shape.match(text) for shape in (_FIRST, _SECOND, _MIG_MODE, _PROCESS, _FIRST_NO_BUS, _MIG))


def _memory(gpu: Gpu, text: str) -> None:
    used_text, slash, total_text = text.partition("/") if "B" in text else (text, "", "")
    used, total = mebibytes(used_text), mebibytes(total_text)
    if slash and used is not None and total is not None and plausible(used, total):
        gpu.memory_used_mib, gpu.memory_total_mib = used, total
        return
    gpu.memory_status = word(text) or text.strip()
    gpu.status = trouble(text) or gpu.status


def _utilization(gpu: Gpu, text: str | None) -> None:
    if text is None:
        return
    value = amount(text, "%")
    if value is not None and value <= 100:
        gpu.utilization_percent = value
    gpu.status = gpu.status or trouble(text)


def _typed_again(text: str, gpu: Gpu | None) -> Gpu | None:
    """Only behind a card's first line: there is nothing else that the pair could be the memory of."""
    if gpu is None:
        return None
    pairs = list(_PAIR.finditer(text))
    if len(pairs) != 1 or not _TELLTALE.search(text):
        return None
    _memory(gpu, pairs[0]["memory"])
    _utilization(gpu, pairs[0]["util"])
    return gpu
