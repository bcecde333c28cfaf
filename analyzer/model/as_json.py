"""A report on its way into the shapes of contract.py. What is not known is null or absent there, never 0."""

from __future__ import annotations

import json

from analyzer.model.contract import (
    AttemptJson,
    ChangeJson,
    FactJson,
    FindingJson,
    FixJson,
    GpuJson,
    GpuProcessJson,
    GpuSnapshotJson,
    InputJson,
    LedgerJson,
    LedgerLineJson,
    MigDeviceJson,
    PredictedJson,
    ReportJson,
    SegmentJson,
    SeriesJson,
    SourceJson,
    TimelineStepJson,
    VirtualGpuJson,
    WindowJson,
)
from analyzer.model.facts import Fact, Series, Source
from analyzer.model.finding import Change, EnvChange, Finding, Fix, FlagChange, OptionChange, Window
from analyzer.model.gpu import Gpu, GpuProcess, GpuSnapshot, MigDevice, VirtualGpu
from analyzer.model.ledger import Ledger, LedgerLine
from analyzer.model.report import SCHEMA, AttemptInfo, InputInfo, Report, TimelineStep
from analyzer.model.text import Text
from analyzer.model.units import BYTES_PER


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
        "not_this": [{"advice": item.advice.get(language), "why": item.why.get(language)} for item in finding.not_this],
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
