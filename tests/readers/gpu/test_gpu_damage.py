"""Rendered tables of every generation, damaged as pastes are: the same figures come back, or none."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from analyzer.model import GpuSnapshot
from tests.readers.gpu.smi_tables import DAMAGES, LAYOUTS, LOSSY, Card, Layout, Machine, Proc, read, render, shown_name

NAMES = (
    "NVIDIA GeForce RTX 3090", "NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3", "Tesla V100-PCIE-32GB", "NVIDIA L40S-24Q", "NVIDIA GB10",
    "NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "GRID A100-2-10C", "NVIDIA GeForce RTX 4090 D", "Tesla T4",
)  # fmt: skip
PROCESSES = (
    "python3", "VLLM::EngineCore", "VLLM::Worker_TP0", "/opt/conda/envs/serve/bin/python3.10", "/usr/lib/xorg/Xorg", "[Not Found]",
    "C:\\Tools\\ollama.exe", "... --type=gpu-process", "ray::RayWorkerWrapper", "my server, v2",
)  # fmt: skip


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    count = draw(st.integers(1, 4))
    start = draw(st.integers(0, 12))
    cards = []
    for index in range(start, start + count):
        total = draw(st.integers(2000, 288_000))
        known = draw(st.integers(0, 9)) > 0
        cards.append(
            Card(
                index,
                draw(st.sampled_from(NAMES)),
                f"{draw(st.sampled_from(['00000000', '0000000F', '00008ED0']))}:{index + 1:02X}:00.0",
                draw(st.integers(0, total)) if known else None,
                total if known else None,
                draw(st.one_of(st.none(), st.integers(0, 100))),
                draw(st.sampled_from(["On", "Off", "WDDM"])),
                draw(st.sampled_from(["On", "Off"])),
                draw(st.sampled_from(["N/A", "0", "3", "Off", "On"])),
                draw(st.sampled_from(["N/A", "Disabled", "Enabled"])),
                draw(st.one_of(st.none(), st.integers(0, 100))),
                draw(st.sampled_from(["Not Supported", "N/A", "Unknown Error", "GPU is lost"])),
            )
        )
    processes = [
        Proc(
            draw(st.integers(start, start + count - 1)),
            draw(st.integers(2, 4_000_000)),
            draw(st.sampled_from(["C", "G", "C+G"])),
            draw(st.sampled_from(PROCESSES)),
            draw(st.one_of(st.none(), st.integers(0, 288_000))),
        )
        for _ in range(draw(st.integers(0, 4)))
    ]
    driver = draw(st.sampled_from(["580.65.06", "535.161.07", "595.71", "418.87.00"]))
    return Machine(driver, draw(st.sampled_from(["13.0", "12.2", "9.1"])), cards, processes)


def figures(snapshot: GpuSnapshot) -> dict[int | None, tuple[float | None, ...]]:
    return {gpu.index: (gpu.memory_used_mib, gpu.memory_total_mib, gpu.utilization_percent) for gpu in snapshot.gpus}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(machine=machines())
def test_same_figures_or_none(machine: Machine, layout: Layout, damage: str) -> None:
    if layout.pid_width < 7:
        machine.processes = [dataclasses.replace(process, pid=process.pid % 90_000 + 2) for process in machine.processes]
    lines = DAMAGES[damage](render(machine, layout))
    found = [snapshot for reading in read(lines) for snapshot in reading.snapshots]
    cards = {card.index: card for card in machine.cards}
    if damage not in LOSSY:
        assert len(found) == 1
        snapshot = found[0]
        assert {gpu.index: gpu.name for gpu in snapshot.gpus} == {card.index: shown_name(card.name, layout) for card in machine.cards}
        assert {gpu.index: gpu.bus_id for gpu in snapshot.gpus} == {card.index: card.bus for card in machine.cards}
        assert figures(snapshot) == {card.index: (card.used, card.total, card.util) for card in machine.cards}
        assert [(p.gpu, p.pid, p.type, p.used_mib) for p in snapshot.processes] == [
            (p.gpu, p.pid, p.kind, p.used) for p in machine.processes
        ]
        if damage != "cut above":
            assert snapshot.driver == machine.driver
            assert snapshot.cuda == (machine.cuda if layout.banner != "old" else None)
        return
    for snapshot in found:
        for gpu in snapshot.gpus:
            if gpu.index is None:
                continue
            card = cards[gpu.index]
            assert gpu.memory_used_mib in (None, card.used)
            assert gpu.memory_total_mib in (None, card.total)
            assert gpu.utilization_percent in (None, card.util)
            assert gpu.bus_id in (None, card.bus)
        stated = {(process.gpu, process.pid, process.used) for process in machine.processes}
        blank = {(process.gpu, process.pid, None) for process in machine.processes}
        assert {(p.gpu, p.pid, p.used_mib) for p in snapshot.processes} <= stated | blank


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
@settings(max_examples=10, deadline=None)
@given(machine=machines(), count=st.integers(2, 5))
def test_a_loop_is_a_series(machine: Machine, layout: Layout, count: int) -> None:
    machine.processes = []
    lines = []
    for step in range(count):
        for card in machine.cards:
            card.util = step
        lines += render(machine, layout)
    found = read(lines)
    assert len(found) == 1
    assert [{gpu.utilization_percent for gpu in snapshot.gpus} for snapshot in found[0].snapshots] == [{step} for step in range(count)]


def test_long_loop_is_bounded_and_keeps_the_peak() -> None:
    lines = []
    for step in range(1200):
        used = 20_000 if step == 613 else 1000 + step
        lines += render(Machine("580.65.06", "13.0", [Card(0, "NVIDIA L4", "00000000:03:00.0", used, 23034, 5)]), LAYOUTS[-2])
    reading = read(lines)[0]
    used_values = [snapshot.gpus[0].memory_used_mib for snapshot in reading.snapshots]
    assert len(used_values) <= 500
    assert (used_values[0], used_values[-1], max(value or 0 for value in used_values)) == (1000, 2199, 20_000)
    assert {fact.value for fact in reading.facts if fact.name == "device.used"} == {1000, 2199, 20_000}


def test_a_page_that_ends_inside_a_loop_leaves_the_last_dump_open() -> None:
    lines = render(Machine("580.65.06", "13.0", [Card(0, "NVIDIA L4", "00000000:03:00.0", 100, 23034, 5)]), LAYOUTS[-2])
    found = read([*lines, *lines, *lines[:14]], whole=False)
    assert [(len(reading.snapshots), reading.open) for reading in found] == [(2, False), (1, True)]
    assert found[1].first > found[0].last


def test_layout_of_the_tool_is_not_altered_and_a_collapsed_one_is() -> None:
    lines = render(Machine("580.65.06", "13.0", [Card(0, "NVIDIA L4", "00000000:03:00.0", 100, 23034, 5)]), LAYOUTS[-2])
    assert not read(lines)[0].snapshots[0].altered
    assert read(DAMAGES["blanks collapsed"](lines))[0].snapshots[0].altered
