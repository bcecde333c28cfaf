"""``?live=1``, and the pipe as the README shows it, in a real shell."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import signal
import socket
import subprocess
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from sqlalchemy import text

from analyzer.store import receiving, repository
from tests.web.conftest import CAUSE, LOG, SMI, Running, running

if TYPE_CHECKING:
    from collections.abc import Iterator

README = Path(__file__).parents[2] / "README.md"
HALF = LOG.index(b"\n", len(LOG) // 2) + 1


def _curl(url: str, *more: str) -> subprocess.Popen[bytes]:
    command = ["curl", "-NsST", ".", *more, url]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)


def _lines(process: subprocess.Popen[bytes]) -> Iterator[str]:
    assert process.stdout is not None
    for line in process.stdout:
        yield line.decode().rstrip("\n")


def _state(server: Running, identifier: str) -> str:
    found = repository.get(server.database, identifier)
    assert found is not None
    return found.state


def test_the_answer_runs_beside_the_pipe(live: Running) -> None:
    process = _curl(f"{live.url}/?live=1&name=engine.log")
    assert process.stdin is not None
    lines = _lines(process)
    link = next(lines)  # before a byte has been sent
    assert link.startswith(f"{live.url}/a/")
    identifier = link.rsplit("/", 1)[1]
    assert _state(live, identifier) == "receiving"
    with live.client() as client:
        assert client.get(f"/v1/analyses/{identifier}").json() == {"id": identifier, "state": "receiving"}
        assert client.post(f"/v1/analyses/{identifier}/inputs", content=SMI).status_code == 503
    process.stdin.write(LOG[:HALF])
    first = next(lines)
    assert first
    process.stdin.write(LOG[HALF:])
    seen = [first]
    for line in lines:
        seen.append(line)
        if line.startswith("error: "):
            break
    assert _state(live, identifier) == "receiving"
    process.stdin.close()
    rest = "\n".join(lines)
    assert process.wait(20) == 0
    assert CAUSE in rest
    with live.client(headers={"User-Agent": "curl/8"}) as client:
        assert client.get(f"/a/{identifier}").text.strip() in rest
        report = client.get(f"/v1/analyses/{identifier}").json()
        sent = client.post("/v1/analyses?name=engine.log", content=LOG).json()
        assert {k: v for k, v in report.items() if k not in ("id", "url", "created")} == {
            k: v for k, v in sent.items() if k not in ("id", "url", "created")
        }
        added = client.post(f"/v1/analyses/{identifier}/inputs?name=smi.txt", content=SMI)
        assert [info["name"] for info in added.json()["inputs"]] == ["engine.log", "smi.txt"]


def test_a_pipe_is_followed_in_the_language_of_the_reader(live: Running) -> None:
    out, _ = _curl(f"{live.url}/?live=1&lang=zh&name=engine.log").communicate(LOG, timeout=20)
    learned = out.decode().split("\n\n")[0]
    assert "第 1 次启动，自 engine.log:2" in learned
    assert re.search(r"^kv_cache\.tokens 3664 tokens，第 15 行$", learned, re.MULTILINE)
    assert re.search(r"^错误：.*（确定）$", learned, re.MULTILINE)
    refused, _ = _curl(f"{live.url}/?live=1&lang=zh").communicate(b" \n", timeout=20)
    assert "400 empty_input: stdin 中没有可读的内容" in refused.decode()


def test_a_live_pipe_that_breaks_is_stored_and_marked(live: Running) -> None:
    process = _curl(f"{live.url}/?live=1")
    assert process.stdin is not None
    lines = _lines(process)
    identifier = next(lines).rsplit("/", 1)[1]
    process.stdin.write(LOG)
    assert next(line for line in lines if line.startswith("error: "))
    process.kill()
    process.wait()
    end = time.monotonic() + 20
    while _state(live, identifier) == "receiving" and time.monotonic() < end:
        time.sleep(0.05)
    found = repository.get(live.database, identifier)
    assert found is not None
    assert found.report is not None
    assert (found.state, found.report.outcome.cause, found.report.inputs[0].truncated) == ("done", CAUSE, True)


@pytest.mark.parametrize(("body", "code"), [(b" \n", "400 empty_input"), (b"\x7fELF" + bytes(5000), "400 not_text")])
def test_what_cannot_be_read_leaves_nothing(live: Running, body: bytes, code: str) -> None:
    before = repository.count(live.database)
    process = _curl(f"{live.url}/?live=1")
    out, _ = process.communicate(body, timeout=20)
    assert code in out.decode()
    assert repository.count(live.database) == before


def test_live_without_storing(one: Running) -> None:
    before = repository.count(one.database)
    process = _curl(f"{one.url}/?live=1&store=0")
    out, _ = process.communicate(LOG, timeout=20)
    assert CAUSE in out.decode()
    assert f"{one.url}/a/" not in out.decode()
    assert repository.count(one.database) == before


def test_work_that_takes_too_long_fails_and_says_so(tmp_path: Path) -> None:
    with running(f"sqlite:///{tmp_path / 'a.db'}", analysis_cpu_seconds=1e-9) as server:
        out, _ = _curl(f"{server.url}/?live=1").communicate(LOG, timeout=20)
        identifier = out.decode().split("\n")[0].rsplit("/", 1)[1]
        assert "503 unavailable: " in out.decode()
        found = repository.get(server.database, identifier)
        assert found is not None
        assert (found.state, found.report) == ("failed", None)
        assert "processor time" in str(found.error)
        with server.client() as client:
            for language, said in (("en", "more than 1e-09 s of processor time"), ("zh", "超过 1e-09 秒的 CPU 时间")):
                told = client.get(f"/v1/analyses/{identifier}", params={"lang": language}).json()
                assert told["state"] == "failed"
                assert said in told["error"]
                page = client.get(f"/a/{identifier}", params={"lang": language}, headers={"Accept": "text/html"}).text
                assert told["error"] in page


def test_a_live_pipe_into_a_deleted_analysis_ends(one: Running) -> None:
    process = _curl(f"{one.url}/?live=1")
    assert process.stdin is not None
    lines = _lines(process)
    identifier = next(lines).rsplit("/", 1)[1]
    process.stdin.write(LOG)
    repository.delete(one.database, identifier)
    process.stdin.close()
    assert "404 not_found" in "\n".join(lines)
    assert process.wait(20) == 0


def test_a_reader_that_takes_nothing_does_not_hold_the_pipe(one: Running) -> None:
    before = repository.count(one.database)
    with socket.create_connection(one.address, timeout=20) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        connection.sendall(b"PUT /?live=1 HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n")
        for number in range(200):
            piece = b"INFO 01-01 00:00:00 [loggers.py:1] filler %07d\n" % number * 500
            connection.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
    assert one.stored(before + 1) == before + 1


def test_what_a_killed_server_was_receiving_is_marked(live: Running) -> None:
    now = datetime.now(UTC)
    for number, age in enumerate((timedelta(minutes=1), timedelta(minutes=10))):
        receiving.begin(live.database, f"{number}" * 22, now - age, b"x", "stdin")
    assert receiving.abandoned(live.database, now) == 1
    assert [_state(live, f"{number}" * 22) for number in range(2)] == ["receiving", "failed"]
    receiving.touch(live.database, "0" * 22, now + timedelta(hours=1))
    assert receiving.abandoned(live.database, now + timedelta(hours=1)) == 0
    with live.database.write() as session:
        session.execute(text("DELETE FROM analyses WHERE library = ''"))


# --- the README's recipes ------------------------------------------------------------------------------------------------------------


def _recipe(server: Running) -> str:
    """The pipe of the README, the server's own address in it, and a program that dies like the engine in place of it."""
    recipe = next(line for line in README.read_text().splitlines() if line.startswith("vllm serve") and "trap" in line)
    return recipe.replace("http://127.0.0.1:8000/", server.url + "/")


def test_the_pipe_of_the_readme(one: Running, tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_bytes(LOG)
    script = _recipe(one).replace("vllm serve …", f"(cat {log} >&2; exit 1)")
    said = _in_a_terminal(script, None)
    assert CAUSE in said  # curl printed the report
    assert LOG.decode().splitlines()[0] in said.replace("\r", "")  # tee showed the engine's lines


def test_ctrl_c_ends_the_engine_and_the_report_still_comes(one: Running, tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_bytes(LOG)
    script = _recipe(one).replace("vllm serve …", f"(cat {log}; echo is-up; sleep 600; echo never)")
    before = repository.count(one.database)
    said = _in_a_terminal(script, "is-up")
    assert CAUSE in said
    assert "never" not in said.replace("echo never", "")
    assert one.stored(before + 1) == before + 1
    newest = one.newest()
    assert newest is not None
    assert not repository.inputs(one.database, newest.id)[0].truncated


def _in_a_terminal(script: str, interrupt_at: str | None, seconds: float = 90) -> str:
    """What a terminal shows in which ``script`` runs; Ctrl-C is typed once it has shown ``interrupt_at``, and again if nothing follows."""
    child, terminal = pty.fork()
    if not child:
        os.execvp("bash", ["bash", "-c", script])
    shown = b""
    typed = False
    end = time.monotonic() + seconds
    try:
        while time.monotonic() < end:
            if not select.select([terminal], [], [], 3)[0]:
                if interrupt_at and interrupt_at.encode() in shown:
                    os.write(terminal, b"\x03")
                continue
            try:
                piece = os.read(terminal, 65536)
            except OSError:  # the last one has closed the terminal
                break
            if not piece:
                break
            shown += piece
            if interrupt_at and not typed and interrupt_at.encode() in shown:
                os.write(terminal, b"\x03")
                typed = True
    finally:
        os.close(terminal)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGHUP)
        os.waitpid(child, 0)
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.decode("utf-8", "replace"))


def test_a_silent_pipe_lives(tmp_path: Path) -> None:
    """Silent for longer than an upload of known length may be."""
    with running(f"sqlite:///{tmp_path / 'a.db'}", upload_timeout=0.3) as server:
        process = _curl(f"{server.url}/?live=1")
        assert process.stdin is not None
        process.stdin.write(LOG[:HALF])
        time.sleep(1.2)
        out, _ = process.communicate(LOG[HALF:], timeout=20)
        assert CAUSE in out.decode()
        assert httpx.get(f"{server.url}/healthz").status_code == 200
