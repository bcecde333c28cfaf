"""Uploads that come at the same time: each gets the answer that it would have got alone."""

from __future__ import annotations

import gzip
import io
import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from analyzer import analyze
from analyzer.store import repository
from tests.web.conftest import LOG, SMI, running

if TYPE_CHECKING:
    from pathlib import Path


def test_many_at_once_are_answered_like_one(tmp_path: Path) -> None:
    long = b"".join(b'INFO:     10.0.1.%d:1 - "POST /v1/completions HTTP/1.1" 200 OK\n' % (n % 250) for n in range(1500)) + LOG
    direct = json.loads(analyze([("engine.log", io.BytesIO(long))]).to_json())
    with running(f"sqlite:///{tmp_path / 'a.db'}") as server, server.client() as client:

        def send(number: int) -> tuple[int, object]:
            if number % 4 == 3:
                bad = [b"\x7fELF" + bytes(100), b" \n", gzip.compress(LOG)[:-9], b"\x1f\x8bxx"][number // 4 % 4]
                answer = client.post("/v1/analyses?name=engine.log", content=bad)
                return answer.status_code, answer.json()["type"]
            body = gzip.compress(long) if number % 2 else long
            headers = {"Content-Encoding": "gzip"} if number % 2 else {}
            answer = client.post("/v1/analyses?name=engine.log", content=body, headers=headers)
            return answer.status_code, {key: value for key, value in answer.json().items() if key not in ("id", "url", "created")}

        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(send, range(32)))
        good = [answer for number, answer in enumerate(answers) if number % 4 != 3]
        assert good == [(201, direct)] * 24
        bad = [answer for number, answer in enumerate(answers) if number % 4 == 3]
        assert bad == [(400, "not_text"), (400, "empty_input"), (400, "malformed_input"), (400, "malformed_input")] * 2
        assert repository.count(server.database) == 24


def test_what_an_upload_may_take_holds_there_too(tmp_path: Path) -> None:
    with running(f"sqlite:///{tmp_path / 'a.db'}", analysis_cpu_seconds=1e-9) as server, server.client() as client:
        with ThreadPoolExecutor(6) as pool:
            answers = list(pool.map(lambda _: client.post("/v1/analyses", content=LOG + SMI), range(6)))
        assert {(answer.status_code, answer.json()["type"]) for answer in answers} == {(503, "unavailable")}
        assert repository.count(server.database) == 0


@pytest.mark.parametrize("size", [0, 1])
def test_the_smallest_bodies(tmp_path: Path, size: int) -> None:
    with running(f"sqlite:///{tmp_path / 'a.db'}") as server, server.client() as client:
        assert client.post("/v1/analyses", content=b"\n" * size).json()["type"] == "empty_input"
