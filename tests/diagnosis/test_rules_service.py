"""What statistics over time tell while no line says that anything is wrong."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzer.model import FlagChange
from tests.diagnosis.texts import BANNER, NCCL, READY, WEIGHTS, said, statistics

START = BANNER.format(version="0.10.1") + NCCL + WEIGHTS + READY
OFFLOAD = "vllm serve m --kv-offloading-backend native --kv-offloading-size 32\n"
STORM, DEADLOCK = "kv_cache.preemption", "scheduler.deadlock_connector"


@pytest.mark.parametrize(
    ("rows", "command", "cause"),
    [
        # Running requests go back to the queue, twice, with the pool full.
        ([(40, 0, 96.0), (34, 6, 99.1), (34, 6, 98.0), (27, 14, 99.6), (27, 14, 99.0)], "", STORM),
        # Once is a moment; a queue at a full pool, requests that finish, and a pool with room are none.
        ([(40, 0, 96.0), (34, 6, 99.1), (34, 6, 98.0), (34, 6, 98.0)], "", "healthy"),
        ([(34, 6, 99.1), (34, 9, 99.0), (34, 14, 99.4), (34, 20, 99.2)], "", "healthy"),
        ([(40, 6, 99.0), (34, 6, 97.0), (27, 6, 96.0), (20, 6, 95.5)], "", "healthy"),
        ([(40, 0, 50.0), (34, 6, 49.1), (27, 14, 49.6), (20, 21, 40.0)], "", "healthy"),
        # Nothing runs, all wait: only with a connector does the library have a word for it.
        ([(0, 4, 31.0), (0, 6, 31.0), (0, 9, 31.0)], OFFLOAD, DEADLOCK),
        ([(0, 4, 31.0), (0, 6, 31.0), (0, 9, 31.0)], "", "healthy"),
        ([(0, 9, 31.0), (0, 6, 31.0), (2, 4, 31.0)], OFFLOAD, "healthy"),
    ],
)
def test_queues(rows: list[tuple[int, int, float]], command: str, cause: str) -> None:
    outcome = said(START + statistics(rows), *([command] if command else [])).outcome
    assert outcome.cause == cause
    assert outcome.state.value == ("healthy" if cause == "healthy" else "degraded")


@pytest.mark.parametrize(
    ("rows", "sure"),
    [
        ([(1, 14, 76.5), (1, 14, 76.7), (1, 14, 76.8)], "likely"),
        ([(259, 535, 82.3)], "likely"),
        ([(1, 0, 76.5), (1, 14, 76.7), (1, 14, 76.8)], "certain"),
        ([(1, 14, 76.5), (1, 3, 76.7), (1, 0, 70.0)], "certain"),
    ],
)
def test_a_queue_that_stays_is_told_and_makes_health_less_than_certain(rows: list[tuple[int, int, float]], sure: str) -> None:
    report = said(START + statistics(rows))
    assert (report.outcome.cause, report.outcome.confidence.value) == ("healthy", sure)
    assert report.root is not None
    assert (f"{rows[-1][1]} requests wait while {rows[-1][0]} run" in report.root.explanation.en) is (sure == "likely")


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_dump_of_metrics_alone_makes_a_server_likely_to_be_well(engine: str) -> None:
    names = {"vllm": ("num_requests_running", "num_requests_waiting"), "sglang": ("num_running_reqs", "num_queue_reqs")}[engine]
    scrape = "".join(f'# TYPE {engine}:{name} gauge\n{engine}:{name}{{model_name="m"}} 0.0\n' for name in names)
    report = said(scrape)
    assert (report.engine.name, report.outcome.cause, report.outcome.confidence.value) == (engine, "healthy", "likely")
    assert said(START + scrape).outcome.confidence.value == "certain"


PREEMPTED = (
    "WARNING 10-28 11:16:41 scheduler.py:1483] Sequence group chat-7e63 is preempted by PreemptionMode.{mode} mode because there is not "
    "enough KV cache space. This can affect the end-to-end performance. total_num_cumulative_preemption=1\n"
)
V0_STATISTICS = (
    "INFO 10-28 11:16:34 metrics.py:349] Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 7220.5 tokens/s, "
    "Running: {running} reqs, Swapped: 0 reqs, Pending: 98 reqs, GPU KV cache usage: 99.8%, CPU KV cache usage: 0.0%.\n"
)


@pytest.mark.parametrize(
    ("mode", "running", "caps"), [("RECOMPUTE", 120, [64]), ("RECOMPUTE", 40, [32]), ("SWAP", 2, []), ("SWAP", 120, [])]
)
def test_a_preemption_is_advised_on_by_its_mode_and_by_what_ran(mode: str, running: int, caps: list[int]) -> None:
    """max_num_seqs counts sequences: a cap that what ran never reached helps nothing, and one below a group's number starves it."""
    report = said(V0_STATISTICS.format(running=running) + PREEMPTED.format(mode=mode))
    root = report.root
    assert root is not None
    assert root.cause == STORM
    assert [change.to for fix in root.fixes for change in fix.changes if isinstance(change, FlagChange)] == caps
    assert ("--swap-space" in " ".join(item.advice.en for item in root.not_this)) is (mode == "RECOMPUTE")
    assert ("host memory" in root.explanation.en) is (mode == "SWAP")


@given(st.lists(st.tuples(st.integers(1, 64), st.just(0), st.floats(0, 100).map(lambda value: round(value, 1))), min_size=1, max_size=12))
def test_a_server_without_a_queue_is_never_short_of_the_pool(rows: list[tuple[int, int, float]]) -> None:
    assert said(START + statistics(rows)).outcome.cause == "healthy"
