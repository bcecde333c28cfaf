"""An out-of-memory that no line dates: what PyTorch held against what the model's weights take."""

from __future__ import annotations

import io

import pytest

from analyzer import analyze
from analyzer.model import Confidence
from tests.logs import oom

#: 46,702,792,704 parameters of two bytes are 86.99 GiB: 43.5 on each of two GPUs.
CALL = 'llm = LLM(\n    model="mistralai/Mixtral-8x7B-Instruct-v0.1",\n    tensor_parallel_size=2,\n{more})\n'


@pytest.mark.parametrize(
    ("held", "more", "cause"),
    [
        ("30.00 GiB", "", "cuda_oom.weight_load"),
        ("42.00 GiB", "", "cuda_oom.weight_load"),
        ("43.00 GiB", "", None),  # within what a server may leave on the disk
        ("60.00 GiB", "", None),
        ("30.00 GiB", '    quantization="bitsandbytes",\n', None),
        ("30.00 GiB", "    cpu_offload_gb=10,\n", None),
        ("30.00 GiB", "    pipeline_parallel_size=2,\n", None),
    ],
)
def test_less_than_the_weights_means_that_they_were_still_loading(held: str, more: str, cause: str | None) -> None:
    text = CALL.format(more=more) + oom(allocated=held) + "\n"
    report = analyze([("pasted.txt", io.BytesIO(text.encode()))])
    assert report.outcome.state == "failed"
    assert report.outcome.cause == cause
    if cause is not None:
        assert report.outcome.stage == "weight_load"
        assert report.outcome.confidence is Confidence.LIKELY
        assert report.root is not None
        assert any("Mixtral" in source.text for source in report.root.evidence)


def test_an_open_cause_still_says_that_memory_ran_out() -> None:
    report = analyze([("pasted.txt", io.BytesIO((oom() + "\n").encode()))])
    assert report.root is not None
    assert report.root.cause is None
    assert report.root.title.en == "Out of GPU memory; at which step does not show in this text"
    assert "512.0 MiB was asked for, 100.0 MiB of 79.19 GiB was free." in report.root.explanation.en
