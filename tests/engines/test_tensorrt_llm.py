"""TensorRT-LLM's ledger: which pools stand at the same time, and what nobody names."""

from __future__ import annotations

import pytest

from analyzer.model.units import GIB
from tests.engines.logs import ledger, of, told

POOL = "[TensorRT-LLM][INFO] [MemUsageChange] Allocated {size} GiB for max tokens in paged KV cache ({tokens}).\n"


def gib(name: str, report: dict[str, object]) -> float:
    return round(ledger(report)[name] / GIB, 2)


@pytest.mark.parametrize(
    ("sizes", "held"),
    [
        (("0.10", "0.05"), 0.15),  # self and cross attention
        (("0.05", "6.17"), 6.17),  # a trial pool before the one that stays
        (("6.17", "6.17"), 6.17),  # two ranks
    ],
)
def test_pools_of_one_process_stand_beside_each_other(sizes: tuple[str, ...], held: float) -> None:
    log = "".join(POOL.format(size=size, tokens=place + 1024) for place, size in enumerate(sizes))
    assert gib("kv_cache", told(log)) == held


def test_parts_and_rest_make_the_card() -> None:
    report = of("trt-encoder-decoder.log")
    lines = ledger(report)
    assert gib("unaccounted", report) == pytest.approx(21.98, abs=0.01)
    assert lines["total"] == sum(size for name, size in lines.items() if name != "total")


def test_what_was_free_before_and_after_the_model_are_its_weights() -> None:
    assert gib("weights", of("trt-executor-kv.log")) == 28.85


def test_a_refused_pool_says_what_one_sequence_takes() -> None:
    assert "34816" in of("trt-below-one-sequence.log")["findings"][0]["explanation"]
