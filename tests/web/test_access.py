"""Who may read, upload and delete, and on which address the server listens at all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from analyzer import settings
from analyzer.settings import SettingsError
from analyzer.store import repository
from analyzer.web.serve import ServeError, check_binding
from tests.web.conftest import LOG, Running, running

if TYPE_CHECKING:
    from collections.abc import Iterator

TOKEN, UPLOAD = "reader-token-1", "upload-token-1"


@pytest.fixture(scope="module")
def closed(sqlite_url: str) -> Iterator[Running]:
    with running(sqlite_url, tokens=TOKEN, upload_tokens=UPLOAD) as found:
        yield found


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.mark.parametrize("path", ["/v1/analyses", "/history"])
def test_history_needs_a_token_where_there_are_any(closed: Running, path: str) -> None:
    with closed.client() as client:
        answer = client.get(path, headers={"Accept": "application/json"})
        assert (answer.status_code, answer.json()["type"]) == (401, "unauthorized")
        assert "basic" in answer.headers["www-authenticate"].lower()
        assert client.get(path, headers=_bearer("wrong-token-9")).status_code == 401
        assert client.get(path, headers=_bearer(UPLOAD)).status_code == 401
        assert client.get(path, headers={"Authorization": "Basic ???"}).status_code == 401
        assert client.get(path, headers={"Authorization": "Basic w7/DvzrDvw=="}).status_code == 401
        assert client.get(path, headers=_bearer(TOKEN)).status_code == 200
        assert client.get(path, auth=("anybody", TOKEN)).status_code == 200


@pytest.mark.parametrize("call", [("PUT", "/"), ("PUT", "/a.log"), ("POST", "/"), ("POST", "/v1/analyses")])
def test_uploads_need_a_token_where_upload_tokens_are_set(closed: Running, call: tuple[str, str]) -> None:
    before = repository.count(closed.database)
    with closed.client() as client:
        assert client.request(*call, content=LOG).status_code == 401
        assert repository.count(closed.database) == before
        assert client.request(*call, content=LOG, headers=_bearer(UPLOAD)).status_code == 201
        assert client.request(*call, content=LOG, headers=_bearer(TOKEN)).status_code == 201


def test_whoever_has_the_id_may_read_and_add(closed: Running) -> None:
    with closed.client() as client:
        path = client.post("/v1/analyses", content=LOG, headers=_bearer(UPLOAD)).headers["location"]
        assert client.get(path).status_code == 200
        assert client.post(f"{path}/inputs", content=b"more\n").status_code == 200


def test_an_api_token_deletes(closed: Running) -> None:
    with closed.client() as client:
        made = client.post("/v1/analyses", content=LOG, headers=_bearer(UPLOAD))
        client.cookies.clear()
        path = made.headers["location"]
        assert client.delete(path, headers=_bearer(UPLOAD)).status_code == 401
        assert client.delete(path, headers=_bearer(TOKEN)).status_code == 204
        assert client.get(path).status_code == 404


def test_the_delete_token_deletes_its_own_analysis(live: Running) -> None:
    with httpx.Client(base_url=live.url) as client:
        first, second = (client.post("/v1/analyses", content=LOG) for _ in range(2))
        client.cookies.clear()
        path = first.headers["location"]
        assert client.delete(path).status_code == 401
        assert client.delete(path, headers={"X-Delete-Token": second.headers["x-delete-token"]}).status_code == 403
        assert client.get(path).status_code == 200
        assert client.delete(path, headers={"X-Delete-Token": first.headers["x-delete-token"]}).status_code == 204
        assert client.get(path).status_code == 404
        assert client.delete(path, headers={"X-Delete-Token": first.headers["x-delete-token"]}).status_code == 404
        assert client.get(second.headers["location"]).status_code == 200


def test_a_browser_deletes_with_its_cookie(live: Running) -> None:
    with live.client(headers={"Accept": "text/html"}) as client:
        made = client.post("/", files={"file": ("engine.log", LOG)})
        assert made.status_code == 303
        page = made.headers["location"]
        cookies = made.headers.get_list("set-cookie")
        assert len(cookies) == 2
        assert all("HttpOnly" in cookie and "SameSite=strict" in cookie for cookie in cookies)
        assert client.get(page).status_code == 200
        gone = client.post(f"{page}/delete")
        assert (gone.status_code, gone.headers["location"]) == (303, "/?deleted=1")
        assert client.get(page).status_code == 404


def test_retention_deletes_by_itself(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'a.db'}"
    with running(url) as server, server.client() as client:
        path = client.post("/v1/analyses", content=LOG).headers["location"]
        with server.database.write() as session:
            session.connection().exec_driver_sql("UPDATE analyses SET updated = '2020-01-01 00:00:00.000000'")
    with running(url, retention_days=30) as server, server.client() as client:
        assert server.stored(0) == 0
        assert client.get(path).status_code == 404


@pytest.mark.parametrize(
    ("given", "allowed"),
    [
        ({}, True),
        ({"host": "localhost"}, True),
        ({"host": "::1"}, True),
        ({"host": "127.0.0.5"}, True),
        ({"host": "0.0.0.0"}, False),
        ({"host": "::"}, False),
        ({"host": "192.168.1.4"}, False),
        ({"host": "gpu-box.example"}, False),
        ({"host": "0.0.0.0", "upload_tokens": "upload-token-1"}, False),
        ({"host": "0.0.0.0", "tokens": TOKEN}, True),
        ({"host": "0.0.0.0", "public": True}, True),
    ],
)
def test_binding(given: dict[str, Any], allowed: bool) -> None:
    chosen = settings.load(**given)
    if allowed:
        check_binding(chosen)
    else:
        with pytest.raises(ServeError, match="--public"):
            check_binding(chosen)


@pytest.mark.parametrize(
    ("environment", "arguments", "said"),
    [
        ({}, ["--host", "0.0.0.0"], "--public"),
        ({"VRAMLEDGER_TOKENS": "short"}, [], "VRAMLEDGER_TOKENS"),
        ({"VRAMLEDGER_DATABASE_URL": "postgresql://u:secret@127.0.0.1:1/x"}, [], "cannot be used"),
        ({"VRAMLEDGER_DATABASE_URL": "mysql://u:secret@h/x"}, [], "only sqlite and postgresql"),
        ({"VRAMLEDGER_DATA_DIR": "/dev/null/x"}, [], "/dev/null/x"),
        ({"VRAMLEDGER_PATTERNS": "/no/such/folder"}, [], "/no/such/folder"),
    ],
)
def test_what_keeps_the_server_from_starting_is_said(tmp_path: Path, environment: dict[str, str], arguments: list[str], said: str) -> None:
    base = {**os.environ, "VRAMLEDGER_PORT": "0", "VRAMLEDGER_DATA_DIR": str(tmp_path)}
    command = [sys.executable, "-c", "import sys; from analyzer.cli import main; sys.exit(main())", "serve", *arguments]
    done = subprocess.run(command, env={**base, **environment}, capture_output=True, text=True, timeout=60)
    assert done.returncode == 64
    assert said in done.stderr
    assert "secret" not in done.stderr
    assert "Traceback" not in done.stderr


def test_settings_come_from_flags_then_environment_then_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "vramledger.toml").write_text('port = 1001\nhost = "127.0.0.2"\nretention_days = 7\ntokens = ["from-a-file"]\n')
    monkeypatch.setenv("VRAMLEDGER_PORT", "1002")
    monkeypatch.setenv("VRAMLEDGER_UPLOAD_TOKENS", "one-token-a, one-token-b")
    chosen = settings.load(host="127.0.0.3")
    assert (chosen.host, chosen.port, chosen.retention_days) == ("127.0.0.3", 1002, 7)
    assert [token.get_secret_value() for token in chosen.upload_tokens] == ["one-token-a", "one-token-b"]
    assert "one-token-a" not in repr(chosen)
    assert "from-a-file" not in repr(chosen)


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ("prot = 1", "PROT"),
        ("port = 70000", "PORT"),
        ('tokens = ["short"]', "TOKENS"),
        ('public_url = "example.com"', "PUBLIC_URL"),
        ("= nonsense", "vramledger.toml"),
        ('lang = "fr"', "LANG"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, toml: str, said: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "vramledger.toml").write_text(toml)
    with pytest.raises(SettingsError, match=said) as caught:
        settings.load()
    assert "short" not in str(caught.value).replace("shorter", "")


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ({"data_dir": Path("/data")}, "sqlite:////data/vramledger.db"),
        ({"database_url": "postgresql://u@h/d"}, "postgresql+psycopg://u@h/d"),
        ({"database_url": "postgres://u@h/d"}, "postgresql+psycopg://u@h/d"),
        ({"database_url": "sqlite:////x.db"}, "sqlite:////x.db"),
    ],
)
def test_the_database_of_the_settings(given: dict[str, Any], url: str) -> None:
    assert settings.load(**given).database == url
