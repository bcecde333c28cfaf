"""The report as HTML: one template for the page and the file, pictures that say what they show, nothing of an input as markup."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzer import analyze
from analyzer.model import Basis, GpuSnapshot, Ledger, LedgerLine, Report, Series, Source
from analyzer.model.gpu import Gpu
from analyzer.model.ledger import LINES
from analyzer.report import html
from analyzer.report.charts import memory_svg, series_svgs
from analyzer.report.fine import FIELDS, passed_checks, passed_stages, sliders
from analyzer.report.messages import translator
from analyzer.report.svg import change_svg, ledger_svg
from tests.logs import AVAILABLE, READY, TOKENS, WEIGHTS, start, told

CASES = Path(__file__).resolve().parents[2] / "fixtures" / "cases" / "vllm-startup"
FAILED = CASES / "vllm-v0-graph-capture-oom-16gb" / "engine.log"
GIB = 2**30
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def failed() -> Report:
    return analyze([FAILED])


def parsed(drawn: str) -> ElementTree.Element:
    return ElementTree.fromstring(drawn)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_saved_file_needs_nothing_else(failed: Report, language: str) -> None:
    text = html.document(failed, language)
    assert "<script" not in text
    assert not re.search(r'(?:src|href)="(?!#)', text)
    assert "cuda_oom.graph_capture" in text
    targets = set(re.findall(r'id="([^"]+)"', text))
    assert len(targets) == len(re.findall(r' id="([^"]+)"', text))
    for link in re.findall(r'href="#([^"]+)"', text):
        assert link in targets


def test_the_ledger_is_to_scale_and_links_to_its_lines(failed: Report) -> None:
    ledger = next(item for item in failed.ledgers if item.get("process") is not None)
    root = parsed(ledger_svg(ledger, "x", translator("en"), html.anchors(failed)))
    total = ledger.get("total") or 1
    plan = [part for part in root.iter(f"{SVG}svg") if part.get("y") == "36"]
    shown = [line for name in ("weights", "kv_cache", "non_torch", "activation_peak") if (line := ledger.line(name))]
    for part, line in zip(plan, shown, strict=True):
        assert float((part.get("width") or "")[:-1]) == pytest.approx(line.bytes / total * 100, abs=0.01)
    assert [link.get("href") for link in root.iter(f"{SVG}a")][:4] == ["#L3"] * 4
    assert all(link.get("aria-label") for link in root.iter(f"{SVG}a"))
    marks = {element.get("class") for element in root.iter(f"{SVG}line")}
    assert {"line mark-budget", "line mark-total"} <= marks


def test_what_is_not_measured_has_a_pattern(failed: Report) -> None:
    ledger = Ledger(
        0, 0, 0, None, tuple(LedgerLine(name, GIB, basis) for name, basis in zip(("weights", "kv_cache", "non_torch"), Basis, strict=True))
    )
    drawn = ledger_svg(ledger, "x", translator("en"))
    assert drawn.count('fill="url(#x-derived)"') == 1
    assert drawn.count('fill="url(#x-estimated)"') == 1


sizes = st.dictionaries(st.sampled_from([name for name in LINES if not name.startswith("host.")]), st.integers(-GIB, 200 * GIB))


@given(sizes, sizes)
def test_any_ledger_can_be_drawn(first: dict[str, int], second: dict[str, int]) -> None:
    before, after = (
        Ledger(0, None, None, None, tuple(LedgerLine(name, size, Basis.DERIVED) for name, size in given.items()))
        for given in (first, second)
    )
    for drawn in (ledger_svg(before, "x", translator("zh")), change_svg(before, after, "y", translator("en"))):
        if drawn:
            root = parsed(drawn)
            for part in root.iter(f"{SVG}svg"):
                assert float((part.get("width") or "0%").rstrip("%")) <= 100.01


def test_the_second_input_has_anchors_of_its_own(failed: Report) -> None:
    two = replace(failed, inputs=[*failed.inputs, replace(failed.inputs[0], name="other.log")])
    anchor = html.anchors(two)
    assert (anchor(Source("engine.log", 3, "")), anchor(Source("other.log", 3, ""))) == ("#L3", "#F2L3")


def test_memory_over_time_needs_two_dumps() -> None:
    def dump(used: float) -> GpuSnapshot:
        card = Gpu(index=0, memory_used_mib=used, memory_total_mib=24576)
        return GpuSnapshot(Source("smi.txt", 1, ""), gpus=[card])

    _ = translator("en")
    assert memory_svg([dump(100)], "m", _) == ""
    root = parsed(memory_svg([dump(0), dump(12288), dump(24576)], "m", _))
    [course] = root.iter(f"{SVG}polyline")
    assert course.get("points") == "0.0,100.00 500.0,50.00 1000.0,0.00"


def test_series_of_fewer_than_three_readings_are_not_drawn() -> None:
    few, enough = Series("kv_cache.usage", "%"), Series("kv_cache.usage", "%", rank=1)
    for place in range(3):
        enough.add(f"10:00:0{place}", place * 50)
    few.add("10:00:00", 1)
    drawn = series_svgs([few, enough], "s", translator("en"))
    assert [title for title, _picture in drawn] == ["KV cache in use"]
    assert 'points="0.0,100.00 500.0,50.00 1000.0,0.00"' in drawn[0][1]


@pytest.mark.parametrize(
    ("text", "drawn"),
    [
        ("run `nvidia-smi` <now>", "run <code>nvidia-smi</code> &lt;now&gt;"),
        ("`<b>`", "<code>&lt;b&gt;</code>"),
        ("one ` alone <b>", "one ` alone &lt;b&gt;"),
        ("", ""),
    ],
)
def test_backticks_become_code_and_nothing_else_becomes_markup(text: str, drawn: str) -> None:
    assert str(html.ticks(text)) == drawn


def test_what_is_fine_is_what_was_checked(failed: Report) -> None:
    assert passed_stages(failed) == ["weight_load", "profiling", "kv_init"]
    assert any("2.44 GiB" in words for words in passed_checks(failed, "en"))
    bare = replace(failed, ledgers=[], earlier=[])
    assert (passed_stages(bare), passed_checks(bare, "en"), sliders(bare)) == ([], [], [])


def test_sliders_stand_at_what_is_in_force(failed: Report) -> None:
    found = {slider.field: slider for slider in sliders(failed)}
    assert set(found) == set(FIELDS)
    assert (found["utilization"].now, found["length"].now, found["tp"].now) == (0.95, 40000, 2)
    assert found["seqs"].now is None
    length = found["length"]
    assert length.now is not None
    assert (40000 - length.low) % length.step == 0


def test_the_slider_of_the_share_reaches_down_to_a_small_one() -> None:
    text = "\n".join(
        [
            "(APIServer pid=1) INFO 10-08 09:15:02 [utils.py:233] non-default args: {'model': 'org/m', 'gpu_memory_utilization': 0.2}",
            *start("0.12.0"),
            WEIGHTS.format(weights="5.00"),
            AVAILABLE.format(kv="10.00"),
            TOKENS.format(tokens="80,000"),
            READY,
        ]
    )
    found = {slider.field: slider for slider in sliders(told(text.split("\n")))}
    assert (found["utilization"].low, found["utilization"].now) == (0.2, 0.2)
