"""Fills a database with 100,000 stored analyses and measures pages of the history: every filter, search, and deep cursors.

    python benchmarks/history.py DATABASE_URL [--count 100000] [--keep]

The database is emptied first. Status 1 where a page takes longer than 50 ms (the median of nine tries).

"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import time
from datetime import UTC, datetime, timedelta

from sqlalchemy import insert, text

from analyzer.store import repository, search
from analyzer.store.database import Database
from analyzer.store.models import Analysis, AnalysisTerm, Term
from analyzer.store.secrets import new_id
from analyzer.store.upgrade import downgrade, upgrade
from analyzer.store.values import HistoryFilter

LIMIT_SECONDS = 0.05
START = datetime(2025, 1, 1, tzinfo=UTC)


def fill(database: Database, count: int) -> None:
    """``count`` analyses: some hundred causes, two hundred versions, a third of the inputs with a name of their own."""
    chance = random.Random(1)
    causes = [f"{family}.cause_{number}" for family in ("cuda_oom", "kv_cache", "distributed", "model", "server") for number in range(30)]
    engines = ["vllm"] * 8 + ["sglang", "llama.cpp"]
    versions = [f"0.{minor}.{patch}" for minor in range(2, 34) for patch in range(6)]
    known: set[int] = set()
    for start in range(0, count, 2000):
        rows, terms, links = [], {}, []
        for number in range(start, min(count, start + 2000)):
            cause = causes[min(int(chance.expovariate(0.05)), len(causes) - 1)]
            name = "engine.log" if chance.random() < 0.66 else f"vllm-{chance.getrandbits(32):08x}-pod-{number}.log"
            columns = {
                "cause": cause,
                "engine": chance.choice(engines),
                "version": chance.choice(versions),
                "title_en": f"What {cause} is about, in a sentence",
                "title_zh": f"{cause} 的说明：显存放不下",
                "input_names": name,
            }
            identifier, created = new_id(), START + timedelta(seconds=number * 60)
            fixed = {
                "id": identifier,
                "created": created,
                "updated": created,
                "revision": 0,
                "state": "done",
                "outcome_state": "failed",
                "stage": "kv_init",
                "confidence": "certain",
                "input_bytes": 100_000,
                "library": "benchmark",
                "delete_token_hash": b"x" * 32,
                "report": chance.randbytes(5000),
            }
            rows.append({**fixed, **columns})
            for words in search.texts_of(columns):
                key = search.term_id(words)
                if key not in known:
                    terms[key] = words
                links.append({"term_id": key, "analysis_id": identifier, "created": created, "cause": cause, "engine": columns["engine"]})
        known |= set(terms)
        with database.write() as session:
            session.execute(insert(Analysis), rows)
            if terms:
                session.execute(insert(Term), [{"id": key, "text": words} for key, words in terms.items()])
            session.execute(insert(AnalysisTerm), links)
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("ANALYZE" if database.is_sqlite else "VACUUM ANALYZE"))


def cases(count: int) -> dict[str, tuple[HistoryFilter, float]]:
    """Name → (filter, share of the history behind the cursor)."""
    late = START + timedelta(seconds=60 * count * 0.99)
    return {
        "newest": (HistoryFilter(), 0),
        "deep cursor": (HistoryFilter(), 0.9),
        "frequent cause": (HistoryFilter(cause="cuda_oom.cause_0"), 0),
        "frequent cause, deep": (HistoryFilter(cause="cuda_oom.cause_0"), 0.9),
        "rare cause": (HistoryFilter(cause="server.cause_29"), 0),
        "no such cause": (HistoryFilter(cause="nothing"), 0),
        "engine": (HistoryFilter(engine="sglang"), 0),
        "engine and cause": (HistoryFilter(cause="cuda_oom.cause_3", engine="llama.cpp"), 0.5),
        "since": (HistoryFilter(since=late), 0),
        "search, frequent name": (HistoryFilter(q="engine.log"), 0),
        "search, frequent name, deep": (HistoryFilter(q="engine.log"), 0.9),
        "search, many names": (HistoryFilter(q="-pod-"), 0),
        "search, one name": (HistoryFilter(q=f"-pod-{count // 2}.log"), 0),
        "search, version": (HistoryFilter(q="0.17.3"), 0),
        "search, Chinese": (HistoryFilter(q="放不下"), 0),
        "search, title and engine": (HistoryFilter(q="KV_CACHE.cause_1", engine="sglang"), 0),
        "search, name and rare cause": (HistoryFilter(q="engine.log", cause="server.cause_29"), 0),
        "search, nothing": (HistoryFilter(q="no such words"), 0),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url")
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--keep", action="store_true", help="measure what is there already")
    options = parser.parse_args()
    if not options.keep:
        downgrade(options.url, "base")
    upgrade(options.url)
    database = Database(options.url)
    if not options.keep:
        begin = time.monotonic()
        fill(database, options.count)
        print(f"filled in {time.monotonic() - begin:.0f} s")
    slow = 0
    for name, (wanted, share) in cases(options.count).items():
        cursor = None
        if share:
            from analyzer.store.repository import _to_cursor
            from analyzer.store.values import HistoryItem

            created = START + timedelta(seconds=60 * options.count * (1 - share))
            cursor = _to_cursor(HistoryItem("z" * 22, created, *([None] * 9), ()))  # type: ignore[arg-type]
        times, found = [], 0
        for _ in range(9):
            begin = time.perf_counter()
            found = len(repository.history(database, wanted, cursor).items)
            times.append(time.perf_counter() - begin)
        middle = statistics.median(times)
        slow += middle > LIMIT_SECONDS
        late = "  SLOW" if middle > LIMIT_SECONDS else ""
        print(f"{name:32} {found:3} of a page, median {middle * 1e3:6.1f} ms, best {min(times) * 1e3:6.1f} ms{late}")
    print(f"load average {os.getloadavg()[0]:.1f}")
    database.close()
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
