"""The report as JSON (schema vramledger/report/1): the shapes, and the JSON Schema made from them.

The TypedDicts are the contract. Fields may be added, never renamed or removed within version 1. Bytes are integers;
what is not known is null or absent, never 0.
"""

from __future__ import annotations

from typing import Any, NotRequired

from typing_extensions import TypedDict  # pydantic takes typing's own only from Python 3.12 on

from analyzer.model.facts import Value
from analyzer.model.report import SCHEMA


class SourceJson(TypedDict):
    input: str
    line: int
    text: NotRequired[str]


class SegmentJson(TypedDict):
    kind: str
    engine: str | None
    first_line: int
    last_line: int


class InputJson(TypedDict):
    name: str
    bytes: int
    lines: int
    truncated: bool
    skipped_bytes: int
    segments: list[SegmentJson]


class EngineJson(TypedDict):
    name: str | None
    version: str | None
    version_range: str | None
    generation: str | None


class SettingJson(TypedDict):
    value: Value | None
    source: SourceJson


class AttemptJson(TypedDict):
    index: int
    input: str
    state: str
    stage: str | None
    cause: str | None
    first_line: int
    last_line: int
    count: int


class OutcomeJson(TypedDict):
    state: str
    stage: str | None
    cause: str | None
    confidence: str


class FactJson(TypedDict):
    name: str
    value: Value
    unit: str
    bytes: NotRequired[int]
    attempt: int
    rank: int | None
    gpu: int | None
    pid: int | None
    time: str | None
    source: SourceJson
    pattern: str | None


class SeriesJson(TypedDict):
    name: str
    unit: str
    rank: int | None
    count: int
    points: list[list[Any]]


class GpuJson(TypedDict):
    index: int | None
    name: str | None
    uuid: str | None
    bus_id: str | None
    memory_total_mib: float | None
    memory_used_mib: float | None
    memory_free_mib: float | None
    memory_reserved_mib: float | None
    utilization_percent: float | None
    temperature_c: float | None
    power_w: float | None
    ecc: str | None
    mig: bool | None
    display_active: bool | None
    compute_mode: str | None
    name_truncated: bool
    status: str | None
    memory_status: str | None
    memory_percent: float | None
    vram_total_gb: float | None
    vram_used_gb: float | None
    fan_percent: float | None
    power_cap_w: float | None
    performance_state: str | None
    persistence_mode: bool | None
    driver_model: str | None
    event_reasons: list[str]
    recovery_action: str | None
    reset_required: bool | None
    remap_pending: bool | None
    remap_failed: bool | None
    retirement_pending: bool | None
    fabric_state: str | None
    fabric_status: str | None
    license_status: str | None
    compute_capability: str | None


class MigDeviceJson(TypedDict):
    gpu: int | None
    gpu_instance: int | None
    compute_instance: int | None
    device: int | None
    profile: str | None
    uuid: str | None
    memory_total_mib: float | None
    memory_used_mib: float | None
    memory_free_mib: float | None
    multiprocessors: int | None


class VirtualGpuJson(TypedDict):
    gpu: int | None
    identifier: str | None
    name: str | None
    vm_name: str | None
    utilization_percent: float | None


class GpuProcessJson(TypedDict):
    gpu: int | str | None
    pid: int | None
    name: str | None
    type: str | None
    used_mib: float | None
    gpu_instance: int | None
    compute_instance: int | None
    name_truncated: bool
    name_status: str | None


class GpuSnapshotJson(TypedDict):
    source: SourceJson
    time: str | None
    driver: str | None
    cuda: str | None
    tool: str
    gpus: list[GpuJson]
    processes: list[GpuProcessJson]
    error: str | None
    tool_version: str | None
    mig_devices: list[MigDeviceJson]
    vgpus: list[VirtualGpuJson]
    links: dict[str, str]
    process_table: bool | None
    columns_unknown: bool
    altered: bool


class LedgerLineJson(TypedDict):
    name: str
    bytes: int
    basis: str
    formula: NotRequired[str]
    source: NotRequired[SourceJson]


class LedgerJson(TypedDict):
    attempt: int
    gpu: int | None
    rank: int | None
    moment: str | None
    lines: list[LedgerLineJson]


ChangeJson = TypedDict(
    "ChangeJson",
    {
        "flag": NotRequired[str],
        "from": NotRequired[Value | None],
        "to": NotRequired[Value | None],
        "env": NotRequired[str],
        "option": NotRequired[str],
        "of": NotRequired[str],
        "action": NotRequired[str],
    },
)


class PredictedJson(TypedDict):
    lines: list[LedgerLineJson]


class FixJson(TypedDict):
    title: str
    changes: list[ChangeJson]
    why: str
    cost: str | None
    predicted: PredictedJson | None
    versions: str | None
    verified: bool


class NotThisJson(TypedDict):
    advice: str
    why: str


class WindowJson(TypedDict):
    flag: str
    low: float | int | None
    high: float | int | None
    limit: str | None
    feasible: bool
    opens: str | None
    verified: bool
    text: str


class FindingJson(TypedDict):
    cause: str | None
    severity: str
    confidence: str
    root: bool
    consequence_of: str | None
    stage: str | None
    title: str
    explanation: str
    evidence: list[SourceJson]
    needs: list[str]
    not_this: list[NotThisJson]
    fixes: list[FixJson]
    pattern: str | None
    docs: str | None
    window: WindowJson | None


class TimelineStepJson(TypedDict):
    name: str
    seconds: float
    stated: bool
    slowest: bool
    within: str | None
    start: str | None
    source: SourceJson


class ReportJson(TypedDict):
    schema: str
    inputs: list[InputJson]
    engine: EngineJson
    settings: dict[str, SettingJson]
    attempts: list[AttemptJson]
    outcome: OutcomeJson
    facts: list[FactJson]
    series: list[SeriesJson]
    gpu_snapshots: list[GpuSnapshotJson]
    ledgers: list[LedgerJson]
    earlier: list[LedgerJson]
    findings: list[FindingJson]
    command: str | None
    library: str
    fingerprint: str | None
    timeline: list[TimelineStepJson]


def json_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of a report."""
    from pydantic import TypeAdapter

    schema = TypeAdapter(ReportJson).json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = SCHEMA
    schema["properties"]["schema"] = {"const": SCHEMA}
    return schema
