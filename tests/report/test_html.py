"""HTML: it parses, and whatever stands in the input is text in it."""

from __future__ import annotations

import io
from html.parser import HTMLParser

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from analyzer import analyze
from analyzer.model import LANGUAGES
from analyzer.report import render
from tests.case_files import FOLDERS, report
from tests.logs import raised, start

VOID = frozenset({"meta", "link", "br", "hr", "img", "input", "line", "rect", "circle", "path", "polyline", "use", "col", "wbr"})


class Page(HTMLParser):
    """Tags, attributes and text of a page, and whether every tag is closed in its place."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str, str]] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.mistakes: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        if not self.open or self.open.pop() != tag:
            self.mistakes.append(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", sorted(FOLDERS))
def test_every_report_is_a_whole_page(name: str, language: str) -> None:
    shown = render(report(name), "html", language)
    page = Page(shown)
    assert page.mistakes == []
    assert page.open == []
    identifiers = [value for _, attribute, value in page.attributes if attribute == "id"]
    assert len(identifiers) == len(set(identifiers))
    assert f'<html lang="{language}' in shown
    root = report(name).root
    assert root is not None
    assert root.title.get(language) in "".join(page.texts)


def hostile(text: str) -> tuple[str, str]:
    """(page, ``text`` as it was put in) on a log that holds it in every place that is shown."""
    line = " ".join(text.split())
    log = [
        *start(),
        f"vllm serve 'org/{line}' --max-model-len 4096",
        f"INFO 05-01 10:00:01 [utils.py:100] non-default args: {{'model': 'org/{line}', 'max_model_len': 4096}}",
        *raised(f"SomethingError: {line}", "profiling"),
    ]
    files = [(f"{line}.log", io.BytesIO("\n".join(log).encode())), ("b.log", io.BytesIO(b"x"))]
    return render(analyze(files), "html", "en"), line


HARMLESS = Page(hostile("harmless words")[0])
_PIECES = ["<script>", "</script>", "</style>", "<img src=x onerror=1>", "<!--", "-->", "]]>", "&lt;", "{{ 7 }}", "{% x %}", "word", " "]
_MARKUP = st.lists(st.sampled_from([*"<>\"'&;=/`", *_PIECES]), max_size=25).map("".join)


@settings(max_examples=60, deadline=None)
@given(_MARKUP)
@example("</pre></style></script><script>alert(1)</script>")
@example('" onmouseover=alert(1) x="')
@example("' onmouseover='alert(1)")
@example("{{ 7 * 7 }}{% raw %}")
def test_text_of_the_input_is_never_markup(text: str) -> None:
    shown, line = hostile(text)
    page = Page(shown)
    assert page.mistakes == []
    assert page.open == []
    assert page.tags <= HARMLESS.tags
    assert {name for _, name, _ in page.attributes} <= {name for _, name, _ in HARMLESS.attributes}
    assert not [value for _, name, value in page.attributes if name in ("href", "src") and not value.startswith(("#", "/", "https://"))]
    assert f"SomethingError: {line}".strip() in " ".join("".join(page.texts).split())


def test_a_page_needs_nothing_beside_it() -> None:
    for name in sorted(FOLDERS)[::10]:
        page = Page(render(report(name), "html", "en"))
        fetched = [value for tag, attribute, value in page.attributes if attribute == "src" or (tag == "link" and attribute == "href")]
        assert fetched == []
        assert not [value for _, _, value in page.attributes if value.startswith("javascript:")]
