"""A ledger as a picture: stacked bars drawn as SVG, budget and total as marked lines, the basis told apart without relying on colour.

Only presentation attributes and classes are used, so that a strict Content-Security-Policy lets it through.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from analyzer.model import GpuSnapshot, Ledger
from analyzer.model.ledger import BUDGET_PARTS, DEVICE_PARTS, Basis, LedgerLine
from analyzer.model.units import gib
from analyzer.report import messages
from analyzer.report.messages import Translate

WIDTH, BAR, GAP, LEFT = 720, 34, 30, 4
_PARTS = ("weights", "draft_weights", "kv_cache", "state_cache", "cuda_graphs", "compute_buffers")
_PROCESS = ("torch_allocated", "reserved_unallocated", "process_non_torch")


def ledger_svg(ledger: Ledger, identifier: str, _: Translate) -> str:
    """The plan and the card of one GPU as two stacked bars on one scale. ``identifier`` keeps ids apart on one page."""
    total, budget = ledger.line("total"), ledger.line("budget")
    rows = [row for row in (_row(ledger, BUDGET_PARTS), _card_row(ledger)) if row]
    if not rows:
        return ""
    scale = max([sum(max(line.bytes, 0) for line in row) for row in rows] + [line.bytes for line in (total, budget) if line is not None])
    height = len(rows) * (BAR + GAP) + 26
    title = escape(_("Memory of GPU {index}").format(index=ledger.gpu if ledger.gpu is not None else "?"))
    parts = [
        f'<svg class="ledger" viewBox="0 0 {WIDTH} {height}" role="img" aria-labelledby="{identifier}-t" xmlns="http://www.w3.org/2000/svg">',
        f'<title id="{identifier}-t">{title}</title>',
        _patterns(identifier),
    ]
    for place, row in enumerate(rows):
        y = 20 + place * (BAR + GAP)
        x = float(LEFT)
        for line in row:
            size = max(line.bytes, 0) / scale * (WIDTH - 2 * LEFT)
            parts.append(_segment(line, x, y, size, identifier, _))
            x += size
    for mark in (budget, total):
        if mark is not None:
            line = mark
            x = LEFT + line.bytes / scale * (WIDTH - 2 * LEFT)
            anchor = "end" if x > WIDTH * 0.6 else "start"
            parts.append(f'<line class="mark-{line.name}" x1="{x:.1f}" x2="{x:.1f}" y1="14" y2="{height - 14}"/>')
            label = f"{_(messages.LINES[line.name])} {gib(line.bytes):.2f} GiB"
            y_text = 11 if line is budget else height - 3
            parts.append(f'<text class="mark" x="{x:.1f}" y="{y_text}" text-anchor="{anchor}">{escape(label)}</text>')
    parts.append("</svg>")
    return "".join(parts)


def memory_svg(snapshots: Sequence[GpuSnapshot], identifier: str, _: Translate) -> str:
    """Used memory of every card over the dumps, as lines; empty where there are fewer than two dumps."""
    courses: dict[int, list[tuple[int, float]]] = {}
    top = 0.0
    for place, snapshot in enumerate(snapshots):
        used: dict[int, float] = {}
        for gpu in snapshot.gpus:
            if isinstance(gpu.index, int):
                if gpu.memory_used_mib is not None:
                    used[gpu.index] = gpu.memory_used_mib
                top = max(top, gpu.memory_total_mib or 0)
        if not used:
            for process in snapshot.processes:
                if process.used_mib is not None:
                    key = process.gpu if isinstance(process.gpu, int) else 0
                    used[key] = used.get(key, 0.0) + process.used_mib
        for index, value in used.items():
            courses.setdefault(index, []).append((place, value))
            top = max(top, value)
    if len(snapshots) < 2 or not courses or top <= 0:
        return ""
    height, bottom = 180, 160
    step = (WIDTH - 60) / max(len(snapshots) - 1, 1)
    title = escape(_("Memory over time"))
    parts = [
        f'<svg class="memory" viewBox="0 0 {WIDTH} {height}" role="img" aria-labelledby="{identifier}-t" xmlns="http://www.w3.org/2000/svg">',
        f'<title id="{identifier}-t">{title}</title>',
        f'<line class="axis" x1="50" x2="{WIDTH - 10}" y1="{bottom}" y2="{bottom}"/><line class="axis" x1="50" x2="50" y1="10" y2="{bottom}"/>',
        f'<text class="mark" x="46" y="16" text-anchor="end">{top / 1024:.1f} GiB</text><text class="mark" x="46" y="{bottom}" text-anchor="end">0</text>',
    ]
    for place, (index, course) in enumerate(sorted(courses.items())):
        points = " ".join(f"{50 + at * step:.1f},{bottom - value / top * (bottom - 14):.1f}" for at, value in course)
        parts.append(f'<polyline class="course course-{place % 8}" points="{points}"><title>GPU {index}</title></polyline>')
        last = course[-1]
        parts.append(f'<text class="mark" x="{WIDTH - 8}" y="{bottom - last[1] / top * (bottom - 14) - 4:.1f}" text-anchor="end">GPU {index}</text>')
    for place in (0, len(snapshots) - 1):
        moment = snapshots[place].time or f"{snapshots[place].source.line}"
        anchor = "start" if place == 0 else "end"
        parts.append(f'<text class="mark" x="{50 + place * step:.1f}" y="{height - 4}" text-anchor="{anchor}">{escape(moment)}</text>')
    parts.append("</svg>")
    return "".join(parts)


def _row(ledger: Ledger, names: Sequence[str]) -> list[LedgerLine]:
    return [line for name in names if (line := ledger.line(name)) is not None and line.bytes > 0]


def _card_row(ledger: Ledger) -> list[LedgerLine]:
    """The card: the process by allocator where that is known, else as one, else its parts; then everybody else and what is free."""
    inside = _row(ledger, _PROCESS)
    process = ledger.line("process")
    own = inside if process is not None and len(inside) > 1 else _row(ledger, ("process",))
    rest = _row(ledger, [name for name in DEVICE_PARTS if name != "process"])
    if not own and not rest:
        return []
    return [*(own or _row(ledger, _PARTS)), *rest]


def _segment(line: LedgerLine, x: float, y: float, size: float, identifier: str, _: Translate) -> str:
    label = _(messages.LINES[line.name])
    basis = _(messages.BASIS[line.basis.value])
    hint = escape(f"{label}: {gib(line.bytes):.2f} GiB, {basis}")
    shape = f'<rect class="part part-{line.name}" x="{x:.1f}" y="{y}" width="{max(size, 0.5):.1f}" height="{BAR}"/>'
    if line.basis is not Basis.MEASURED:
        shape += f'<rect x="{x:.1f}" y="{y}" width="{max(size, 0.5):.1f}" height="{BAR}" fill="url(#{identifier}-{line.basis.value})"/>'
    text = ""
    if size > 7 * len(label) * 0.9:
        text = f'<text class="inside" x="{x + size / 2:.1f}" y="{y + BAR / 2 + 4:.1f}" text-anchor="middle">{escape(label)}</text>'
    group = f"<g><title>{hint}</title>{shape}{text}</g>"
    if line.source is not None:
        return f'<a href="#L{line.source.line}">{group}</a>'
    return group


def _patterns(identifier: str) -> str:
    return (
        f'<defs><pattern id="{identifier}-derived" width="8" height="8" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        '<line class="hatch" x1="0" x2="0" y1="0" y2="8"/></pattern>'
        f'<pattern id="{identifier}-estimated" width="8" height="8" patternUnits="userSpaceOnUse"><circle class="dot" cx="2" cy="2" r="1.4"/></pattern></defs>'
    )
