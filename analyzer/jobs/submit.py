"""``vramledger submit``: send folders of logs to a server, each file an analysis, and follow them to their end."""

from __future__ import annotations

import http.client
import itertools
import json
import secrets
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

#: Files that are sent at the same time, and tries of each.
CONNECTIONS, TRIES = 4, 8
_TIMEOUT_SECONDS = 120
#: What is worth another try: too many at once, and a server that is being restarted.
_AGAIN = (429, 502, 503, 504)
_BAR = 30


class SubmitError(RuntimeError):
    """Why nothing was sent."""


@dataclass(slots=True)
class Sent:
    """One file and what became of it. ``state``: queued, done, failed, or (not taken) refused."""

    path: Path
    id: str | None
    url: str | None
    state: str
    said: str


class Client:
    """What is asked of the server."""

    def __init__(self, urls: Sequence[str], token: str | None, host: str | None) -> None:
        """``urls``: of one service; where one does not answer, the next one is asked. Raises SubmitError."""
        self._servers = [urlsplit(url if "://" in url else f"http://{url}") for url in urls]
        for parts in self._servers:
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise SubmitError(f"{parts.geturl()} is no address; write http://HOST:PORT")
        self._turn = itertools.count()
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._host = host

    def send(self, path: Path) -> Sent:
        """Send a file, patiently. Nothing raises but what opens the file."""
        query = {"wait": "0", "name": path.name, **({"host": self._host} if self._host else {})}
        answer: dict[str, Any] = {}
        said = ""
        first = next(self._turn)
        key = secrets.token_urlsafe(16)  # the same for every try: one file is one analysis
        for attempt in range(TRIES):
            try:
                with path.open("rb") as body:
                    status, headers, answer = self._ask(
                        "POST", f"/v1/analyses?{urlencode(query)}", body, path.stat().st_size, key, first + attempt
                    )
            except (http.client.HTTPException, ConnectionError, TimeoutError, OSError) as error:
                if isinstance(error, (FileNotFoundError, PermissionError, IsADirectoryError)):
                    return Sent(path, None, None, "refused", error.strerror or str(error))
                said, wait = f"{type(error).__name__}: {error}", 0.5 * 2**attempt
            else:
                if status in (201, 202):
                    return Sent(path, answer["id"], answer.get("url"), answer.get("state", "done"), "")
                said = f"{status} {answer.get('type', '')}: {answer.get('detail', '')}"
                if status not in _AGAIN:
                    break
                given = headers.get("Retry-After", "")
                wait = float(given) if given.isdecimal() else 0.5 * 2**attempt
            if attempt + 1 < TRIES and (attempt + 1) % len(self._servers) == 0:  # the next server is asked at once
                time.sleep(min(wait, 60))
        return Sent(path, None, None, "refused", said)

    def look(self, sent: Sent) -> None:
        """Bring ``sent`` up to date."""
        try:
            status, _, answer = self._ask("GET", f"/v1/analyses/{quote(sent.id or '')}", None, turn=next(self._turn))
        except (http.client.HTTPException, OSError):
            return  # looked at again
        if status == 404:
            sent.state, sent.said = "failed", "it has been deleted"
        elif status == 200 and "outcome" in answer:
            outcome = answer["outcome"]
            sent.state, sent.said = "done", " ".join(filter(None, (outcome["state"], outcome["cause"])))
        elif status == 200 and answer.get("state") == "failed":
            sent.state, sent.said = "failed", answer.get("error", "")

    def _ask(self, method: str, path: str, body: Any, size: int = 0, key: str = "", turn: int = 0) -> tuple[int, Any, dict[str, Any]]:
        parts = self._servers[turn % len(self._servers)]
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=_TIMEOUT_SECONDS)
        try:
            headers = {**self._headers, "Accept": "application/json", "User-Agent": "vramledger"}
            if body is not None:
                headers |= {"Content-Length": str(size), "Content-Type": "text/plain", "Idempotency-Key": key}
            connection.request(method, parts.path.rstrip("/") + path, body=body, headers=headers)
            answer = connection.getresponse()
            data = answer.read()
        finally:
            connection.close()
        try:
            made = json.loads(data)
        except ValueError:
            made = {}
        return answer.status, answer.headers, made if isinstance(made, dict) else {}


def files(places: Sequence[Path]) -> list[Path]:
    """Every file in the folders, and the files that are named themselves, in order. Raises SubmitError where there is none."""
    found: list[Path] = []
    for place in places:
        if not place.exists():
            raise SubmitError(f"{place}: no such file or folder")
        found += (
            sorted(path for path in place.rglob("*") if path.is_file() and not path.name.startswith(".")) if place.is_dir() else [place]
        )
    if not found:
        raise SubmitError("there is no file in there")
    return list(dict.fromkeys(found))


def submit(client: Client, found: Sequence[Path], *, wait: bool = True) -> Iterator[list[Sent]]:
    """Send everything, then (``wait``) look until all is done; what is known so far, now and then, all of it at last."""
    known: list[Sent] = []
    lock = threading.Lock()

    def one(path: Path) -> None:
        sent = client.send(path)
        with lock:
            known.append(sent)

    with ThreadPoolExecutor(CONNECTIONS) as pool:
        running = [pool.submit(one, path) for path in found]
        while not all(future.done() for future in running):
            with lock:
                yield list(known)
            time.sleep(0.2)
        for future in running:
            future.result()
        while wait and (open_ones := [sent for sent in known if sent.state not in ("done", "failed", "refused")]):
            list(pool.map(client.look, open_ones[:100]))
            yield list(known)
            time.sleep(0.3)
        list(pool.map(client.look, [sent for sent in known if sent.state == "done" and not sent.said]))
    yield known


def bar(known: Iterable[Sent], total: int) -> str:
    """The progress in a line: what is done, what is sent, what was refused."""
    states = [sent.state for sent in known]
    done, refused = states.count("done") + states.count("failed"), states.count("refused")
    filled = _BAR * (done + refused) // max(total, 1)
    sent = _BAR * len(states) // max(total, 1)
    drawn = "#" * filled + "-" * (sent - filled) + " " * (_BAR - sent)
    return f"[{drawn}] {done} of {total} analysed, {len(states) - refused} sent" + (f", {refused} refused" if refused else "")


def run(places: Sequence[Path], urls: Sequence[str], token: str | None, host: str | None, *, wait: bool = True) -> int:
    """The command: 0 where every file was taken (and analysed), 1 where one was not, 64 for misuse."""
    try:
        client, found = Client(urls, token, host), files(places)
    except SubmitError as error:
        print(f"vramledger submit: {error}", file=sys.stderr)
        return 64
    shown = sys.stderr.isatty()
    known: list[Sent] = []
    for known in submit(client, found, wait=wait):
        if shown:
            print(f"\r{bar(known, len(found))}", end="", file=sys.stderr, flush=True)
    print(("\r" if shown else "") + bar(known, len(found)), file=sys.stderr)
    order = {path: place for place, path in enumerate(found)}
    for sent in sorted(known, key=lambda sent: order[sent.path]):
        print(f"{sent.path}\t{sent.state}\t{sent.url or '-'}\t{sent.said}")
    return 1 if any(sent.state in ("refused", "failed") for sent in known) else 0
