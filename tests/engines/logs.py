"""Reports on logs of the other engines: files of fixtures/engines, or text."""

from __future__ import annotations

import io
import json
from functools import cache
from typing import Any

from analyzer import analyze
from tests.case_files import FIXTURES

FOLDER = FIXTURES / "engines"
Report = dict[str, Any]


def told(text: str, name: str = "engine.log") -> Report:
    """The report on ``text``."""
    found: Report = json.loads(analyze([(name, io.BytesIO(text.encode()))]).to_json())
    return found


@cache
def of(name: str) -> Report:
    """The report on fixtures/engines/``name``. Not to be changed by a test."""
    return told((FOLDER / name).read_text(encoding="utf-8"), name)


def ledger(report: Report, gpu: int = 0) -> dict[str, int]:
    """Line -> bytes of one GPU's ledger."""
    return next(({line["name"]: line["bytes"] for line in found["lines"]} for found in report["ledgers"] if found["gpu"] == gpu), {})


def changes(report: Report) -> dict[str, Any]:
    """Flag -> value of every change that the root's fixes make."""
    fixes = report["findings"][0]["fixes"]
    return {change["flag"]: change["to"] for fix in fixes for change in fix["changes"] if "flag" in change}
