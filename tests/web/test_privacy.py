"""Dozens of planted secrets, in lines, names, headers and requests: none comes back, is stored or logged; the diagnosis is unharmed."""

from __future__ import annotations

import io
import json
import logging
import os
import subprocess
import sys
import threading
import zipfile
from typing import TYPE_CHECKING

import httpx
import pytest

from analyzer.store import repository
from analyzer.store.database import Database
from analyzer.store.values import HistoryFilter
from analyzer.web.logs import WithoutMessages, where
from tests.web.conftest import CAUSE, LOG, SMI, Running, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_LETTERS = "AbCdEfGhIjKlMnOpQrStUvWxYz0123456789"


def _made(prefix: str, length: int, step: int) -> str:
    return prefix + "".join(_LETTERS[(step * 7 + place * 11) % len(_LETTERS)] for place in range(length - 1)) + "7"


TOKENS = [
    _made(prefix, length, step)
    for step, (prefix, length) in enumerate(
        [
            ("hf_", 34),
            ("sk-proj-", 60),
            ("sk-ant-api03-", 90),
            ("ghp_", 36),
            ("github_pat_", 70),
            ("glpat-", 20),
            ("xoxb-1234567890-", 24),
            ("AIza", 35),
            ("nvapi-", 62),
            ("r8_", 37),
            ("dckr_pat_", 27),
            ("LTAI5t", 18),
        ]
    )
]
PASSWORDS = [_made("pw", 18, step + 20) for step in range(8)]
PEOPLE = ["carol.danvers", "zhangwei88", "o.meara"]
MAILS = ["carol@research.example.com", "ops+gpu@example.cn"]
ADDRESSES = ["10.23.45.67", "172.31.9.201", "203.0.113.77", "2001:db8:85a3::8a2e:370:7334"]
PROMPT = "my wife has been diagnosed with a rare illness"
KEY = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"
SECRETS = [*TOKENS, *PASSWORDS, *PEOPLE, *MAILS, *ADDRESSES, PROMPT, KEY]

LINES = [
    *(f"INFO 11-29 16:30:58 [hub.py:7] using {token} for download" for token in TOKENS),
    f"docker run -e HF_TOKEN={TOKENS[0]} -e DB_PASSWORD={PASSWORDS[0]} -v /home/{PEOPLE[0]}/m:/m registry/image --api-key {PASSWORDS[1]}",
    f"environ({{'AWS_SECRET_ACCESS_KEY': '{PASSWORDS[2]}', 'HOME': '/home/{PEOPLE[1]}'}})",
    f'{{"client_secret": "{PASSWORDS[3]}", "user": "{MAILS[0]}"}}',
    f"Authorization: Bearer {PASSWORDS[4]}",
    f"https://{PEOPLE[2]}:{PASSWORDS[5]}@example.com/x?token={TOKENS[1]}",
    f"ssl_keyfile_password='{PASSWORDS[6]}', port=1",
    f'INFO:     {ADDRESSES[0]}:41234 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
    f"connecting to tcp://{ADDRESSES[1]}:29500, then [{ADDRESSES[3]}]:29500 and {ADDRESSES[2]}",
    f"mail {MAILS[1]} about it",
    (
        f"INFO 11-29 16:30:59 logger.py:39] Received request chatcmpl-1: "
        f"prompt: '{PROMPT}', params: SamplingParams(n=1), prompt_token_ids: [1, 2]."
    ),
    "-----BEGIN PRIVATE KEY-----",
    *[KEY] * 4,
    "-----END PRIVATE KEY-----",
    f"\x1b[36mHF_TOKEN={TOKENS[0]}\x1b[0m",
    f'File "/Users/{PEOPLE[1]}/vllm/worker.py", line 3, in load',
    f"ValueError: cannot reach http://{ADDRESSES[1]}:8000: password={PASSWORDS[7]}",
]
DIRTY = LOG + b"\n" + "\n".join(LINES).encode() + b"\n"
NAMES = [f"{TOKENS[0]}.log", f"{MAILS[0]}-engine.log", f"engine-{ADDRESSES[0]}.log"]
HEADERS = {
    "User-Agent": f"agent/{TOKENS[3]}",
    "Authorization": f"Bearer {TOKENS[4]}",
    "Cookie": f"session={PASSWORDS[0]}; delete_token={PASSWORDS[1]}",
    "X-Forwarded-For": ADDRESSES[2],
    "Referer": f"http://127.0.0.1/?token={TOKENS[5]}",
    "X-Api-Key": PASSWORDS[2],
}


def _leaks(text: str) -> list[str]:
    return [secret for secret in SECRETS if secret in text]


@pytest.fixture
def logged(tmp_path: Path, database_url: str) -> Iterator[tuple[str, Path]]:
    """A server of its own process, over each kind of database, and the file that holds all that it prints."""
    printed = tmp_path / "server.log"
    environment = {**os.environ, "VRAMLEDGER_DATABASE_URL": database_url, "VRAMLEDGER_PORT": "0", "VRAMLEDGER_RATE_LIMIT": "0"}
    process = subprocess.Popen(
        [sys.executable, "-c", "from analyzer.web.serve import run; run()"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert process.stdout is not None
    first = process.stdout.readline().decode()
    assert "VRAM Ledger at " in first, first
    stream = process.stdout

    def copy() -> None:
        with printed.open("wb") as out:
            for line in stream:
                out.write(line)
                out.flush()

    thread = threading.Thread(target=copy)
    thread.start()
    yield first.split()[-1], printed
    process.terminate()
    process.wait(30)
    thread.join(10)


def test_no_secret_comes_back_is_stored_or_is_logged(logged: tuple[str, Path], database_url: str, tmp_path: Path) -> None:
    url, printed = logged
    answers: list[tuple[str, str]] = []
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"home/{PEOPLE[0]}/{TOKENS[1]}/engine.log", DIRTY)
        archive.writestr(f"pod-{ADDRESSES[1]}/smi.txt", SMI)
    with httpx.Client(base_url=url, timeout=60, headers=HEADERS) as client:

        def ask(method: str, path: str, **options: object) -> httpx.Response:
            answer = client.request(method, path, **options)  # type: ignore[arg-type]
            told = "".join(f"{name}: {value}\n" for name, value in answer.headers.items())
            answers.append((f"{method} {path[:40]}", told + answer.text))
            assert answer.status_code < 500 or answer.status_code == 503
            return answer

        paths = [
            ask("POST", "/v1/analyses", params={"name": name, "token": TOKENS[6]}, content=DIRTY).headers["location"] for name in NAMES
        ]
        paths.append(
            ask("PUT", f"/{NAMES[0]}", content=DIRTY, params={"format": "json"}).headers["location"].replace("/a/", "/v1/analyses/")
        )
        paths.append(ask("POST", "/v1/analyses", files={"file": (NAMES[1], DIRTY)}).headers["location"])
        paths.append(ask("POST", "/v1/analyses", files={"file": (f"{NAMES[2]}.zip", packed.getvalue())}).headers["location"])
        live = ask("PUT", "/", params={"live": "1", "name": NAMES[0]}, content=iter([DIRTY[:1000], DIRTY[1000:]]))
        assert CAUSE in live.text
        paths.append("/v1/analyses/" + live.headers["location"].rsplit("/", 1)[1])
        ask("POST", "/v1/analyses", params={"store": "0", "name": NAMES[1]}, content=DIRTY)
        for path in paths:
            for form in ("json", "text", "markdown", "html"):
                for language in ("en", "zh"):
                    assert ask("GET", path, params={"format": form, "lang": language}).status_code == 200
            ask("GET", path.replace("/v1/analyses/", "/a/"), headers={"Accept": "text/html"})
            ask("POST", f"{path}/inputs", params={"name": NAMES[2]}, content=SMI + DIRTY)
        ask("GET", "/v1/analyses")
        ask("GET", "/history", headers={"Accept": "text/html"})
        # What cannot be answered says nothing of it either.
        for name in NAMES:
            ask("POST", "/v1/analyses", params={"name": name}, content=b"\x7fELF")
            ask("PUT", f"/{name}", content=b"\x1f\x8b damaged " + TOKENS[2].encode())
            ask("POST", "/v1/analyses", params={"name": name}, content=b" \n")
            ask("GET", f"/v1/analyses/{name}")
            ask("GET", f"/no/such/{name}")
            ask("PATCH", f"/a/{name}")
            ask("GET", "/v1/analyses", params={"cursor": name})
            ask("GET", "/v1/analyses", params={"since": name})
            ask("GET", "/v1/analyses", params={"limit": name})
            ask("GET", "/v1/limits", params={"format": name})
            ask("POST", "/v1/analyses", content=b"x", headers={"Content-Encoding": name.encode()})
            ask("POST", "/v1/analyses", content=b"x", headers={"Content-Type": f"multipart/form-data; boundary={name}"})
            ask("POST", "/v1/analyses", content=LOG, headers={"Origin": f"https://{name}"})
        ask("GET", "/metrics")
        for path in paths:
            report = json.loads(client.get(path).text)
            assert report["outcome"]["cause"] == CAUSE
    leaks = {what: found for what, text in answers if (found := _leaks(text))}
    assert not leaks

    database = Database(database_url)
    stored = [item.id for item in repository.history(database, HistoryFilter(), limit=100).items]
    assert len(stored) == len(paths)
    for identifier in stored:
        for kept in repository.inputs(database, identifier):
            text = b"".join(kept.text.pieces()).decode()
            assert not _leaks(text + kept.name)
            assert "using <" in text or kept.name.endswith("smi.txt") or "smi" in text.lower()
    with database.read() as session:
        from sqlalchemy import inspect
        from sqlalchemy import text as sql

        tables = inspect(database.engine).get_table_names()
        everything = "".join(str(list(session.execute(sql(f'SELECT * FROM "{table}"')).all())) for table in tables)
    assert not _leaks(everything)
    database.close()
    if database_url.startswith("sqlite"):
        raw = b"".join(path.read_bytes() for path in tmp_path.glob("store.db*"))
        assert not [secret for secret in SECRETS if secret.encode() in raw]
    assert not _leaks(printed.read_text())


def test_the_diagnosis_is_unharmed(one: Running) -> None:
    with one.client() as client:
        clean, dirty = (client.post("/v1/analyses?name=engine.log&store=0", content=log).json() for log in (LOG, DIRTY))
    for part in ("outcome", "engine", "ledgers"):
        assert dirty[part] == clean[part]
    assert dirty["findings"][0]["cause"] == clean["findings"][0]["cause"]
    assert dirty["findings"][0]["fixes"] == clean["findings"][0]["fixes"]


def test_what_is_removed_can_be_read(one: Running) -> None:
    with one.client() as client:
        rules = client.get("/v1/redactions").json()["redactions"]
        chinese = client.get("/v1/redactions?lang=zh").json()["redactions"]
    assert {"token", "email", "ip", "user", "prompt"} <= {rule["kind"] for rule in rules}
    assert all(rule["text"] for rule in rules)
    assert [rule["text"] for rule in rules] != [rule["text"] for rule in chinese]


def test_a_mistake_is_logged_without_what_it_says() -> None:
    def stumble(value: str) -> int:
        try:
            return int(value)
        except ValueError as error:
            raise RuntimeError(f"cannot read {value}") from error

    with pytest.raises(RuntimeError) as caught:
        stumble(TOKENS[0])
    said = where(caught.value)
    assert "stumble" in said
    assert "RuntimeError" in said
    assert "ValueError" in said
    assert not _leaks(said)
    record = logging.LogRecord(
        "uvicorn.error", logging.ERROR, "x", 1, "Exception in %s", ("application",), (RuntimeError, caught.value, None)
    )
    assert WithoutMessages().filter(record)
    shown = logging.Formatter().format(record)
    assert "Exception in application" in shown
    assert not _leaks(shown)


def test_deleting_leaves_no_byte_in_the_files_of_sqlite(tmp_path: Path) -> None:
    marker = "unmistakablemarker"
    log = LOG.replace(b"ValueError: ", f"ValueError: {marker} ".encode()) + f"\n{marker} again\n".encode()
    with running(f"sqlite:///{tmp_path / 'store.db'}") as server, server.client() as client:
        other = client.post("/v1/analyses?name=other.log", content=LOG)
        sent = [
            client.post(f"/v1/analyses?name={marker}.log", content=log),
            client.put("/?live=1", content=iter([log]), params={"live": "1", "name": f"{marker}-2.log"}),
        ]
        paths = ["/v1/analyses/" + answer.headers["location"].rsplit("/", 1)[1] for answer in sent]
        client.post(f"{paths[0]}/inputs?name={marker}-3.log", content=log)
        files = [tmp_path / "store.db", tmp_path / "store.db-wal"]
        compressed = [item.text.compressed for path in paths for item in repository.inputs(server.database, path.rsplit("/", 1)[1])]
        before = b"".join(path.read_bytes() for path in files)
        assert marker.encode() in before
        assert all(text in before for text in compressed)
        for path, answer in zip(paths, sent, strict=True):
            client.cookies.clear()
            assert client.delete(path, headers={"X-Delete-Token": answer.headers["x-delete-token"]}).status_code == 204
        after = b"".join(path.read_bytes() for path in files)
        assert marker.encode() not in after
        assert not [text for text in compressed if text in after]
        assert client.get(other.headers["location"]).status_code == 200
