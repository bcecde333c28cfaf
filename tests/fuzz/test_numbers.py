"""Figures that no program prints, in the place of those that it does: the answer may be poorer, it is never a mistake of ours."""

from __future__ import annotations

import io
import json
import random
import re
from pathlib import Path

import pytest

from analyzer import analyze
from analyzer.report import render

FIXTURES = Path(__file__).parents[2] / "fixtures"
ODD = ["0.4.3", "9" * 5000, "9" * 30, "-", "²", "1e999", "٣", "1,2,3", "", "-7", "1.", "NaN", "inf", "0", "0.0", "3." + "1" * 400]
LOGS = [
    *sorted((FIXTURES / "engines").glob("*.log")),
    *sorted((FIXTURES / "readers").rglob("*.txt")),
    *sorted((FIXTURES / "nvidia-smi").glob("*.txt")),
    *sorted((FIXTURES / "cases").glob("vllm-*/*/engine.log")),
]


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: odd[:8] or "nothing")
@pytest.mark.parametrize("share", [0.05, 0.5])
def test_odd_numbers_end_in_a_report(odd: str, share: float) -> None:
    chance = random.Random(f"{odd} {share}")
    for log in chance.sample(LOGS, 24):
        text = log.read_text(encoding="utf-8", errors="replace")
        changed = re.sub(r"\d+(?:\.\d+)?", lambda found: odd if chance.random() < share else found[0], text)
        report = analyze([(log.name, io.BytesIO(changed.encode()))])
        json.loads(report.to_json())
        assert render(report, "text", "zh")
