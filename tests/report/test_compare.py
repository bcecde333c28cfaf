"""Two reports side by side: what became of the failure, which settings and which ledger lines differ."""

from __future__ import annotations

from dataclasses import replace

import pytest

from analyzer.model import Basis, Confidence, EngineInfo, Ledger, LedgerLine, Outcome, Report, Setting, Source, State
from analyzer.report.compare import SAME_BYTES, compare, lines, to_json

GIB = 2**30
_HERE = Source("engine.log", 1, "")


def report(state: State, cause: str | None, stage: str | None, sizes: dict[str, float] | None = None, **settings: object) -> Report:
    ledger = Ledger(0, 0, 0, stage, tuple(LedgerLine(name, round(size * GIB), Basis.MEASURED) for name, size in (sizes or {}).items()))
    stated = {f"--{name.replace('_', '-')}": Setting(value, _HERE) for name, value in settings.items()}  # type: ignore[arg-type]
    outcome = Outcome(state, stage, cause, Confidence.CERTAIN)
    return Report([], EngineInfo("vllm"), stated, [], outcome, [], [], [], [ledger] if sizes else [], [], [])


FAILED = (State.FAILED, "cuda_oom.graph_capture", "graph_capture")
OTHER = (State.FAILED, "cuda_oom.serving", "serving")
EARLY = (State.FAILED, "startup.free_below_requested", "device_init")
HEALTHY = (State.HEALTHY, "healthy", "serving")
SLOW = (State.DEGRADED, "kv_cache.preemption", "serving")
UNKNOWN = (State.UNKNOWN, None, None)


@pytest.mark.parametrize(
    ("before", "after", "verdict", "further"),
    [
        (FAILED, HEALTHY, "fixed", True),
        (SLOW, HEALTHY, "fixed", None),
        (FAILED, FAILED, "same", None),
        (FAILED, OTHER, "moved", True),
        (FAILED, EARLY, "moved", False),
        (FAILED, SLOW, "moved", True),
        (HEALTHY, FAILED, "worse", False),
        (SLOW, FAILED, "worse", False),
        (HEALTHY, HEALTHY, "same", None),
        (UNKNOWN, HEALTHY, "unclear", None),
        (FAILED, UNKNOWN, "unclear", None),
    ],
)
def test_what_became_of_it(before: tuple, after: tuple, verdict: str, further: bool | None) -> None:
    found = compare(report(*before), report(*after))
    assert (found.verdict, found.further) == (verdict, further)


def test_settings_that_differ_and_which_side_states_them() -> None:
    before = report(*FAILED, gpu_memory_utilization=0.95, max_model_len=4096, seed=0)
    after = report(*HEALTHY, gpu_memory_utilization=0.9, max_model_len=4096, enforce_eager=True)
    found = {item.flag: (item.before, item.after, item.known) for item in compare(before, after).settings}
    assert found == {
        "--gpu-memory-utilization": (0.95, 0.9, (True, True)),
        "--seed": (0, None, (True, False)),
        "--enforce-eager": (None, True, (False, True)),
    }


def test_ledger_lines_and_their_difference() -> None:
    before = report(*FAILED, {"total": 16, "kv_cache": 4.5, "weights": 7.5})
    after = report(*HEALTHY, {"total": 16, "kv_cache": 3.75, "cuda_graphs": 0.5})
    [ledger] = compare(before, after).ledgers
    assert [(line.name, line.change) for line in ledger.lines] == [
        ("total", 0),
        ("weights", None),
        ("kv_cache", round(-0.75 * GIB)),
        ("cuda_graphs", None),
    ]
    assert [line.name for line in ledger.lines if line.differs] == ["weights", "kv_cache", "cuda_graphs"]
    shown = to_json(compare(before, after))["ledgers"][0]["lines"][1]
    assert shown == {"name": "weights", "a": round(7.5 * GIB), "b": None, "change": None}


def test_a_gpu_that_only_one_report_has() -> None:
    before = report(*FAILED, {"total": 16})
    after = report(*HEALTHY, {"total": 16})
    after.ledgers.append(replace(after.ledgers[0], gpu=1, rank=1))
    assert [(item.gpu, item.before is None, item.after is None) for item in compare(before, after).ledgers] == [
        (0, False, False),
        (1, True, False),
    ]
    assert lines(None, None) == ()


def test_less_than_what_logs_print_is_no_difference() -> None:
    one = report(*FAILED, {"weights": 1}).ledgers[0]
    other = replace(one, lines=(LedgerLine("weights", GIB + SAME_BYTES - 1, Basis.MEASURED),))
    assert [line.differs for line in lines(one, other)] == [False]
