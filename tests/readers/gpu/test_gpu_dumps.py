"""Every dump in fixtures/nvidia-smi against the right answers beside it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from analyzer.intake.decode import Decoder
from analyzer.intake.lines import clean
from analyzer.model import Gpu, GpuSnapshot
from analyzer.model.units import MIB
from analyzer.readers import Page, Reading, read_page

FOLDER = Path(__file__).parents[3] / "fixtures" / "nvidia-smi"
CASES = sorted(path.stem for path in FOLDER.glob("*.yaml"))


@cache
def answer(case: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((FOLDER / f"{case}.yaml").read_text(encoding="utf-8"))
    return loaded


def page(path: Path) -> Page:
    data = path.read_bytes()
    decoder = Decoder(data)
    text = (decoder.feed(data) + decoder.close()).decode("utf-8", "replace")
    return Page(path.name, [clean(line.rstrip("\r")) for line in text.split("\n")])


@cache
def readings(case: str) -> tuple[Reading, ...]:
    source = next(path for path in FOLDER.glob(f"{case}.*") if path.suffix != ".yaml")
    return tuple(read_page(page(source)))


def snapshots(case: str) -> list[GpuSnapshot]:
    return [snapshot for reading in readings(case) for snapshot in reading.snapshots]


def same(want: object, got: object) -> bool:
    if isinstance(want, (int, float)) and isinstance(got, (int, float)):
        return abs(want - got) < 0.51
    return want == got or (want is not None and got is not None and str(want).lower() == str(got).lower())


def card(case: str, index: int) -> Gpu:
    found = [gpu for gpu in snapshots(case)[-1].gpus if gpu.index == index]
    assert len(found) == 1, f"{len(found)} cards with index {index}"
    return found[0]


@pytest.mark.parametrize("case", CASES)
def test_kind_snapshots_and_banner(case: str) -> None:
    want = answer(case)
    assert {reading.kind for reading in readings(case)} == {want["kind"]}
    assert len(snapshots(case)) == want["snapshots"]
    last = snapshots(case)[-1]
    assert (last.driver, last.cuda) == (want["driver"], want["cuda"])
    assert len(last.gpus) == len(want["gpus"])
    assert last.columns_unknown == bool(want.get("columns_unknown"))
    if "smi_version" in want:
        assert last.tool_version == want["smi_version"]
    assert (last.error is not None) == ("error" in want)
    if "links" in want:
        assert last.links == want["links"]


FIELDS: dict[str, str] = {"utilization": "utilization_percent", "vram_percent": "memory_percent"}


@pytest.mark.parametrize(("case", "place"), [(case, place) for case in CASES for place in range(len(answer(case)["gpus"]))])
def test_card(case: str, place: int) -> None:
    want: dict[str, Any] = dict(answer(case)["gpus"][place])
    got = card(case, want["index"])
    mig = {"Enabled": True, "Disabled": False}.get(str(want.pop("mig")))
    assert got.mig is mig
    wrong = {name: (value, getattr(got, FIELDS.get(name, name))) for name, value in want.items()
             if not same(value, getattr(got, FIELDS.get(name, name)))}  # fmt: skip
    assert not wrong


@pytest.mark.parametrize("case", CASES)
def test_processes(case: str) -> None:
    want = answer(case)["processes"]
    got = snapshots(case)[-1].processes
    assert [(p.gpu, p.pid, p.name, p.used_mib) for p in got] == [(p["gpu"], p["pid"], p["name"], p["used_mib"]) for p in want]
    for expected, process in zip(want, got, strict=True):
        assert process.type == expected.get("type", process.type)
        assert (process.gpu_instance, process.compute_instance) == (expected.get("gi"), expected.get("ci"))
        assert process.name_status == expected.get("name_status")
        assert process.name_truncated == expected.get("name_truncated", False)


@pytest.mark.parametrize("case", [case for case in CASES if "mig_devices" in answer(case)])
def test_mig_devices(case: str) -> None:
    got = [
        {"gpu": d.gpu, "gi": d.gpu_instance, "ci": d.compute_instance, "dev": d.device, "memory_used_mib": d.memory_used_mib,
         "memory_total_mib": d.memory_total_mib, "sm": d.multiprocessors, "profile": d.profile}
        for d in snapshots(case)[-1].mig_devices
    ]  # fmt: skip
    want = [{key: value for key, value in device.items() if key != "bar1_total_mib"} for device in answer(case)["mig_devices"]]
    assert [{key: device[key] for key in expected} for expected, device in zip(want, got, strict=True)] == want


@pytest.mark.parametrize("case", [case for case in CASES if "series" in answer(case)])
def test_series(case: str) -> None:
    for want, got in zip(answer(case)["series"], snapshots(case), strict=True):
        for entry in want:
            gpu = next(gpu for gpu in got.gpus if gpu.index == entry["gpu"])
            assert gpu.memory_used_mib == entry["memory_used_mib"]
            assert got.time == entry.get("time", got.time)


@pytest.mark.parametrize("case", CASES)
def test_facts_stand_in_their_lines(case: str) -> None:
    """Every figure of a fact is printed in the line that its source names (a wrapped line aside)."""
    for reading in readings(case):
        for fact in reading.facts:
            assert fact.name in ("device.total", "device.used", "device.free", "process.used")
            assert str(fact.value) in fact.source.text, (fact.name, fact.value, fact.source)


@pytest.mark.parametrize("case", CASES)
def test_facts_are_the_last_snapshot_too(case: str) -> None:
    if readings(case)[-1].kind in ("nvtop-json"):
        pytest.skip("printed in another unit")
    values = {(fact.name, fact.gpu): (fact.bytes or 0) / MIB if fact.unit == "GiB" else fact.value for fact in readings(case)[-1].facts}
    for gpu in snapshots(case)[-1].gpus:
        for name, value in (("total", gpu.memory_total_mib), ("used", gpu.memory_used_mib), ("free", gpu.memory_free_mib)):
            assert values.get((f"device.{name}", gpu.index)) == (None if value is None else pytest.approx(value))
