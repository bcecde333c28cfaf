"""The report as JSON (schema vramledger/report/1): the shapes, the JSON Schema made from them, and the way there.

The TypedDicts are the contract. Fields may be added, never renamed or removed within version 1. Bytes are integers;
what is not known is null or absent, never 0.
"""

from __future__ import annotations

import json
from typing import Any, NotRequired

from typing_extensions import TypedDict  # pydantic takes typing's own only from Python 3.12 on

from analyzer.model.facts import Fact, Series, Source, Value
from analyzer.model.finding import Change, EnvChange, Finding, Fix, FlagChange, OptionChange, Window
from analyzer.model.gpu import Gpu, GpuProcess, GpuSnapshot, MigDevice, VirtualGpu
from analyzer.model.ledger import Ledger, LedgerLine
from analyzer.model.report import SCHEMA, AttemptInfo, InputInfo, Report, TimelineStep
from analyzer.model.text import Text
from analyzer.model.units import BYTES_PER


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


def dumps(report: Report, language: str, indent: int | None) -> str:
    """``report`` as JSON text in ``language``."""
    separators = (",", ":") if indent is None else None
    return json.dumps(report_json(report, language), ensure_ascii=False, indent=indent, separators=separators)


def report_json(report: Report, language: str) -> ReportJson:
    """``report`` in the contract's shape."""
    return {
        "schema": SCHEMA,
        "inputs": [_input(info) for info in report.inputs],
        "engine": {
            "name": report.engine.name,
            "version": report.engine.version,
            "version_range": report.engine.version_range,
            "generation": report.engine.generation,
        },
        "settings": {flag: {"value": setting.value, "source": _source(setting.source)} for flag, setting in report.settings.items()},
        "attempts": [_attempt(attempt) for attempt in report.attempts],
        "outcome": {
            "state": report.outcome.state.value,
            "stage": report.outcome.stage,
            "cause": report.outcome.cause,
            "confidence": report.outcome.confidence.value,
        },
        "facts": [_fact(fact) for fact in report.facts],
        "series": [_series(series) for series in report.series],
        "gpu_snapshots": [_snapshot(snapshot) for snapshot in report.gpu_snapshots],
        "ledgers": [_ledger(ledger) for ledger in report.ledgers],
        "earlier": [_ledger(ledger) for ledger in report.earlier],
        "findings": [_finding(finding, language) for finding in report.findings],
        "command": report.command,
        "library": report.library,
        "fingerprint": report.fingerprint,
        "timeline": [_step(step) for step in report.timeline],
    }


def _source(source: Source) -> SourceJson:
    return {"input": source.input, "line": source.line, "text": source.text}


def _input(info: InputInfo) -> InputJson:
    segments: list[SegmentJson] = [
        {"kind": s.kind, "engine": s.engine, "first_line": s.first_line, "last_line": s.last_line} for s in info.segments
    ]
    return {
        "name": info.name,
        "bytes": info.bytes,
        "lines": info.lines,
        "truncated": info.truncated,
        "skipped_bytes": info.skipped_bytes,
        "segments": segments,
    }


def _attempt(attempt: AttemptInfo) -> AttemptJson:
    return {
        "index": attempt.index,
        "input": attempt.input,
        "state": attempt.state.value,
        "stage": attempt.stage,
        "cause": attempt.cause,
        "first_line": attempt.first_line,
        "last_line": attempt.last_line,
        "count": attempt.count,
    }


def _fact(fact: Fact) -> FactJson:
    shape: FactJson = {
        "name": fact.name,
        "value": fact.value,
        "unit": fact.unit,
        "attempt": fact.attempt,
        "rank": fact.rank,
        "gpu": fact.gpu,
        "pid": fact.pid,
        "time": fact.time,
        "source": _source(fact.source),
        "pattern": fact.pattern,
    }
    if fact.unit in BYTES_PER and fact.bytes is not None:
        shape["bytes"] = fact.bytes
    return shape


def _series(series: Series) -> SeriesJson:
    points = [[time, value] for time, value in series.points]
    return {"name": series.name, "unit": series.unit, "rank": series.rank, "count": series.count, "points": points}


def _gpu(gpu: Gpu) -> GpuJson:
    return {
        "index": gpu.index,
        "name": gpu.name,
        "uuid": gpu.uuid,
        "bus_id": gpu.bus_id,
        "memory_total_mib": gpu.memory_total_mib,
        "memory_used_mib": gpu.memory_used_mib,
        "memory_free_mib": gpu.memory_free_mib,
        "memory_reserved_mib": gpu.memory_reserved_mib,
        "utilization_percent": gpu.utilization_percent,
        "temperature_c": gpu.temperature_c,
        "power_w": gpu.power_w,
        "ecc": gpu.ecc,
        "mig": gpu.mig,
        "display_active": gpu.display_active,
        "compute_mode": gpu.compute_mode,
        "name_truncated": gpu.name_truncated,
        "status": gpu.status,
        "memory_status": gpu.memory_status,
        "memory_percent": gpu.memory_percent,
        "vram_total_gb": gpu.vram_total_gb,
        "vram_used_gb": gpu.vram_used_gb,
        "fan_percent": gpu.fan_percent,
        "power_cap_w": gpu.power_cap_w,
        "performance_state": gpu.performance_state,
        "persistence_mode": gpu.persistence_mode,
        "driver_model": gpu.driver_model,
        "event_reasons": list(gpu.event_reasons),
        "recovery_action": gpu.recovery_action,
        "reset_required": gpu.reset_required,
        "remap_pending": gpu.remap_pending,
        "remap_failed": gpu.remap_failed,
        "retirement_pending": gpu.retirement_pending,
        "fabric_state": gpu.fabric_state,
        "fabric_status": gpu.fabric_status,
        "license_status": gpu.license_status,
        "compute_capability": gpu.compute_capability,
    }


def _process(process: GpuProcess) -> GpuProcessJson:
    return {
        "gpu": process.gpu,
        "pid": process.pid,
        "name": process.name,
        "type": process.type,
        "used_mib": process.used_mib,
        "gpu_instance": process.gpu_instance,
        "compute_instance": process.compute_instance,
        "name_truncated": process.name_truncated,
        "name_status": process.name_status,
    }


def _mig(device: MigDevice) -> MigDeviceJson:
    return {
        "gpu": device.gpu,
        "gpu_instance": device.gpu_instance,
        "compute_instance": device.compute_instance,
        "device": device.device,
        "profile": device.profile,
        "uuid": device.uuid,
        "memory_total_mib": device.memory_total_mib,
        "memory_used_mib": device.memory_used_mib,
        "memory_free_mib": device.memory_free_mib,
        "multiprocessors": device.multiprocessors,
    }


def _virtual(guest: VirtualGpu) -> VirtualGpuJson:
    return {
        "gpu": guest.gpu,
        "identifier": guest.identifier,
        "name": guest.name,
        "vm_name": guest.vm_name,
        "utilization_percent": guest.utilization_percent,
    }


def _snapshot(snapshot: GpuSnapshot) -> GpuSnapshotJson:
    return {
        "source": _source(snapshot.source),
        "time": snapshot.time,
        "driver": snapshot.driver,
        "cuda": snapshot.cuda,
        "tool": snapshot.tool,
        "gpus": [_gpu(gpu) for gpu in snapshot.gpus],
        "processes": [_process(process) for process in snapshot.processes],
        "error": snapshot.error,
        "tool_version": snapshot.tool_version,
        "mig_devices": [_mig(device) for device in snapshot.mig_devices],
        "vgpus": [_virtual(guest) for guest in snapshot.vgpus],
        "links": dict(snapshot.links),
        "process_table": snapshot.process_table,
        "columns_unknown": snapshot.columns_unknown,
        "altered": snapshot.altered,
    }


def ledger_line_json(line: LedgerLine) -> LedgerLineJson:
    """One ledger line in the contract's shape."""
    shape: LedgerLineJson = {"name": line.name, "bytes": line.bytes, "basis": line.basis.value}
    if line.formula is not None:
        shape["formula"] = line.formula
    if line.source is not None:
        shape["source"] = _source(line.source)
    return shape


def _ledger(ledger: Ledger) -> LedgerJson:
    return {
        "attempt": ledger.attempt,
        "gpu": ledger.gpu,
        "rank": ledger.rank,
        "moment": ledger.moment,
        "lines": [ledger_line_json(line) for line in ledger.lines],
    }


def _change(change: Change, language: str) -> ChangeJson:
    if isinstance(change, FlagChange):
        return {"flag": change.flag, "from": change.before, "to": change.to}
    if isinstance(change, EnvChange):
        return {"env": change.env, "to": change.to}
    if isinstance(change, OptionChange):
        return {"option": change.option, "of": change.of, "to": change.to}
    return {"action": change.action.get(language)}


def _fix(fix: Fix, language: str) -> FixJson:
    predicted: PredictedJson | None = None
    if fix.predicted is not None:
        predicted = {"lines": [ledger_line_json(line) for line in fix.predicted.lines]}
    return {
        "title": fix.title.get(language),
        "changes": [_change(change, language) for change in fix.changes],
        "why": fix.why.get(language),
        "cost": _words(fix.cost, language),
        "predicted": predicted,
        "versions": fix.versions,
        "verified": fix.verified,
    }


def _words(text: Text | None, language: str) -> str | None:
    return None if text is None else text.get(language)


def _finding(finding: Finding, language: str) -> FindingJson:
    return {
        "cause": finding.cause,
        "severity": finding.severity.value,
        "confidence": finding.confidence.value,
        "root": finding.root,
        "consequence_of": finding.consequence_of,
        "stage": finding.stage,
        "title": finding.title.get(language),
        "explanation": finding.explanation.get(language),
        "evidence": [_source(source) for source in finding.evidence],
        "needs": [need.get(language) for need in finding.needs],
        "not_this": [{"advice": item.advice, "why": item.why.get(language)} for item in finding.not_this],
        "fixes": [_fix(fix, language) for fix in finding.fixes],
        "pattern": finding.pattern,
        "docs": finding.docs,
        "window": _window(finding.window, language),
    }


def _window(window: Window | None, language: str) -> WindowJson | None:
    if window is None:
        return None
    return {
        "flag": window.flag,
        "low": window.low,
        "high": window.high,
        "limit": window.limit,
        "feasible": window.feasible,
        "opens": window.opens,
        "verified": window.verified,
        "text": window.text.get(language),
    }


def _step(step: TimelineStep) -> TimelineStepJson:
    return {
        "name": step.name,
        "seconds": step.seconds,
        "stated": step.stated,
        "slowest": step.slowest,
        "within": step.within,
        "start": step.start,
        "source": _source(step.source),
    }
