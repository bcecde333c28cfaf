"""The scanner's database between runs: made once, and made anew where it does not fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from analyzer.patterns import scan
from analyzer.patterns.scan import Scanner

LITERALS = ["CUDA out of memory", "Traceback", "KV cache"]
TEXT = b"Traceback\nno KV cache\n"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VRAMLEDGER_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def refuse(*_: object) -> None:
    raise AssertionError("compiled anew")


def test_the_second_time_nothing_is_compiled(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hits = Scanner(LITERALS, cache=True).hits(TEXT)
    assert hits == Scanner(LITERALS).hits(TEXT) == [(9, 1), (21, 2)]
    assert len(list(cache.iterdir())) == 1
    monkeypatch.setattr(scan, "_compiled", refuse)
    assert Scanner(LITERALS, cache=True).hits(TEXT) == hits
    with pytest.raises(AssertionError, match="compiled anew"):
        Scanner([*LITERALS, "another"], cache=True)


@pytest.mark.parametrize("damage", [b"", b"no database", bytes(4096)])
def test_a_damaged_one_is_made_anew(damage: bytes, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hits = Scanner(LITERALS, cache=True).hits(TEXT)
    (file,) = cache.iterdir()
    file.write_bytes(damage or file.read_bytes()[:-1])
    assert Scanner(LITERALS, cache=True).hits(TEXT) == hits
    monkeypatch.setattr(scan, "_compiled", refuse)
    assert Scanner(LITERALS, cache=True).hits(TEXT) == hits
