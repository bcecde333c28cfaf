"""The lists of who held the host's memory: the kernel's task table of old and new kernels, Ray's ten largest."""

from __future__ import annotations

import io

import pytest

from analyzer import analyze
from analyzer.model.units import GIB, KIB
from analyzer.readers.base import Page
from analyzer.readers.host.oom_tasks import HOLDERS, read

KERNEL_5 = """\
[Sun Feb 23 16:24:18 2025] raylet invoked oom-killer: gfp_mask=0x140dca(GFP_HIGHUSER_MOVABLE), order=0, oom_score_adj=0
[Sun Feb 23 16:24:18 2025] Tasks state (memory values in pages):
[Sun Feb 23 16:24:18 2025] [  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name
[Sun Feb 23 16:24:18 2025] [    812]     0   812    12345     2345   123456        0          -250 systemd-journal
[Sun Feb 23 16:24:18 2025] [   4121]  1000  4121 90000000 134217728 9234560        0             0 VLLM::EngineCor
[Sun Feb 23 16:24:18 2025] [   5120]  1000  5120   900000     9472   234560        0          1000 ray::IDLE
[Sun Feb 23 16:24:18 2025] oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,global_oom,task=ray::IDLE,pid=5120,uid=1000
[Sun Feb 23 16:24:18 2025] Out of memory: Killed process 5120 (ray::IDLE) total-vm:3600000kB, anon-rss:37000kB, file-rss:888kB
"""
KERNEL_6 = """\
kernel: [  pid  ]   uid  tgid total_vm      rss rss_anon rss_file rss_shmem pgtables_bytes swapents oom_score_adj name
kernel: [   4121]  1000  4121 90000000 1310720  1310000      700       20  9234560        0             0 my server
kernel: oom_reaper: reaped process 4121 (my server), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB
"""
RAY = """\
ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.
Memory on the node (IP: 192.0.2.1, ID: ab) where the task (task ID: ff, name=load, pid=12, memory used=3.20GB) was running was \
60.10GB / 62.80GB (0.957), which exceeds the memory usage threshold of 0.95. Ray killed this worker (ID: 1) because it was the most \
recently scheduled task; to see more information about memory usage on this node, use `ray logs raylet.out -ip 192.0.2.1`. \
Top 10 memory users:
PID\tMEM(GB)\tCOMMAND
410\t48.51\tpython etl.py
12\t3.20\tray::RayWorkerWrapper
"""


def page(text: str) -> Page:
    return Page("dmesg.txt", text.splitlines())


@pytest.mark.parametrize(("kib", "victim_kib"), [(4, 3600000), (16, 14400000), (64, 57600000), (4, 3600001)])
def test_the_size_of_a_page_is_told_by_the_victim_s_line_and_4_kib_where_it_tells_none(kib: int, victim_kib: int) -> None:
    (reading,) = read(page(KERNEL_5.replace("total-vm:3600000kB", f"total-vm:{victim_kib}kB")))
    assert reading.holders[0].bytes == 134217728 * kib * KIB


@pytest.mark.parametrize(
    ("text", "largest"),
    [
        (KERNEL_5, (4121, "VLLM::EngineCor", 512 * GIB)),
        (KERNEL_6, (4121, "my server", 5 * GIB)),
        (RAY, (410, "python etl.py", round(48.51 * GIB))),
    ],
)
def test_the_largest_is_first(text: str, largest: tuple[int, str, int]) -> None:
    (reading,) = read(page(text))
    top = reading.holders[0]
    assert (top.pid, top.name, top.bytes) == largest
    assert str(top.pid) in top.source.text


@pytest.mark.parametrize(
    "text",
    [
        "total_vm",
        "[  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name",
        "PID MEM(GB) COMMAND",
        "a PID MEM(GB) b",
    ],
)
def test_no_rows_no_reading(text: str) -> None:
    assert read(page(text)) == []


def test_a_long_table_keeps_its_largest() -> None:
    head = KERNEL_5.splitlines()[2]
    rows = [f"[{pid:7}]  1000 {pid} 900000 {pid * 10} 234560        0          0 python3" for pid in range(1, 3000)]
    (reading,) = read(page("\n".join([head, *rows])))
    assert [holder.pid for holder in reading.holders] == list(range(2999, 2999 - HOLDERS, -1))
    assert reading.last == len(rows)


def test_victim_and_culprit_are_told_apart() -> None:
    report = analyze([("dmesg.txt", io.BytesIO(KERNEL_5.encode()))])
    assert report.outcome.cause == "host_oom.killed"
    root = report.root
    assert root is not None
    assert "4121 (VLLM::EngineCor) with 512.00 GiB" in root.explanation.en
    assert "the killed one 37.00 MiB" in root.explanation.en


def test_rays_victim_and_culprit() -> None:
    report = analyze([("ray.log", io.BytesIO(RAY.encode()))])
    assert report.outcome.cause == "host_oom.killed.ray_monitor"
    root = report.root
    assert root is not None
    assert "410 (python etl.py) with 48.51 GiB" in root.explanation.en
