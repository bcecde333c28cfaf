"""What a view hands on has passed redaction: sources, settings, text facts, and what a pattern's groups took out of a line."""

from __future__ import annotations

import io

import pytest

from analyzer import analyze
from analyzer.report import render

SECRET = "sk-abcdefghijklmnopqrstuvwxyz0123456789ABCD"


@pytest.mark.parametrize(
    "line",
    [
        f"vllm: error: unrecognized arguments: --api-kye {SECRET}",
        f"vllm serve: error: unrecognized arguments: --header 'Authorization: Bearer {SECRET}'",
        f"(APIServer pid=1) INFO 09-01 09:00:00 [utils.py:233] non-default args: {{'model': 'm', 'api_key': ['{SECRET}'], 'max_model_len': 4096}}",
        f"INFO 09-01 09:00:00 [api_server.py:1043] vLLM API server version {SECRET}",
    ],
)
@pytest.mark.parametrize("form", ["json", "text", "markdown", "html"])
def test_no_secret_of_a_line_comes_back(line: str, form: str) -> None:
    report = analyze([("engine.log", io.BytesIO(line.encode()))])
    for language in ("en", "zh"):
        assert SECRET not in render(report, form, language)


def test_a_group_is_shown_with_its_secret_replaced() -> None:
    report = analyze([("engine.log", io.BytesIO(f"vllm: error: unrecognized arguments: --api-kye {SECRET}".encode()))])
    assert report.root is not None
    assert "--api-kye <token-1>" in report.root.explanation.en


def test_a_damaged_version_is_none() -> None:
    line = "(APIServer pid=1) INFO 03-04 09:59:00 [api_server.py:1839] vLLM API server version 0.8.5.pout2"
    report = analyze([("engine.log", io.BytesIO(line.encode()))])
    assert report.engine.name == "vllm"
    assert report.engine.version is None
