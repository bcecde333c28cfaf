"""The pages: usable without a script, in both languages, with nothing of an input taken for markup."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from analyzer.model.text import LANGUAGES
from tests.web.conftest import CAUSE, LOG, Running

BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
_VOID = {"meta", "link", "input", "br", "img", "hr"}


class _Checker(HTMLParser):
    """Tags that are opened are closed; nothing inline that the policy would refuse; no address elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.problems: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name.startswith("on") or name == "style":
                self.problems.append(f"{tag} {name}")
            if name in ("src", "href", "action") and not (value or "").startswith(("/", "?", "#", "data:,")):
                self.problems.append(f"{tag} {name}={value}")
        if tag == "style" or (tag == "script" and not dict(attrs).get("src")):
            self.problems.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.problems.append(f"</{tag}>")


def _check(text: str) -> None:
    checker = _Checker()
    checker.feed(text)
    assert (checker.problems, checker.open) == ([], [])


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/history",
        "/history?q=x&cause=y",
        "/patterns",
        "/patterns?q=graph",
        "/docs",
        "/?deleted=1",
        "/no/such",
        "REPORT",
        "PATTERN",
        "CAUSE",
    ],
)
def test_pages(live: Running, path: str, language: str) -> None:
    with live.client(headers=BROWSER) as client:
        if path == "REPORT":
            path = client.post("/", files={"file": ("engine.log", LOG)}).headers["location"]
        if path == "PATTERN":
            path = client.get("/v1/patterns").json()["patterns"][0]["docs"]
        if path == "CAUSE":
            path = f"/patterns/{CAUSE}"
        answer = client.get(path, params={"lang": language} if "?" not in path else None, headers={"Accept-Language": language})
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-language"] == language
    assert ("历史" in answer.text) == (language == "zh")
    _check(answer.text)
    policy = answer.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    for name in ("x-content-type-options", "referrer-policy", "x-frame-options"):
        assert answer.headers[name]


def test_the_form_works_without_a_script(live: Running) -> None:
    with live.client(headers=BROWSER, follow_redirects=True) as client:
        home = client.get("/?lang=zh").text
        form = re.search(r'<form [^>]*method="post" action="([^"]+)" enctype="multipart/form-data"', home)
        assert form
        assert 'name="text"' in home
        assert re.search(r'<input [^>]*type="file" name="file" multiple', home)
        page = client.post(form[1], data={"text": LOG.decode()}, files={"file": ("", b"")})
        assert page.status_code == 200
        assert re.fullmatch(r"/a/[\w-]{22}", page.url.path)
        assert CAUSE in page.text
        assert "失败" in page.text
        more = re.search(r'action="(/a/[^"]+)" enctype', page.text)
        assert more
        added = client.post(more[1], data={"text": "vllm serve m"}, files={"file": ("", b"")})
        assert added.url.path == page.url.path
        assert CAUSE in added.text


def test_text_of_an_input_is_never_markup(one: Running) -> None:
    nasty = b"<script>alert(1)</script><img src=x onerror=alert(1)>\"'&amp;"
    log = LOG.replace(b"ValueError: ", b"ValueError: " + nasty)
    with one.client(headers=BROWSER) as client:
        page = client.post("/", files={"file": ('<b>"x.log', log)}).headers["location"]
        for path in (page, f"/v1/analyses/{page[3:]}?format=html", "/history"):
            text = client.get(path).text
            assert "<script>alert" not in text
            assert "<img src=x" not in text
            assert "<b>" not in text


def test_history_pages_and_search(one: Running) -> None:
    with one.client(headers=BROWSER) as client:
        client.put("/findable-name.log", content=LOG)
        client.put("/other.log", content=LOG)
        found = client.get("/history", params={"q": "findable"}).text
        assert "findable-name.log" in found
        assert "other.log" not in found
        items = client.get(
            "/v1/analyses", params={"limit": 1, "cause": CAUSE, "since": "1h"}, headers={"Accept": "application/json"}
        ).json()
        assert items["items"][0]["inputs"] == ["other.log"]
        older = client.get("/v1/analyses", params={"limit": 1, "cursor": items["next_cursor"]}).json()
        assert older["items"][0]["inputs"] == ["findable-name.log"]
        assert set(older["items"][0]) >= {"id", "created", "state", "cause"}


def test_what_the_service_says_of_itself(live: Running) -> None:
    with live.client() as client:
        assert client.get("/healthz").json() == {"status": "ok"}
        assert client.get("/readyz").json()["status"] == "ok"
        assert client.get("/v1/limits").json()["max_body_bytes"] == 2 << 30
        rules = client.get("/v1/redactions", params={"lang": "zh"}).json()["redactions"]
        assert rules
        assert all(rule["text"] for rule in rules)
        assert client.get("/v1/patterns").json()["patterns"]
        client.put("/", content=LOG)
        metrics = client.get("/metrics").text
        assert 'vramledger_requests_total{method="PUT",status="201"}' in metrics
        assert 'vramledger_analyses_total{state="failed"}' in metrics
        assert client.get("/static/style.css").headers["content-type"].startswith("text/css")
        assert client.head("/").status_code == 200
