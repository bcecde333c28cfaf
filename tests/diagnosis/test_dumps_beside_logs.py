"""Whole inputs: a log with dumps before, during and after, and with a course of memory beside it."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest

from analyzer import analyze
from analyzer.model import Report
from analyzer.model.units import GIB, MIB

HEAD = """\
(APIServer pid=50100) INFO 02-16 10:01:10 [api_server.py:1272] vLLM API server version 0.14.1
(APIServer pid=50100) INFO 02-16 10:01:10 [utils.py:261] non-default args: {'model_tag': '/m/Qwen3-32B', 'gpu_memory_utilization': 0.85}
(EngineCore_DP0 pid=50200) INFO 02-16 10:03:22 [gpu_model_runner.py:3905] Model loading took 30.5912 GiB memory and 96.418233 seconds
(EngineCore_DP0 pid=50200) INFO 02-16 10:03:58 [gpu_worker.py:358] Available KV cache memory: 8.35 GiB
(EngineCore_DP0 pid=50200) INFO 02-16 10:04:20 [gpu_model_runner.py:4856] Graph capturing finished in 15 secs, took 0.62 GiB
(APIServer pid=50100) INFO:     Application startup complete.
(APIServer pid=50100) INFO 02-16 10:40:31 [loggers.py:257] Engine 000: Avg prompt throughput: 812.4 tokens/s, \
Avg generation throughput: 20.1 tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 12.0%, Prefix cache hit rate: 0.0%
"""
OOM = """\
(EngineCore_DP0 pid=50200) ERROR 02-16 18:40:36 [core.py:938] EngineCore encountered a fatal error.
(EngineCore_DP0 pid=50200) ERROR 02-16 18:40:36 [core.py:938] Traceback (most recent call last):
(EngineCore_DP0 pid=50200) ERROR 02-16 18:40:36 [core.py:938]   File "/v/vllm/v1/worker/gpu_model_runner.py", line 2102, in execute_model
(EngineCore_DP0 pid=50200) ERROR 02-16 18:40:36 [core.py:938]     hidden_states = self.model(input_ids)
(EngineCore_DP0 pid=50200) ERROR 02-16 18:40:36 [core.py:938] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.16 GiB. \
GPU 0 has a total capacity of 44.39 GiB of which {free} is free. {listed}Of the allocated memory 38.50 GiB is allocated by PyTorch, \
and 300.00 MiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting \
PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for Memory Management  (https://pytorch.org)
"""
OWN = "Including non-PyTorch memory, this process has 43.60 GiB memory in use. "
APPS = "timestamp, pid, process_name, used_gpu_memory [MiB]\n"
GPUS = "timestamp, index, memory.used [MiB], memory.total [MiB]\n"


def report(**files: str) -> Report:
    return analyze([(name.replace("_", "."), io.BytesIO(text.encode())) for name, text in files.items()])


def amounts(found: Report) -> dict[str, float]:
    return {line.name: line.bytes / GIB for line in found.ledgers[0].lines}


def rows(start: int, count: int, size: Callable[[int], float], pid: int = 50200, name: str = "VLLM::EngineCore") -> str:
    return "".join(
        f"2026/02/16 {start + at // 2:02}:{at % 2 * 30:02}:00.114, {pid}, {name}, {round(size(at))} MiB\n" for at in range(count)
    )


def cards(start: int, count: int, size: Callable[[int], float], total: int = 46068) -> str:
    return "".join(
        f"2026/02/16 {start + at // 2:02}:{at % 2 * 30:02}:00.114, 0, {round(size(at))} MiB, {total} MiB\n" for at in range(count)
    )


def of(found: Report, cause: str) -> str:
    return next((finding.explanation.en for finding in found.findings if finding.cause == cause), "")


def test_a_running_engine_with_a_neighbour_closes() -> None:
    table = APPS + "2026/02/16 10:52:00.114, 50200, VLLM::EngineCore, 42050 MiB\n2026/02/16 10:52:00.114, 60111, python3, 2938 MiB\n"
    found = report(engine_log=HEAD, apps_csv=table, cards_csv=GPUS + "2026/02/16 10:52:00.200, 0, 45002 MiB, 46068 MiB\n")
    have = amounts(found)
    assert found.outcome.cause == "healthy"
    assert have["total"] == pytest.approx(46068 / 1024)
    # The two dumps are two: the last one that shows the engine decides; what it does not list is not there.
    assert have["free"] == pytest.approx((46068 - 45002) / 1024)


def test_a_straight_line_before_an_oom_is_a_leak() -> None:
    oom = OOM.format(free="400.00 MiB", listed=OWN)
    found = report(engine_log=HEAD + oom, apps_csv=APPS + rows(11, 15, lambda at: 40000 + 300 * at))
    assert found.outcome.cause == "engine.version_bug.gpu_leak"
    words = of(found, "engine.version_bug.gpu_leak")
    assert "15 readings over 7.0 h rise by 0.59 GiB per hour" in words
    assert "R² 1.000" in words


@pytest.mark.parametrize(
    "size",
    [
        lambda at: 42000 + (1 - 2 * (at % 2)) * 20,  # level
        lambda at: 40000 if at < 7 else 43000,  # a step
        lambda at: min(40000 + 1000 * at, 43000),  # a plateau
    ],
)
def test_what_is_no_straight_line_is_no_leak(size: Callable[[int], float]) -> None:
    oom = OOM.format(free="400.00 MiB", listed=OWN)
    found = report(engine_log=HEAD + oom, apps_csv=APPS + rows(11, 15, size))
    assert found.outcome.cause == "cuda_oom.serving"
    assert not of(found, "engine.version_bug.gpu_leak")


def test_two_readings_are_no_leak_and_more_are_asked_for() -> None:
    found = report(engine_log=HEAD, cards_csv=GPUS + cards(11, 2, lambda at: 41000 + 2000 * at))
    root = found.root
    assert root is not None
    assert found.outcome.cause == "healthy"
    assert not of(found, "engine.version_bug.gpu_leak")
    assert any("nvidia-smi --query-gpu=timestamp" in need.en for need in root.needs)


def test_a_line_in_a_running_engine_is_a_warning() -> None:
    found = report(engine_log=HEAD, cards_csv=GPUS + cards(11, 16, lambda at: 40000 + 200 * at))
    assert found.outcome.state == "healthy"
    finding = next(finding for finding in found.findings if finding.cause == "engine.version_bug.gpu_leak")
    assert (finding.severity, finding.confidence) == ("warning", "likely")
    assert "0.39 GiB per hour" in finding.explanation.en
    assert "the remaining" in finding.explanation.en


def test_a_process_that_came_later_is_named() -> None:
    later = rows(12, 4, lambda at: 2900, 60111, "python3")
    found = report(engine_log=HEAD, apps_csv=APPS + rows(11, 2, lambda at: 42050) + later)
    assert "60111 (python3) came onto GPU 0" in of(found, "cuda_oom.serving.other_process")


@pytest.mark.parametrize(
    ("clock", "said"),
    [
        ("2026/02/16 09:30:00.000", "before the first dated line"),
        ("2026/02/16 18:52:07.000", "11 min 31 s after the failure"),
        ("2026/02/16 18:39:00.000", None),
    ],
)
def test_when_a_dump_was_taken_is_said_where_it_matters(clock: str, said: str | None) -> None:
    oom = OOM.format(free="400.00 MiB", listed=OWN)
    dump = APPS + f"{clock}, 60111, python3, 2938 MiB\n"
    words = of(report(engine_log=HEAD + oom, apps_csv=dump), "cuda_oom.serving")
    assert (said in words) if said else "taken" not in words


def test_a_dump_after_the_crash_is_not_the_moment_of_failure() -> None:
    oom = OOM.format(free="400.00 MiB", listed="")
    after = APPS + "2026/02/16 19:30:00.000, 60111, python3, 4300 MiB\n"
    assert "other_processes" not in amounts(report(engine_log=HEAD + oom, apps_csv=after))
    near = APPS + "2026/02/16 18:39:00.000, 50200, VLLM::EngineCore, 40100 MiB\n2026/02/16 18:39:00.000, 60111, python3, 4300 MiB\n"
    assert amounts(report(engine_log=HEAD + oom, apps_csv=near))["other_processes"] == pytest.approx(4300 * MIB / GIB)


def test_another_machines_dump_is_a_contradiction() -> None:
    oom = OOM.format(free="400.00 MiB", listed=OWN)
    found = report(engine_log=HEAD + oom, cards_csv=GPUS + cards(18, 1, lambda at: 20000, total=24564))
    assert amounts(found)["total"] == pytest.approx(44.39)
    assert "contradicts the log" in of(found, "cuda_oom.serving")


def test_ranks_find_their_cards_through_visible_devices() -> None:
    head = HEAD.replace("'gpu_memory", "'tensor_parallel_size': 2, 'gpu_memory").replace("EngineCore_DP0 pid=50200", "Worker_TP0 pid=511")
    other = "".join(line.replace("Worker_TP0 pid=511", "Worker_TP1 pid=512") + "\n" for line in head.splitlines() if "Worker_TP0" in line)
    used = (4, 4, 43001, 44003)
    table = GPUS + "".join(f"2026/02/16 10:52:00.002, {index}, {size} MiB, 46068 MiB\n" for index, size in enumerate(used))
    found = report(engine_log=head + other, cards_csv=table, run_sh="CUDA_VISIBLE_DEVICES=3,2 vllm serve /m/Qwen3-32B -tp 2\n")
    free = [round((ledger.get("free") or 0) / MIB) for ledger in found.ledgers]
    assert free == [46068 - 44003, 46068 - 43001]


def test_unified_memory_is_the_hosts() -> None:
    apps = APPS + "2026/02/16 10:52:00.114, 50200, VLLM::EngineCore, 42050 MiB\n"
    header = "               total        used        free      shared  buff/cache   available\n"
    free = f"$ free -m\n{header}Mem:          124610      109000        9000          40        6610       15000\n"
    table = "index, name, memory.used [MiB], memory.total [MiB]\n0, NVIDIA GB10, [N/A], [N/A]\n"
    have = amounts(report(engine_log=HEAD, cards_csv=table, free_txt=free, apps_csv=apps))
    assert have["total"] == pytest.approx(124610 / 1024)
