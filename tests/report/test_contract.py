"""The JSON contract: every report fits the published schema, twice the same bytes, and the schema in docs/ is the current one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from analyzer import analyze
from analyzer.model import LANGUAGES
from analyzer.model.contract import json_schema
from analyzer.model.ledger import LINES
from analyzer.model.units import BYTES_PER
from analyzer.report import FORMATS, render
from tests.case_files import FOLDERS, as_json, inputs, report

NAMES = sorted(FOLDERS)
ROOT = Path(__file__).resolve().parents[2]
VALIDATOR = jsonschema.Draft202012Validator(json_schema())


def test_the_schema_is_valid_and_the_published_one() -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema())
    published = json.loads((ROOT / "docs" / "report.schema.json").read_text(encoding="utf-8"))
    assert published == json_schema(), "run: vramledger schema > docs/report.schema.json"


@pytest.mark.parametrize("name", NAMES)
def test_every_report_fits_the_schema(name: str) -> None:
    assert [f"{list(error.path)}: {error.message[:200]}" for error in VALIDATOR.iter_errors(as_json(name))] == []


def test_the_schema_refuses_what_is_no_report() -> None:
    whole = as_json(NAMES[0])
    for damage in ({"schema": "vramledger/report/2"}, {"outcome": None}, {"facts": [{}]}, {"findings": "none"}):
        assert not VALIDATOR.is_valid(whole | damage), damage
    assert not VALIDATOR.is_valid({key: value for key, value in whole.items() if key != "ledgers"})


@pytest.mark.parametrize("name", NAMES[::3])
def test_the_same_bytes_twice(name: str) -> None:
    again = analyze(inputs(name))
    for form in FORMATS:
        for language in LANGUAGES:
            assert render(again, form, language) == render(report(name), form, language)


@pytest.mark.parametrize("name", NAMES)
def test_languages_differ_in_sentences_only(name: str) -> None:
    def bare(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: bare(entry) for key, entry in value.items() if key not in SENTENCES}
        return [bare(entry) for entry in value] if isinstance(value, list) else value

    english, chinese = json.loads(report(name).to_json("en")), json.loads(report(name).to_json("zh"))
    assert bare(english) == bare(chinese)


#: Keys whose values are for people.
SENTENCES = frozenset({"title", "explanation", "needs", "advice", "why", "cost", "action", "text"})


@pytest.mark.parametrize("name", NAMES)
def test_units_and_names_are_the_contracts(name: str) -> None:
    found = as_json(name)
    inputs_ = {given["name"] for given in found["inputs"]}
    for fact in found["facts"]:
        assert ("bytes" in fact) is (fact["unit"] in BYTES_PER and isinstance(fact["value"], (int, float))), fact
        assert fact["source"]["input"] in inputs_
        assert "GB" not in fact["unit"], fact  # what a log calls GB has been turned into what it means
    for ledger in [*found["ledgers"], *found["earlier"]]:
        names = [line["name"] for line in ledger["lines"]]
        assert names == sorted(set(names), key=LINES.index)
        assert all(isinstance(line["bytes"], int) and line["bytes"] for line in ledger["lines"])
    attempts = [attempt["index"] for attempt in found["attempts"]]
    assert attempts == sorted(set(attempts))
    assert {ledger["attempt"] for ledger in found["ledgers"]} <= {attempts[-1]}


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(ValueError, match="no format 'pdf'"):
        render(report(NAMES[0]), "pdf")
