"""After a sticky error every rank fails: the one that printed first is the origin, wherever its line stands."""

from __future__ import annotations

import io

import pytest

from analyzer import analyze

START = """\
(Worker_TP0 pid=511) INFO 02-16 10:03:22 [gpu_model_runner.py:3905] Model loading took 30.5912 GiB memory and 96.418233 seconds
(Worker_TP1 pid=512) INFO 02-16 10:03:22 [gpu_model_runner.py:3905] Model loading took 30.5912 GiB memory and 96.418233 seconds
(APIServer pid=1) INFO:     Application startup complete.
"""
LINE = "(Worker_TP{rank} pid=51{rank}) ERROR 02-16 10:40:{second} [multiproc_executor.py:822] torch.AcceleratorError: CUDA error: {what}\n"
ACCESS, LAUNCH = "an illegal memory access was encountered", "unspecified launch failure"


@pytest.mark.parametrize(
    ("first", "second", "cause"),
    [
        ((0, "36", ACCESS), (1, "39", LAUNCH), "cuda_error.illegal_access"),
        ((0, "39", LAUNCH), (1, "36", ACCESS), "cuda_error.illegal_access"),  # printed later, failed earlier
        ((0, "36", LAUNCH), (1, "36", ACCESS), "cuda_error.launch_failure"),  # the dates do not tell: reading order
        ((0, "39", LAUNCH), (0, "36", ACCESS), "cuda_error.launch_failure"),  # one process prints in order
    ],
)
@pytest.mark.parametrize("apart", [False, True])
def test_the_first_rank_by_time_is_the_origin(
    first: tuple[int, str, str], second: tuple[int, str, str], cause: str, *, apart: bool
) -> None:
    lines = [LINE.format(rank=rank, second=at, what=what) for rank, at, what in (first, second)]
    texts = [START + lines[0], lines[1]] if apart else [START + lines[0] + lines[1]]
    report = analyze([(f"rank{place}.log", io.BytesIO(text.encode())) for place, text in enumerate(texts)])
    assert report.outcome.cause == cause
