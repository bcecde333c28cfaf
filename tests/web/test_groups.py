"""The same failure counted, with the reason; and what people say of a report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from analyzer.store.feedback import listed
from tests.web.conftest import CAUSE, LOG, Running, running

if TYPE_CHECKING:
    from collections.abc import Iterator

TOKEN = "a-token-of-sixteen"
OTHER = b"vllm serve m --dry-run\nvllm: error: unrecognized arguments: --dry-run\n"


@pytest.fixture(scope="module")
def live(module_database_url: str) -> Iterator[Running]:
    with running(module_database_url) as found:
        yield found


def test_the_same_failure_is_one_group(live: Running) -> None:
    with live.client() as client:
        for host in ("node-1", "node-2", "node-2"):
            client.post("/v1/analyses", params={"host": host}, content=LOG).raise_for_status()
        client.post("/v1/analyses", content=LOG.replace(b"pid=", b"pid=9")).raise_for_status()
        client.post("/v1/analyses", content=OTHER).raise_for_status()
        items = client.get("/v1/groups").json()["items"]
        assert [(item["cause"], item["count"]) for item in items] == [("args.unknown_flag", 1), (CAUSE, 4)]
        group = items[1]
        assert group["hosts"] == ["node-1", "node-2"]
        assert group["same"] == {"by": "cause", "engine": "vllm", "words": CAUSE}
        assert group["first_seen"] < group["last_seen"]
        assert client.get("/v1/groups", params={"cause": CAUSE}).json()["items"] == [group]
        assert client.get("/v1/groups", params={"q": "dry-run"}).json()["items"] == [items[0]]
        first = client.get("/v1/groups", params={"limit": 1}).json()
        second = client.get("/v1/groups", params={"limit": 1, "cursor": first["next_cursor"]}).json()
        assert [*first["items"], *second["items"]] == items
        assert second["next_cursor"] is None
        assert client.get("/v1/groups", params={"cursor": "bm9uc2Vuc2U"}).status_code == 422
        page = client.get("/groups", headers={"Accept": "text/html"}).text
        assert "Why they are the same" in page
        assert "node-1, node-2" in page


def test_a_report_is_said_to_be_wrong_and_why(live: Running) -> None:
    with live.client() as client:
        identifier = client.post("/v1/analyses", content=LOG).json()["id"]
        place = f"/v1/analyses/{identifier}/feedback"
        assert client.post(place, json={"helped": True}).status_code == 204
        reason = "the pool was full of somebody@example.org, not too small"
        assert client.post(place, json={"helped": False, "because": reason}).status_code == 204
        said = client.get("/v1/feedback").json()["items"]
        assert [(one["id"], one["helped"], one["cause"]) for one in said] == [(identifier, False, CAUSE)]
        assert "example.org" not in said[0]["because"]
        assert "not too small" in said[0]["because"]
        form = client.post(f"/a/{identifier}/feedback?helped=0", data={"because": "<b>it is the driver</b>"})
        assert form.status_code == 303
        assert [one.because for one in listed(live.database)] == ["<b>it is the driver</b>"]
        assert client.get("/v1/feedback", params={"helped": True}).json()["items"] == []


@pytest.mark.parametrize("told", [b"", b"[]", b"{}", b'{"helped": 1}', b'{"helped": true, "because": 3}', b"\xff", b"[" * 5000])
def test_other_words_are_refused(live: Running, told: bytes) -> None:
    with live.client() as client:
        identifier = client.post("/v1/analyses", content=LOG).json()["id"]
        assert client.post(f"/v1/analyses/{identifier}/feedback", content=told).json()["type"] == "invalid_request"


def test_they_need_a_token_where_tokens_are_set(sqlite_url: str) -> None:
    with running(sqlite_url, tokens=TOKEN) as server, server.client() as client:
        for path in ("/v1/groups", "/groups", "/v1/feedback"):
            assert client.get(path).status_code == 401
            assert client.get(path, headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
