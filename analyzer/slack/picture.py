"""The ledger as a PNG: the report's own SVG, a legend that needs no pointer, and a font of our own, so that every machine draws the same.

The font is analyzer/slack/font/ledger.otf: Noto Sans CJK SC cut down to ``characters()`` (tools/picture_font.py).
"""

from __future__ import annotations

import re
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from analyzer.model.ledger import PROCESS_PARTS
from analyzer.model.text import LANGUAGES
from analyzer.model.units import gib
from analyzer.report import common, messages
from analyzer.report.html import styles
from analyzer.report.messages import N_, Translate, translator
from analyzer.report.svg import LEFT, WIDTH, ledger_svg

if TYPE_CHECKING:
    from analyzer.model import Ledger, Report

FONT = Path(__file__).parent / "font" / "ledger.otf"
_FAMILY = "Noto Sans CJK SC"
#: Ledgers on one picture; a chat shows it some 360 to 700 points wide.
_SHOWN = 2
#: Pixels a unit of the drawing: sharp on screens of twice the density.
ZOOM = 2.0
_HEAD, _ROW, _COLUMNS, _MARGIN, _SWATCH, _AMOUNT = 26, 20, 3, 14, 11, 165
_ROOT = re.compile(r"--([a-z]+): ([^;]+);")
_VARIABLE = re.compile(r"var\(--([a-z]+)\)")
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
    found = {chr(code) for code in range(0x20, 0x7F)} | set("×→·…–−%（）：，、≈±°µ")
    for language in LANGUAGES:
        _ = translator(language)
        for words in (*messages.LINES.values(), *messages.BASIS.values(), *_TITLES):
            found |= set(_(words))
    return frozenset(found)


_TITLES = (N_("GPU {index}"), N_("GPU"), N_("at the failure"), N_("when ready"), N_("Memory of GPU {index}"))


@cache
def style() -> str:
    """The report's own colours (its light ones), in the CSS that a renderer without variables and sibling selectors understands."""
    sheet = styles()
    values = dict(_ROOT.findall(sheet[: sheet.index("@media")]))
    rules = "\n".join(rule for rule in sheet.splitlines() if rule.startswith("svg ") and " ~ " not in rule)
    rules = _VARIABLE.sub(lambda name: values[name[1]], rules)
    return f'{rules}\ntext {{ font-family: "{_FAMILY}"; font-size: 12px; fill: {values["ink"]}; }}\n.soft {{ fill: {values["soft"]}; }}'


def _svg(report: Report, language: str) -> str | None:
    _ = translator(language)
    parts: list[str] = []
    y = _MARGIN
    for place, (ledger, alike) in enumerate(common.shown_ledgers(report)[:_SHOWN]):
        bars = ledger_svg(ledger, f"ledger{place}", _)
        if not bars:
            continue
        parts.append(f'<text x="{_MARGIN}" y="{y + 14}" font-size="15">{escape(_title(report, ledger, alike, _))}</text>')
        y += _HEAD
        height = int(bars.split('viewBox="0 0 ', 1)[1].split('"', 1)[0].split()[1])
        frame = f'<svg x="{_MARGIN - LEFT}" y="{y}" width="{WIDTH}" height="{height}" '
        parts.append(frame + _on_free(bars.removeprefix("<svg ")))
        y += height + 6
        legend, rows = _legend(ledger, y, _)
        parts += legend
        y += rows * _ROW + _MARGIN
    if not parts:
        return None
    full = WIDTH + 2 * (_MARGIN - LEFT)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{full}" height="{y}" viewBox="0 0 {full} {y}"><style>{style()}</style>'
    return "".join([head, *parts, "</svg>"])


def _on_free(bars: str) -> str:
    """The word on the light part for free memory in dark: what the page says with a sibling selector."""
    return re.sub(r'(class="part part-free".*?<text class=")inside"', r'\1on-free"', bars)


def _title(report: Report, ledger: Ledger, alike: list[int], _: Translate) -> str:
    numbers = [index for index in (ledger.gpu, *alike) if index is not None and index >= 0]
    name = _(_TITLES[0]).format(index=", ".join(map(str, numbers))) if numbers else _(_TITLES[1])
    when = _(_TITLES[2]) if report.outcome.state.value == "failed" else _(_TITLES[3])
    return f"{name} {when} · GiB"


def _legend(ledger: Ledger, y: int, _: Translate) -> tuple[list[str], int]:
    """Every line of the ledger with its amount and basis, in columns; and how many rows that takes."""
    parts: list[str] = []
    shown = [line for line in ledger.lines if not line.name.startswith("host.")]
    rows = -(-len(shown) // _COLUMNS)
    span = (WIDTH - 2 * LEFT) / _COLUMNS
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
