"""Every line as the releases of vLLM print it comes back with its figures and its cause; one test a topic.

fixtures/vllm-rendered-lines.jsonl: one text an entry (a message with the prefix of its era, a traceback, a progress bar) with its
release and what it states. Each is a log of its own here.
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import pytest

from analyzer import Analysis
from analyzer.model import Fact
from analyzer.model.units import BYTES_PER
from tests.case_files import FIXTURES

TOPICS: dict[str, list[dict[str, Any]]] = defaultdict(list)
for _text in (FIXTURES / "vllm-rendered-lines.jsonl").read_text(encoding="utf-8").splitlines():
    _row = json.loads(_text)
    TOPICS[_row["topic"]].append(_row)

#: (id, fact or cause) that does not come back yet -> why.
KNOWN_MISSES: dict[tuple[str, str], str] = {}


def rounding(value: float) -> float:
    """Half a unit of the last printed digit; sizes are printed with two decimals, of which trailing zeros are lost here."""
    decimals = max(2, len(repr(value).partition(".")[2])) if isinstance(value, float) else 0
    return 0.5 * 10.0**-decimals + 1e-9 * abs(value)


def states(want: dict[str, Any], fact: Fact) -> bool:
    """Whether ``fact`` is the figure ``want``."""
    if fact.name != want["name"] or (None not in (want.get("rank"), fact.rank) and int(want["rank"]) != fact.rank):
        return False
    value, unit = want["value"], want.get("unit")
    if isinstance(value, str):
        return str(fact.value).strip().lower() == value.strip().lower()
    if unit in BYTES_PER:
        return fact.bytes is not None and abs(fact.bytes - value * BYTES_PER[unit]) <= rounding(value) * BYTES_PER[unit] + 1
    try:
        found = float(fact.value)
    except (TypeError, ValueError):
        return False
    # A share may be said as 0.95 or as 95 %.
    scales = (1.0, 0.01, 100.0) if unit in ("%", "fraction") else (1.0,)
    return any(abs(found * scale - value) <= rounding(value) for scale in scales)


@pytest.mark.parametrize("topic", sorted(TOPICS))
def test_every_line_of_the_topic_is_read(topic: str) -> None:
    missed: dict[tuple[str, str], str] = {}
    for row in TOPICS[topic]:
        analysis = Analysis()
        sink = analysis.open("engine.log")
        sink.feed(row["text"].encode() + b"\n")  # some of them hold bare carriage returns
        sink.close()
        report = analysis.report()
        for want in row["facts"]:
            stated = any(states(want, fact) for fact in report.facts)
            if not stated and not (want["name"] == "engine.version" and report.engine.version == want["value"]):
                seen = [f"{fact.value} {fact.unit} (rank {fact.rank})" for fact in report.facts if fact.name == want["name"]]
                missed[row["id"], want["name"]] = f"{row['version']}: {want}, got {seen}"
        causes = [finding.cause for finding in report.findings]
        if row.get("cause") and row["cause"] not in causes:
            missed[row["id"], row["cause"]] = f"{row['version']}: {causes}"
    ids = {row["id"] for row in TOPICS[topic]}
    known = {key for key in KNOWN_MISSES if key[0] in ids}
    assert not (new := {key: missed[key] for key in missed.keys() - known}), new
    assert not (held := known - missed.keys()), f"these hold now, remove them from KNOWN_MISSES: {held}"


def test_the_known_misses_are_lines_that_exist() -> None:
    assert {key[0] for key in KNOWN_MISSES} <= {row["id"] for rows in TOPICS.values() for row in rows}
