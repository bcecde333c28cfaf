"""Ledgers as pictures: stacked bars drawn as SVG, budget and total as marked lines, the basis told apart without relying on colour.

Places and widths are percentages, so that a picture follows its page while its letters keep their size; a label is shown where the page
is wide enough for it (classes ``fit-…``, report.css). Only presentation attributes and classes: a strict Content-Security-Policy lets
it through.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from analyzer.model import Ledger, Source
from analyzer.model.ledger import BUDGET_PARTS, DEVICE_PARTS, Basis, LedgerLine
from analyzer.model.units import gib
from analyzer.report import messages
from analyzer.report.layout import width
from analyzer.report.messages import N_, Translate

#: Where a line of an input is on the page: ``#L25``.
Anchor = Callable[[Source], str]

_PARTS = ("weights", "draft_weights", "kv_cache", "state_cache", "cuda_graphs", "compute_buffers")
_PROCESS = ("torch_allocated", "reserved_unallocated", "process_non_torch")
#: Widths of the picture from which on a label may be shown; report.css has a rule for each.
_FITS = (280, 360, 440, 540, 660, 800, 940)
_LETTER = 7.2  # pixels of a letter of a label


@dataclass(frozen=True, slots=True)
class _Row:
    name: str
    parts: tuple[LedgerLine, ...]
    marks: tuple[LedgerLine, ...] = ()  # of this row alone


def ledger_svg(ledger: Ledger, identifier: str, _: Translate, anchor: Anchor | None = None) -> str:
    """The plan and the card of one GPU as two stacked bars on one scale; empty where nothing is known. ``identifier``: unique on a page."""
    total, budget = ledger.line("total"), ledger.line("budget")
    plan, card = _known(ledger, BUDGET_PARTS), _card(ledger)
    rows = [_Row(_(name), parts) for name, parts in ((N_("as planned"), plan), (N_("on the card"), card)) if parts]
    if not rows:
        if total is None or budget is None:
            return ""
        rows = [_Row(_("as planned"), ())]
    title = _("Memory of GPU {index}").format(index=ledger.gpu if ledger.gpu is not None else "?")
    return _picture(rows, [line for line in (budget, total) if line is not None], identifier, title, 44, _, anchor)


def change_svg(before: Ledger, after: Ledger, identifier: str, _: Translate, names: tuple[str, str] | None = None) -> str:
    """Two plans, one above the other on one scale; empty where either is not known. ``names``: of the two, else "now" and "then"."""
    first, second = names or (_(N_("now")), _(N_("then")))
    rows = [_plan(first, before, _), _plan(second, after, _)]
    if not all(row.parts for row in rows):
        return ""
    return _picture(rows, [], identifier, _("Memory before and after the change"), 26, _, None)


def _plan(name: str, ledger: Ledger, _: Translate) -> _Row:
    marks = tuple(line for line in (ledger.line("budget"), ledger.line("total")) if line is not None)
    words = [name, *(f"{_(messages.LINES[line.name])} {gib(line.bytes):.2f} GiB" for line in marks)]
    return _Row(" · ".join(words), _known(ledger, BUDGET_PARTS), marks)


def has_basis(ledger: Ledger, basis: Basis) -> bool:
    """Whether a part of the picture rests on ``basis``: its pattern then needs a key."""
    return any(line.basis is basis for line in (*_known(ledger, BUDGET_PARTS), *_card(ledger)))


def swatch(name: str) -> str:
    """A small square in the colour of the part ``name``, for a table."""
    square = f'<rect class="part part-{escape(name)}" width="12" height="12"/>'
    return f'<svg class="swatch" width="12" height="12" aria-hidden="true">{square}</svg>'


def basis_key(basis: str, identifier: str) -> str:
    """A small picture of the pattern that stands for ``basis``."""
    drawn = '<rect class="part part-unaccounted" width="26" height="14"/>'
    if basis != Basis.MEASURED:
        drawn += f'<rect width="26" height="14" fill="url(#{identifier}-{escape(basis)})"/>'
    return f'<svg class="swatch" width="26" height="14" aria-hidden="true">{drawn}</svg>'


def _picture(
    rows: Sequence[_Row], marks: Sequence[LedgerLine], identifier: str, title: str, bar: int, _: Translate, anchor: Anchor | None
) -> str:
    lines = [*marks, *(line for row in rows for line in row.marks)]
    scale = max([sum(max(line.bytes, 0) for line in row.parts) for row in rows] + [line.bytes for line in lines] + [1])
    step, top = bar + 24, 36 if marks else 20
    height = top + len(rows) * step - 24 + (24 if marks else 8)
    out = [
        f'<svg class="ledger" width="100%" height="{height}" role="group" aria-labelledby="{identifier}-t" xmlns="http://www.w3.org/2000/svg">',
        f'<title id="{identifier}-t">{escape(title)}</title>',
        _patterns(identifier),
    ]
    for place, row in enumerate(rows):
        y = top + place * step
        out.append(f'<rect class="frame" x="0" y="{y}" width="100%" height="{bar}"/>')
        out.append(f'<text class="mark" x="0" y="{y - 6}">{escape(row.name)}</text>')
        x = 0.0
        for line in row.parts:
            share = max(line.bytes, 0) / scale
            out.append(_segment(line, x * 100, y, share, bar, identifier, _, anchor))
            x += share
        for line in row.marks:
            at = min(line.bytes / scale, 1.0) * 100
            out.append(f'<line class="line mark-{line.name}" x1="{at:.2f}%" x2="{at:.2f}%" y1="{y - 3}" y2="{y + bar + 3}"/>')
    bottom = top + len(rows) * step - 24
    for line in marks:
        at = min(line.bytes / scale, 1.0) * 100
        upper = line.name == "budget"
        label = f"{_(messages.LINES[line.name])} {gib(line.bytes):.2f} GiB"
        end = "end" if at > 45 else "start"
        y1, y2 = (14, bottom + 4) if upper else (top - 4, bottom + 6)
        out.append(f'<line class="line mark-{line.name}" x1="{at:.2f}%" x2="{at:.2f}%" y1="{y1}" y2="{y2}"/>')
        out.append(f'<text class="mark" x="{at:.2f}%" y="{11 if upper else height - 4}" text-anchor="{end}">{escape(label)}</text>')
    out.append("</svg>")
    return "".join(out)


def _segment(line: LedgerLine, x: float, y: int, share: float, bar: int, identifier: str, _: Translate, anchor: Anchor | None) -> str:
    name, size = _(messages.LINES[line.name]), f"{gib(line.bytes):.2f}"
    said = escape(f"{name}: {size} GiB, {_(messages.BASIS[line.basis.value])}", quote=True)
    inside = f'<rect class="part part-{line.name}" width="100%" height="100%"/>'
    if line.basis is not Basis.MEASURED:
        inside += f'<rect width="100%" height="100%" fill="url(#{identifier}-{line.basis.value})"/>'
    if bar > 30:
        inside += _label(name, share, 18, "inside name") + _label(size, share, 34, "inside")
    else:
        inside += _label(f"{name} {size}", share, 17, "inside")
    drawn = f'<svg x="{x:.3f}%" y="{y}" width="{max(share * 100, 0.15):.3f}%" height="{bar}"><title>{said}</title>{inside}</svg>'
    if line.source is not None and anchor is not None:
        return f'<a href="{escape(anchor(line.source), quote=True)}" aria-label="{said}">{drawn}</a>'
    return drawn


def _label(text: str, share: float, y: int, classes: str) -> str:
    needed = (width(text) * _LETTER + 12) / share if share > 0 else float("inf")
    fit = next((size for size in _FITS if size >= needed), None)
    return f'<text class="{classes} fit fit-{fit}" x="6" y="{y}">{escape(text)}</text>' if fit is not None else ""


def _known(ledger: Ledger, names: Sequence[str]) -> tuple[LedgerLine, ...]:
    return tuple(line for name in names if (line := ledger.line(name)) is not None and line.bytes > 0)


def _card(ledger: Ledger) -> tuple[LedgerLine, ...]:
    """The card: the process by allocator where that is known, else as one, else its parts; then everybody else and what is free."""
    inside = _known(ledger, _PROCESS)
    process = ledger.line("process")
    own = inside if process is not None and len(inside) > 1 else _known(ledger, ("process",))
    rest = _known(ledger, [name for name in DEVICE_PARTS if name != "process"])
    if not own and not rest:
        return ()
    return (*(own or _known(ledger, _PARTS)), *rest)


def _patterns(identifier: str) -> str:
    return (
        f'<defs><pattern id="{identifier}-derived" width="8" height="8" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        '<line class="hatch" x1="0" x2="0" y1="0" y2="8"/></pattern>'
        f'<pattern id="{identifier}-estimated" width="8" height="8" patternUnits="userSpaceOnUse">'
        '<circle class="dot" cx="3" cy="3" r="1.6"/></pattern></defs>'
    )
