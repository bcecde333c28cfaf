"""What the host's tools print: figures with the unit that they mean, and versions."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzer.readers import READERS
from analyzer.readers.base import Page
from analyzer.readers.host.sizes import size_fact

FIXTURES = Path(__file__).parents[3] / "fixtures" / "readers" / "host"


TOOLS = [import_module(f"analyzer.readers.{name}") for name in READERS if name.startswith("host.")]


def read(text):
    page = Page("x", text.split("\n"))
    found = []
    for tool in TOOLS:  # where two claim a line, the first one has it
        claims = tool.read(page) if page.holds(tool.ANCHORS) else []
        found += [one for one in claims if not any(one.first <= other.last and other.first <= one.last for other in found)]
    return sorted(found, key=lambda reading: reading.first)


def facts(text):
    return [(fact.name, fact.value, fact.unit) for reading in read(text) for fact in reading.facts]


@pytest.mark.parametrize(
    ("name", "kinds", "wanted"),
    [
        (
            "free-g.txt",
            ["free"],
            [
                ("host.total", 9, "GiB"),
                ("host.used", 2, "GiB"),
                ("host.free", 5, "GiB"),
                ("host.available", 7, "GiB"),
                ("host.swap_free", 2, "GiB"),
            ],
        ),
        ("df-h.txt", ["df"], [("disk.free", 0, "B"), ("shm.total", 16, "GiB"), ("shm.free", 16, "GiB"), ("disk.free", 1.6, "TiB")]),
        (
            "docker-shm.txt",
            ["docker", "df", "df"],
            [("shm.total", 67108864, "B"), ("shm.total", 64, "MiB"), ("shm.free", 6.0, "MiB"), ("disk.free", 1.3, "TiB")],
        ),
        (
            "docker-inspect.txt",
            ["docker"],
            [("process.exit_code", 137, ""), ("host.limit", 34359738368, "B"), ("shm.total", 67108864, "B")],
        ),
        ("describe-pod.txt", ["k8s"], [("process.exit_code", 137, ""), ("host.limit", 32, "GiB")]),
        ("ports.txt", ["processes", "processes"], []),
        ("pip-list.txt", ["packages"], []),
    ],
)
def test_tools(name, kinds, wanted):
    text = (FIXTURES / name).read_text()
    assert [reading.kind for reading in read(text)] == kinds
    assert facts(text) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        # free without a command: its own default is KiB
        (
            "              total        used        free\nMem:      65806312    1000000    60000000",
            [("host.total", 65806312, "KiB"), ("host.used", 1000000, "KiB"), ("host.free", 60000000, "KiB")],
        ),
        (
            "$ free -m\n  total used free shared buff/cache available\nMem: 64000 100 200 0 0 300",
            [("host.total", 64000, "MiB"), ("host.used", 100, "MiB"), ("host.free", 200, "MiB"), ("host.available", 300, "MiB")],
        ),
        (
            "$ free -h\n  total used free shared buff/cache available\nMem: 62Gi 1.5Gi 512Mi 0B 0B 60Gi",
            [("host.total", 62, "GiB"), ("host.used", 1.5, "GiB"), ("host.free", 512, "MiB"), ("host.available", 60, "GiB")],
        ),
        (
            "  总计 已用 空闲 共享 缓冲/缓存 可用\n内存：62Gi 1Gi 2Gi 0B 0B 60Gi",
            [("host.total", 62, "GiB"), ("host.used", 1, "GiB"), ("host.free", 2, "GiB"), ("host.available", 60, "GiB")],
        ),
        (
            "MemTotal:       24683520 kB\nMemFree: 100 kB\nMemAvailable:   22000000 kB\nBuffers: 1 kB",
            [("host.total", 24683520, "KiB"), ("host.free", 100, "KiB"), ("host.available", 22000000, "KiB")],
        ),
        (
            "Filesystem 1K-blocks Used Available Use% Mounted on\n/dev/sda1 1000 400 600 40% /\ntmpfs 5 0 5 0% /run",
            [("disk.free", 600, "KiB")],
        ),
        ("$ df -H\nFilesystem Size Used Avail Use% Mounted on\n/dev/mapper/a-very-long-name\n  10G 4G 6G 40% /", [("disk.free", 6, "GB")]),
        ("CONTAINER ID IMAGE STATUS\n4f1c vllm/vllm-openai:v0.9.0 Exited (137) 2 minutes ago", [("process.exit_code", 137, "")]),
        ("USER PID %CPU RSS COMMAND\nroot 4410 1.0 2048 /opt/venv/bin/vllm serve m", [("process.rss", 2048, "KiB")]),
    ],
)
def test_figures(text, wanted):
    assert facts(text) == wanted


def test_a_described_pod_gives_settings_and_version():
    (reading,) = read((FIXTURES / "describe-pod.txt").read_text())
    assert reading.engine_version == "0.11.2"
    assert {flag: setting.value for flag, setting in reading.settings.items()} == {
        "--model": "/models/Qwen2.5-7B-Instruct",
        "--enable-prefix-caching": True,
        "--gpu-memory-utilization": 0.9,
    }
    assert "0.9" in reading.settings["--gpu-memory-utilization"].source.text


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("vllm 0.8.5\ntorch 2.6.0+cu124", "0.8.5"),
        ("vllm                              0.10.1.1", "0.10.1.1"),
        ("torch==2.6.0\nvllm==0.7.3", "0.7.3"),
        ("Name: vllm\nVersion: 0.11.0", "0.11.0"),
        ("vLLM Version: 0.8.5.post1", "0.8.5.post1"),
        ("[pip3] torch==2.6.0\n[pip3] vllm==0.6.3", "0.6.3"),
        ("vllm 0.7.3 has requirement torch==2.5.1, but you have torch 2.6.0+cu126.", None),
        ("vllm-flash-attn==2.6.1", None),
    ],
)
def test_versions(text, version):
    assert [reading.engine_version for reading in read(text)] == ([version] if version else [])


@pytest.mark.parametrize(
    ("text", "docker", "size"),
    [
        ("8Gi", False, (8, "GiB")),
        ("8G", False, (8, "GB")),
        ("8g", True, (8, "GiB")),
        ("64M", True, (64, "MiB")),
        ("67108864", False, (67108864, "B")),
        ("16gb", True, (16, "GiB")),
        ("all", True, None),
    ],
)
def test_sizes(text, docker, size):
    assert size_fact(text, docker=docker) == size


@given(st.text(alphabet='Mem:totalusedfree 0123456789GiB%\n\t/-[]{}"', max_size=200))
def test_any_text_ends(rest):
    for head in ("  total used free\nMem: ", "Filesystem Size Used Avail Use% Mounted on\n", "Containers:\n", "[\n{\n", "PID COMMAND\n"):
        for reading in read(head + rest):
            assert reading.first <= reading.last
