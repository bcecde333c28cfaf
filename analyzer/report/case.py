"""A report as a case: the folder's ``case.yaml``, to be corrected by hand and kept as a test of the patterns. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import yaml

from analyzer.model.units import GIB

if TYPE_CHECKING:
    from collections.abc import Sequence

    from analyzer.model import Fact, Ledger, Report

#: Figures of one case: more than that nobody checks by hand.
MOST_FACTS = 60
#: Kinds of segments that a case names otherwise.
_KINDS = {"kernel-log": "dmesg"}
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def file_names(names: Sequence[str]) -> list[str]:
    """A file name for each input: safe, and no two the same."""
    made: list[str] = []
    for place, name in enumerate(names):
        plain = _UNSAFE.sub("-", name).strip("-.") or "input"
        made.append(plain if plain not in (*made, "case.yaml") else f"{place}-{plain}")
    return made


def case_yaml(report: Report, identifier: str, note: str) -> str:
    """The case's description as YAML. Its answers are the report's own until somebody has checked them: ``note`` says so."""
    names = file_names([info.name for info in report.inputs])
    root = report.root
    case: dict[str, Any] = {
        "id": identifier,
        "engine": report.engine.name or "none",
        "engine_version": report.engine.version,
        "inputs": [
            {"file": name, "kind": _kind(info.segments[0].kind) if info.segments else "engine-log"}
            for name, info in zip(names, report.inputs, strict=True)
        ],
        "facts": [_fact(fact) for fact in report.facts[:MOST_FACTS]],
        "ledger": [_ledger(ledger) for ledger in report.ledgers],
        "outcome": {"state": report.outcome.state.value, "stage": report.outcome.stage, "cause": report.outcome.cause},
        "evidence": [source.text for source in root.evidence] if root else [],
        "fixes": [fix.title.en for fix in root.fixes] if root else [],
        "must_not": [],
        "provenance": {"note": note},
    }
    return yaml.safe_dump(case, sort_keys=False, allow_unicode=True, width=140)


def _kind(segment: str) -> str:
    return _KINDS.get(segment, segment)


def _fact(fact: Fact) -> dict[str, Any]:
    shown: dict[str, Any] = {"name": fact.name, "value": fact.value}
    if fact.unit:
        shown["unit"] = fact.unit
    shown |= {name: value for name in ("rank", "gpu", "pid") if (value := getattr(fact, name)) is not None}
    return shown


def _ledger(ledger: Ledger) -> dict[str, Any]:
    where = {name: value for name in ("gpu", "rank") if (value := getattr(ledger, name)) is not None}
    return {**dict(list(where.items())[:1]), **{line.name: round(line.bytes / GIB, 2) for line in ledger.lines}}
