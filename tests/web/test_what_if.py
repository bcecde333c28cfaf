"""Other settings over HTTP: of a stored analysis, a report, a ledger; what is no question is refused, never a 500."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import analyzer
from tests.case_files import as_json, report

if TYPE_CHECKING:
    from tests.web.conftest import Running

CASE = "vllm-v0-kv-too-small-29k-3090"
SETTINGS = {"--gpu-memory-utilization": 0.93}


def test_a_report_is_answered_as_the_library_does(live: Running) -> None:
    with live.client() as client:
        answer = client.post("/v1/what-if", json={"report": as_json(CASE), "settings": SETTINGS})
    assert answer.status_code == 200, answer.text
    assert answer.json() == analyzer.what_if(report(CASE), SETTINGS).to_json()


def test_a_stored_analysis(live: Running) -> None:
    with live.client() as client:
        made = client.post("/v1/analyses", content="\n".join(fact["source"]["text"] for fact in as_json(CASE)["facts"])).json()
        answer = client.post(
            "/v1/what-if", json={"analysis": made["id"], "settings": {"max_model_len": 1000}}, headers={"Accept-Language": "zh"}
        )
        assert answer.status_code == 200, answer.text
        assert answer.json()["schema"] == "vramledger/what-if/1"
        assert client.post("/v1/what-if", json={"analysis": "A" * 22, "settings": {}}).status_code == 404


def test_a_ledger(live: Running) -> None:
    with live.client() as client:
        answer = client.post("/v1/what-if", json={"ledger": as_json(CASE)["ledgers"][0], "settings": SETTINGS})
    assert answer.status_code == 200, answer.text
    assert answer.json()["settings"]["--gpu-memory-utilization"] == {"from": 0.9, "to": 0.93}


@pytest.mark.parametrize(
    "body",
    [
        "",
        "[]",
        "{",
        "[" * 100_000,
        '{"settings": {}}',
        '{"settings": 1, "report": {}}',
        '{"settings": {}, "report": {}, "ledger": {}}',
        '{"settings": {}, "report": []}',
        '{"settings": {}, "analysis": 5}',
        '{"settings": {}, "ledger": {"lines": [{"name": "total", "bytes": ' + "9" * 4000 + "}]}}",
        '{"settings": {}, "ledger": {"lines": [{"name": "total", "bytes": 1e400}]}}',
        '{"settings": {"--gpu-memory-utilization": NaN}, "ledger": {"lines": [{"name": "total", "bytes": 1}]}}',
        '{"settings": {}, "report": {"facts": [{"name": "kv_cache.tokens", "value": Infinity, "unit": "tokens"}], "ledgers": []}}',
    ],
)
def test_what_is_no_question_is_refused(live: Running, body: Any) -> None:
    with live.client() as client:
        answer = client.post("/v1/what-if", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (404, 422), answer.text
    assert answer.headers["content-type"].startswith("application/problem+json")
