"""Free memory that did not shrink while vLLM measured: grown, which needs a neighbour, or the same, which needs none."""

from __future__ import annotations

import pytest

from analyzer.model import Confidence
from tests.logs import told

BYTES = "AssertionError: Error in memory profiling. Initial free memory {}, current free memory {}. This happens when the GPU memory was not properly cleaned up before initializing the vLLM instance."  # fmt: skip
SIZES = "(EngineCore_DP0 pid=418) ERROR 01-29 15:38:21 [core.py:946] AssertionError: Error in memory profiling. Initial free memory {} GiB, current free memory {} GiB. This happens when other processes sharing the same container release GPU memory"  # fmt: skip


@pytest.mark.parametrize(
    ("sentence", "before", "after", "same"),
    [
        (BYTES, 58247258112, 58247516160, True),
        (BYTES, 95996615972, 99776271517, False),
        (SIZES, 30.3, 30.3, True),
        (SIZES, 159.75, 161.88, False),
    ],
)
def test_equal_readings_prove_no_neighbour(sentence: str, before: float, after: float, same: bool) -> None:
    report = told([sentence.format(before, after)])
    assert report.outcome.cause == "startup.memory_changed_during_profiling"
    assert report.outcome.confidence is (Confidence.POSSIBLE if same else Confidence.CERTAIN)
    assert ("a neighbour gave memory back" in report.findings[0].explanation.en) is not same
    assert any("0.16.0" in fix.title.en for fix in report.findings[0].fixes) is (before == after)
