"""Kills a server under uploads with SIGKILL, again and again: nothing that it has acknowledged may be lost or half there.

    python benchmarks/kill.py DATABASE_URL [--times 20]

Status 1 where an acknowledged analysis cannot be read again as it was answered, or anything else is left but whole analyses.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import signal
import sys
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).parents[1]))

from sqlalchemy import text

from analyzer.store import repository
from analyzer.store.database import Database
from benchmarks.load import log, started


def uploads(address: tuple[str, int], said: dict[str, bytes], stop: threading.Event, number: int) -> None:
    """Send until the server is gone; note every whole answer."""
    while not stop.is_set():
        number += 1
        try:
            connection = http.client.HTTPConnection(*address, timeout=30)
            connection.request("POST", "/v1/analyses?name=engine.log", log(number)[-30_000:])
            answer = connection.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException):
            continue
        if answer.status == 201:
            said[str(answer.headers["Location"])] = body


def run(url: str, times: int) -> tuple[int, int]:
    """(acknowledged, lost) over ``times`` kills."""
    kept: dict[str, bytes] = {}
    chance = random.Random(7)
    for round_number in range(times):
        process, base = started(url)
        parts = urlsplit(base)
        address = (str(parts.hostname), int(parts.port or 80))
        said: dict[str, bytes] = {}
        stop = threading.Event()
        threads = [threading.Thread(target=uploads, args=(address, said, stop, (round_number * 8 + n) * 10_000)) for n in range(4)]
        for thread in threads:
            thread.start()
        end = time.monotonic() + 60
        while not said and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(chance.uniform(0.05, 1.0))
        process.send_signal(signal.SIGKILL)
        process.wait()
        stop.set()
        for thread in threads:
            thread.join()
        kept |= said
        print(f"kill {round_number + 1}: {len(said)} acknowledged", flush=True)
    return len(kept), lost(url, kept)


def lost(url: str, kept: dict[str, bytes]) -> int:
    """How many of ``kept`` a new server does not give back as they were answered."""
    process, base = started(url)
    parts = urlsplit(base)
    connection = http.client.HTTPConnection(str(parts.hostname), int(parts.port or 80), timeout=30)
    gone = 0
    try:
        for path, body in kept.items():
            connection.request("GET", path)
            again = json.loads(connection.getresponse().read())
            before = json.loads(body)
            gone += {**again, "url": ""} != {**before, "url": ""}
    finally:
        process.terminate()
        process.wait(30)
    return gone


def halves(url: str) -> int:
    """Rows that belong to no whole analysis, and counts of inputs that are wrong."""
    bare = "SELECT count(*) FROM analyses a WHERE NOT EXISTS"
    wrong = {
        "analyses without inputs": f"{bare} (SELECT 1 FROM analysis_inputs i WHERE i.analysis_id = a.id)",
        "analyses without a report": "SELECT count(*) FROM analyses WHERE report IS NULL",
        "wrong counts": "SELECT count(*) FROM inputs p WHERE refs <> (SELECT count(*) FROM analysis_inputs i WHERE i.sha256 = p.sha256)",
        "analyses without words": f"{bare} (SELECT 1 FROM analysis_terms t WHERE t.analysis_id = a.id)",
    }
    database = Database(url)
    with database.read() as session:
        found = {name: int(session.execute(text(query)).scalar() or 0) for name, query in wrong.items()}
        if database.is_sqlite:
            found["damage"] = int(session.execute(text("PRAGMA integrity_check")).scalar() != "ok")
    print(f"{repository.count(database)} analyses stored;", ", ".join(f"{name}: {count}" for name, count in found.items()))
    database.close()
    return sum(found.values())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url")
    parser.add_argument("--times", type=int, default=20)
    options = parser.parse_args()
    acknowledged, gone = run(options.url, options.times)
    left = halves(options.url)
    print(f"{options.times} kills, {acknowledged} acknowledged, {gone} lost, {left} half there")
    return 1 if gone or left else 0


if __name__ == "__main__":
    sys.exit(main())
