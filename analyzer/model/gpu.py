"""What a dump of nvidia-smi (or a sibling) says of the cards at one moment. Unavailable is None, never 0."""

from __future__ import annotations

from dataclasses import dataclass, field

from analyzer.model.facts import Source


@dataclass(slots=True)
class Gpu:
    """One card. Sizes in MiB, as nvidia-smi counts (its MiB are 2**20 bytes)."""

    index: int | None = None
    name: str | None = None
    uuid: str | None = None
    bus_id: str | None = None
    memory_total_mib: float | None = None
    memory_used_mib: float | None = None
    memory_free_mib: float | None = None
    memory_reserved_mib: float | None = None
    utilization_percent: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    ecc: str | None = None  # the ECC column as printed: a count of volatile uncorrectable errors, "Off", …
    mig: bool | None = None
    display_active: bool | None = None
    compute_mode: str | None = None
    line: int | None = None  # where this card's row begins in the input


@dataclass(slots=True)
class GpuProcess:
    """One process on a card; ``type`` is C (compute), G (graphics) or C+G."""

    gpu: int | None = None
    pid: int | None = None
    name: str | None = None
    type: str | None = None
    used_mib: float | None = None
    gpu_instance: int | None = None
    line: int | None = None


@dataclass(slots=True)
class GpuSnapshot:
    """All that one dump says, at one moment."""

    source: Source
    time: str | None = None
    driver: str | None = None
    cuda: str | None = None
    tool: str = "nvidia-smi"
    gpus: list[Gpu] = field(default_factory=list)
    processes: list[GpuProcess] = field(default_factory=list)
    error: str | None = None  # the tool's own error text, where it printed one
