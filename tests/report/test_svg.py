"""The pictures: well-formed, and drawn to scale."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from defusedxml.ElementTree import fromstring

from analyzer.model import Basis, Gpu, GpuSnapshot, Ledger, LedgerLine, Source
from analyzer.model.ledger import BUDGET_PARTS, LINES
from analyzer.model.units import GIB
from analyzer.report.charts import memory_svg
from analyzer.report.messages import translator
from analyzer.report.svg import ledger_svg
from tests.case_files import FOLDERS, report

_ = translator("en")
SVG = "{http://www.w3.org/2000/svg}"
LEDGERS = [pytest.param(ledger, id=f"{name}-{place}") for name in sorted(FOLDERS) for place, ledger in enumerate(report(name).ledgers[:2])]


def percent(text: str | None) -> float:
    assert text is not None
    assert text.endswith("%")
    return float(text[:-1])


def rectangles(picture: ElementTree.Element) -> list[tuple[str, float, float, float]]:
    """(line of the ledger, x, y, width) of every part; x and width in percent of the picture."""
    found = []
    for part in picture.iter(f"{SVG}svg"):
        rect = part.find(f"{SVG}rect")
        classes = ((rect.get("class") if rect is not None else None) or "").split()
        names = [name.removeprefix("part-") for name in classes if name.startswith("part-")]
        if names:
            found.append((names[0], percent(part.get("x")), float(part.get("y", "0")), percent(part.get("width"))))
    return found


@pytest.mark.parametrize("ledger", LEDGERS)
def test_every_ledger_draws_a_well_formed_picture(ledger: Ledger) -> None:
    shown = ledger_svg(ledger, "l", _)
    if not shown:
        return
    picture = fromstring(shown)
    assert picture.find(f"{SVG}title") is not None
    identifiers = [element.get("id") for element in picture.iter() if element.get("id")]
    assert len(identifiers) == len(set(identifiers))
    parts = rectangles(picture)
    assert {name for name, *_rest in parts} <= set(LINES)
    rows: dict[float, list[tuple[float, float]]] = {}
    for _name, x, y, width in parts:
        assert width > 0
        rows.setdefault(y, []).append((x, width))
    for row in rows.values():
        position = 0.0
        for x, width in row:
            assert x == pytest.approx(position, abs=0.3)  # side by side, without gap or overlap
            position = x + width
        assert position <= 100.5


def line(name: str, gib: float, basis: Basis = Basis.MEASURED) -> LedgerLine:
    source = Source("engine.log", 3, "a <line> & more") if basis is Basis.MEASURED else None
    return LedgerLine(name, round(gib * GIB), basis, source, None if source else 'a "formula" <of> it')


def test_widths_are_to_scale() -> None:
    parts = {"weights": 7.51, "kv_cache": 4.55, "activation_peak": 2.53, "non_torch": 0.39}
    ledger = Ledger(0, 0, 0, "profiling", tuple(line(name, gib) for name, gib in {"total": 15.77, "budget": 14.98, **parts}.items()))
    drawn = {name: width for name, _x, _y, width in rectangles(fromstring(ledger_svg(ledger, "l", _))) if name in BUDGET_PARTS}
    assert drawn.keys() == parts.keys()
    scale = drawn["weights"] / parts["weights"]
    for name, gib in parts.items():
        assert drawn[name] == pytest.approx(gib * scale, abs=0.02)


def test_a_part_below_zero_and_one_too_small_to_see_are_drawn_without_harm() -> None:
    ledger = Ledger(0, None, None, None, (line("total", 80), line("weights", 79.99), line("kv_cache", -2.0), line("non_torch", 0.0001)))
    drawn = rectangles(fromstring(ledger_svg(ledger, "l", _)))
    assert {name for name, *_rest in drawn} == {"weights", "non_torch"}
    assert all(width > 0.1 for *_rest, width in drawn)


def test_nothing_to_draw() -> None:
    assert ledger_svg(Ledger(0, 0, 0, None, (line("total", 80),)), "l", _) == ""
    assert memory_svg([], "m", _) == ""


def snapshot(place: int, used: dict[int, float], time: str | None) -> GpuSnapshot:
    gpus = [Gpu(index=index, memory_used_mib=value, memory_total_mib=80000.0) for index, value in used.items()]
    return GpuSnapshot(Source("smi.txt", place, "x"), time=time, gpus=gpus)


def test_memory_over_time_is_a_line_a_card() -> None:
    course = [
        snapshot(1, {0: 1000, 1: 70000}, "10:00 <a>"),
        snapshot(9, {0: 40000, 1: 70500}, None),
        snapshot(20, {0: 79000, 1: 70400}, "10:09 & b"),
    ]
    picture = fromstring(memory_svg(course, "m", _))
    lines = list(picture.iter(f"{SVG}polyline"))
    assert len(lines) == 2
    heights = [[float(point.split(",")[1]) for point in (one.get("points") or "").split()] for one in lines]
    assert [len(one) for one in heights] == [3, 3]
    assert heights[0] == sorted(heights[0], reverse=True)  # more memory stands higher
    assert memory_svg(course[:1], "m", _) == ""
