"""Markdown: whatever stands in the input is shown as text, by a parser's own judgement."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from analyzer import analyze
from analyzer.model import LANGUAGES
from analyzer.report import render
from analyzer.report.markdown import fence, plain
from tests.case_files import FOLDERS, report
from tests.logs import raised, start

PARSER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
#: What a report consists of; anything else came out of the input.
OWN = frozenset(
    [
        "heading",
        "paragraph",
        "inline",
        "text",
        "softbreak",
        "code_inline",
        "fence",
        "strong",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "bullet_list",
        "ordered_list",
        "list_item",
        "link",
    ]
)
SPECIAL = (
    r"<b>x</b> <script>alert(1)</script> [a](http://x.example) ![i](y) **b** _u_ ~~s~~ `c` | p | # h <!-- c --> &amp; \* http://z.example"
)


def tokens(text: str) -> Iterator[Token]:
    for token in PARSER.parse(text):
        yield token
        yield from token.children or ()


def kinds(text: str) -> set[str]:
    return {token.type.removesuffix("_open").removesuffix("_close") for token in tokens(text)}


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", sorted(FOLDERS))
def test_a_report_is_made_of_its_own_parts_only(name: str, language: str) -> None:
    shown = render(report(name), "markdown", language)
    assert kinds(shown) <= OWN - {"link"}
    assert shown.startswith("## ")
    headings = [token for token in PARSER.parse(shown) if token.type == "heading_open"]
    assert [token.tag for token in headings[:1]] == ["h2"]
    assert {token.tag for token in headings[1:]} <= {"h3"}


def hostile(text: str) -> str:
    """The report on a log that holds ``text`` in every place that is shown: error, file name, process, command, model."""
    line = " ".join(text.split())
    log = [
        *start(),
        f"vllm serve 'org/{line}' --max-model-len 4096 --served-model-name '{line}'",
        f"INFO 05-01 10:00:01 [utils.py:100] non-default args: {{'model': 'org/{line}', 'max_model_len': 4096}}",
        *raised(f"SomethingError: {line}", "profiling"),
    ]
    return render(analyze([(f"{line}.log", io.BytesIO("\n".join(log).encode())), ("b.log", io.BytesIO(b"x"))]), "markdown", "en")


_PIECES = ["```", "~~~~", "<b>", "</p>", "](x)", "![", "http://x.example", "word", " ", "    ", "\t"]
_MARKUP = st.lists(st.sampled_from([*"`*_{}[]<>#|~!-+()&\\\"'=", *_PIECES]), max_size=30).map("".join)


@settings(max_examples=60, deadline=None)
@given(_MARKUP)
@example(SPECIAL)
@example("`````")
@example("- x")
@example("a | b | c")
def test_text_of_the_input_is_never_markup(text: str) -> None:
    shown = hostile(text)
    assert not {kind for kind in kinds(shown) if kind not in OWN or kind == "link"}, shown
    assert all(token.markup.startswith("`") for token in tokens(shown) if token.type == "fence")


def test_the_text_itself_is_still_there() -> None:
    shown = hostile(SPECIAL)
    fences = "".join(token.content for token in tokens(shown) if token.type == "fence")
    assert "SomethingError: <b>x</b> <script>alert(1)</script>" in fences


@given(_MARKUP)
def test_escaped_text_reads_as_what_it_was(text: str) -> None:
    """Backticks in pairs are code of our own sentences; without any, everything is text."""
    line = " ".join(text.replace("`", "").split())
    parsed = [
        token for token in tokens(f"x {plain(line)} x") if token.type in ("text", "softbreak", "code_inline", "html_inline", "link_open")
    ]
    assert "".join(token.content for token in parsed) == f"x {line} x" or "&" in line
    assert {token.type for token in parsed} <= {"text"}


@given(st.text("`~ab \n", max_size=60))
def test_a_fence_is_never_closed_by_its_content(text: str) -> None:
    parsed = PARSER.parse(fence(text))
    assert [token.type for token in parsed] == ["fence"]
    assert parsed[0].content.rstrip("\n") == text.rstrip("\n")
