"""The two directions of --mem-fraction-static, and the window between them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engines.logs import changes, of, told

SHARE = "--mem-fraction-static"


def low_start(start: float, weights: float, share: float, *, chunk: int = 2048) -> str:
    return (
        f"[2025-06-10 08:00:00] server_args=ServerArgs(mem_fraction_static={share}, chunked_prefill_size={chunk}, tp_size=1)\n"
        f"[2025-06-10 08:00:11] Load weight begin. avail mem={start:.2f} GB\n"
        f"[2025-06-10 08:00:20] Load weight end. type=X, avail mem={start - weights:.2f} GB, mem usage={weights:.2f} GB.\n"
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.\n"
    )


def test_too_small_a_pool_wants_more() -> None:
    report = of("sgl-pool-low-f.log")
    window = report["findings"][0]["window"]
    assert changes(report)[SHARE] > 0.3
    assert (window["low"], window["feasible"]) == (0.6, True)


def test_too_little_slack_wants_less() -> None:
    for name in ("sgl-graph-oom.log", "sgl-serving-oom.log"):
        report = of(name)
        before = next(fact["value"] for fact in report["facts"] if fact["name"] == "budget.utilization")
        assert changes(report)[SHARE] < before
        assert report["findings"][0]["window"]["high"] < before


def test_without_figures_the_low_share_is_removed() -> None:
    report = told(
        "[2025-06-10 08:00:00] server_args=ServerArgs(model_path='m', mem_fraction_static=0.2)\n"
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.\n"
    )
    assert changes(report) == {SHARE: None}


def test_weights_that_leave_no_slack_have_no_window() -> None:
    root = told(low_start(24.0, 22.5, 0.8))["findings"][0]
    assert root["window"]["feasible"] is False
    assert SHARE not in {change.get("flag") for fix in root["fixes"] for change in fix["changes"]}


def test_the_cap_is_below_the_pool_and_above_a_request() -> None:
    report = of("sgl-serving-oom.log")
    assert 0 < changes(report)["--max-total-tokens"] < 465000


@settings(max_examples=40, deadline=None)
@given(start=st.floats(8, 180), part=st.floats(0.05, 0.97), share=st.floats(0.05, 0.95))
def test_a_raised_share_leaves_a_pool_and_a_slack(start: float, part: float, share: float) -> None:
    start, share = round(start, 2), round(share, 2)
    weights = round(start * part, 2)
    report = told(low_start(start, weights, share))
    to = changes(report).get(SHARE)
    window = report["findings"][0]["window"]
    if to is not None:
        assert window["low"] <= to <= window["high"]
        assert (start - weights) - start * (1 - to) > 0
        assert start * (1 - to) > 0.5
    assert window["feasible"] == (window["low"] <= window["high"])


@pytest.mark.parametrize("page", [1, 64])
def test_a_failed_decode_is_a_matter_of_pages_only_with_pages(page: int) -> None:
    report = told(
        f"[2025-03-10 08:00:00] server_args=ServerArgs(model_path='m', page_size={page}, tp_size=1)\n"
        "RuntimeError: Decode out of memory. Try to lower your batch size.\nTry to allocate 60 tokens.\nAvaliable tokens: 2600\n"
    )
    assert (report["outcome"]["cause"] == "engine.version_bug.page_granular_decode_check") == (page > 1)
    assert report["outcome"]["state"] == "failed"


def test_retraction_is_the_pool_not_the_card() -> None:
    report = told(
        "[2025-09-06 02:58:44 TP0] KV cache pool is full. Retract requests. #retracted_reqs: 3, #new_token_ratio: 0.2110 -> 0.8120\n"
    )
    assert (report["outcome"]["state"], report["outcome"]["cause"]) == ("degraded", "kv_cache.pool_exhausted_retraction")
