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
