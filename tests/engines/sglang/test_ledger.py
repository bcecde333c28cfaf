"""SGLang's ledger closes on the memory that was free before loading, whatever is printed."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzer.model.units import GIB
from tests.engines.logs import ledger, of, told

PARTS = ("weights", "draft_weights", "kv_cache", "state_cache", "cuda_graphs", "free", "unaccounted")


def gib(size: int | None) -> float | None:
    return None if size is None else round(size / GIB, 2)


@pytest.mark.parametrize(("gpu", "start", "free"), [(0, 77.90, 7.89), (1, 77.80, 7.79)])
def test_a_healthy_start_of_two_ranks(gpu: int, start: float, free: float) -> None:
    found = ledger(of("sgl-healthy-tp2.log"), gpu)
    assert {name: gib(found[name]) for name in ("weights", "kv_cache", "cuda_graphs", "free")} == {
        "weights": 30.7,
        "kv_cache": 37.04,
        "cuda_graphs": 1.41,
        "free": free,
    }
    assert sum(found.get(name, 0) for name in PARTS) / GIB == pytest.approx(start, abs=0.02)
    assert found["budget"] / GIB == pytest.approx(start * 0.87, abs=0.01)


def test_weights_of_an_old_release_are_what_has_gone() -> None:
    assert gib(ledger(of("sgl-graph-oom.log")).get("weights")) == 15.17


def test_the_sentence_is_the_card() -> None:
    found = ledger(of("sgl-serving-oom.log"))
    assert gib(found["total"]) == 79.11
    assert found["total"] == found["process"] + found["free"] + found.get("other_processes", 0) + found.get("unaccounted", 0)


def test_state_and_draft_have_lines_of_their_own() -> None:
    report = told(
        "[2025-10-01 10:00:00] Load weight begin. avail mem=70.00 GB\n"
        "[2025-10-01 10:00:01] Load weight end. type=Qwen3NextForCausalLM, dtype=torch.bfloat16, avail mem=40.00 GB, mem usage=30.00 GB.\n"
        "[2025-10-01 10:00:02] Mamba Cache is allocated. max_mamba_cache_size: 100, conv_state size: 0.50GB, ssm_state size: 9.50GB\n"
        "[2025-10-01 10:00:03] KV Cache is allocated. #tokens: 100000, K size: 8.00 GB, V size: 8.00 GB\n"
        "[2025-10-01 10:00:03] Memory pool end. avail mem=13.00 GB\n"
        "[2025-10-01 10:00:04] Load weight begin. avail mem=13.00 GB\n"
        "[2025-10-01 10:00:04] Load weight end. type=LlamaForCausalLMEagle, dtype=torch.bfloat16, avail mem=12.00 GB, mem usage=1.00 GB.\n"
    )
    assert {name: gib(size) for name, size in ledger(report).items()} == {
        "weights": 30.0,
        "draft_weights": 1.0,
        "kv_cache": 16.0,
        "state_cache": 10.0,
        "free": 12.0,
        "unaccounted": 1.0,
    }


@settings(max_examples=25, deadline=None)
@given(
    start=st.integers(2000, 18000),
    weights=st.integers(1, 900),
    pool=st.integers(1, 900),
    graphs=st.integers(1, 100),
    hidden=st.integers(0, 90),
)
def test_it_closes(start: int, weights: int, pool: int, graphs: int, hidden: int) -> None:
    free = start - weights - 2 * pool - hidden
    log = (
        f"[2025-10-01 10:00:00] Load weight begin. avail mem={start / 100:.2f} GB\n"
        f"[2025-10-01 10:00:01] Load weight end. type=X, avail mem={(start - weights) / 100:.2f} GB, mem usage={weights / 100:.2f} GB.\n"
        f"[2025-10-01 10:00:02] KV Cache is allocated. #tokens: 100, K size: {pool / 100:.2f} GB, V size: {pool / 100:.2f} GB\n"
        f"[2025-10-01 10:00:03] Memory pool end. avail mem={free / 100:.2f} GB\n"
        f"[2025-10-01 10:00:04] Capture cuda graph begin. This can take up to several minutes. avail mem={free / 100:.2f} GB\n"
        f"[2025-10-01 10:00:09] Capture cuda graph end. Time elapsed: 5.00 s. mem usage={graphs / 100:.2f} GB. "
        f"avail mem={(free - graphs) / 100:.2f} GB.\n"
    )
    found = ledger(told(log))
    assert sum(found.get(name, 0) for name in PARTS) / GIB == pytest.approx(start / 100, abs=0.025)
    assert found["free"] / GIB == pytest.approx((free - graphs) / 100, abs=0.001)
