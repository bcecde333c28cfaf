from __future__ import annotations

import json
import math

import pytest
import zstandard

from analyzer.model import LANGUAGES, Fact, Source, Text
from analyzer.store.codec import CodecError, pack, unpack
from tests.store.conftest import report


def test_a_report_comes_back_equal_with_the_same_renderings() -> None:
    made = report()
    back = unpack(pack(made))
    assert back == made
    assert [back.to_json(language) for language in LANGUAGES] == [made.to_json(language) for language in LANGUAGES]


@pytest.mark.parametrize("value", [True, 1, 1.0, "1", 10**40, -0.0, "中文 \0 \x1b"])
def test_values_keep_their_type(value: object) -> None:
    made = report()
    made.facts = [Fact("x", value, "", Source("a", 1, ""))]  # type: ignore[arg-type]
    back = unpack(pack(made)).facts[0].value
    assert back == value
    assert type(back) is type(value)


def test_a_whole_number_stays_one_where_the_model_says_float() -> None:
    made = report()
    made.gpu_snapshots[0].gpus[0].memory_total_mib = 40960
    assert '"memory_total_mib":40960,' in unpack(pack(made)).to_json()


def test_older_and_newer_reports_are_read() -> None:
    """A field gained takes its default, a field lost is passed over."""
    plain = json.loads(zstandard.ZstdDecompressor().decompress(pack(report())[1:]))
    del plain["command"], plain["findings"][0]["stage"]
    plain["lost"] = plain["inputs"][0]["lost"] = 1
    back = unpack(b"\x01" + zstandard.compress(json.dumps(plain).encode()))
    assert (back.command, back.findings[0].stage) == (None, None)
    assert back.facts == report().facts


def test_advice_from_before_it_had_two_languages_is_read() -> None:
    plain = json.loads(zstandard.ZstdDecompressor().decompress(pack(report())[1:]))
    plain["findings"][0]["not_this"][0]["advice"] = "--kv-cache-dtype fp8"
    back = unpack(b"\x01" + zstandard.compress(json.dumps(plain).encode()))
    assert back.findings[0].not_this[0].advice == Text("--kv-cache-dtype fp8", "--kv-cache-dtype fp8")


def test_infinities_survive() -> None:
    made = report()
    made.facts = [Fact("x", math.inf, "s", Source("a", 1, ""))]
    assert unpack(pack(made)).facts[0].value == math.inf


def test_half_a_surrogate_pair_is_no_character() -> None:
    made = report(text="x\ud800y")
    assert unpack(pack(made)).facts[0].source.text == "x?y"


@pytest.mark.parametrize("stored", [b"", b"\x00", b"\x01nonsense", pack(report())[:-5], b"\x02" + pack(report())[1:]])
def test_damage_is_said(stored: bytes) -> None:
    with pytest.raises(CodecError):
        unpack(stored)
