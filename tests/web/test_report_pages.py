"""What belongs to a report's page: its log by lines, other settings, examples, two reports side by side."""

from __future__ import annotations

import pytest

from analyzer.web.examples import EXAMPLES
from analyzer.web.logtext import TEXTS
from tests.web.conftest import CAUSE, LOG, SMI, Running

BROWSER = {"Accept": "text/html", "User-Agent": "Mozilla/5.0"}


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_gives_a_report_that_its_sender_may_delete(one: Running, name: str) -> None:
    with one.client(headers=BROWSER) as client:
        answer = client.post(f"/examples/{name}")
        assert answer.status_code == 303
        page = client.get(answer.headers["location"])
        assert page.status_code == 200
        assert ("HEALTHY" if name == "healthy-start" else "FAILED") in page.text
        assert 'class="ledger"' in page.text
        assert client.post(answer.headers["location"] + "/delete").status_code == 303
        assert client.get(answer.headers["location"]).status_code == 404
        assert client.post("/examples/none").status_code == 404


def test_lines_of_a_log_are_those_that_the_report_names(one: Running) -> None:
    with one.client() as client:
        made = client.post("/v1/analyses", files=[("file", ("engine.log", LOG)), ("file", ("smi.txt", SMI))]).json()
        base = f"/v1/analyses/{made['id']}/log"
        shown = client.get(base).json()
        assert (shown["name"], shown["total"], shown["first"], shown["folds"]) == ("engine.log", made["inputs"][0]["lines"], 1, [])
        for source in (source for finding in made["findings"] for source in finding["evidence"]):
            assert source["text"] in shown["lines"][source["line"] - 1]
        assert client.get(base, params={"input": 1, "first": 2, "count": 1}).json()["lines"] == [SMI.decode().splitlines()[1]]
        assert client.get(base, params={"first": 10_000}).json()["lines"] == []
        assert client.get(base, params={"input": 2}).status_code == 404
        assert client.get(base, params={"first": 0}).status_code == 422
        assert client.get("/v1/analyses/AAAAAAAAAAAAAAAAAAAAAA/log").status_code == 404


def test_a_deleted_log_is_gone_from_memory_too(one: Running) -> None:
    with one.client() as client:
        answer = client.post("/v1/analyses", content=LOG)
        base = f"/v1/analyses/{answer.json()['id']}"
        identifier = base.rsplit("/", 1)[1]
        assert client.get(f"{base}/log").status_code == 200
        assert TEXTS.holds(identifier)
        client.delete(base, headers={"X-Delete-Token": answer.headers["x-delete-token"]})
        assert client.get(f"{base}/log").status_code == 404
        assert not TEXTS.holds(identifier)


def test_other_settings_as_a_page_and_as_a_piece(one: Running) -> None:
    with one.client(headers=BROWSER) as client:
        page = client.post("/examples/startup-failure").headers["location"] + "/what-if"
        whole = client.get(page, params={"utilization": "0.9", "lang": "en"}).text
        piece = client.get(page, params={"utilization": "0.9", "lang": "en"}, headers={"HX-Request": "true"}).text
        assert "<html" in whole
        assert "<html" not in piece
        assert "4.55 → 3.76 GiB" in piece
        assert piece.strip() in whole
        wrong = client.get(page, params={"utilization": "<b>7</b>", "lang": "en"}, headers={"HX-Request": "true"})
        assert wrong.status_code == 200
        assert "note bad" in wrong.text
        assert "<b>" not in wrong.text
        chinese = client.get(page, params={"utilization": "7", "lang": "zh"}, headers={"HX-Request": "true"})
        assert "--gpu-memory-utilization 应大于 0 且不超过 1，而不是 7" in chinese.text


def test_two_reports(one: Running) -> None:
    with one.client() as client:
        a = client.post("/v1/analyses", content=LOG).json()["id"]
        b = client.post("/v1/analyses", content=b"vllm serve m --max-model-len 4096\n" + LOG).json()["id"]
        found = client.get("/v1/compare", params={"a": a, "b": b}).json()
        assert (found["verdict"], found["a"]["id"], found["b"]["cause"]) == ("same", a, CAUSE)
        assert client.get("/v1/compare", params={"a": a}).status_code == 422
        assert client.get("/v1/compare", params={"a": a, "b": "x"}).status_code == 404
        page = client.get("/compare", params={"a": a, "b": b, "lang": "zh"}, headers=BROWSER)
        assert "结果相同" in page.text


def test_failures_of_late_stand_on_the_start_page(one: Running) -> None:
    with one.client(headers=BROWSER) as client:
        client.put("/", content=LOG)
        client.put("/", content=LOG)
        home = client.get("/?lang=en").text
        assert f"/history?cause={CAUSE}" in home


def test_a_cause_and_its_patterns_are_explained(one: Running) -> None:
    with one.client(headers=BROWSER) as client:
        index = client.get("/patterns", params={"q": CAUSE}).text
        assert f"/patterns/{CAUSE}" in index
        cause = client.get(f"/patterns/{CAUSE}", params={"lang": "zh"}).text
        assert "怎么改" in cause
        assert "{" not in cause.split("</head>")[1]
        assert client.get("/patterns/no.such").status_code == 404
