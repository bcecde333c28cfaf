"""llama.cpp's buffers by device: what is allocated is summed, what is projected or a sum over devices is not."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzer.model.units import MIB
from tests.engines.logs import ledger, of, told


def mib(size: int | None) -> float | None:
    return None if size is None else round(size / MIB, 2)


def test_two_caches_of_one_device_are_added_up() -> None:
    report = of("llama-healthy-2025.log")
    assert {name: mib(size) for name, size in ledger(report, 1).items()} == {
        "weights": 8112.1,
        "kv_cache": 1592.0,
        "compute_buffers": 522.62,
    }
    assert "host.weights" not in ledger(report, 0)  # a file mapping is no memory of its own
    assert mib(ledger(report, 0)["host.compute_buffers"]) == 279.02


def test_equal_caches_count_twice() -> None:
    line = "llama_kv_cache_unified:      CUDA0 KV buffer size =   312.00 MiB\n"
    assert mib(ledger(told(2 * line))["kv_cache"]) == 624.0


def test_a_decimal_comma_is_one() -> None:
    assert mib(ledger(of("llama-compute-retry-ok.log"))["weights"]) == 8012.33


def test_the_oldest_wording() -> None:
    assert {name: mib(size) for name, size in ledger(of("llama-2023.log")).items()} == {
        "weights": 6695.83,
        "kv_cache": 2048.0,
        "compute_buffers": 288.0,
    }


def test_the_table_at_exit_closes() -> None:
    report = told(
        "llama_model_load_from_file_impl: using device CUDA0 (NVIDIA GeForce RTX 4090) (0000:01:00.0) - 23700 MiB free\n"
        "main: server is listening on http://127.0.0.1:8080 - starting the main loop\n"
        "llama_memory_breakdown_print: | memory breakdown [MiB] | total   free     self   model   context   compute    unaccounted |\n"
        "llama_memory_breakdown_print: |   - CUDA0 (RTX 4090)   | 24080 = 9436 + (14193 = 13169 +      38 +     985) +         451 |\n"
    )
    found = ledger(report)
    assert found["total"] == sum(found.get(name, 0) for name in found if name != "total")
    assert mib(found["other_processes"]) == 380.0
    assert mib(found["unaccounted"]) == 72.0  # 451 less what others held, and a MiB of truncation


def test_a_table_after_the_start_is_measured_whatever_its_remainder() -> None:
    """The driver reports all memory as free: nothing is known of others."""
    assert {name: mib(size) for name, size in ledger(of("llama-sycl-exit.log")).items()} == {
        "total": 15473.0,
        "weights": 1242.0,
        "kv_cache": 120.0,
        "compute_buffers": 563.0,
    }


def test_more_free_than_there_is_says_nothing_of_others() -> None:
    line = "common_memory_breakdown_print: |   - ROCm0 (8060S Graphics) | 122880 = 124161 + (103173 = 99478 +    3295 +     398) +     -104455 |\n"
    found = ledger(told(f"[34333] 0.00.731.657 I {line}"))
    assert mib(found["total"]) == 122880.0
    assert "other_processes" not in found


def test_the_default_list_of_devices_is_read_behind_its_prefix() -> None:
    facts = {fact["name"]: fact["value"] for fact in of("llama-devices-2026.log")["facts"]}
    assert (facts["device.total"], facts["device.free_at_start"]) == (24123, 23755)


@pytest.mark.parametrize("rest", ["17592186036877", "-7539"])
def test_a_projection_is_not_summed(rest: str) -> None:
    report = told(
        f"llama_memory_breakdown_print: |   - CUDA0 (GTX 1080 Ti) | 11165 = 8702 + (10001 =  9814 +     134 +      51) + {rest} |\n"
    )
    facts = {fact["name"]: fact["value"] for fact in report["facts"]}
    assert facts["device.unaccounted"] == -7539
    assert facts["weights.needed"] == 9814
    assert "weights" not in facts
    assert "weights" not in ledger(report)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["CUDA0", "CUDA1", "CPU", "CUDA_Host"]), st.integers(1, 10**7)), min_size=1, max_size=6))
def test_no_byte_changes_its_device(buffers: list[tuple[str, int]]) -> None:
    log = "".join(f"llama_kv_cache: {device:>10} KV buffer size = {size / 100:8.2f} MiB\n" for device, size in buffers)
    report = told(log)
    for gpu in (0, 1):
        want = sum(size for device, size in buffers if device == f"CUDA{gpu}")
        assert ledger(report, gpu).get("kv_cache", 0) / MIB == pytest.approx(want / 100, abs=0.01)
    host = [line["bytes"] for found in report["ledgers"] for line in found["lines"] if line["name"] == "host.kv_cache"]
    want = sum(size for device, size in buffers if not device[-1].isdigit())
    assert sum(host) / MIB == pytest.approx(want / 100, abs=0.01)
