"""A reply stays within Block Kit's limits whatever the report, and nothing of an input becomes markup."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzer import analyze
from analyzer.model import LANGUAGES, Action, Fix, Source, Text
from analyzer.slack import blocks, words
from tests.slack.blockkit import problems, view_problems
from tests.slack.test_ways_in import shown

if TYPE_CHECKING:
    from analyzer.model import Report

CASES = Path(__file__).parents[2] / "fixtures" / "cases"
LOGS = sorted(CASES.rglob("engine.log"))[::2]
GRAPH = CASES / "vllm-startup" / "vllm-v0-graph-capture-oom-16gb" / "engine.log"


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.parent.name)
def test_every_known_case_fits(path: Path) -> None:
    report = analyze([path])
    for language in LANGUAGES:
        made = blocks.answer(report, language, url="https://vram.example/a/x")
        assert problems(made.blocks) == []
        assert 0 < len(made.text) <= 3000
        said = shown({"blocks": made.blocks})
        if report.outcome.cause:
            assert f"`{report.outcome.cause}`" in said
        if report.root is not None and report.root.fixes:
            assert f"1. *{blocks._one_line(blocks.escape(report.root.fixes[0].title.get(language)))}" in said
        if report.command:
            assert report.command in said
        if report.root is not None and report.root.needs and report.outcome.cause is None:
            assert blocks.escape(report.root.needs[0].get(language)) in said


@cache
def _graph() -> Report:
    return analyze([GRAPH])


def _huge(report: Report, text: str) -> Report:
    """The report with ``text`` wherever an input's text could stand."""
    assert report.root is not None
    both = Text(text, text)
    fix = Fix(both, (Action(both),), both, both)
    source = Source(text[:200], 3, text)
    root = replace(report.root, title=both, explanation=both, evidence=(source,), fixes=(fix,) * 40, needs=(both,) * 40)
    report.findings = [root]
    report.command = text
    report.inputs[0].name = text
    return report


@given(st.text(alphabet="a&<>*`~_|!@#\n\t\x00\x1b\u202e日 ", min_size=1, max_size=12), st.integers(1, 6000))
@settings(deadline=None, max_examples=15)
def test_limits_hold_whatever_a_report_says(piece: str, times: int) -> None:
    report = _huge(deepcopy(_graph()), piece * (1 + times // len(piece)))
    made = blocks.answer(report, "en", url="https://vram.example/" + "a" * 9000, picture="F1", notes=[piece * 500])
    assert problems(made.blocks) == []
    for block in made.blocks:
        for text in [block.get("text"), *block.get("elements", [])] if block["type"] in ("section", "context") else []:
            if text is not None:
                assert "<" not in text["text"]
                assert "&" not in text["text"].replace("&amp;", "").replace("&lt;", "").replace("&gt;", "")


def test_nothing_of_an_input_calls_anybody() -> None:
    report = _huge(analyze([GRAPH]), "<!channel> <@U1> <https://evil.example|x> ```")
    made = blocks.answer(report, "en")
    assert "<!channel>" not in made.text
    marked = [block["text"]["text"] for block in made.blocks if block["type"] == "section"]
    assert all("<" not in text for text in marked)
    literal = [block for block in made.blocks if block["type"] == "rich_text"]
    assert all(element["elements"][0]["type"] == "text" for block in literal for element in block["elements"])


def test_a_command_that_does_not_fit_is_not_cut() -> None:
    report = analyze([GRAPH])
    report.command = "vllm serve " + "x" * 5000
    said = shown({"blocks": blocks.answer(report, "en").blocks})
    assert "vllm serve" not in said
    assert words.COMMAND_LONG.en in said


def test_the_picture_has_its_words_for_who_cannot_see_it() -> None:
    [image] = [block for block in blocks.answer(analyze([GRAPH]), "en", picture="F1").blocks if block["type"] == "image"]
    assert image["slack_file"] == {"id": "F1"}
    assert "15.77" in image["alt_text"]
    assert "█" not in image["alt_text"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_bots_own_words_fit(language: str) -> None:
    assert view_problems(blocks.form("C1", language)) == []
    sentences = [value for name, value in vars(words).items() if isinstance(value, Text) and name.isupper()]
    assert len(sentences) > 20
    for text in sentences:
        assert text.en
        assert text.zh
        assert problems(blocks.said(text, language).blocks) == []
