"""A pipe may break, fall silent or never end: what came is analysed and stored. A cut upload leaves nothing."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import httpx
import pytest

from analyzer.store import repository
from analyzer.store.database import Database
from tests.web.conftest import CAUSE, LOG, Running, running

if TYPE_CHECKING:
    from pathlib import Path

CHUNKED = b"PUT /engine.log HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def _cut(server: Running, *, reset: bool = False) -> None:
    connection = socket.create_connection(server.address, timeout=10)
    connection.sendall(CHUNKED + _chunk(LOG[:100]) + _chunk(LOG[100:]))
    time.sleep(0.05)
    if reset:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    connection.close()


@pytest.mark.parametrize("reset", [False, True])
def test_a_broken_pipe_is_stored_to_its_last_byte(live: Running, reset: bool) -> None:
    before = repository.count(live.database)
    _cut(live, reset=reset)
    assert live.stored(before + 1) == before + 1
    newest = live.newest()
    assert newest is not None
    assert (newest.cause, newest.inputs) == (CAUSE, ("engine.log",))
    kept = repository.inputs(live.database, newest.id)[0]
    assert (kept.truncated, kept.sent_bytes) == (True, len(LOG))
    with live.client() as client:
        assert client.get(f"/v1/analyses/{newest.id}").json()["inputs"][0]["truncated"] is True


def test_a_pipe_that_breaks_at_once_with_its_last_bytes(one: Running) -> None:
    """The end of the connection comes together with the bytes before it: they count."""
    before = repository.count(one.database)
    for _ in range(5):
        with socket.create_connection(one.address, timeout=10) as connection:
            connection.sendall(CHUNKED + _chunk(LOG))
    assert one.stored(before + 5) == before + 5
    newest = one.newest()
    assert newest is not None
    assert repository.inputs(one.database, newest.id)[0].sent_bytes == len(LOG)


def test_a_cut_upload_of_known_length_leaves_nothing(live: Running) -> None:
    before = repository.count(live.database)
    with socket.create_connection(live.address, timeout=10) as connection:
        connection.sendall(b"PUT / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n%s" % (len(LOG) + 1, LOG))
        time.sleep(0.1)
    with live.client() as client:
        client.get("/healthz")
    time.sleep(0.2)
    assert repository.count(live.database) == before


def test_a_broken_empty_pipe_and_a_broken_form_leave_nothing(one: Running) -> None:
    before = repository.count(one.database)
    form = CHUNKED.replace(b"PUT /engine.log", b"POST /").replace(b"Accept", b"Content-Type: multipart/form-data; boundary=b\r\nAccept")
    for head, data in ((CHUNKED, b" \n"), (form, b'--b\r\nContent-Disposition: form-data; name="text"\r\n\r\n' + LOG)):
        with socket.create_connection(one.address, timeout=10) as connection:
            connection.sendall(head + _chunk(data))
            time.sleep(0.1)
    time.sleep(0.3)
    assert repository.count(one.database) == before


def test_a_silent_pipe_and_one_over_the_limit_are_answered(tmp_path: Path) -> None:
    with running(f"sqlite:///{tmp_path / 'a.db'}", pipe_idle_seconds=0.5, max_body_bytes=len(LOG) + 10) as server:
        for more in (b"", _chunk(b"x" * 1000)):
            with socket.create_connection(server.address, timeout=10) as connection:
                connection.sendall(CHUNKED + _chunk(LOG) + more)
                answer = b""
                while b"}\n" not in answer[-3:] and (piece := connection.recv(65536)):
                    answer += piece
            assert answer.startswith(b"HTTP/1.1 201 ")
            assert b'"truncated": true' in answer
            assert CAUSE.encode() in answer
        assert repository.count(server.database) == 2


def test_pipes_of_an_address_are_limited(tmp_path: Path) -> None:
    with running(f"sqlite:///{tmp_path / 'a.db'}", pipes_per_address=2) as server:
        open_pipes = []
        for _ in range(2):
            connection = socket.create_connection(server.address, timeout=10)
            connection.sendall(CHUNKED + _chunk(LOG))
            open_pipes.append(connection)
        time.sleep(0.3)
        with server.client() as client:
            assert client.post("/v1/analyses", content=iter([LOG])).status_code == 429
            assert client.post("/v1/analyses", content=LOG).status_code == 201
            for connection in open_pipes:
                connection.close()
            assert server.stored(3) == 3
            assert client.post("/v1/analyses", content=iter([LOG])).status_code == 201


def test_stopping_the_server_stores_open_pipes(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'a.db'}"
    with running(url) as server:
        connection = socket.create_connection(server.address, timeout=10)
        connection.sendall(CHUNKED + _chunk(LOG))
        time.sleep(0.3)
    assert b"201 Created" in connection.recv(65536)
    connection.close()
    database = Database(url)
    assert repository.count(database) == 1
    database.close()


def test_large_logs_keep_head_and_tail(tmp_path: Path) -> None:
    filler = b"".join(b"INFO 01-01 00:00:00 [loggers.py:1] filler %07d\n" % number for number in range(60_000))
    log = b"first\n" + filler + LOG
    with (
        running(f"sqlite:///{tmp_path / 'a.db'}", stored_head_bytes=1 << 20, stored_tail_bytes=1 << 20) as server,
        server.client() as client,
    ):
        answer = client.post("/v1/analyses", content=log)
        report = answer.json()
        assert report["outcome"]["cause"] == CAUSE
        kept = repository.inputs(server.database, report["id"])[0]
        assert kept.text.text_bytes < 4 << 20 < len(log) + (2 << 20)
        assert kept.text.gap_lines > 0
        text = b"".join(kept.text.pieces())
        assert text.startswith(b"first\n")
        assert text.count(b"\n") == log.count(b"\n")
        added = client.post(f"/v1/analyses/{report['id']}/inputs", content=b"vllm serve m\n").json()
        assert added["outcome"] == report["outcome"]
        assert added["inputs"][0] == report["inputs"][0]
        assert next(finding["evidence"] for finding in added["findings"]) == report["findings"][0]["evidence"]


def _start(data: Path, url: str) -> tuple[subprocess.Popen[str], str]:
    environment = {**os.environ, "VRAMLEDGER_DATABASE_URL": url, "VRAMLEDGER_DATA_DIR": str(data), "VRAMLEDGER_PORT": "0"}
    program = "from analyzer.web.serve import run; run()"
    process = subprocess.Popen([sys.executable, "-c", program], env=environment, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("VRAM Ledger at "):
            return process, line.split()[-1]
    raise AssertionError("the server did not start")


def test_an_acknowledged_upload_survives_a_kill(tmp_path: Path, database_url: str) -> None:
    process, url = _start(tmp_path, database_url)
    try:
        answer = httpx.post(f"{url}/v1/analyses", content=LOG, timeout=30)
        os.kill(process.pid, signal.SIGKILL)
        process.wait(10)
    finally:
        process.kill()
    assert answer.status_code == 201
    again, url = _start(tmp_path, database_url)
    try:
        back = httpx.get(url + answer.headers["location"], timeout=30)
        assert {k: v for k, v in back.json().items() if k != "url"} == {k: v for k, v in answer.json().items() if k != "url"}
    finally:
        again.terminate()
        assert again.wait(30) in (0, -signal.SIGTERM)
