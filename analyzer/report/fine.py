"""What was checked and is fine, and the settings that what-if can move: both asked of the engine's own arithmetic, nothing guessed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from analyzer.engines.what_if import WhatIfError, what_if
from analyzer.model import STAGES, Report, State, Value

UTILIZATION, LENGTH, SEQS = "--gpu-memory-utilization", "--max-model-len", "--max-num-seqs"
DTYPE, TP = "--kv-cache-dtype", "--tensor-parallel-size"
#: Values that no start has: asked for to learn what is in force.
_PROBE: dict[str, Value | None] = {UTILIZATION: 0.123456, LENGTH: 1237, SEQS: 1237, DTYPE: "fp8_e5m2", TP: 1023}


@dataclass(frozen=True, slots=True)
class Slider:
    """A setting that what-if moves. ``now``: in force, None where the inputs do not tell; ``choices``: instead of a range."""

    flag: str
    field: str  # name of the form's field
    now: Value | None
    low: float = 0
    high: float = 0
    step: float = 1
    choices: tuple[str, ...] = ()


#: Where the slider of the share begins, unless a smaller one is in force.
LEAST_SHARE = 0.3


def passed_checks(report: Report, language: str) -> list[str]:
    """The conditions of the start that hold with the settings as they are, in words; empty where there is no arithmetic for it."""
    try:
        answer = what_if(report, {})
    except WhatIfError:
        return []
    return list(dict.fromkeys(check.text.get(language) for check in answer.checks if check.passed))


def passed_stages(report: Report) -> list[str]:
    """The stages of a failed start that came to their end before the one that failed, by name; only those that every start goes through."""
    stage = report.outcome.stage
    if report.outcome.state is not State.FAILED or stage not in STAGES or not report.ledgers:
        return []
    known = {line.name for ledger in report.ledgers for line in ledger.lines}
    reached = STAGES.index(stage)
    # A stage counts where its own figure is in the inputs: the order alone would be a guess.
    shown = {"weight_load": "weights", "profiling": "activation_peak", "kv_init": "kv_cache"}
    return [name for name, line in shown.items() if STAGES.index(name) < reached and line in known]


def sliders(report: Report) -> list[Slider]:
    """What can be moved, with what is in force; empty where what-if has no answer for this report."""
    try:
        what_if(report, {})
        changed = what_if(report, _PROBE).changed
    except WhatIfError:
        return []
    now: dict[str, Any] = {flag: changed[flag][0] if flag in changed else value for flag, value in _PROBE.items()}
    length = int(now[LENGTH]) if isinstance(now[LENGTH], (int, float)) else None
    seqs = int(now[SEQS]) if isinstance(now[SEQS], (int, float)) else None
    tensor = int(now[TP] or 1)
    dtypes = tuple(dict.fromkeys([str(now[DTYPE] or "auto"), "auto", "fp8"]))
    ranks = tuple(str(size) for size in sorted({1, 2, 4, 8, tensor}))
    grain = 256 if length is None or length <= 65536 else 1024
    top = 131072 if length is None else max(8192, -(-2 * length // grain) * grain)
    share = now[UTILIZATION]
    least = min(LEAST_SHARE, math.floor(100 * share) / 100) if isinstance(share, (int, float)) and share > 0 else LEAST_SHARE
    return [
        Slider(UTILIZATION, "utilization", share, least, 0.99, 0.01),
        Slider(LENGTH, "length", length, min(grain, length or grain), top, 1 if length and length % grain else grain),
        Slider(SEQS, "seqs", seqs, 1, max(512, 2 * (seqs or 0)), 1),
        Slider(DTYPE, "dtype", now[DTYPE], choices=dtypes),
        Slider(TP, "tp", tensor, choices=ranks),
    ]


#: Field of the form → flag.
FIELDS = {"utilization": UTILIZATION, "length": LENGTH, "seqs": SEQS, "dtype": DTYPE, "tp": TP}
