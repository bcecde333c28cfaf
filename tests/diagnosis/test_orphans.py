"""Processes that a failed start left on the cards: by a dump made after it, never by one made before."""

from __future__ import annotations

import pytest

from tests.diagnosis.texts import BANNER, NCCL, READY, WEIGHTS, found, said

OOM = (
    "(Worker_TP0 pid=4102) ERROR 01-25 21:40:36 [multiproc_executor.py:822] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate "
    "4.64 GiB. GPU 0 has a total capacity of 44.39 GiB of which 1.37 GiB is free. Including non-PyTorch memory, this process has 43.02 GiB "
    "memory in use. Of the allocated memory 42.13 GiB is allocated by PyTorch, and 297.00 MiB is reserved by PyTorch but unallocated.\n"
)
LOG = BANNER.format(version="0.14.1") + NCCL + WEIGHTS + READY + OOM


def apps(moment: str, pid: int) -> str:
    """A list of the processes on the cards."""
    return f"timestamp, pid, process_name, used_gpu_memory [MiB]\n{moment}, {pid}, VLLM::Worker_TP0, 44050 MiB\n"


@pytest.mark.parametrize(
    ("moment", "pid", "orphan"),
    [
        ("2026/01/25 21:52:07.101", 4102, True),
        ("2026/01/25 21:40:40.101", 4102, False),  # it may still be on its way out
        ("2026/01/25 21:30:00.101", 4102, False),  # before it failed
        ("2026/01/27 21:52:07.101", 4102, False),  # another day: the pid may be another process's
        ("2026/01/25 21:52:07.101", 9999, False),
    ],
)
def test_a_dump_after_the_failure(moment: str, pid: int, orphan: bool) -> None:
    report = said(LOG, apps(moment, pid))
    finding = found(report, "startup.orphan_process")
    assert report.outcome.cause == "cuda_oom.serving"
    assert (finding is not None) is orphan
    if finding is not None:
        assert finding.confidence.value == "likely"
        assert any("44050 MiB" in source.text for source in finding.evidence)
        assert any("4102" in fix.title.en for fix in finding.fixes)
