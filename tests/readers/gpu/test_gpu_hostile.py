"""Texts made to be slow or to break a reader: twice the text takes about twice the time, and nothing is raised."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.readers.gpu.smi_tables import LAYOUTS, Card, Machine, read, render

ROW = "|   0  NVIDIA L4    On | 00000000:9A:00.0 Off |  0 |"
SECOND = "| N/A   34C    P0   42W /   72W |  100MiB /  23034MiB |  0%      Default |"

HOSTILE: dict[str, Callable[[int], list[str]]] = {
    "one endless row": lambda n: ["| NVIDIA-SMI 580.1 " + "|   0  NVIDIA  N/A " * n],
    "endless blanks": lambda n: ["NVIDIA-SMI 580.1" + " " * 20 * n + "x", "MiB /" + " " * 20 * n + "9"],
    "endless name": lambda n: ["  0  " + "a b " * 5 * n + " Off 00000000:9A:00.0 Off 0", "MiB / 1"],
    "many first lines": lambda n: [ROW] * n,
    "many second lines": lambda n: [SECOND] * n,
    "many banners": lambda n: ["| NVIDIA-SMI 580.1  Driver Version: 580.1  CUDA Version: 13.0 |"] * n,
    "many rules": lambda n: ["| NVIDIA-SMI 580.1 |", *["+" + "-" * 40] * n],
    "seeds between words": lambda n: ["MiB / 1", "words"] * n,
    "blank lines": lambda n: ["| NVIDIA-SMI 580.1 |", *[""] * n, "x"] * 3,
    "quotes of quotes": lambda n: ["> " * 10 * n + "| NVIDIA-SMI 580.1 |"],
    "-q headings": lambda n: ["==============NVSMI LOG==============", *["    Processes"] * n],
    "-q keys": lambda n: ["    FB Memory Usage", *["        Total     : 1 MiB"] * n],
    "-q one key": lambda n: ["    FB Memory Usage", "A" + " a" * 10 * n + " : x"],
    "FB again and again": lambda n: ["    FB Memory Usage", "words"] * n,
    "open XML": lambda n: ["<nvidia_smi_log>" + "<a>" * n],
    "many XML beginnings": lambda n: ["<nvidia_smi_log>"] * n,
    "unclosed XML": lambda n: ["<nvidia_smi_log>", *["<gpu id='x'>"] * n],
    "CSV of commas": lambda n: ["index, memory.used [MiB]", "0" + ", " * 10 * n],
    "CSV headers": lambda n: ["index, memory.used [MiB]"] * n,
    "CSV rows": lambda n: ["index, memory.used [MiB]", *["0, 1 MiB"] * n],
    "commands": lambda n: ["nvidia-smi --query-gpu=index --format=csv,noheader", "x"] * n,
    "dmon rows": lambda n: ["# gpu fb", *["0 1"] * n],
    "dmon headers": lambda n: ["# gpu fb"] * n,
    "JSON openings": lambda n: ["["] * n + ['"device_name"'] * 3,
    "JSON hits": lambda n: ["[", *['{"device_name": '] * n],
    "deep JSON": lambda n: ["[" * 50 * n + '"device_name"'],
    "gpustat": lambda n: ["[0] a | 1'C, " + " %" * 10 * n + " | 1 / 2 MB | " + "a:b" * 10 * n],
    "listing": lambda n: ["GPU 0: " + "a " * 10 * n + "(UUID: GPU-"] * 3,
    "topology": lambda n: ["GPU0 GPU1 CPU Affinity", *["GPU0 X SYS"] * n],
    "rocm": lambda n: ["GPU  VRAM%  GPU%", *["0 1% 2%"] * n],
    "amd-smi": lambda n: ["GPU POWER VRAM_USED", *["0 1 W 2 MB"] * n],
    "amd-smi table": lambda n: ["| GPU  HIP-ID  OAM-ID  Partition-Mode |"] * n,
    "amd-smi cards": lambda n: ["| GPU  HIP-ID  OAM-ID  Partition-Mode |", *["| 0000:1b:00.0 A  N/A N/A 0 N/A/750 W |"] * n],
    "dcgm": lambda n: [f'DCGM_FI_DEV_FB_USED{{gpu="{place}"}} 1' for place in range(n)],
    "xpu-smi table": lambda n: ["| GPU Memory Used (MiB) | 1 |"] * n,
    "xpu-smi dump": lambda n: ["Timestamp, DeviceId, GPU Memory Used (MiB)", *["00:00:00.000, 0, 1"] * n],
    "xpu-smi headers": lambda n: ["Timestamp, DeviceId, GPU Memory Used (MiB)"] * n,
    "sysfs": lambda n: ["/sys/class/drm/card0/device/mem_info_vram_used"] * n,
    "amd-smi metric": lambda n: ["    TOTAL_VRAM: 1 MB"] * n,
    "errors": lambda n: ["No devices were found"] * n,
}


def seconds(lines: list[str]) -> float:
    best = 9.0
    for _ in range(3):
        begin = time.process_time()
        read(lines)
        best = min(best, time.process_time() - begin)
    return best


@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE)
def test_time_grows_with_the_text(make: Callable[[int], list[str]]) -> None:
    small, large = seconds(make(400)), seconds(make(3200))
    assert large < 0.05 or large < 8 * small * 3, f"{small:.4f} s for one, {large:.4f} s for eight"


PIECES = st.sampled_from(
    [
        ROW, SECOND, "| NVIDIA-SMI 580.1  Driver Version: 580.1 |", "+-----------+", "|=====|", "", "> ", "# gpu fb", "# Idx MB", "0 1", "[", "]",
        "{", '"device_name": "x",', "<nvidia_smi_log>", "<gpu id='1'>", "</gpu>", "</nvidia_smi_log>", "index, memory.used [MiB]", "0, 1 MiB",
        "    FB Memory Usage", "        Total : 1 MiB", "GPU 00000000:4F:00.0", "    Processes", "        Process ID : 3", "    MIG Device",
        "            Used GPU Memory : 1 MiB", "GPU 0: x (UUID: GPU-12345)", "  MIG 1g Device 0: (UUID: MIG-12345)", "GPU0 GPU1 CPU Affinity",
        "GPU0 X SYS", "| Processes: |", "|  0  N/A N/A 12 C python 1MiB |", "GPU  VRAM%  GPU%", "[0] a | 1'C, 2 % | 1 / 2 MB |", "vGPU ID  VM Name",
        "GPU: 0", "    TOTAL_VRAM: 1 MB", "No devices were found", "|  0    1   0   0  |  1MiB / 2MiB | 42 0 | 3 0 2 0 0 |", "MiB / ", "nvidia-smi -q",
    ]
)  # fmt: skip


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(PIECES, max_size=25), st.booleans())
def test_any_mixture_of_pieces_is_survived(lines: list[str], whole: bool) -> None:
    found = read(lines, whole=whole)
    for earlier, later in itertools.pairwise(found):
        assert earlier.last < later.first
    for reading in found:
        assert 0 <= reading.first <= reading.last < len(lines)
        assert all(1 <= fact.source.line <= len(lines) for fact in reading.facts)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_a_changed_character_never_raises(data: st.DataObject) -> None:
    lines = render(Machine("580.65.06", "13.0", [Card(0, "NVIDIA L4", "00000000:03:00.0", 100, 23034, 5)]), LAYOUTS[-2])
    text = "\n".join(lines)
    for _ in range(data.draw(st.integers(1, 8))):
        place = data.draw(st.integers(0, len(text) - 1))
        text = text[:place] + data.draw(st.sampled_from(list("|+- \n\t:9aM/%\\│>&<{[")) | st.characters()) + text[place + 1 :]
    read(text.split("\n"))
