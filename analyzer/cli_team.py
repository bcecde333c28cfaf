"""The commands of whoever runs the service for others. As in cli.py, each imports what it needs by itself."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analyzer.cli_errors import fail, unusable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from analyzer.settings import Settings
    from analyzer.store.database import Database


def register(commands: Any, patterns: Any, parser: type[argparse.ArgumentParser]) -> None:
    """Add the commands; ``patterns`` are the actions of the pattern library."""
    worker = commands.add_parser("worker", help="work on queued analyses of a PostgreSQL database; any number may run")
    worker.add_argument("--concurrency", type=int, default=1, metavar="N", help="analyses at a time (default: 1)")
    worker.add_argument("--metrics-port", type=int, metavar="PORT", help="serve Prometheus metrics there")
    worker.add_argument("--until-empty", action="store_true", help="end when nothing waits any more")
    worker.set_defaults(run=_worker)

    submit = commands.add_parser("submit", help="send folders of logs to a server, each file an analysis")
    submit.add_argument("places", nargs="+", metavar="DIR", type=Path, help="folders or files")
    one = "the server (default: http://127.0.0.1:8000); several of one service may be named"
    submit.add_argument("--url", action="append", dest="urls", metavar="URL", help=one)
    submit.add_argument("--token", help="an upload token, where the server wants one (default: the environment's VRAMLEDGER_TOKEN)")
    submit.add_argument("--host", help="the machine that the logs are of")
    submit.add_argument("--no-wait", action="store_true", help="end when everything is sent")
    submit.set_defaults(run=_submit)

    again = commands.add_parser("reanalyse", help="queue stored reports that another pattern library made")
    again.add_argument("--all", action="store_true", dest="all_of_them", help="also those that this library made")
    again.set_defaults(run=_reanalyse)

    feedback = commands.add_parser("feedback", help="what people said of reports").add_subparsers(
        metavar="ACTION", required=True, parser_class=parser
    )
    for name, run, text in (
        ("list", _feedback_list, "a line for each word, the newest first"),
        ("export", _feedback_export, "write the reports that were said to be wrong as case folders"),
    ):
        action = feedback.add_parser(name, help=text)
        if name == "export":
            action.add_argument("folder", metavar="DIR", type=Path)
        action.add_argument(
            "--helped", action="store_true", help="those that helped, too" if name == "export" else "only those that helped"
        )
        action.add_argument("--limit", type=int, default=1000, metavar="N")
        action.set_defaults(run=run)

    diff = patterns.add_parser("diff", help="which stored reports a change of the pattern library would alter")
    for side in ("old", "new"):
        diff.add_argument(side, metavar=side.upper(), type=Path, help="a folder of patterns, or `installed`")
    diff.add_argument("--cause", help="only analyses with this cause")
    diff.add_argument("--format", choices=("text", "json"), default="text")
    diff.set_defaults(run=_diff)


class _CommandError(Exception):
    pass


@contextmanager
def _store() -> Iterator[tuple[Settings, Database]]:
    from analyzer.settings import SettingsError, load
    from analyzer.store.database import Database, DatabaseError
    from analyzer.store.upgrade import upgrade

    try:
        settings = load()
        upgrade(settings.database)
        database = Database(settings.database)
    except (SettingsError, DatabaseError) as error:
        raise _CommandError(str(error)) from error
    try:
        yield settings, database
    finally:
        database.close()


def _worker(options: argparse.Namespace) -> int:
    from analyzer.jobs.worker import run

    if options.concurrency < 1:
        return fail("--concurrency is 1 or more")
    return run(options.concurrency, options.metrics_port, until_empty=options.until_empty)


def _submit(options: argparse.Namespace) -> int:
    import os

    from analyzer.jobs.submit import run

    token = options.token or os.environ.get("VRAMLEDGER_TOKEN")
    return run(options.places, options.urls or ["http://127.0.0.1:8000"], token, options.host, wait=not options.no_wait)


def _reanalyse(options: argparse.Namespace) -> int:
    from analyzer.jobs.queue import Jobs
    from analyzer.patterns.load import LibraryError, load
    from analyzer.store import queued

    try:
        with _store() as (settings, database):
            library = load(settings.patterns).version
            jobs, now, total = Jobs(settings, database), datetime.now(UTC), 0
            while found := queued.again(database, library, now, all_of_them=options.all_of_them):
                jobs.defer(found)
                total += len(found)
            jobs.close()
    except (_CommandError, LibraryError) as error:
        return fail(str(error))
    print(f"{total} analyses queued to be made with library {library}; those whose inputs are not stored whole keep their report")
    return 0


def _feedback_list(options: argparse.Namespace) -> int:
    from analyzer.store.feedback import listed

    try:
        with _store() as (_, database):
            for one in listed(database, helped=True if options.helped else None, limit=options.limit):
                word = "helped" if one.helped else "wrong"
                about = f"{one.cause or '-'}  {one.engine or '-'} {one.version or ''}".rstrip()
                print(f"{one.given:%Y-%m-%d %H:%M}  {word:6}  {one.analysis_id}  {about}" + (f"  {one.because}" if one.because else ""))
    except _CommandError as error:
        return fail(str(error))
    return 0


def _feedback_export(options: argparse.Namespace) -> int:
    from analyzer.jobs.export import export
    from analyzer.store.feedback import listed

    try:
        with _store() as (_, database):
            said = listed(database, helped=None if options.helped else False, limit=options.limit)
            written = list(export(database, said, options.folder))
    except _CommandError as error:
        return fail(str(error))
    for place in written:
        print(place)
    print(f"{len(written)} cases written to {options.folder}", file=sys.stderr)
    return 0


def _diff(options: argparse.Namespace) -> int:
    """0: no report changes; 1: some do."""
    from analyzer.jobs.differ import changes, library_at, lines
    from analyzer.patterns.load import LibraryError
    from analyzer.store.values import HistoryFilter

    try:
        old, new = library_at(options.old), library_at(options.new)
        with _store() as (settings, database):
            seen, changed = 0, []
            for count, change in changes(settings, database, old, new, HistoryFilter(cause=options.cause)):
                seen = count
                if change is not None:
                    changed.append(change)
                    if options.format == "text":
                        print("\n".join(lines(change)), flush=True)
    except LibraryError as error:
        return unusable(error)
    except _CommandError as error:
        return fail(str(error))
    if options.format == "json":
        shown = [{**asdict(change), "created": change.created.isoformat()} for change in changed]
        print(json.dumps({"old": old.library.version, "new": new.library.version, "seen": seen, "changed": shown}, indent=2))
    else:
        print(f"{len(changed)} of {seen} stored reports change ({old.library.version} → {new.library.version})")
    return 1 if changed else 0
