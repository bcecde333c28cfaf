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


@pytest.mark.parametrize(
    ("line", "versions"),
    [
        ("INFO 12-23 01:51:40 gpu_executor.py:122] # GPU blocks: 2241, # CPU blocks: 512", "<=0.10.2"),
        (
            (
                "(Worker_TP0 pid=99) INFO 05-07 20:28:11 [gpu_worker.py:475] CUDA graph memory profiling is enabled (default since v0.21.0). The "
                "current --gpu-memory-utilization=0.8800 is equivalent to --gpu-memory-utilization=0.8592 without CUDA graph memory profiling."
            ),
            ">=0.20.0",
        ),
        ("(EngineCore_DP0 pid=3) ERROR 07-01 09:00:00 [core.py:710] EngineCore encountered a fatal error.", ">=0.6.4"),
    ],
)
def test_the_generation_of_the_engine_bounds_the_version(line: str, versions: str) -> None:
    assert analyze([("engine.log", io.BytesIO(line.encode()))]).engine.version_range == versions
