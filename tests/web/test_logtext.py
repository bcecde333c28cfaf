"""A stored text by line numbers: every line is where the report says it is, repetitions fold, gaps keep their numbers."""

from __future__ import annotations

import hashlib

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from analyzer.store.values import KeptText
from analyzer.web.logtext import FOLDED, Fold, LogText, Texts


def kept(text: bytes, gap_at: int = 0, gap_lines: int = 0) -> KeptText:
    return KeptText(hashlib.sha256(text).digest(), zstandard.compress(text), len(text), gap_at, gap_lines)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (b"", []),
        (b"one", ["one"]),
        (b"one\n", ["one"]),
        (b"\n", [""]),
        (b"one\n\nthree\r\n", ["one", "", "three"]),
        ("日志\x1b[31m\n".encode(), ["日志[31m"]),
    ],
)
def test_lines(text: bytes, lines: list[str]) -> None:
    found = LogText(kept(text))
    assert found.lines == len(lines)
    assert found.page(1, 100) == lines


@given(st.lists(st.text("ab7 ", max_size=4), max_size=30), st.lists(st.text("ab7 ", max_size=4), max_size=30), st.integers(0, 40))
def test_every_line_keeps_its_number(head: list[str], tail: list[str], missing: int) -> None:
    first = "".join(f"{line}\n" for line in head).encode()
    text = first + "".join(f"{line}\n" for line in tail).encode()
    found = LogText(kept(text, len(first), missing))
    whole = [*head, *[None] * missing, *tail]
    assert found.lines == len(whole)
    assert [found.line(number) for number in range(1, len(whole) + 1)] == whole
    covered = [number for fold in found.folds for number in range(fold.first, fold.last + 1)]
    assert covered == sorted(set(covered))
    assert all(1 <= number <= len(whole) for number in covered)
    if missing:
        assert Fold(len(head) + 1, len(head) + missing, "left_out") in found.folds
    assert b"".join(kept(text, len(first), missing).pieces()).count(b"\n") == found.lines


def test_lines_that_differ_in_numbers_fold_between_first_and_last() -> None:
    text = "start\n" + "".join(f"12:00:{place:02} KV cache usage: {place}.5%\n" for place in range(FOLDED + 4)) + "end\n"
    assert LogText(kept(text.encode())).folds == (Fold(3, FOLDED + 4, "repeated"),)
    few = "".join(f"usage: {place}\n" for place in range(FOLDED - 1))
    assert LogText(kept(few.encode())).folds == ()


def test_a_long_log_is_paged_quickly_and_forgotten() -> None:
    text = b"".join(b"line %d of a server that prints\n" % place for place in range(200_000))
    texts = Texts()
    now = [0.0]
    found = texts.get("a", 0, kept(text), clock=lambda: now[0])
    assert found.lines == 200_000
    assert found.page(199_999, 500) == ["line 199998 of a server that prints", "line 199999 of a server that prints"]
    assert texts.get("a", 0, kept(text), clock=lambda: now[0]) is found
    texts.forget("a")
    again = texts.get("a", 0, kept(text), clock=lambda: now[0])
    assert again is not found
    now[0] = 1000.0
    assert texts.get("a", 0, kept(text), clock=lambda: now[0]) is not again


def test_what_is_kept_is_bounded() -> None:
    texts = Texts(most_bytes=1000)
    first = texts.get("a", 0, kept(b"x\n" * 400))
    texts.get("b", 0, kept(b"y\n" * 400))
    assert texts.get("a", 0, kept(b"x\n" * 400)) is not first
