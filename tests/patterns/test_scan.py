"""The scan for literals: which lines hold which of them, as a plain search would find."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzer.patterns.scan import Scanner, distinct

LITERALS = ["out of memory", "memory", "显存", "a.b(c)[d]*", "C:\\path", "^x$", "GET /"]
SCANNER = Scanner(LITERALS)


def lines(data: bytes, limit: int | None = None, counters: dict[int, int] | None = None) -> list[tuple[int, int, list[int]]]:
    return list(SCANNER.lines(data, len(data) if limit is None else limit, {} if counters is None else counters))


def expected(text: str) -> list[tuple[str, set[int]]]:
    """(line, literals in it) by a plain search."""
    found = [(line, {place for place, literal in enumerate(LITERALS) if literal in line}) for line in text.split("\n")]
    return [(line, literals) for line, literals in found if literals]


_PIECES = st.sampled_from([*LITERALS, "out of", " ", "\n", "x", "é", "MEMORY", "a.b(c)", "memory memory", "\r", "🙂"])


@given(st.lists(_PIECES, max_size=60).map("".join))
def test_every_line_with_a_literal_is_found_once(text: str) -> None:
    data = text.encode()
    assert [(data[start:end].decode(), set(literals)) for start, end, literals in lines(data)] == expected(text)


@given(st.lists(_PIECES, max_size=60).map("".join), st.floats(0, 1))
def test_lines_that_begin_at_the_limit_are_left_to_the_next_block(text: str, share: float) -> None:
    data = text.encode()
    limit = data.rfind(b"\n", 0, round(share * len(data))) + 1  # a limit is where a line begins
    first = [data[start:end].decode() for start, end, _ in lines(data, limit)]
    rest = [line for line, _ in expected(data[limit:].decode())]
    assert [*first, *rest] == [line for line, _ in expected(text)]


@pytest.mark.parametrize(
    ("literal", "other"),
    [("a.b(c)[d]*", "aXb(c)[d]*"), ("a.b(c)[d]*", "a.bcd"), ("C:\\path", "C:path"), ("^x$", "x"), ("显存", "显 存"), ("GET /", "get /")],
)
def test_a_literal_is_no_expression(literal: str, other: str) -> None:
    assert [literals for _, _, literals in lines(f"see {literal}.\n".encode())] == [[LITERALS.index(literal)]]
    assert lines(f"see {other}.\n".encode()) == []


def test_counted_literals_are_only_counted() -> None:
    counters = {LITERALS.index("GET /"): 0}
    data = b"GET / GET /\nout of memory\nGET /\nGET /x out of memory\n"
    limit = data.index(b"GET /x")
    found = [data[start:end] for start, end, _ in lines(data, limit, counters)]
    assert found == [b"out of memory"]
    assert counters == {LITERALS.index("GET /"): 3}
    assert [data[start:end] for start, end, _ in lines(data, len(data), counters)] == [b"out of memory", b"GET /x out of memory"]


def test_two_threads_scan_at_once() -> None:
    data = b"x" * 1000 + b" out of memory\n" + b"y" * 1000
    want = lines(data * 50)
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append([lines(data * 50) for _ in range(20)])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[want] * 20] * 4


def test_nothing_to_scan() -> None:
    assert lines(b"") == []
    assert lines(b"\n\n\n") == []
    assert distinct(["b", "a", "b"]) == ["b", "a"]
