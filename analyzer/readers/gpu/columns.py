"""Columns of nvidia-smi's CSV: what their names mean, and what a row of them says of a card or a process."""

from __future__ import annotations

import re
from collections.abc import Sequence

from analyzer.model import Gpu, GpuProcess
from analyzer.readers.gpu.build import plausible
from analyzer.readers.gpu.cells import amount, mebibytes, on_off, text_or_none, trouble, whole, word

_ALIASES = {
    "gpu_name": "name",
    "gpu_uuid": "uuid",
    "gpu_bus_id": "pci.bus_id",
    "gpu_index": "index",
    "used_memory": "used_gpu_memory",
    "process_name": "process_name",
    "power.draw.average": "power.draw",
    "power.draw.instant": "power.draw",
    "enforced.power.limit": "power.limit",
    "mig.mode": "mig.mode.current",
    "ecc.mode": "ecc.mode.current",
    "driver_model": "driver_model.current",
}
#: Column names that give a header away. Others (clocks, links, …) are taken as columns without a meaning here.
KNOWN = frozenset(
    {
        "index", "name", "uuid", "pci.bus_id", "memory.total", "memory.used", "memory.free", "memory.reserved", "utilization.gpu",
        "utilization.memory", "temperature.gpu", "power.draw", "power.limit", "driver_version", "pstate", "compute_mode", "timestamp",
        "fan.speed", "mig.mode.current", "ecc.mode.current", "ecc.errors.uncorrected.volatile.total", "display_active", "count",
        "persistence_mode", "driver_model.current", "compute_cap", "pid", "used_gpu_memory", "process_name", "gpu_serial", "serial",
        "gpu_recovery_action", "temperature.memory", "clocks.sm", "clocks.mem", "clocks.gr",
    }
)  # fmt: skip
_FIELD = re.compile(r"(?P<name>[a-z][a-z0-9_]*(?:\.[a-z0-9_]+)*)(?:\s?\[(?P<unit>[^\]]{1,24})\])?$")
_SEPARATOR = re.compile(r"\s*,\s*")


def cells(text: str, separator: str = ",") -> list[str]:
    """A row's fields. Nothing is quoted in this CSV, but spreadsheets add quotes."""
    parts = [part.strip() for part in text.split("\t")] if separator == "\t" else _SEPARATOR.split(text.strip())
    return [part[1:-1] if len(part) > 1 and part[0] == part[-1] == '"' else part for part in parts]


def header(text: str) -> list[str] | None:
    """The columns that a header line names, aliases resolved; None where the line is no header."""
    if len(text) > 8192 or not (text.strip()[:1].isalpha() or text.strip().startswith('"')):
        return None
    parts = cells(text, "\t" if "\t" in text and "," not in text else ",")
    names = [match for match in map(_FIELD.match, parts) if match is not None]
    if len(names) != len(parts):
        return None
    columns = [canonical(match["name"]) for match in names]
    known = [column for column in columns if column in KNOWN]
    telling = (
        len(known) == len(columns) >= 3 or any(match["unit"] for match in names) or any("." in column or "_" in column for column in known)
    )
    enough = len(known) >= 2 or (len(known) == 1 and len(columns) == 1)
    return columns if enough and telling else None


def canonical(name: str) -> str:
    """One spelling for a column's names."""
    return _ALIASES.get(name, name)


def split(text: str, columns: Sequence[str], separator: str) -> list[str] | None:
    """The fields of a row, one for each column. A name with commas is put together again; None where the row has too few fields."""
    parts = cells(text, separator)
    if len(parts) == len(columns):
        return parts
    absorbing = next((column for column in ("process_name", "name") if column in columns), None)
    if absorbing is None or len(parts) < len(columns):
        return None
    place = columns.index(absorbing)
    after = len(columns) - place - 1
    middle = parts[place : len(parts) - after]
    return [*parts[:place], ", ".join(middle), *parts[len(parts) - after :]]


def card(row: dict[str, str]) -> Gpu | None:
    """A card from a row, or None where a value is not what its column holds: then the row is no row."""
    gpu = Gpu()
    if "index" in row:
        gpu.index = whole(row["index"])
        if gpu.index is None and word(row["index"]) is None:
            return None
    sizes: dict[str, float | None] = {}
    for name in ("total", "used", "free", "reserved"):
        text = row.get(f"memory.{name}")
        if text is None:
            continue
        sizes[name] = mebibytes(text, "MiB")
        if sizes[name] is None:
            status = word(text)
            if status is None:
                return None
            gpu.memory_status = gpu.memory_status or status
    _memory(gpu, sizes)
    for column, field, unit in _FIGURES:
        if column in row:
            value = amount(row[column], unit)
            if value is None and word(row[column]) is None:
                return None
            setattr(gpu, field, value)
    for column, field in _WORDS:
        if column in row:
            setattr(gpu, field, text_or_none(row[column]))
    for column, field in _SWITCHES:
        if column in row:
            setattr(gpu, field, on_off(row[column]))
    gpu.recovery_action = row.get("gpu_recovery_action") or None
    gpu.ecc = text_or_none(row.get("ecc.errors.uncorrected.volatile.total"))
    if gpu.ecc is None and on_off(row.get("ecc.mode.current")) is False:
        gpu.ecc = "Off"
    gpu.status = next((status for status in map(trouble, row.values()) if status is not None), None)
    return gpu


_FIGURES = (
    ("utilization.gpu", "utilization_percent", "%"),
    ("temperature.gpu", "temperature_c", "C"),
    ("power.draw", "power_w", "W"),
    ("power.limit", "power_cap_w", "W"),
    ("fan.speed", "fan_percent", "%"),
)
_WORDS = (
    ("name", "name"),
    ("uuid", "uuid"),
    ("pci.bus_id", "bus_id"),
    ("pstate", "performance_state"),
    ("compute_mode", "compute_mode"),
    ("driver_model.current", "driver_model"),
    ("compute_cap", "compute_capability"),
)
_SWITCHES = (("mig.mode.current", "mig"), ("display_active", "display_active"), ("persistence_mode", "persistence_mode"))


def _memory(gpu: Gpu, sizes: dict[str, float | None]) -> None:
    total = sizes.get("total")
    parts = sum(size for name in ("used", "free", "reserved") if (size := sizes.get(name)) is not None)
    if total is not None and not plausible(parts, total):
        return
    gpu.memory_total_mib, gpu.memory_used_mib = total, sizes.get("used")
    gpu.memory_free_mib, gpu.memory_reserved_mib = sizes.get("free"), sizes.get("reserved")


def compute_app(row: dict[str, str]) -> GpuProcess | None:
    """A process from a row of ``--query-compute-apps``; None where the row is none. The card goes by the identity that the row has."""
    pid = whole(row.get("pid", ""))
    used = row.get("used_gpu_memory", "")
    size = mebibytes(used, "MiB")
    if pid is None or (size is None and word(used) is None):
        return None
    index = whole(row.get("index", ""))
    identity = index if index is not None else text_or_none(row.get("uuid")) or text_or_none(row.get("pci.bus_id"))
    return GpuProcess(identity, pid, row.get("process_name", row.get("name")), None, size)
