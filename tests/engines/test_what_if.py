"""What-if: nothing changed gives the same ledger, more of one thing never gives less of what follows from it, and known answers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import analyzer
from analyzer.engines.what_if import WhatIfError
from analyzer.model.units import GIB
from tests.case_files import FOLDERS, as_json, report

STARTUPS = sorted(name for name, folder in FOLDERS.items() if folder.parent.name == "vllm-startup")
WITH_LEDGER = [name for name in STARTUPS if as_json(name)["ledgers"] and as_json(name)["engine"]["name"] == "vllm"]
#: Cases whose last start prints everything of the budget.
WHOLE = ["vllm-v0-graph-capture-oom-16gb", "vllm-v0-healthy-tp2-l40s-32b", "vllm-v0-kv-too-small-29k-3090"]
PLAN = {"total", "budget", "weights", "draft_weights", "kv_cache", "state_cache", "non_torch", "activation_peak", "cuda_graphs_reserved"}


def lines(ledger: Any) -> dict[str, int]:
    return {line.name: line.bytes for line in ledger.lines if line.name in PLAN}


@pytest.mark.parametrize("name", WITH_LEDGER)
def test_nothing_changed_is_the_same_ledger(name: str) -> None:
    given_ledgers = report(name).ledgers
    answer = analyzer.what_if(report(name), {})
    assert [lines(ledger) for ledger in answer.ledgers] == [lines(ledger) for ledger in given_ledgers]
    assert answer.changed == {}
    assert answer.scaled == ()


@pytest.mark.parametrize("name", WITH_LEDGER)
def test_settings_that_are_in_force_change_nothing(name: str) -> None:
    known = {flag: setting["value"] for flag, setting in as_json(name)["settings"].items()}
    same = {flag: known[flag] for flag in ("--gpu-memory-utilization", "--max-model-len", "--tensor-parallel-size") if flag in known}
    assert analyzer.what_if(report(name), same).changed == {}


@pytest.mark.parametrize("name", WITH_LEDGER)
def test_a_report_and_its_json_are_answered_alike(name: str) -> None:
    asked = {"max_model_len": 4096, "enforce_eager": True}
    answers = [analyzer.what_if(given_, asked).to_json() for given_ in (report(name), report(name).to_json(), as_json(name))]
    assert answers[0] == answers[1] == answers[2]
    json.dumps(answers[0])


@pytest.mark.parametrize("name", WITH_LEDGER)
def test_a_start_that_came_up_fits_as_it_was_and_one_that_failed_does_not(name: str) -> None:
    outcome, answer = as_json(name)["outcome"], analyzer.what_if(report(name), {})
    if outcome["state"] == "healthy":
        assert answer.fits is not False
    if outcome["cause"] in ("kv_cache.too_small_for_max_len", "kv_cache.mamba_blocks_below_max_num_seqs", "startup.free_below_requested"):
        assert answer.fits is False


@pytest.mark.parametrize(
    ("name", "settings", "fits", "expected"),
    [
        ("vllm-v0-kv-too-small-29k-3090", {"--gpu-memory-utilization": 0.93}, None, {"kv_cache": 3.60, "budget": 21.93}),
        ("vllm-v0-kv-too-small-29k-3090", {"--gpu-memory-utilization": 0.92}, False, {"kv_cache": 3.36}),
        ("vllm-v0-graph-capture-oom-16gb", {"gpu_memory_utilization": 0.9}, None, {"kv_cache": 3.76, "budget": 14.19}),
        ("vllm-v0-graph-capture-oom-16gb", {"gpu_memory_utilization": 0.97}, False, {"budget": 15.30}),
        ("vllm-v0-graph-capture-oom-16gb", {"--enforce-eager": True}, True, {"kv_cache": 4.55}),
        ("vllm-v0-healthy-tp2-l40s-32b", {"--max-model-len": 70000}, False, {"kv_cache": 7.71}),
        ("vllm-v0-healthy-tp2-l40s-32b", {"--tensor-parallel-size": 4}, True, {"weights": 15.355, "kv_cache": 23.06}),
        ("vllm-v0-healthy-tp2-l40s-32b", {"--kv-cache-memory-bytes": 4 * GIB}, True, {"kv_cache": 4.0}),
        ("vllm-v0-healthy-tp2-l40s-32b", {"--kv-cache-memory-bytes": 13 * GIB}, False, {"kv_cache": 13.0}),
        ("vllm-v0-healthy-tp2-l40s-32b", {"--num-gpu-blocks-override": 1000}, True, {"kv_cache": 1.953}),
        ("vllm-v1-hybrid-mamba-blocks-614-of-1024-seqs", {"--max-num-seqs": 614}, True, {}),
        ("vllm-v1-hybrid-mamba-blocks-614-of-1024-seqs", {"--max-num-seqs": 615}, False, {}),
        ("vllm-v1-180k-context-hybrid-27b-3090", {"--max-model-len": 111456}, True, {"kv_cache": 2.17}),
        ("vllm-v1-180k-context-hybrid-27b-3090", {"--max-model-len": 128000}, False, {"kv_cache": 2.17}),
        ("vllm-v1-180k-context-hybrid-27b-3090", {"--gpu-memory-utilization": 0.97}, None, {}),
    ],
)
def test_known_answers(name: str, settings: dict[str, Any], fits: bool | None, expected: dict[str, float]) -> None:
    answer = analyzer.what_if(report(name), settings)
    assert answer.fits is fits, answer.checks
    tight = min(answer.ledgers, key=lambda ledger: ledger.get("kv_cache") or 0)
    for line, gib in expected.items():
        assert (tight.get(line) or 0) / GIB == pytest.approx(gib, abs=0.011), line


def test_the_longest_that_fits_is_the_engines_own_figure() -> None:
    assert analyzer.what_if(report("vllm-v0-kv-too-small-29k-3090"), {}).longest == 23648
    assert analyzer.what_if(report("vllm-v1-180k-context-hybrid-27b-3090"), {}).longest == 111456


def test_a_hybrid_models_need_is_not_taken_in_proportion() -> None:
    """2.17 / 3.05 × 180000 would be 128000; the state is a fixed share."""
    answer = analyzer.what_if(report("vllm-v1-180k-context-hybrid-27b-3090"), {"--max-model-len": 120000})
    assert answer.fits is False
    assert answer.longest == 111456


@given(st.integers(50, 99), st.integers(50, 99))
def test_more_utilization_never_means_a_smaller_pool(one: int, other: int) -> None:
    for name in WHOLE:
        low, high = (analyzer.what_if(report(name), {"--gpu-memory-utilization": share / 100}) for share in sorted((one, other)))
        for before, after in zip(low.ledgers, high.ledgers, strict=True):
            assert (before.get("kv_cache") or 0) <= (after.get("kv_cache") or 0)
        assert (low.longest or 0) <= (high.longest or 0)


@given(st.integers(1, 200_000), st.integers(1, 200_000))
def test_a_longer_context_never_fits_where_a_shorter_one_does_not(one: int, other: int) -> None:
    for name in [*WHOLE, "vllm-v1-180k-context-hybrid-27b-3090"]:
        short, long = (analyzer.what_if(report(name), {"--max-model-len": length}) for length in sorted((one, other)))
        margins = [
            min((check.margin for check in answer.checks if check.name == "one_request" and check.margin is not None), default=None)
            for answer in (short, long)
        ]
        if None not in margins:
            assert margins[0] >= margins[1]  # type: ignore[operator]
        if short.fits is False and not any(check.passed is False for check in short.checks if check.name != "one_request"):
            assert long.fits is False


@given(st.integers(1, 8), st.integers(1, 8))
def test_more_ranks_never_mean_more_weights_on_each(one: int, other: int) -> None:
    for name in WHOLE:
        few, many = (analyzer.what_if(report(name), {"--tensor-parallel-size": ranks}) for ranks in sorted((one, other)))
        assert (few.ledgers[0].get("weights") or 0) >= (many.ledgers[0].get("weights") or 0)


@given(st.floats(0.5, 0.99).map(lambda share: round(share, 2)))
def test_the_budget_still_closes_after_another_utilization(share: float) -> None:
    for name in WHOLE:
        for before, after in zip(
            report(name).ledgers, analyzer.what_if(report(name), {"--gpu-memory-utilization": share}).ledgers, strict=True
        ):
            rest = [
                (ledger.get("budget") or 0) - sum(ledger.get(part) or 0 for part in ("weights", "kv_cache", "non_torch", "activation_peak"))
                for ledger in (before, after)
            ]
            assert abs(rest[0] - rest[1]) <= 1


def test_one_ledger_of_the_contract_is_enough() -> None:
    sizes = {"total": 24 * GIB, "budget": round(21.6 * GIB), "weights": 14 * GIB, "activation_peak": GIB, "kv_cache": round(6.6 * GIB)}
    ledger = {"lines": [{"name": name, "bytes": size} for name, size in sizes.items()]}
    answer = analyzer.what_if(ledger, {"--gpu-memory-utilization": 0.95})
    assert answer.ledgers[0].get("kv_cache") == pytest.approx(7.8 * GIB, abs=10)
    assert answer.changed == {"--gpu-memory-utilization": (0.9, 0.95)}


@pytest.mark.parametrize(
    ("given_", "settings"),
    [
        ("{", {}),
        ("[]", {}),
        ({"lines": [{"name": "wings", "bytes": 1}]}, {}),
        ({"lines": [{"name": "total", "bytes": "much"}]}, {}),
        ({"lines": [{"name": "total", "bytes": 1}, {"name": "total", "bytes": 2}]}, {}),
        ({"facts": [{}]}, {}),
        ({}, {}),
        ({"engine": {"name": "ollama"}, "ledgers": [{"lines": [{"name": "total", "bytes": 1}]}]}, {}),
        ({"lines": [{"name": "total", "bytes": 1}]}, {"--warp-speed": 9}),
        ({"lines": [{"name": "total", "bytes": 1}]}, {"--gpu-memory-utilization": 1.2}),
        ({"lines": [{"name": "total", "bytes": 1}]}, {"--gpu-memory-utilization": "lots"}),
        ({"lines": [{"name": "total", "bytes": 1}]}, {"--gpu-memory-utilization": True}),
        ({"lines": [{"name": "total", "bytes": 1}]}, {"--gpu-memory-utilization": float("nan")}),
        ({"lines": [{"name": "total", "bytes": 1}]}, {"--max-model-len": float("inf")}),
        ({"lines": [{"name": "total", "bytes": 1}]}, {"--max-model-len": 0}),
        ({"lines": [{"name": "total", "bytes": 1}]}, {"--max-model-len": 10.5}),
        ({"lines": [{"name": "total", "bytes": 1}]}, {"--enforce-eager": "maybe"}),
        ({"lines": [{"name": "total", "bytes": 1}]}, {"--kv-cache-dtype": 8}),
        ({"lines": [{"name": "total", "bytes": 1}]}, {"--max-num-seqs": 5, "max_num_seqs": 6}),
    ],
)
def test_what_cannot_be_answered_says_so(given_: Any, settings: dict[str, Any]) -> None:
    with pytest.raises(WhatIfError):
        analyzer.what_if(given_, settings)


def test_what_is_not_known_is_not_guessed() -> None:
    answer = analyzer.what_if(report("vllm-v1-180k-context-hybrid-27b-3090"), {"--gpu-memory-utilization": 0.97})
    assert answer.ledgers[0].get("kv_cache") is None
    assert any("nvidia-smi" in note.en for note in answer.notes)
