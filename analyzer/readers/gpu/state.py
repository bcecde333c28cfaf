"""Keys of ``nvidia-smi -q`` and ``-q -x`` that say how a card is, by the same names in both: text -> fields of a Gpu."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from analyzer.model import Gpu
from analyzer.readers.gpu.cells import amount, mebibytes, on_off, text_or_none, trouble, whole, word


@dataclass(slots=True)
class CardState:
    """A card while its blocks are read; ``finish`` draws the sums."""

    gpu: Gpu
    uncorrectable: list[int] = field(default_factory=list)  # volatile uncorrectable ECC counts
    ecc_mode: str | None = None
    total_ecc: int | None = None

    def put(self, path: tuple[str, ...], value: str) -> bool:
        """Read ``value`` of the key at ``path`` (blocks from outside in, normalised); True where it is a memory figure."""
        block, key = (path[-2] if len(path) > 1 else ""), path[-1]
        if block == "fb memory usage":
            return self._memory(key, value)
        reader = _PLAIN.get(f"{block}/{key}") or _PLAIN.get(key if block not in _FOREIGN else "")
        if reader is not None:
            reader(self.gpu, value)
        elif _inside(path, _REASONS):
            self._reason(key, value)
        elif _inside(path, ("ecc errors",)):
            self._ecc(path, value)
        elif block == "ecc mode" and key in ("current", "current ecc"):
            self.ecc_mode = text_or_none(value)
        return False

    def finish(self) -> None:
        """What only all blocks together tell."""
        if self.ecc_mode is not None and on_off(self.ecc_mode) is False:
            self.gpu.ecc = "Off"
        elif self.total_ecc is not None or self.uncorrectable:
            self.gpu.ecc = str(self.total_ecc if self.total_ecc is not None else sum(self.uncorrectable))

    def _memory(self, key: str, value: str) -> bool:
        size = mebibytes(value)
        if key not in ("total", "used", "free", "reserved"):
            return False
        if size is None:
            self.gpu.memory_status = self.gpu.memory_status or word(value)
            self.gpu.status = self.gpu.status or trouble(value)
        setattr(self.gpu, f"memory_{key}_mib", size)
        return size is not None

    def _reason(self, key: str, value: str) -> None:
        for prefix in ("clocks event reason ", "clocks throttle reason ", "gpu "):
            key = key.removeprefix(prefix)
        if value.strip() == "Active" and key != "idle" and len(self.gpu.event_reasons) < 32:
            self.gpu.event_reasons.append(key)

    def _ecc(self, path: tuple[str, ...], value: str) -> None:
        if "volatile" not in path or "aggregate" in path:
            return
        count = whole(value)
        key = path[-1]
        if count is None:
            return
        if "uncorrectable" in key or "double bit" in path:
            if key == "total":
                self.total_ecc = count
            else:
                self.uncorrectable.append(count)


def plausible_memory(gpu: Gpu) -> None:
    """Take memory figures back that cannot all be true: used and free are parts of the total."""
    total = gpu.memory_total_mib
    parts = [part for part in (gpu.memory_used_mib, gpu.memory_free_mib, gpu.memory_reserved_mib) if part is not None]
    if total is not None and (total <= 0 or sum(parts) > total * 1.02 + 16):
        gpu.memory_total_mib = gpu.memory_used_mib = gpu.memory_free_mib = gpu.memory_reserved_mib = None


def _inside(path: tuple[str, ...], blocks: tuple[str, ...]) -> bool:
    return any(block in blocks for block in path[:-1])


_REASONS = ("clocks event reasons", "clocks throttle reasons")
#: Blocks whose keys repeat the names of others and mean another thing.
_FOREIGN = frozenset({"bar1 memory usage", "conf compute protected memory usage", "cc protected memory usage", "gpu utilization samples"})


def _setter(name: str, convert: Callable[[str], object]) -> Callable[[Gpu, str], None]:
    def put(gpu: Gpu, value: str) -> None:
        converted = convert(value)
        if converted is not None:
            setattr(gpu, name, converted)

    return put


def _first(name: str, convert: Callable[[str], object]) -> Callable[[Gpu, str], None]:
    def put(gpu: Gpu, value: str) -> None:
        if getattr(gpu, name) is None:
            setattr(gpu, name, convert(value))

    return put


def _utilization(gpu: Gpu, value: str) -> None:
    gpu.utilization_percent = amount(value, "%")
    gpu.status = gpu.status or trouble(value)


def _recovery(value: str) -> str | None:
    return None if word(value) not in (None, "None") else value.strip()


_power = _first("power_w", lambda value: amount(value, "W"))
_cap = _first("power_cap_w", lambda value: amount(value, "W"))

#: ``block/key`` or ``key``, in lower case, underscores as blanks: -q's words and the XML's element names meet here.
_PLAIN: dict[str, Callable[[Gpu, str], None]] = {
    "product name": _setter("name", text_or_none),
    "gpu uuid": _setter("uuid", text_or_none),
    "uuid": _setter("uuid", text_or_none),
    "pci/bus id": _setter("bus_id", text_or_none),
    "pci/pci bus id": _setter("bus_id", text_or_none),
    "display active": _setter("display_active", on_off),
    "persistence mode": _setter("persistence_mode", on_off),
    "mig mode/current": _setter("mig", on_off),
    "mig mode/current mig": _setter("mig", on_off),
    "driver model/current": _setter("driver_model", text_or_none),
    "driver model/current dm": _setter("driver_model", text_or_none),
    "fan speed": _setter("fan_percent", lambda value: amount(value, "%")),
    "performance state": _setter("performance_state", text_or_none),
    "compute mode": _setter("compute_mode", text_or_none),
    "utilization/gpu": _utilization,
    "utilization/gpu util": _utilization,
    "temperature/gpu current temp": _setter("temperature_c", lambda value: amount(value, "C")),
    "temperature/gpu temp": _setter("temperature_c", lambda value: amount(value, "C")),
    "power draw": _power,
    "average power draw": _power,
    "instantaneous power draw": _power,
    "instant power draw": _power,
    "enforced power limit": _cap,
    "current power limit": _cap,
    "gpu recovery action": _setter("recovery_action", _recovery),
    "gpu reset status/reset required": _setter("reset_required", on_off),
    "remapped rows/pending": _setter("remap_pending", on_off),
    "remapped rows/remapped row pending": _setter("remap_pending", on_off),
    "remapped rows/remapping failure occurred": _setter("remap_failed", on_off),
    "remapped rows/remapped row failure": _setter("remap_failed", on_off),
    "retired pages/pending page blacklist": _setter("retirement_pending", on_off),
    "retired pages/pending retirement": _setter("retirement_pending", on_off),
    "retired pages/pending blacklist": _setter("retirement_pending", on_off),
    "retired pages/pending": _setter("retirement_pending", on_off),
    "fabric/state": _setter("fabric_state", text_or_none),
    "fabric/status": _setter("fabric_status", text_or_none),
    "vgpu software licensed product/license status": _setter("license_status", text_or_none),
}
