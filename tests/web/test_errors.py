"""Every refusal has a stable code, says what to do, and leaves nothing behind."""

from __future__ import annotations

import gzip
import io
import json
import re
import socket
import subprocess
import tarfile
import time
import zipfile
from html import unescape
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import zstandard

from analyzer.analysis import Analysis
from analyzer.settings import load as load_settings
from analyzer.store import repository
from analyzer.store.keep import SPOOL_BYTES
from analyzer.web.multipart import MEMORY_BYTES
from analyzer.web.problems import CODES
from tests.web.conftest import LOG, Running, running

if TYPE_CHECKING:
    from collections.abc import Iterator

BOMB = gzip.compress(b"line\n" * (1 << 20))


def _zip(*files: tuple[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files:
            archive.writestr(name, data)
    return out.getvalue()


def _tar(data: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        info = tarfile.TarInfo("a.log")
        info.size = len(data)
        archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


ZIP_BOMB = _zip(("a.log", b"line\n" * (1 << 20)))
TAR_BOMB = _tar(b"line\n" * (1 << 20))
MANY_FILES = _zip(*((f"{number}.log", b"x") for number in range(4)))


@pytest.fixture(scope="module")
def small(sqlite_url: str) -> Iterator[Running]:
    """A server that takes little."""
    given = {"max_body_bytes": 200_000, "max_expanded_bytes": 1 << 20, "max_files": 3, "upload_timeout": 0.5}
    with running(sqlite_url, **given) as found:
        yield found


#: A run of English words.
ENGLISH = re.compile(r"\b[a-z']+ [a-z']+ [a-z']+\b")


#: What a detail quotes of a library.
QUOTED = re.compile(r"\w+: (Input|String) should .*|Maximum header size exceeded|(Boundary|Expected boundary) .*|Error -\d.*")


@pytest.mark.parametrize(
    ("method", "path", "options", "code"),
    [
        ("PUT", "/", {"content": b""}, "empty_input"),
        ("PUT", "/", {"content": b" \n\t\n"}, "empty_input"),
        ("POST", "/v1/analyses", {"files": {"file": ("", b"")}}, "empty_input"),
        ("POST", "/v1/analyses", {"data": {"other": "x"}, "files": {"f": ("", b"")}}, "empty_input"),
        ("PUT", "/", {"content": b"\x7fELF\x02\x01"}, "not_text"),
        ("PUT", "/", {"content": b"\x89PNG\r\n"}, "not_text"),
        ("PUT", "/", {"content": bytes(5000)}, "not_text"),
        ("POST", "/", {"content": b"x", "headers": {"Content-Type": "multipart/form-data"}}, "malformed_multipart"),
        ("POST", "/", {"content": b"x", "headers": {"Content-Type": "multipart/form-data; boundary=b"}}, "malformed_multipart"),
        (
            "POST",
            "/",
            {"content": b"--b\r\n\r\nx\r\n--b--", "headers": {"Content-Type": "multipart/form-data; boundary=b"}},
            "malformed_multipart",
        ),
        (
            "POST",
            "/",
            {
                "content": b'--b\r\nContent-Disposition: form-data; name="text"\r\n\r\nx',
                "headers": {"Content-Type": "multipart/form-data; boundary=b"},
            },
            "malformed_multipart",
        ),
        ("POST", "/", {"content": b"x", "headers": {"Content-Type": "multipart/form-data; boundary=" + "b" * 5000}}, "malformed_multipart"),
        ("GET", "/v1/analyses/nobody", {}, "not_found"),
        ("GET", "/v1/analyses/" + "x" * 22, {}, "not_found"),
        ("GET", "/a/%00", {}, "not_found"),
        ("DELETE", "/v1/analyses/" + "x" * 22, {}, "not_found"),
        ("GET", "/patterns/no.such.pattern", {}, "not_found"),
        ("GET", "/no/such/page", {}, "not_found"),
        ("PATCH", "/v1/analyses", {}, "method_not_allowed"),
        ("PUT", "/", {"content": b"x" * 300_000}, "input_too_large"),
        ("POST", "/v1/analyses", {"files": [("f", (str(n), b"x")) for n in range(4)]}, "input_too_large"),
        ("PUT", "/", {"content": BOMB}, "expansion_too_large"),
        ("PUT", "/", {"content": BOMB, "headers": {"Content-Encoding": "gzip"}}, "expansion_too_large"),
        ("PUT", "/", {"content": zstandard.compress(b"x" * (3 << 20)), "headers": {"Content-Encoding": "zstd"}}, "expansion_too_large"),
        ("POST", "/", {"content": b"x", "headers": {"Content-Encoding": "br"}}, "unsupported_encoding"),
        ("POST", "/", {"content": b"x", "headers": {"Content-Encoding": "gzip, gzip, gzip"}}, "unsupported_encoding"),
        ("POST", "/", {"content": b"this is no gzip", "headers": {"Content-Encoding": "gzip"}}, "malformed_input"),
        ("POST", "/", {"content": gzip.compress(LOG)[:-9], "headers": {"Content-Encoding": "gzip"}}, "malformed_input"),
        ("PUT", "/log.gz", {"content": gzip.compress(LOG)[:-9]}, "malformed_input"),
        ("GET", "/v1/analyses?limit=0", {}, "invalid_request"),
        ("GET", "/v1/analyses?limit=x", {}, "invalid_request"),
        ("GET", "/v1/analyses?cursor=x", {}, "invalid_request"),
        ("GET", "/v1/analyses?since=yesterday", {}, "invalid_request"),
        ("GET", "/v1/analyses?since=0001-01-01T00:00:00%2B23:59", {}, "invalid_request"),
        ("GET", "/v1/analyses?q=" + "x" * 300, {}, "invalid_request"),
        ("PUT", "/?format=pdf", {"content": LOG}, "invalid_request"),
        ("POST", "/", {"content": LOG, "headers": {"Origin": "https://evil.example"}}, "forbidden"),
        ("POST", "/", {"content": LOG, "headers": {"Origin": "null"}}, "forbidden"),
        ("POST", "/v1/analyses", {"content": LOG, "headers": {"Sec-Fetch-Site": "cross-site"}}, "forbidden"),
        ("PUT", "/", {"content": LOG, "headers": {"Sec-Fetch-Site": "same-site"}}, "forbidden"),
        ("DELETE", "/v1/analyses/" + "x" * 22, {"headers": {"Origin": "http://127.0.0.1:1"}}, "forbidden"),
        ("GET", "/v1/analyses", {"headers": {"Host": "rebound.example"}}, "forbidden"),
        ("GET", "/v1/limits", {"headers": {"Host": "127.0.0.1.rebound.example:8000"}}, "forbidden"),
        ("PUT", "/", {"content": LOG, "headers": {"Host": "192.168.1.9"}}, "forbidden"),
        ("PUT", "/", {"content": ZIP_BOMB}, "expansion_too_large"),
        ("PUT", "/", {"content": gzip.compress(TAR_BOMB)}, "expansion_too_large"),
        ("POST", "/", {"files": [("f", ("a.zip", MANY_FILES))]}, "input_too_large"),
        (
            "POST",
            "/",
            {
                "content": b"--b\r\nContent-Disposition: form-data; x=" + b"x" * 20_000 + b"\r\n\r\n\r\n--b--",
                "headers": {"Content-Type": "multipart/form-data; boundary=b"},
            },
            "malformed_multipart",
        ),
        (
            "POST",
            "/",
            {
                "content": b'--b\r\nContent-Disposition: form-data; name="text"\r\n\r\n\r\n' * 300 + b"--b--",
                "headers": {"Content-Type": "multipart/form-data; boundary=b"},
            },
            "malformed_multipart",
        ),
    ],
)
def test_refusals(small: Running, method: str, path: str, options: dict[str, Any], code: str) -> None:
    before = repository.count(small.database)
    headers = options.get("headers", {})
    with small.client() as client:
        answer = client.request(method, path, **{**options, "headers": {**headers, "Accept": "application/json"}})
        assert answer.headers["content-type"] == "application/problem+json"
        problem = answer.json()
        assert (problem["type"], problem["status"], answer.status_code) == (code, CODES[code][0], CODES[code][0])
        assert problem["title"]
        assert problem["detail"]
        line = client.request(method, path, **{**options, "headers": {**headers, "User-Agent": "curl/8.0"}})
        assert line.headers["content-type"] == "text/plain; charset=utf-8"
        assert line.text.startswith(f"{CODES[code][0]} {code}: ")
        assert line.text.count("\n") == 1
        page = client.request(method, path, **{**options, "headers": {**headers, "Accept": "text/html", "Accept-Language": "zh"}})
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert CODES[code][1].zh in page.text
        chinese = client.request(method, path, **{**options, "headers": {**headers, "Accept": "application/json", "Accept-Language": "zh"}})
        said = chinese.json()["detail"]
        assert said in unescape(page.text)
        own = QUOTED.sub("", said)
        assert not own or re.search("[\u4e00-\u9fff]", own), said
        assert not ENGLISH.search(own), said
    assert repository.count(small.database) == before


def test_our_own_pages_may(small: Running) -> None:
    with small.client() as client:
        for headers in ({"Origin": small.url}, {"Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "none"}):
            assert client.post("/", content=LOG, headers=headers).status_code == 201


def test_too_large_is_answered_before_it_is_sent(small: Running) -> None:
    with socket.create_connection(small.address, timeout=10) as connection:
        connection.sendall(b"PUT / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99999999999\r\nExpect: 100-continue\r\n\r\n")
        answer = connection.recv(65536)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"100 Continue" not in answer


def test_a_sender_who_does_not_wait_still_reads_the_answer(small: Running) -> None:
    """Without a lingering read the kernel resets the connection, and the answer with it."""
    body = b"x" * 20_000_000
    for expect in ("Expect:", "Expect: 100-continue"):
        done = subprocess.run(["curl", "-sS", "-H", expect, "--data-binary", "@-", small.url], input=body, capture_output=True, timeout=30)
        assert done.stdout.startswith(b"413 input_too_large: "), done.stderr
        assert b"head" in done.stdout


def test_a_silent_upload_is_given_up(small: Running) -> None:
    with socket.create_connection(small.address, timeout=10) as connection:
        connection.sendall(b"PUT / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\nhello")
        assert connection.recv(65536).startswith(b"HTTP/1.1 408 ")


def test_a_request_that_never_begins_is_given_up(small: Running) -> None:
    for begun in (b"", b"PUT / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "):
        with socket.create_connection(small.address, timeout=10) as connection:
            connection.sendall(begun)
            assert connection.recv(65536).startswith(b"HTTP/1.1 408 ")
            assert not connection.recv(65536)


def test_a_second_request_that_never_ends_is_given_up(small: Running) -> None:
    with socket.create_connection(small.address, timeout=10) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
        connection.sendall(b"GET /healthz HT")
        said = b""
        while piece := connection.recv(65536):
            said += piece
        assert b"HTTP/1.1 408 " in said


def test_connections_of_an_address_are_limited(tmp_path: Any) -> None:
    with running(f"sqlite:///{tmp_path / 'a.db'}", connections_per_address=3) as server:
        held = [socket.create_connection(server.address, timeout=10) for _ in range(3)]
        time.sleep(0.2)
        with socket.create_connection(server.address, timeout=10) as one_more:
            assert not one_more.recv(1)
        held.pop().close()
        time.sleep(0.2)
        with server.client() as client:
            assert client.get("/healthz").status_code == 200
        for connection in held:
            connection.close()


def test_many_connections_leave_the_service_standing(tmp_path: Any) -> None:
    given = {"max_connections": 40, "connections_per_address": 1000, "upload_timeout": 1.0}
    with running(f"sqlite:///{tmp_path / 'a.db'}", **given) as server:
        held = [socket.create_connection(server.address, timeout=10) for _ in range(60)]
        time.sleep(0.2)
        with server.client() as client:
            assert client.get("/healthz").status_code == 503
            time.sleep(1.5)
            assert client.get("/healthz").status_code == 200
        for connection in held:
            connection.close()


@pytest.mark.parametrize(
    ("given", "host", "status"),
    [
        ({}, "localhost:80", 200),
        ({}, "[::1]:8000", 200),
        ({}, "app.localhost", 200),
        ({}, "evil.example", 403),
        ({"public_url": "https://ledger.example"}, "ledger.example", 200),
        ({"public_url": "https://ledger.example"}, "evil.example", 403),
        ({"trusted_proxies": "127.0.0.1"}, "ledger.example", 200),
    ],
)
def test_a_server_on_loopback_answers_to_its_own_names(tmp_path: Any, given: dict[str, str], host: str, status: int) -> None:
    with running(f"sqlite:///{tmp_path / 'a.db'}", **given) as server, server.client() as client:
        assert client.get("/healthz", headers={"Host": host}).status_code == status
        assert client.get("/slack/events", headers={"Host": host}).status_code in (404, 405)


def test_an_address_is_what_a_trusted_proxy_says(tmp_path: Any) -> None:
    for trusted, wanted in (("127.0.0.1", [201, 201, 429, 201]), ("10.0.0.1", [201, 201, 429, 429])):
        with running(f"sqlite:///{tmp_path / trusted}.db", rate_limit=2, trusted_proxies=trusted) as server, server.client() as client:
            told = ["203.0.113.1"] * 3 + ["203.0.113.2"]
            assert [client.put("/", content=LOG, headers={"X-Forwarded-For": who}).status_code for who in told] == wanted


def test_every_limit_can_be_read(one: Running) -> None:
    with one.client() as client:
        limits = client.get("/v1/limits").json()
    assert limits["max_body_bytes"] == 2 << 30
    assert limits["max_multipart_memory_bytes"] == 64 << 20
    assert limits["max_expanded_bytes"] == 4 << 30
    assert (limits["expansion_grace_bytes"], limits["max_expansion_ratio"]) == (64 << 20, 200)
    assert (limits["max_files"], limits["max_archive_depth"], limits["max_line_bytes"]) == (64, 2, 64 << 10)
    assert (limits["analysis_cpu_seconds"], limits["upload_timeout_seconds"], limits["pipe_idle_seconds"]) == (60, 30, 86400)
    assert {"uploads_per_minute", "reads_per_minute", "pipes_per_address", "max_connections", "retention_days"} <= set(limits)


def test_a_form_of_many_files_is_held_in_bounds() -> None:
    chosen = load_settings()
    held = chosen.max_files * SPOOL_BYTES + chosen.stored_tail_bytes * 3 // 2 + chosen.limits.block_bytes * 2
    assert held <= MEMORY_BYTES


def test_damaged_http_is_no_500(small: Running) -> None:
    for request in (
        b"PUT / HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n",
        b"PUT / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n",
        b"PUT / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01",
    ):
        with socket.create_connection(small.address, timeout=10) as connection:
            connection.sendall(request)
            assert connection.recv(65536).startswith(b"HTTP/1.1 400 ")
    with small.client() as client:
        assert client.get("/healthz").status_code == 200


def test_work_is_bounded(tmp_path: Any) -> None:
    with running(f"sqlite:///{tmp_path / 'a.db'}", analysis_cpu_seconds=1e-9) as server, server.client() as client:
        answer = client.post("/v1/analyses", content=LOG)
        assert (answer.status_code, answer.json()["type"]) == (503, "unavailable")
        assert repository.count(server.database) == 0


def test_a_mistake_of_ours_is_no_500(one: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Analysis) -> None:
        raise KeyError("x")

    before = repository.count(one.database)
    with one.client() as client:
        with monkeypatch.context() as patched:
            patched.setattr(Analysis, "report", broken)
            answer = client.post("/v1/analyses", content=LOG)
        assert (answer.status_code, answer.json()["type"]) == (503, "unavailable")
        assert repository.count(one.database) == before
        assert client.post("/v1/analyses", content=LOG).status_code == 201
        assert 'vramledger_analyses_total{state="error"} 1.0' in client.get("/metrics").text


def test_rates_are_limited(tmp_path: Any) -> None:
    with running(f"sqlite:///{tmp_path / 'a.db'}", rate_limit=3, read_rate_limit=5) as server, server.client() as client:
        assert [client.put("/", content=LOG).status_code for _ in range(4)] == [201, 201, 201, 429]
        answers = [client.get("/v1/limits") for _ in range(6)]
        assert [answer.status_code for answer in answers] == [200] * 5 + [429]
        assert answers[-1].json()["type"] == "rate_limited"
        assert 0 < int(answers[-1].headers["retry-after"]) <= 60
        assert client.get("/healthz").status_code == 200


def test_a_lost_database_is_unavailable(tmp_path: Any) -> None:
    with running(f"sqlite:///{tmp_path / 'a.db'}") as server, server.client() as client:
        assert client.get("/readyz").status_code == 200
        with server.database.write() as session:
            session.connection().exec_driver_sql("DROP TABLE facts")
            session.connection().exec_driver_sql("DROP TABLE alembic_version")
        answer = client.put("/", content=LOG, headers={"Accept": "application/json"})
        assert (answer.status_code, answer.json()["type"]) == (503, "unavailable")
        assert (client.get("/readyz").status_code, client.get("/healthz").status_code) == (503, 200)


def test_every_error_is_described(one: Running) -> None:
    with one.client() as client:
        described = client.get("/openapi.json").json()
    enum = described["components"]["schemas"]["Problem"]["properties"]["type"]["enum"]
    assert set(enum) == set(CODES)
    assert json.dumps(described)
    assert httpx.codes(200) == 200
