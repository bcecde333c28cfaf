"""The cards and processes of a dump as rows of text, for inputs without a server's log: the content of the dump is then the report."""

from __future__ import annotations

from dataclasses import dataclass

from analyzer.model import Gpu, GpuSnapshot, Report
from analyzer.model.units import natural
from analyzer.report.messages import N_, Translate

#: Rows of one table.
ROWS = 64


@dataclass(frozen=True, slots=True)
class Table:
    """A title, the columns (the last ``numbers`` of them are amounts) and the rows."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: int = 0


def tables(report: Report, _: Translate) -> list[Table]:
    """Cards, slices and processes of the last dump with any; nothing where an engine's log is among the inputs."""
    snapshots = [snapshot for snapshot in report.gpu_snapshots if snapshot.gpus or snapshot.processes]
    if report.engine.name is not None or report.ledgers or not snapshots:
        return []
    last = snapshots[-1]
    found = []
    if last.gpus:
        columns = ("GPU", _(N_("name")), _(N_("notes")), _(N_("load")), _(N_("used MiB")), _(N_("total MiB")))
        found.append(Table(_(N_("GPUs in the last dump")), columns, tuple(_card(last, card, _) for card in last.gpus[:ROWS]), 3))
    if last.mig_devices:
        parts = ("GPU", "MIG", _(N_("used MiB")), _(N_("total MiB")))
        slices = tuple(
            (
                _plain(part.gpu),
                f"GI {_plain(part.gpu_instance)}" + ("" if part.compute_instance is None else f" CI {part.compute_instance}"),
                _size(part.memory_used_mib),
                _size(part.memory_total_mib),
            )
            for part in last.mig_devices[:ROWS]
        )
        found.append(Table(_(N_("MIG slices")), parts, slices, 2))
    if last.processes:
        names = ("GPU", "PID", _(N_("name")), _(N_("used MiB")))
        rows = tuple((_plain(row.gpu), _plain(row.pid), row.name or "", _size(row.used_mib)) for row in last.processes[:ROWS])
        found.append(Table(_(N_("Processes in the last dump")), names, rows, 1))
    return found


def _card(snapshot: GpuSnapshot, card: Gpu, _: Translate) -> tuple[str, ...]:
    load = "" if card.utilization_percent is None else f"{card.utilization_percent:g} %"
    total = _size(card.memory_total_mib) or _rounded(card.vram_total_gb) or card.memory_status or ""
    share = "" if card.memory_percent is None else f"{card.memory_percent:g} %"  # of a tool that prints no sizes
    used = _size(card.memory_used_mib) or _rounded(card.vram_used_gb) or share
    return (_plain(card.index), card.name or "", _notes(card, _), load, used, total)


def _rounded(size: float | None) -> str:
    """A size of amd-smi's with one decimal, in its own unit."""
    return "" if size is None else f"{size:g} GB"


def _notes(card: Gpu, _: Translate) -> str:
    """What is unusual about the card."""
    notes = []
    if card.status:
        notes.append(card.status)
    if card.ecc is not None and natural(card.ecc):
        notes.append(_(N_("{count} uncorrectable ECC errors")).format(count=card.ecc))
    if card.mig:
        notes.append("MIG")
    if card.display_active:
        notes.append(_(N_("display")))
    if card.compute_mode not in (None, "Default", "N/A"):
        notes.append(f"{card.compute_mode}")
    if card.recovery_action not in (None, "None", "N/A"):
        notes.append(f"{card.recovery_action}")
    if card.remap_pending or card.retirement_pending:
        notes.append(_(N_("row remap pending")))
    return ", ".join(notes)


def _plain(value: object) -> str:
    return "" if value is None else str(value)


def _size(mebibytes: float | None) -> str:
    return "" if mebibytes is None else f"{mebibytes:,.0f}"


#: Moments and processes of the table of memory over time; of more moments evenly spaced ones, of more processes the largest.
MOMENTS, PROCESSES = 24, 6


def over_time(snapshots: list[GpuSnapshot], _: Translate) -> Table | None:
    """Use of every card, and of the processes that held most, at every dump; None where there are fewer than two."""
    shown = [snapshot for snapshot in snapshots if snapshot.gpus or snapshot.processes]
    if len(shown) < 2:
        return None
    step = max(1, -(-len(shown) // MOMENTS))
    printed = [gpu for snapshot in shown for gpu in snapshot.gpus if gpu.memory_used_mib is not None]
    cards = sorted({gpu.index for gpu in printed if gpu.index is not None})
    peaks: dict[tuple[int | str | None, int | None, str | None], float] = {}
    for snapshot in shown:
        for row in snapshot.processes:
            if row.used_mib is not None:
                key = (row.gpu, row.pid, row.name)
                peaks[key] = max(peaks.get(key, 0.0), row.used_mib)
    largest = sorted(peaks, key=lambda key: -peaks[key])[:PROCESSES]
    if not cards and not largest:
        return None
    rows = []
    for snapshot in [*shown[:-1:step], shown[-1]]:
        used = {gpu.index: gpu.memory_used_mib for gpu in snapshot.gpus}
        held = {(row.gpu, row.pid, row.name): row.used_mib for row in snapshot.processes}
        moment = snapshot.time or f"{snapshot.source.input}:{snapshot.source.line}"
        rows.append((moment, *(_size(used.get(index)) for index in cards), *(_size(held.get(key)) for key in largest)))
    columns = [f"GPU {index}" for index in cards]
    columns += [f"{pid} {name or ''}".strip() + (f" (GPU {gpu})" if isinstance(gpu, int) else "") for gpu, pid, name in largest]
    return Table(_(N_("Memory over time (MiB used)")), (_(N_("time")), *columns), tuple(rows), len(columns))
