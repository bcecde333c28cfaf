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
    name_truncated: bool = False  # the tool cut the name: the model may be another of the same beginning
    status: str | None = None  # the word that stands where this card's figures should ("Unknown Error", "GPU is lost", "ERR!")
    memory_status: str | None = None  # the word that stands in place of the memory ("Not Supported" on unified memory, "N/A", …)
    memory_percent: float | None = None  # occupancy, where a tool prints no sizes (rocm-smi)
    vram_total_gb: float | None = None  # as amd-smi prints it, one decimal: too coarse for a ledger
    vram_used_gb: float | None = None
    fan_percent: float | None = None
    power_cap_w: float | None = None
    performance_state: str | None = None
    persistence_mode: bool | None = None
    driver_model: str | None = None  # WDDM, TCC, MCDM: Windows
    event_reasons: list[str] = field(default_factory=list)  # active clock event (throttle) reasons
    recovery_action: str | None = None  # what the driver wants done with the card ("Reset", "Reboot", …; "None" is its word for nothing)
    reset_required: bool | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    retirement_pending: bool | None = None  # retired pages that wait for a reset
    fabric_state: str | None = None
    fabric_status: str | None = None
    license_status: str | None = None  # of a vGPU guest
    compute_capability: str | None = None  # as printed: "8.9"


@dataclass(slots=True)
class MigDevice:
    """A slice of a card in MIG mode. Slices of one GPU instance share its memory: their totals must not be added."""

    gpu: int | None = None
    gpu_instance: int | None = None
    compute_instance: int | None = None
    device: int | None = None
    profile: str | None = None
    uuid: str | None = None
    memory_total_mib: float | None = None
    memory_used_mib: float | None = None
    memory_free_mib: float | None = None
    multiprocessors: int | None = None
    line: int | None = None


@dataclass(slots=True)
class VirtualGpu:
    """A guest's share of a card, as the hypervisor lists it."""

    gpu: int | None = None
    identifier: str | None = None
    name: str | None = None
    vm_name: str | None = None
    utilization_percent: float | None = None
    line: int | None = None


@dataclass(slots=True)
class GpuProcess:
    """One process on a card; ``type`` is C (compute), G (graphics) or C+G."""

    gpu: int | str | None = None  # the tool's index; the UUID or bus id where the dump names the card by that only
    pid: int | None = None
    name: str | None = None
    type: str | None = None
    used_mib: float | None = None
    gpu_instance: int | None = None
    line: int | None = None
    compute_instance: int | None = None
    name_truncated: bool = False
    name_status: str | None = None  # the word in place of the name ("Not Found": another PID namespace; "Insufficient Permissions")


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
    tool_version: str | None = None  # of nvidia-smi itself: under WSL another than the driver's
    mig_devices: list[MigDevice] = field(default_factory=list)
    vgpus: list[VirtualGpu] = field(default_factory=list)
    links: dict[str, str] = field(default_factory=dict)  # "0-1" -> NV12 | SYS | NODE | PHB | PXB | PIX; of topo -p2p OK | CNS | …
    process_table: bool | None = None  # a list of processes was printed (it may be empty); None where the dump does not reach that far
    columns_unknown: bool = False  # figures without header or units: what they mean is not in the input
    altered: bool = False  # the layout is not the tool's own: collapsed, cut or typed again; figures deserve a second look
