"""What is kept of an input stands for it: analysed again, it gives the same report."""

from __future__ import annotations

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
    assert again.finish().report.to_json() == first.report.to_json()


def test_a_stand_in_is_the_same_secret_in_the_report_and_in_the_stored_text() -> None:
    early = b"".join(b"INFO 01-01 00:00:00 worker 10.1.2.%d joined, see <ip-1> and <ip-2>\n" % n for n in range(1, 30))
    log = early + (FIXTURES / "web" / "engine.log").read_bytes() + b"ValueError: connect to 10.1.2.7:1 failed: HTTP 503 from 172.30.1.9\n"
    made = _uploaded("10.1.2.9-engine.log", log)
    text = b"".join(made.inputs[0].text.pieces()).decode()
    shown = made.report.to_json()
    assert "10.1.2" not in text + shown
    lines = text.split("\n")
    for finding in made.report.findings:
        for source in finding.evidence:
            if "<ip-" in source.text:
                assert source.text.strip() in lines[source.line - 1]
    seventh = re.search(r"worker (<ip-\d+>)", lines[6])
    assert seventh is not None
    assert f"connect to {seventh[1]}:1 failed" in text
    numbers = re.findall(r"worker (<ip-\d+>)", text)
    assert len(set(numbers)) == 29
    assert not set(numbers) & set(re.findall(r"see (<ip-\d+>)", text))
    again = Upload(settings.load(), _library())
    again.replay(made.inputs)
    assert again.finish().report.to_json() == shown


def test_an_archive_is_kept_member_by_member() -> None:
    import io
    import zipfile

    log = (FIXTURES / "web" / "engine.log").read_bytes()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("pod-0/engine.log", log)
        archive.writestr("pod-0/core", b"\x7fELF" * 2000)
        archive.writestr("pod-1/engine.log", b"vllm serve m\n")
    made = _uploaded("all.zip", packed.getvalue())
    assert [(kept.name, kept.sent_bytes, kept.text.text_bytes) for kept in made.inputs] == [
        ("pod-0/engine.log", len(log), made.inputs[0].text.text_bytes),
        ("pod-0/core", 8000, 0),
        ("pod-1/engine.log", 13, 13),
    ]


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
