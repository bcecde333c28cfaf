"""Sends a log of 2 GB through one pipe and says how much memory the server took.

    python benchmarks/pipe.py [--mib 2000] [--live]

Status 1 where the server's peak passes 200 MiB.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.load import ROOT, started

LIMIT_MIB = 200


def pieces(size: int) -> Iterator[bytes]:
    """A server's log of ``size`` bytes: its start, requests by the million with a line of figures now and then, its death."""
    ending = (ROOT / "fixtures" / "web" / "engine.log").read_bytes()
    yield b"INFO 05-01 10:00:00 [api_server.py:1090] vLLM API server version 0.9.1\n"
    sent = step = 0
    while sent < size - len(ending):
        lines = []
        for _ in range(100):
            step += 1
            clock = f"{step // 360 % 24:02}:{step // 6 % 60:02}:{step * 10 % 60:02}"
            lines += [
                f"INFO 05-02 {clock} [logger.py:43] Received request chatcmpl-{step * 1000 + n:032x}: prompt: "
                + "'some words of a prompt ' " * 6
                + ", params: SamplingParams(n=1, temperature=0.7), prompt_token_ids: None\n"
                + f'INFO:     10.0.{n}.7:{40000 + n} - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
                for n in range(64)
            ]
            lines.append(
                f"INFO 05-02 {clock} [loggers.py:116] Engine 000: Avg prompt throughput: {step % 977}.5 tokens/s, "
                f"Avg generation throughput: {step % 511}.1 tokens/s, Running: {step % 64} reqs, Waiting: 0 reqs, "
                f"GPU KV cache usage: {step % 90}.3%, Prefix cache hit rate: 41.2%\n"
            )
        piece = "".join(lines).encode()
        sent += len(piece)
        yield piece
    yield ending


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mib", type=int, default=2000)
    parser.add_argument("--live", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        process, url = started(f"sqlite:///{folder}/pipe.db")
        begin = time.monotonic()
        curl = subprocess.Popen(
            ["curl", "-NsST", "-", f"{url}/?live=1" if options.live else url], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert curl.stdin is not None
        sent = 0
        for piece in pieces(options.mib << 20):
            try:
                curl.stdin.write(piece)
            except BrokenPipeError:
                break
            sent += len(piece)
        with contextlib.suppress(BrokenPipeError):
            curl.stdin.close()
        assert curl.stdout is not None
        answer = curl.stdout.read().decode()
        curl.wait()
        took = time.monotonic() - begin
        status = Path(f"/proc/{process.pid}/status").read_text()
        peak = int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024
        process.terminate()
        process.wait(30)
    print(answer[:200])
    print(f"{sent >> 20} MiB in {took:.0f} s, peak of the server {peak:.0f} MiB, load average {os.getloadavg()[0]:.1f}")
    return 1 if peak > LIMIT_MIB or sent < options.mib << 20 else 0


if __name__ == "__main__":
    sys.exit(main())
