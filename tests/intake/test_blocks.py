"""Blocks of whole lines: the same ones however the bytes arrive, and nothing lost but the rests of over-long lines."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from analyzer.intake.blocks import LOOKAHEAD_LINES, Block, Blocks
from analyzer.intake.limits import Limits

SMALL = Limits(block_bytes=100, max_line_bytes=40)
_LINES = st.lists(st.binary(max_size=60).map(lambda line: line.replace(b"\n", b"")), max_size=80)


def cut(pieces: list[bytes], limits: Limits = SMALL) -> tuple[list[Block], Blocks]:
    blocks = Blocks(limits)
    found = [block for piece in pieces for block in blocks.feed(piece)]
    found.append(blocks.close())
    return found, blocks


def split(data: bytes, places: list[float]) -> list[bytes]:
    ends = [0, *sorted(round(place * len(data)) for place in places), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(ends)]


def own(blocks: list[Block]) -> bytes:
    """What the blocks hold, each line once: a block's lines after its limit are the next one's."""
    return b"".join(block.data[: block.limit] for block in blocks)


@given(_LINES, st.lists(st.floats(0, 1), max_size=10))
@example([b"a" * 39, b"b" * 40, b"c" * 41, b"d" * 200], [0.3, 0.5])
def test_any_cutting_gives_the_same_blocks(lines: list[bytes], places: list[float]) -> None:
    data = b"\n".join(lines)
    whole, one = cut([data])
    pieces, many = cut(split(data, places))
    assert pieces == whole
    counts = [(b.lines, b.total_lines, b.long_lines, b.skipped_bytes) for b in (one, many)]
    assert counts[0] == counts[1]
    assert cut([data[i : i + 1] for i in range(len(data))])[0] == whole


@given(_LINES)
def test_every_line_comes_once_and_at_its_number(lines: list[bytes]) -> None:
    data = b"".join(line + b"\n" for line in lines)
    blocks, counts = cut([data])
    assert own(blocks) == b"".join(line[:40] + b"\n" for line in lines)
    assert counts.skipped_bytes == sum(max(len(line) - 40, 0) for line in lines)
    assert counts.long_lines == sum(len(line) > 40 for line in lines)
    assert counts.total_lines == len(lines)
    number = 1
    for block in blocks:
        assert block.first_line == number
        number += block.data[: block.limit].count(b"\n")
    assert [block.last for block in blocks] == [False] * (len(blocks) - 1) + [True]


@given(_LINES)
def test_a_block_ends_at_a_lines_end_and_brings_the_following_lines_along(lines: list[bytes]) -> None:
    blocks, _ = cut([b"".join(line + b"\n" for line in lines)])
    for block, following in itertools.pairwise(blocks):
        assert block.data.endswith(b"\n")
        assert len(block.data) <= SMALL.block_bytes
        assert 0 < block.limit <= len(block.data)
        ahead = block.data[block.limit :]
        assert following.data.startswith(ahead)
        assert ahead.count(b"\n") <= LOOKAHEAD_LINES


def test_a_hit_near_a_blocks_end_sees_the_lines_after_it() -> None:
    limits = Limits(block_bytes=1000, max_line_bytes=100)
    blocks, _ = cut([b"".join(b"line %03d\n" % number for number in range(1, 201))], limits)
    for block in blocks[:-1]:
        # The lines that are left to the next block are the ones that a window may need.
        assert block.data[block.limit :].count(b"\n") == LOOKAHEAD_LINES


@pytest.mark.parametrize(
    ("data", "lines", "total"),
    [(b"", 0, 0), (b"\n", 1, 1), (b"a", 0, 1), (b"a\n", 1, 1), (b"a\nb", 1, 2), (b"x" * 99, 0, 1), (b"x" * 99 + b"\n", 1, 1)],
)
def test_lines_are_counted_with_an_unfinished_last_one(data: bytes, lines: int, total: int) -> None:
    _, blocks = cut([data])
    assert (blocks.lines, blocks.total_lines) == (lines, total)


def test_a_line_longer_than_a_block_goes_on_to_its_end() -> None:
    limits = Limits(block_bytes=50, max_line_bytes=200)
    blocks, counts = cut([b"x" * 150 + b"\nshort\n"], limits)
    assert own(blocks) == b"x" * 150 + b"\nshort\n"
    assert counts.skipped_bytes == 0


def test_the_rest_can_be_looked_at_before_the_end() -> None:
    blocks = Blocks(SMALL)
    assert list(blocks.feed(b"one\ntw")) == []
    assert blocks.rest() == Block(b"one\ntw", 1, 6, last=True)
    assert list(blocks.feed(b"o\n")) == []
    assert blocks.close() == Block(b"one\ntwo\n", 1, 8, last=True)
    assert blocks.close() == Block(b"", 1, 0, last=True)


def test_an_endless_line_takes_no_memory() -> None:
    blocks = Blocks(SMALL)
    for _ in range(1000):
        assert list(blocks.feed(b"y" * 1000)) == []
    assert blocks.rest().data == b"y" * 40
    assert blocks.skipped_bytes == 1_000_000 - 40
    assert blocks.long_lines == 1
