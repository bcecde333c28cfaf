"""The ledger as a PNG: the report's own SVG, a legend that needs no pointer, and a font of our own, so that every machine draws the same.

The font is analyzer/slack/font/ledger.otf: Noto Sans CJK SC cut down to ``characters()`` (tools/picture_font.py).
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from defusedxml.ElementTree import fromstring

from analyzer.model.ledger import PROCESS_PARTS
from analyzer.model.text import LANGUAGES
from analyzer.model.units import gib
from analyzer.report import common, messages
from analyzer.report.messages import N_, Translate, translator
from analyzer.report.svg import ledger_svg

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from analyzer.model import Ledger, Report

FONT = Path(__file__).parent / "font" / "ledger.otf"
_FAMILY = "Noto Sans CJK SC"
#: The report's colours on white (analyzer/report/static/report.css), in the CSS that a renderer without variables understands.
_STYLE = f"""
text {{ font-family: "{_FAMILY}"; font-size: 12px; fill: #1b1f24; }}
text.title {{ font-size: 15px; }}
text.soft, text.mark {{ fill: #57606a; }}
text.inside {{ fill: #ffffff; }} text.on-light {{ fill: #1b1f24; }}
.part {{ fill: #b07aa1; stroke: #ffffff; stroke-width: 1; }}
.part-weights, .part-draft_weights, .part-torch_allocated {{ fill: #4c78a8; }}
.part-kv_cache, .part-state_cache {{ fill: #59a14f; }}
.part-activation_peak, .part-compute_buffers, .part-reserved_unallocated {{ fill: #f28e2b; }}
.part-cuda_graphs_reserved, .part-cuda_graphs {{ fill: #edc948; }}
.part-other_processes {{ fill: #e15759; }} .part-free {{ fill: #e5e8eb; }} .part-unaccounted {{ fill: #9da7b3; }}
.frame {{ fill: none; stroke: #d0d7de; }}
.hatch {{ stroke: #ffffff; stroke-width: 3; opacity: .55; }} .dot {{ fill: #ffffff; opacity: .7; }}
.mark-budget {{ stroke: #9a6700; stroke-width: 2; }} .mark-total {{ stroke: #1b1f24; stroke-width: 1.5; stroke-dasharray: 4 3; }}
"""
#: Parts on which white letters cannot be read.
_LIGHT = frozenset({"part-free", "part-cuda_graphs", "part-cuda_graphs_reserved"})
WIDTH = 720
#: Ledgers on one picture; a chat shows it some 360 to 700 points wide.
_SHOWN = 2
#: Pixels a unit of the drawing: sharp enough on screens of twice the density, drawn in a seventh of a second.
ZOOM = 1.5
_HEAD, _ROW, _COLUMNS, _MARGIN, _SWATCH, _AMOUNT = 26, 20, 3, 14, 11, 165
#: Lines that the bars show as marks, not as parts.
_MARKS = ("total", "budget")


def ledger_png(report: Report, language: str) -> bytes | None:
    """The picture of the ledgers that tell most, at most two; None where there is nothing to draw."""
    drawn = _svg(report, language)
    if drawn is None:
        return None
    import resvg_py

    return resvg_py.svg_to_bytes(
        svg_string=drawn,
        skip_system_fonts=True,
        font_files=[str(FONT)],
        font_family=_FAMILY,
        sans_serif_family=_FAMILY,
        zoom=ZOOM,
        background="#ffffff",
    )


def characters() -> frozenset[str]:
    """Every character that a picture can hold."""
    found = {chr(code) for code in range(0x20, 0x7F)} | {"·"}
    for language in LANGUAGES:
        _ = translator(language)
        for words in (*messages.LINES.values(), *messages.BASIS.values(), *_TITLES):
            found |= set(_(words))
    return frozenset(found)


_TITLES = (
    N_("GPU {index}"),
    N_("GPU"),
    N_("at the failure"),
    N_("when ready"),
    N_("as far as the inputs tell"),
    N_("as planned"),
    N_("on the card"),
)


def _svg(report: Report, language: str) -> str | None:
    _ = translator(language)
    parts: list[str] = []
    y = _MARGIN
    for place, (ledger, alike) in enumerate(common.shown_ledgers(report)[:_SHOWN]):
        bars = ledger_svg(ledger, f"ledger{place}", _)
        if not bars:
            continue
        parts.append(f'<text class="title" x="{_MARGIN}" y="{y + 14}">{escape(_title(report, ledger, alike, _))}</text>')
        y += _HEAD
        drawn, height = _fixed(bars)
        parts.append(f'<g transform="translate({_MARGIN} {y})">{drawn}</g>')
        y += height + 10
        legend, rows = _legend(ledger, y, _)
        parts += legend
        y += rows * _ROW + _MARGIN
    if not parts:
        return None
    full = WIDTH + 2 * _MARGIN
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{full}" height="{y}" viewBox="0 0 {full} {y}"><style>{_STYLE}</style>'
    return "".join([head, *parts, "</svg>"])


def _fixed(bars: str) -> tuple[str, int]:
    """The report's drawing, which follows its page in percentages, at this picture's width; and its height.

    Labels that need a wider page are left out, and those on light parts are dark, as the page's style sheet has it.
    """
    root = fromstring(bars)
    height = int(root.attrib["height"])
    _absolute(root, WIDTH, height)
    ElementTree.register_namespace("", "http://www.w3.org/2000/svg")
    return ElementTree.tostring(root, encoding="unicode"), height


def _absolute(element: Element, width: float, height: float) -> None:
    for name, whole in (("x", width), ("x1", width), ("x2", width), ("width", width), ("y", height), ("height", height)):
        value = element.get(name, "")
        if value.endswith("%"):
            element.set(name, f"{float(value[:-1]) / 100 * whole:.2f}")
    if element.tag.endswith("}svg"):
        width, height = float(element.get("width", width)), float(element.get("height", height))
    light = False
    for child in list(element):
        classes = child.get("class", "").split()
        if child.tag.endswith("}title"):  # for a pointer, which a picture has none of
            element.remove(child)
            continue
        fit = next((int(name[4:]) for name in classes if name.startswith("fit-") and name[4:].isdecimal()), 0)
        if fit > WIDTH:
            element.remove(child)
            continue
        light = light or not _LIGHT.isdisjoint(classes)
        if light and "inside" in classes:
            child.set("class", "on-light")
        _absolute(child, width, height)


def _title(report: Report, ledger: Ledger, alike: list[int], _: Translate) -> str:
    numbers = [index for index in (ledger.gpu, *alike) if index is not None and index >= 0]
    name = _(_TITLES[0]).format(index=", ".join(map(str, numbers))) if numbers else _(_TITLES[1])
    return f"{name} {common.moment(report, _)} · GiB"


def _legend(ledger: Ledger, y: int, _: Translate) -> tuple[list[str], int]:
    """Every line of the ledger with its amount and basis, in columns; and how many rows that takes."""
    parts: list[str] = []
    shown = [line for line in ledger.lines if not line.name.startswith("host.")]
    rows = -(-len(shown) // _COLUMNS)
    span = WIDTH / _COLUMNS
    for place, line in enumerate(shown):
        x = _MARGIN + (place // rows) * span
        base = y + (place % rows) * _ROW + 12
        if line.name in _MARKS:
            middle = x + _SWATCH / 2
            parts.append(f'<line class="mark-{line.name}" x1="{middle}" x2="{middle}" y1="{base - 10}" y2="{base + 1}"/>')
        elif line.name != "process" or not _inside(ledger):
            parts.append(f'<rect class="part part-{line.name}" x="{x}" y="{base - 10}" width="{_SWATCH}" height="{_SWATCH}"/>')
        parts.append(
            f'<text x="{x + _SWATCH + 6}" y="{base}">{escape(_(messages.LINES[line.name]))}</text>'
            f'<text x="{x + _AMOUNT}" y="{base}" text-anchor="end">{gib(line.bytes):.2f}</text>'
            f'<text class="soft" x="{x + _AMOUNT + 7}" y="{base}">{escape(_(messages.BASIS[line.basis.value]))}</text>'
        )
    return parts, rows


def _inside(ledger: Ledger) -> bool:
    """Whether the bar shows the process by its allocator: the process as a whole then has no colour of its own."""
    return sum(ledger.get(name) is not None for name in PROCESS_PARTS) > 1
