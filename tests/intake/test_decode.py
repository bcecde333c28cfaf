"""Whatever encoding a text comes in, UTF-8 goes on; what is no text is refused with a word of advice."""

from __future__ import annotations

import codecs
import itertools

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from analyzer.intake.decode import SNIFF, Decoder
from analyzer.intake.errors import IntakeError

TEXT = "INFO 01-15 10:22:31 [gpu_worker.py:298] Available KV cache memory: 5.86 GiB ████ 显存不足 🙂\r\n" * 3


def decoded(data: bytes, cuts: list[float] | None = None) -> bytes:
    decoder = Decoder(data[:SNIFF])
    places = [0, *sorted(round(cut * len(data)) for cut in cuts or []), len(data)]
    return b"".join(decoder.feed(data[start:end]) for start, end in itertools.pairwise(places)) + decoder.close()


@pytest.mark.parametrize(
    ("bom", "encoding"),
    [
        (b"", "utf-8"),
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
        (codecs.BOM_UTF32_LE, "utf-32-le"),
        (codecs.BOM_UTF32_BE, "utf-32-be"),
    ],
    ids=["UTF-8", "UTF-8 BOM", "UTF-16 LE", "UTF-16 BE", "UTF-32 LE", "UTF-32 BE"],
)
@given(cuts=st.lists(st.floats(0, 1), max_size=8))
def test_a_mark_tells_the_encoding_however_the_bytes_are_cut(bom: bytes, encoding: str, cuts: list[float]) -> None:
    assert decoded(bom + TEXT.encode(encoding), cuts).decode() == TEXT


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@given(cuts=st.lists(st.floats(0, 1), max_size=8))
def test_utf16_without_a_mark_is_told_by_its_nuls(encoding: str, cuts: list[float]) -> None:
    """As a redirection on Windows writes it when the mark was cut off."""
    latin = "INFO 01-15 10:22:31 [gpu_worker.py:298] Available KV cache memory: 5.86 GiB\r\n" * 3
    assert decoded(latin.encode(encoding), cuts).decode() == latin


@given(st.lists(st.sampled_from([*b"\t\n\r\x1b", *range(32, 127), *range(128, 256)]), max_size=300).map(bytes))
@example(codecs.BOM_UTF8 + b"text")
def test_damaged_utf8_passes_untouched(data: bytes) -> None:
    assume(not data.startswith((b"\xff\xfe", b"\xfe\xff", b"\xff\xd8\xff")))
    assert decoded(data) == data.removeprefix(codecs.BOM_UTF8)


def test_latin1_and_a_cut_character_stay_where_they_are() -> None:
    assert decoded(b"caf\xe9 \xe6\x98") == b"caf\xe9 \xe6\x98"


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_half_a_character_at_the_end_is_replaced(encoding: str) -> None:
    bom = codecs.BOM_UTF16_LE if encoding.endswith("le") else codecs.BOM_UTF16_BE
    assert decoded(bom + "ab".encode(encoding) + b"x").decode() == "ab\ufffd"


def test_a_few_nuls_in_a_long_text_are_damage_not_an_encoding() -> None:
    """As a log has them where a machine went down while it was written."""
    data = b"INFO a line of a log\n" * 150 + bytes(20) + b"INFO the next line\n"
    assert decoded(data) == data


@pytest.mark.parametrize(
    ("head", "said"),
    [
        (b"\x7fELF\x02\x01\x01", "an executable"),
        (b"\x89PNG\r\n\x1a\n", "a PNG picture: paste the text"),
        (b"\xff\xd8\xff\xe0\x00\x10JFIF", "a JPEG picture: paste the text"),
        (b"%PDF-1.7\n", "a PDF: send the text"),
        (b"SQLite format 3\x00", "an SQLite database"),
        (b"GIF89a\x01\x00\x00\x00\x00", "NUL"),
        (bytes(4096), "4096 of the first 4096 bytes are NUL"),
        (b"\x00\x01\x02\x03" * 500, "NUL"),
        (b"\x01\x02text" * 500, "control characters"),
    ],
)
def test_what_is_no_text_is_refused(head: bytes, said: str) -> None:
    with pytest.raises(IntakeError, match=said) as caught:
        Decoder(head)
    assert caught.value.code == "not_text"
