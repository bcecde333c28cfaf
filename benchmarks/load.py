"""Sixteen clients at once, each sending a log of 100 KB over and over: requests a second, the slowest in twenty, errors.

    python benchmarks/load.py [--clients 16] [--seconds 20] [--url http://127.0.0.1:8000] [--database URL]

Without --url a server is started on a free port over a database of its own, and stopped again.
"""

from __future__ import annotations

import argparse
import http.client
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).parents[1]
SIZE = 100_000


def log(number: int) -> bytes:
    """What two real servers printed, one that served and one that did not start: 100 KB, no two the same."""
    cases = ROOT / "fixtures" / "cases" / "real-cpu"
    served = (cases / "0.8.5.post2-healthy" / "engine.log").read_bytes()
    failed = (cases / "0.24.0-kv-too-small" / "engine.log").read_bytes()
    first = b"run %d of this benchmark\n" % number
    return first + served[: SIZE - len(first) - len(failed)].rpartition(b"\n")[0] + b"\n" + failed


def started(database: str, **environment: str) -> tuple[subprocess.Popen[str], str]:
    """A server of its own, and its address."""
    values = {"VRAMLEDGER_DATABASE_URL": database, "VRAMLEDGER_PORT": "0", "VRAMLEDGER_RATE_LIMIT": "0", **environment}
    program = "import sys; from analyzer.web.serve import run; sys.exit(run())"
    process = subprocess.Popen([sys.executable, "-c", program], env={**os.environ, **values}, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("VRAM Ledger at "):
            threading.Thread(target=process.stderr.read, daemon=True).start()
            return process, line.split()[-1]
    raise SystemExit("the server did not start")


def client(address: tuple[str, int], logs: list[bytes], end: float, times: list[float], said: Counter[str]) -> None:
    """Send until ``end``."""
    connection = http.client.HTTPConnection(*address, timeout=60)
    number = 0
    while time.monotonic() < end:
        start = time.monotonic()
        try:
            connection.request("POST", "/v1/analyses?name=engine.log", logs[number % len(logs)], {"Accept": "application/json"})
            answer = connection.getresponse()
            answer.read()
            said[str(answer.status)] += 1
        except OSError as error:
            said[type(error).__name__] += 1
            connection.close()
        times.append(time.monotonic() - start)
        number += 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--url")
    parser.add_argument("--database")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        process, url = (None, options.url) if options.url else started(options.database or f"sqlite:///{folder}/load.db")
        parts = urlsplit(url)
        address = (parts.hostname or "127.0.0.1", parts.port or 80)
        warm: Counter[str] = Counter()
        client(address, [log(0)], time.monotonic() + 1, [], warm)
        times: list[float] = []
        said: Counter[str] = Counter()
        begin = time.monotonic()
        end = begin + options.seconds
        threads = [
            threading.Thread(target=client, args=(address, [log(place * 1000 + n) for n in range(20)], end, times, said))
            for place in range(options.clients)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        took = time.monotonic() - begin
        if process is not None:
            process.terminate()
            process.wait(30)
    p95 = statistics.quantiles(times, n=20)[-1]
    print(f"{len(times)} requests in {took:.1f} s: {len(times) / took:.1f} a second, p50 {statistics.median(times):.3f} s, p95 {p95:.3f} s")
    print("answers:", dict(said), f"load average {os.getloadavg()[0]:.1f}")
    return 0 if set(said) == {"201"} else 1


if __name__ == "__main__":
    sys.exit(main())
