from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import zstandard
from hypothesis import given
from hypothesis import strategies as st

from analyzer.store.keep import Keeper

if TYPE_CHECKING:
    from analyzer.store.values import KeptText


def _kept(blocks: list[bytes], head: int, tail: int) -> KeptText:
    keeper = Keeper(lambda text: text.replace("secret", "<x>"), head, tail)
    for block in blocks:
        keeper.feed(block)
    return keeper.finish()


def test_what_is_kept_is_redacted() -> None:
    kept = _kept([b"a secret\n", b"b\n"], 100, 100)
    plain = zstandard.ZstdDecompressor().decompressobj().decompress(kept.compressed)
    assert plain == b"a <x>\nb\n"
    assert kept.sha256 == hashlib.sha256(plain).digest()
    assert b"".join(kept.pieces()) == plain


def test_head_and_tail_survive_and_lines_keep_their_numbers() -> None:
    lines = [f"line {number}\n".encode() for number in range(1, 1001)]
    kept = _kept(lines, 90, 90)
    text = b"".join(kept.pieces()).split(b"\n")
    assert len(text) == 1001
    assert text[0] == b"line 1"
    assert text[999] == b"line 1000"
    assert text[500] == b""
    assert kept.text_bytes < 200
    assert all(not line or line == f"line {number}".encode() for number, line in enumerate(text, 1))


def test_the_same_text_is_the_same_bytes_however_it_came() -> None:
    assert _kept([b"a\nb\n"], 100, 100).sha256 == _kept([b"a\n", b"b\n"], 100, 100).sha256


@given(
    st.lists(st.binary(max_size=8).map(lambda line: line.replace(b"\n", b"") + b"\n"), max_size=60), st.integers(0, 60), st.integers(0, 60)
)
def test_lines_are_never_moved(lines: list[bytes], head: int, tail: int) -> None:
    kept = _kept(lines, head, tail)
    back = b"".join(kept.pieces()).split(b"\n")
    wanted = [line.decode("utf-8", "replace").replace("secret", "<x>").encode() for line in b"".join(lines).split(b"\n")]
    assert len(back) == len(wanted)
    assert all(not got or got == want for got, want in zip(back, wanted, strict=True))


def test_large_texts_come_back_in_pieces() -> None:
    blocks = [(f"{number:07} ".encode() * 100 + b"\n") * 100 for number in range(60)]
    kept = _kept(blocks, 2 << 20, 1 << 20)
    whole = b"".join(kept.pieces())
    assert whole.count(b"\n") == 6000
    assert whole.startswith(blocks[0])
    assert whole.endswith(blocks[-1])


def test_the_last_start_is_kept_out_of_the_middle() -> None:
    keeper = Keeper(lambda text: text.replace("secret", "<x>"), 50, 100)
    for number in range(1, 201):
        keeper.feed(f"line {number} secret\n".encode(), start=number in (60, 120))
    kept = keeper.finish(lambda text: text.replace("<x>", "<a longer one>"))
    text = b"".join(kept.pieces()).split(b"\n")
    assert len(text) == 201
    assert text[0] == b"line 1 <a longer one>"
    assert text[119] == b"line 120 <a longer one>"
    assert text[199] == b"line 200 <a longer one>"
    assert not text[59]
    assert all(not line or line == f"line {number} <a longer one>".encode() for number, line in enumerate(text, 1))
    assert kept.gap_lines > 100
    assert kept.second_gap_lines > 50


@given(st.lists(st.tuples(st.integers(1, 30), st.booleans()), max_size=60), st.integers(0, 60), st.integers(0, 90))
def test_lines_are_never_moved_by_starts(blocks: list[tuple[int, bool]], head: int, tail: int) -> None:
    keeper = Keeper(lambda text: text, head, tail)
    number, wanted = 0, []
    for lines, start in blocks:
        wanted += [f"{number + place}x{'<ip-1>' * (place % 3)}" for place in range(lines)]
        keeper.feed("".join(line + "\n" for line in wanted[number:]).encode(), start)
        number += lines
    kept = keeper.finish(lambda text: text.replace("<ip-1>", "<ip-12345>"))
    back = b"".join(kept.pieces()).decode().split("\n")
    assert len(back) == len(wanted) + 1
    assert all(not got or got == want.replace("<ip-1>", "<ip-12345>") for got, want in zip(back, wanted, strict=False))
