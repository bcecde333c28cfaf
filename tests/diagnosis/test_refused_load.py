"""vLLM's own sentences for weights that found no room, with PyTorch's behind them and without."""

from __future__ import annotations

import pytest

from analyzer.model import Confidence
from tests.logs import facts, told

SENTENCE = "CUDA out of memory. Tried to allocate 896.00 MiB. GPU 0 has a total capacity of 93.09 GiB of which {free} is free."
RUNNER = "(EngineCore pid=61) ERROR 05-02 23:41:19 [gpu_model_runner.py:4877] Failed to load model - not enough GPU memory. Try lowering --gpu-memory-utilization to free memory for weights"  # fmt: skip
LAYER = "(EngineCore_DP0 pid=12473) ERROR 11-05 12:19:32 [linear.py:210] Failed to create unquantized linear weights"


@pytest.mark.parametrize(
    "line",
    [
        RUNNER,
        f"{RUNNER} (original error: {SENTENCE.format(free='739.81 MiB')})",
        f"{LAYER}: {SENTENCE.format(free='739.81 MiB')}",
        f"RuntimeError: {LAYER.partition('] ')[2]}. This may be caused by insufficient memory to allocate the weight.",
    ],
)
def test_the_weights_found_no_room(line: str) -> None:
    report = told([line])
    assert (report.outcome.stage, report.outcome.cause) == ("weight_load", "cuda_oom.weight_load")
    assert report.outcome.confidence is Confidence.CERTAIN
    assert len(facts(report, "oom.free")) == ("Tried" in line)


def test_a_card_with_room_is_not_called_full() -> None:
    report = told([f"{LAYER}: {SENTENCE.format(free='15.41 GiB')}"])
    assert report.outcome.confidence is Confidence.LIKELY
    assert "14.54 GiB more than that free" in report.findings[0].explanation.en
