"""The ledger as a picture: the same on every machine, with every character that it holds, in both languages."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from analyzer import analyze
from analyzer.slack import picture

if TYPE_CHECKING:
    from analyzer.model import Report

CASES = Path(__file__).parents[2] / "fixtures" / "cases"
FAILED = CASES / "vllm-startup" / "vllm-v0-graph-capture-oom-16gb" / "engine.log"


@pytest.fixture(scope="module")
def report() -> Report:
    return analyze([FAILED])


def _pixels(png: bytes) -> tuple[int, int, bytes]:
    """(width, height, RGBA) of a picture without interlacing."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    width, height, depth, colours = struct.unpack(">IIBB", png[16:26])
    assert (depth, colours) == (8, 6)
    data, at = b"", 8
    while at < len(png):
        (size,) = struct.unpack(">I", png[at : at + 4])
        if png[at + 4 : at + 8] == b"IDAT":
            data += png[at + 8 : at + 8 + size]
        at += size + 12
    return width, height, zlib.decompress(data)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_ledger_is_drawn(report: Report, language: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(picture, "ZOOM", 1.0)
    drawn = picture.ledger_png(report, language)
    assert drawn is not None
    width, height, _ = _pixels(drawn)
    assert width == picture.WIDTH + 28
    assert 200 < height < 1200
    assert len(drawn) < 300_000
    assert drawn == picture.ledger_png(report, language)


def test_languages_differ_in_their_letters(report: Report) -> None:
    assert picture.ledger_png(report, "en") != picture.ledger_png(report, "zh")


def test_without_a_ledger_there_is_no_picture(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello\n")
    assert picture.ledger_png(analyze([tmp_path / "a.txt"]), "en") is None


def test_every_amount_of_the_ledger_stands_in_it(report: Report) -> None:
    drawn = picture._svg(report, "en")
    assert drawn is not None
    for line in report.ledgers[-1].lines:
        assert f">{line.bytes / 2**30:.2f}<" in drawn or f" {line.bytes / 2**30:.2f} GiB<" in drawn


def _characters_of(font: bytes) -> set[int]:
    """The code points for which an OpenType font has a glyph (cmap, formats 4 and 12)."""
    tables = {
        font[at : at + 4]: struct.unpack(">II", font[at + 8 : at + 16]) for at in range(12, 12 + 16 * struct.unpack(">H", font[4:6])[0], 16)
    }
    start, _ = tables[b"cmap"]
    found: set[int] = set()
    for index in range(struct.unpack(">H", font[start + 2 : start + 4])[0]):
        (offset,) = struct.unpack(">I", font[start + 8 + 8 * index : start + 12 + 8 * index])
        at = start + offset
        (kind,) = struct.unpack(">H", font[at : at + 2])
        if kind == 4:
            (twice,) = struct.unpack(">H", font[at + 6 : at + 8])
            ends = struct.unpack(f">{twice // 2}H", font[at + 14 : at + 14 + twice])
            starts = struct.unpack(f">{twice // 2}H", font[at + 16 + twice : at + 16 + 2 * twice])
            for first, last in zip(starts, ends, strict=True):
                found |= set(range(first, last + 1))
        elif kind == 12:
            (groups,) = struct.unpack(">I", font[at + 12 : at + 16])
            for place in range(groups):
                first, last, _ = struct.unpack(">III", font[at + 16 + 12 * place : at + 28 + 12 * place])
                found |= set(range(first, last + 1))
    return found


def test_the_font_has_every_character_that_a_picture_holds() -> None:
    missing = {char for char in picture.characters() if ord(char) not in _characters_of(picture.FONT.read_bytes())}
    assert missing == set(), "run tools/picture_font.py"
    assert (picture.FONT.parent / "LICENSE").read_text().count("OPEN FONT LICENSE") == 1


@pytest.mark.parametrize("path", sorted(CASES.rglob("engine.log"))[::4], ids=lambda path: path.parent.name)
def test_no_picture_holds_another_character(path: Path) -> None:
    for language in ("en", "zh"):
        drawn = picture._svg(analyze([path]), language)
        letters = set(drawn.split("</style>", 1)[1]) if drawn else set()
        assert letters - picture.characters() == set()
