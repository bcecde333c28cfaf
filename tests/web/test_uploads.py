"""Whatever way a log is sent, the report is the same, it is stored, and it can be read again in every form."""

from __future__ import annotations

import gzip
import io
import json
import re
import subprocess
import zlib
from typing import TYPE_CHECKING, Any

import pytest
import zstandard

from analyzer import analyze
from analyzer.report import render
from analyzer.store import repository
from tests.web.conftest import CAUSE, LOG, SMI, Running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import httpx

ID = r"[A-Za-z0-9_-]{22}"
OWN = ("id", "url", "created")


def _report(answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code in (200, 201), answer.text
    return {key: value for key, value in answer.json().items() if key not in OWN}


def _direct(*inputs: tuple[str, bytes], language: str = "en") -> dict[str, Any]:
    report = analyze([(name, io.BytesIO(data)) for name, data in inputs])
    return json.loads(report.to_json(language))  # type: ignore[no-any-return]


def _raw_deflate(data: bytes) -> bytes:
    machine = zlib.compressobj(wbits=-15)
    return machine.compress(data) + machine.flush()


JSON = {"Accept": "application/json"}


@pytest.mark.parametrize(
    ("method", "path", "options", "name"),
    [
        ("PUT", "/", {"content": LOG}, "stdin"),
        ("PUT", "/engine.log", {"content": LOG}, "engine.log"),
        ("PUT", "/healthz", {"content": LOG}, "healthz"),
        ("PUT", "/?name=other.log", {"content": LOG}, "other.log"),
        ("POST", "/", {"content": LOG, "headers": {"Content-Type": "application/x-www-form-urlencoded"}}, "input"),
        ("POST", "/", {"files": {"file": ("engine.log", LOG)}}, "engine.log"),
        ("POST", "/v1/analyses", {"content": LOG}, "input"),
        ("POST", "/v1/analyses?name=a/b/engine.log", {"content": LOG}, "engine.log"),
        ("POST", "/v1/analyses", {"content": (LOG[i : i + 7] for i in range(0, len(LOG), 7))}, "input"),  # chunked
        ("POST", "/v1/analyses", {"files": {"file": ("C:\\logs\\engine.log", LOG)}}, "engine.log"),
        ("POST", "/v1/analyses", {"data": {"name": "pasted.log", "text": LOG.decode()}, "files": {"none": b""}}, "pasted.log"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_every_way_in_gives_the_report_of_the_library(one: Running, method: str, path: str, options: dict[str, Any], name: str) -> None:
    with one.client() as client:
        answer = client.request(method, path, **{**options, "headers": {**options.get("headers", {}), **JSON}})
    assert answer.status_code == 201, answer.text
    assert _report(answer) == _direct((name, LOG))
    assert answer.json()["outcome"]["cause"] == CAUSE


@pytest.mark.parametrize(
    ("encoding", "encode"),
    [
        ("gzip", gzip.compress),
        ("x-gzip", gzip.compress),
        ("zstd", zstandard.ZstdCompressor().compress),
        ("deflate", zlib.compress),
        ("deflate", _raw_deflate),
        ("identity", bytes),
        ("", bytes),
        ("gzip, zstd", lambda data: zstandard.ZstdCompressor().compress(gzip.compress(data))),
    ],
)
def test_content_encodings(one: Running, encoding: str, encode: Callable[[bytes], bytes]) -> None:
    with one.client() as client:
        answer = client.post("/v1/analyses", content=encode(LOG), headers={"Content-Encoding": encoding})
    assert _report(answer) == _direct(("input", LOG))


def test_a_compressed_file_in_an_encoded_body(one: Running) -> None:
    packed = gzip.compress(LOG, mtime=0)
    with one.client() as client:
        plain = client.put("/engine.log.gz", content=packed, headers=JSON)
        encoded = client.put("/engine.log.gz", content=zlib.compress(packed), headers={**JSON, "Content-Encoding": "deflate"})
    assert _report(plain) == _report(encoded) == _direct(("engine.log.gz", packed))


def test_several_files_and_a_text_are_one_analysis(live: Running) -> None:
    with live.client() as client:
        answer = client.post(
            "/v1/analyses",
            files=[
                ("file", ("engine.log", LOG)),
                ("file", ("", b"")),
                ("other", ("smi.txt", SMI)),
                ("text", (None, "vllm serve m")),
                ("x", (None, "y")),
            ],
        )
        assert _report(answer) == _direct(("engine.log", LOG), ("smi.txt", SMI), ("paste", b"vllm serve m"))
        kept = repository.inputs(live.database, answer.json()["id"])
    assert [(item.name, item.sent_bytes, item.truncated) for item in kept] == [
        ("engine.log", len(LOG), False),
        ("smi.txt", len(SMI), False),
        ("paste", 12, False),
    ]


@pytest.mark.parametrize("form", ["json", "text", "markdown", "html"])
@pytest.mark.parametrize("language", ["en", "zh"])
def test_what_is_read_later_is_what_was_answered(live: Running, form: str, language: str) -> None:
    asked = {"format": form, "lang": language}
    with live.client() as client:
        answer = client.post("/v1/analyses", content=LOG, params=asked)
        assert answer.status_code == 201
        assert answer.headers["content-language"] == language
        path = answer.headers["location"]
        assert re.fullmatch(rf"/v1/analyses/{ID}", path)
        again = client.get(path, params=asked)
        assert again.content == answer.content
        assert again.headers["content-type"] == answer.headers["content-type"]
        report = analyze([("input", io.BytesIO(LOG))])
        if form == "json":
            assert _report(again) == json.loads(report.to_json(language))
        else:
            url = live.url + path.replace("/v1/analyses", "/a")
            assert again.text == render(report, form, language, url=url)


@pytest.mark.parametrize(
    ("headers", "query", "kind"),
    [
        ({}, "", "application/json"),
        ({"Accept": "text/plain"}, "", "text/plain; charset=utf-8"),
        ({"Accept": "text/markdown"}, "", "text/markdown; charset=utf-8"),
        ({"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}, "", "text/html; charset=utf-8"),
        ({"Accept": "text/html"}, "?format=text", "text/plain; charset=utf-8"),
        ({"Accept": "image/png, text/plain;q=0.1, application/json;q=0"}, "", "text/plain; charset=utf-8"),
        ({"Accept": ";;q=,,=/*"}, "", "application/json"),
    ],
)
def test_forms_by_accept(one: Running, headers: dict[str, str], query: str, kind: str) -> None:
    with one.client() as client:
        path = client.post("/v1/analyses", content=LOG).headers["location"]
        assert client.get(path + query, headers=headers).headers["content-type"] == kind


def test_languages_by_header(one: Running) -> None:
    with one.client() as client:
        path = client.post("/v1/analyses", content=LOG).headers["location"]
        for header, language in [("zh-CN,zh;q=0.9,en;q=0.1", "zh"), ("fr, zh;q=0.2, en;q=0.8", "en"), ("fr", "en"), ("x" * 5000, "en")]:
            answer = client.get(path, headers={"Accept-Language": header})
            assert answer.headers["content-language"] == language
        assert client.get(path, params={"lang": "zh-TW"}, headers={"Accept-Language": "en"}).headers["content-language"] == "zh"


def test_an_answer_that_is_not_kept(live: Running) -> None:
    before = repository.count(live.database)
    with live.client() as client:
        for path in ("/v1/analyses?store=0", "/?store=0"):
            answer = client.post(path, content=LOG, headers=JSON)
            assert answer.status_code == 200
            assert answer.json() == _direct(("input", LOG))
            assert not {"location", "x-delete-token", "set-cookie"} & set(answer.headers)
    assert repository.count(live.database) == before


@pytest.mark.parametrize("method", ["POST /v1/analyses/{}/inputs", "PUT /a/{}", "POST /a/{}"])
def test_inputs_are_added_under_the_same_id(live: Running, method: str) -> None:
    verb, path = method.split()
    with live.client() as client:
        first = client.post("/v1/analyses?name=engine.log", content=LOG).json()
        answer = client.request(verb, path.format(first["id"]) + "?name=smi.txt", content=SMI, headers=JSON)
        assert answer.status_code == 200
        assert (answer.json()["id"], answer.json()["created"]) == (first["id"], first["created"])
        assert _report(answer) == _direct(("engine.log", LOG), ("smi.txt", SMI))
        assert client.get(f"/v1/analyses/{first['id']}").content == answer.content


def test_a_failed_addition_changes_nothing(live: Running) -> None:
    with live.client() as client:
        first = client.post("/v1/analyses", content=LOG)
        path = first.headers["location"]
        assert client.post(f"{path}/inputs", content=b"\x7fELF").status_code == 400
        assert client.post(f"{path}/inputs", content=b"x", headers={"Content-Encoding": "gzip"}).status_code == 400
        assert client.get(path).content == first.content
        assert client.post("/v1/analyses/" + "x" * 22 + "/inputs", content=LOG).status_code == 404


def test_many_additions_at_once_all_arrive(live: Running) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with live.client() as client:
        path = client.post("/v1/analyses", content=LOG).headers["location"]
        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(lambda n: client.post(f"{path}/inputs?name={n}", content=b"line %d\n" % n), range(4)))
        assert [answer.status_code for answer in answers] == [200] * 4
        assert {info["name"] for info in client.get(path).json()["inputs"]} == {"input", "0", "1", "2", "3"}


def test_secrets_are_neither_stored_nor_shown(live: Running) -> None:
    secret = "hf_" + "AbCdEfGhIjKlMnOpQrStUvWxYz12345678"
    command = (
        f"docker run -e HF_TOKEN={secret} -v /home/carol/m:/m vllm/vllm-openai:v0.6.3 --model /m --api-key {secret} --max-model-len 4096\n"
    )
    log = command.encode() + LOG + f"\nERROR 01-01 00:00:00 token={secret} failed\n".encode()
    with live.client() as client:
        answer = client.post("/v1/analyses", content=log)
        path = answer.headers["location"]
        for form in ("json", "text", "markdown", "html"):
            shown = client.get(path, params={"format": form}).text
            assert secret not in shown
            assert "carol" not in shown
        text = b"".join(repository.inputs(live.database, answer.json()["id"])[0].text.pieces())
    assert secret.encode() not in text
    assert text.count(b"\n") == log.count(b"\n")
    assert b"failed" in text


def test_a_terminal_gets_no_control_character_of_the_input(one: Running) -> None:
    nasty = b"\x1b]0;owned\x07\x1b[31m\xc2\x9b31m"
    log = LOG.replace(b"ValueError: ", b"ValueError: " + nasty)
    with one.client() as client:
        plain = client.put("/x%1b%5b31m%07.log", content=log, headers={"User-Agent": "curl/8"})
        coloured = client.put("/", content=log, params={"color": "1"}, headers={"User-Agent": "curl/8"})
    assert plain.status_code == 201
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", plain.text)
    assert "\x1b[" in coloured.text
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", re.sub(r"\x1b\[[0-9;]*m", "", coloured.text))


def _curl(*arguments: str, stdin: bytes = b"") -> str:
    done = subprocess.run(["curl", "-sS", "--max-time", "20", *arguments], input=stdin, capture_output=True, timeout=30)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


@pytest.fixture
def log_file(tmp_path: Any) -> Iterator[str]:
    path = tmp_path / "engine.log"
    path.write_bytes(LOG)
    return str(path)


def test_curl_sends_a_file_and_reads_the_report(one: Running, log_file: str) -> None:
    answer = _curl("-T", log_file, one.url)
    newest = one.newest()
    assert newest is not None
    assert newest.inputs == ("engine.log",)
    assert answer == render(analyze([log_file]), "text", url=f"{one.url}/a/{newest.id}")
    assert _curl(f"{one.url}/a/{newest.id}") == answer


def test_curl_sends_a_pipe_and_a_form(one: Running, log_file: str) -> None:
    assert CAUSE in _curl("-T", "-", one.url, stdin=LOG)
    assert CAUSE in _curl("--data-binary", f"@{log_file}", one.url)
    assert CAUSE in _curl("-F", f"file=@{log_file}", one.url)
    assert json.loads(_curl("-F", f"a=@{log_file}", "-F", "text=x", f"{one.url}/v1/analyses"))["outcome"]["cause"] == CAUSE
    assert _curl("-T", "-", f"{one.url}/", stdin=b" \n").startswith("400 empty_input: ")
    assert "curl -T engine.log " + one.url in _curl(one.url)
    assert "向已有的分析补充输入" in _curl(f"{one.url}/?lang=zh")
