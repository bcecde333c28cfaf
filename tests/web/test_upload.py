"""What is kept of an input stands for it: analysed again, it gives the same report."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from analyzer import settings
from analyzer.patterns.load import load
from analyzer.patterns.model import Library
from analyzer.web.upload import Outcome, Upload, clean_name

FIXTURES = Path(__file__).parents[2] / "fixtures"
LOGS = sorted(path for path in FIXTURES.rglob("*") if path.suffix in (".log", ".txt", ".csv") and path.is_file())


@cache
def _library() -> Library:
    return load()


def _uploaded(name: str, data: bytes, **given: Any) -> Outcome:
    upload = Upload(settings.load(**given), _library())
    incoming = upload.open(name)
    upload.feed(incoming, data)
    upload.close(incoming)
    return upload.finish()


@pytest.mark.parametrize("path", LOGS, ids=lambda path: str(path.relative_to(FIXTURES)))
def test_a_stored_input_is_read_like_the_sent_one(path: Path) -> None:
    first = _uploaded(path.name, path.read_bytes())
    again = Upload(settings.load(), _library())
    again.replay(first.inputs)
    # The numbers of stand-ins (<ip-2>) may differ: the whole text was numbered, not only the lines of the report.
    shapes = [json.loads(re.sub(r"<([a-z-]+)-\d+>", r"<\1>", report.to_json())) for report in (first.report, again.finish().report)]
    assert shapes[0] == shapes[1]


def test_a_private_key_over_a_blocks_end_is_not_kept() -> None:
    secret = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"
    key = "-----BEGIN PRIVATE KEY-----\n" + f"{secret}\n" * 25 + "-----END PRIVATE KEY-----\n"
    before = b"INFO 01-01 00:00:00 filler\n" * ((1 << 20) // 27 - 20)
    log = before + key.encode() * 3 + b"INFO 01-01 00:00:01 after\n" * 100
    kept = b"".join(_uploaded("a.log", log).inputs[0].text.pieces())
    assert secret.encode() not in kept
    assert kept.count(b"\n") == log.count(b"\n")
    assert kept.endswith(b"after\n")


def test_a_new_input_does_not_reuse_the_stand_ins_of_a_stored_one() -> None:
    first = _uploaded("a.log", b"ERROR connect to 10.11.12.13 failed\n")
    upload = Upload(settings.load(), _library())
    upload.replay(first.inputs)
    incoming = upload.open("b.log")
    upload.feed(incoming, b"ERROR connect to 10.99.98.97 failed\n")
    upload.close(incoming)
    kept = [b"".join(item.text.pieces()) for item in (*first.inputs, *upload.finish().inputs)]
    assert b"10." not in kept[0] + kept[1]
    assert kept[0] != kept[1]


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("engine.log", "engine.log"),
        ("/var/log/engine.log", "engine.log"),
        ("C:\\logs\\engine.log", "engine.log"),
        ("../../etc/passwd", "passwd"),
        ("..", ".."),
        ("", "input"),
        ("\x1b[31m\0\u2028", "[31m"),
        ("日志.log", "日志.log"),
        ("x" * 500, "x" * 200),
        ("\ud800", "input"),
    ],
)
def test_names(given: str, name: str) -> None:
    assert clean_name(given, "input") == name
