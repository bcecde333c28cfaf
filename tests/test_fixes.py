"""What every report of the corpus advises: flags exist, predicted ledgers hold, nothing contradicts itself, every sentence is whole."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from analyzer import analyze
from analyzer.engines.vllm import flags
from analyzer.model import EnvChange, Finding, Fix, FlagChange, Report
from analyzer.model.ledger import BUDGET_PARTS
from analyzer.model.versions import Range
from analyzer.report import render
from tests.case_files import FIXTURES, FOLDERS, report

CASES = sorted(FOLDERS)
RENDERED = [json.loads(line) for line in (FIXTURES / "vllm-rendered-lines.jsonl").read_text(encoding="utf-8").splitlines()]
TOPICS = sorted({row["topic"] for row in RENDERED})
#: A placeholder that nobody filled in, and what Python writes for nothing.
UNFILLED = re.compile(r"\{[a-z_]+\}|\bNone\b|\bnan\b|\binf\b|(?:^|[\s(,→])\?(?:$|[\s),→])")


def lines_of(topic: str) -> Iterator[Report]:
    for row in RENDERED:
        if row["topic"] == topic:
            yield analyze([(row["id"] + ".log", io.BytesIO(row["text"].encode() + b"\n"))])


def where(made: Report) -> Any:
    """The version, or the newest that is possible."""
    if made.engine.version is not None:
        return made.engine.version
    possible = flags.resolve(Range.parse(made.engine.version_range or ""))
    return possible[-1] if possible else None


def check(made: Report) -> None:
    for finding in made.findings:
        assert len(finding.fixes) <= 5, finding.cause
        assert len({fix.title.en for fix in finding.fixes}) == len(finding.fixes), finding.cause
        for fix in finding.fixes:
            flags_exist(made, fix)
            prediction_holds(made, fix)
            changes_something(made, fix)
        contradicts_nothing(finding)
        whole_sentences(finding)
    window_holds(made)


def flags_exist(made: Report, fix: Fix) -> None:
    if made.engine.name != "vllm":
        return
    for change in fix.changes:
        if isinstance(change, FlagChange) and change.to is not None:
            assert flags.exists(change.flag, where(made)), (change.flag, where(made))


def prediction_holds(made: Report, fix: Fix) -> None:
    """The pool is above zero, takes one request where that is printed, and the plan still fits the budget, and the budget the card."""
    predicted = fix.predicted
    if predicted is None or predicted.get("kv_cache") is None:
        return
    pool, budget, total = (predicted.get(name) for name in ("kv_cache", "budget", "total"))
    shorter = any(isinstance(change, FlagChange) and change.flag in ("--max-model-len", "--kv-cache-dtype") for change in fix.changes)
    assert pool is not None
    needed = next((fact.bytes for fact in made.facts if fact.name == "kv_cache.needed"), None)
    if fix.verified:
        assert pool > 0, fix.title.en
        assert shorter or needed is None or pool >= needed or "seqs" in fix.title.en, fix.title.en
    if budget is not None and total is not None:
        assert budget <= total
    if budget is not None:
        assert sum(predicted.get(name) or 0 for name in BUDGET_PARTS) <= budget + 40 * 2**20, fix.title.en


def changes_something(made: Report, fix: Fix) -> None:
    for change in fix.changes:
        if isinstance(change, FlagChange):
            assert change.before != change.to, fix.title.en


def contradicts_nothing(finding: Finding) -> None:
    """No fix does what «not this» warns of."""
    for item in finding.not_this:
        for fix in finding.fixes:
            for change in fix.changes:
                if isinstance(change, EnvChange):
                    assert f"{change.env}={change.to}" not in item.advice.en
                elif isinstance(change, FlagChange) and re.search(rf"{change.flag}(?![\w-])", item.advice.en):
                    assert not warned(item.advice.en, change), (item.advice.en, fix.title.en)


def warned(advice: str, change: FlagChange) -> bool:
    if "for every model" in advice:
        return False  # it limits the fix; the models that it is about have none (engines/vllm/changes.py)
    grows = isinstance(change.to, (int, float)) and isinstance(change.before, (int, float)) and change.to > change.before
    if "raise" in advice or "more" in advice:
        return grows
    if "until the length fits" in advice:
        return False  # said of the length check; a smaller number still shrinks the profile's peak
    if "lower" in advice or "fewer" in advice:
        return not grows
    return f"{change.flag} {change.to}" in advice or advice.startswith("change ") or advice == change.flag


def whole_sentences(finding: Finding) -> None:
    texts = [finding.title, finding.explanation, *finding.needs, *(item.why for item in finding.not_this)]
    for fix in finding.fixes:
        texts += [fix.title, fix.why, *([fix.cost] if fix.cost is not None else [])]
    if finding.window is not None:
        texts.append(finding.window.text)
    computed = [text for fix in finding.fixes for text in (fix.title, fix.why)] + ([finding.window.text] if finding.window else [])
    for text in texts:
        for language in ("en", "zh"):
            assert text.get(language).strip()
            assert not UNFILLED.search(text.get(language)), text.get(language)
    for text in computed:
        figures = [re.findall(r"\d+\.\d\d [KMGT]iB", text.get(language)) for language in ("en", "zh")]
        assert sorted(figure for figure in figures[0] if "iB" in figure) == sorted(figure for figure in figures[1] if "iB" in figure), text


def window_holds(made: Report) -> None:
    root = made.root
    window = root.window if root is not None else None
    if root is None or window is None:
        return
    if window.feasible and window.low is not None and window.high is not None:
        assert window.low <= window.high
    if not window.feasible and window.low is not None and window.high is not None:
        assert window.low > window.high
    for fix in root.fixes:
        for change in fix.changes:
            if isinstance(change, FlagChange) and change.flag == window.flag and isinstance(change.to, (int, float)):
                assert window.low is None or change.to >= window.low, (fix.title.en, window)
                assert window.high is None or change.to <= window.high, (fix.title.en, window)


@pytest.mark.parametrize("name", CASES)
def test_every_fix_of_a_case_holds(name: str) -> None:
    check(report(name))


@pytest.mark.parametrize("topic", TOPICS)
def test_every_fix_of_every_printed_line_holds(topic: str) -> None:
    for made in lines_of(topic):
        check(made)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_rendering_says_the_window(name: str, language: str) -> None:
    made = report(name)
    root = made.root
    if root is None or root.window is None:
        return
    said = re.sub(r"\s", "", root.window.text.get(language))
    for form in ("text", "json"):
        shown = re.sub(r"\s", "", render(made, form, language, width=4000))
        assert said in shown, form


def test_the_length_that_is_advised_is_the_engines_own_estimate() -> None:
    """Wherever a line prints an estimate, the fix says that number."""
    seen = 0
    for row in RENDERED:
        stated = {fact["name"]: fact["value"] for fact in row["facts"]}
        estimated = stated.get("kv_cache.estimated_max_len")
        if not estimated:
            continue
        made = analyze([("engine.log", io.BytesIO(row["text"].encode() + b"\n"))])
        root = made.root
        if root is None or root.cause != "kv_cache.too_small_for_max_len":
            continue
        seen += 1
        changed = [change for fix in root.fixes for change in fix.changes if isinstance(change, FlagChange)]
        assert [change.to for change in changed if change.flag == "--max-model-len"] == [estimated], row["id"]
    assert seen >= 3


def test_half_precision_is_not_advised_where_it_is_refused() -> None:
    root = report("bf16-on-t4-gemma2").root
    assert root is not None
    assert [change for fix in root.fixes for change in fix.changes if isinstance(change, FlagChange)] == []
