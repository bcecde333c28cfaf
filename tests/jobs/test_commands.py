"""The commands of whoever runs the service: sending folders, making reports again, comparing libraries, feedback as cases."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from analyzer.cli import main
from analyzer.data import folder
from analyzer.report.case import file_names
from analyzer.store import feedback, queued, repository
from analyzer.store.database import Database
from analyzer.store.upgrade import upgrade
from analyzer.store.values import HistoryFilter
from tests.web.conftest import CAUSE, LOG, SMI, running

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    monkeypatch.setenv("VRAMLEDGER_DATABASE_URL", url)
    upgrade(url)
    opened = Database(url)
    yield opened
    opened.close()


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    place = tmp_path / "logs"
    (place / "deep").mkdir(parents=True)
    (place / "a.log").write_bytes(LOG)
    (place / "deep" / "b.log").write_bytes(LOG)
    (place / "deep" / "c.bin").write_bytes(bytes(range(256)) * 20)
    (place / ".hidden").write_bytes(LOG)
    return place


def sent(store: Database, logs: Path) -> list[str]:
    """The logs as analyses; the ids."""
    with running(store.engine.url.render_as_string()) as server:
        assert main(["submit", str(logs / "a.log"), str(logs / "deep" / "b.log"), "--url", server.url, "--host", "node-1"]) == 0
    return [item.id for item in repository.history(store, HistoryFilter()).items]


def test_a_folder_is_sent_and_what_is_no_log_is_named(store: Database, logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with running(store.engine.url.render_as_string()) as server:
        assert main(["submit", str(logs), "--url", server.url]) == 1
    out, err = capsys.readouterr()
    rows = [line.split("\t") for line in out.splitlines()]
    assert [(Path(row[0]).name, row[1]) for row in rows] == [("a.log", "done"), ("b.log", "done"), ("c.bin", "refused")]
    assert rows[0][3] == f"failed {CAUSE}"
    assert "not_text" in rows[2][3]
    assert "2 of 3 analysed, 2 sent, 1 refused" in err


@pytest.mark.parametrize("words", [["/no/such/place"], ["{logs}/deep/../none"], ["{logs}", "--url", "ftp://h"]])
def test_misuse_of_submit(words: list[str], logs: Path) -> None:
    assert main(["submit", *(word.format(logs=logs) for word in words)]) == 64


def test_a_server_that_is_away_refuses_after_its_tries(
    logs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("analyzer.jobs.submit.time.sleep", lambda _: None)
    assert main(["submit", str(logs / "a.log"), "--url", "http://127.0.0.1:9"]) == 1
    assert "ConnectionRefusedError" in capsys.readouterr().out


def test_reports_of_another_library_are_made_again(store: Database, logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    identifiers = sent(store, logs)
    capsys.readouterr()
    assert main(["reanalyse"]) == 0
    assert capsys.readouterr().out.startswith("0 analyses queued")
    assert main(["reanalyse", "--all"]) == 0
    assert capsys.readouterr().out.startswith("2 analyses queued")
    assert sorted(queued.waiting(store, datetime.now(UTC))) == sorted(identifiers)


def test_a_change_of_patterns_shows_what_it_alters(store: Database, logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    identifiers = sent(store, logs)
    changed = tmp_path / "patterns"
    shutil.copytree(folder("patterns"), changed)
    capsys.readouterr()
    assert main(["patterns", "diff", "installed", str(changed)]) == 0
    assert "0 of 2 stored reports change" in capsys.readouterr().out
    for path in changed.rglob("*.yaml"):
        entries = yaml.safe_load(path.read_text()) or []
        kept = [
            entry
            for entry in entries
            if not (isinstance(entry, dict) and entry.get("id", "").startswith("vllm.") and entry.get("cause") == CAUSE)
        ]
        if len(kept) != len(entries):
            path.write_text(yaml.safe_dump(kept))
    assert main(["patterns", "diff", "installed", str(changed)]) == 1
    out = capsys.readouterr().out
    assert f"  cause: {CAUSE} → " in out
    assert all(identifier in out for identifier in identifiers)
    assert main(["patterns", "diff", "installed", str(tmp_path / "none")]) == 64


def test_what_is_wrong_is_exported_as_a_case(store: Database, logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = sent(store, logs)
    now = datetime.now(UTC)
    feedback.give(store, first, "one", now, helped=False, because="it was the driver")
    feedback.give(store, second, "two", now, helped=True)
    capsys.readouterr()
    assert main(["feedback", "list"]) == 0
    assert sorted(line.split()[2] for line in capsys.readouterr().out.splitlines()) == ["helped", "wrong"]
    assert main(["feedback", "export", str(tmp_path / "cases")]) == 0
    (place,) = (tmp_path / "cases").iterdir()
    case = yaml.safe_load((place / "case.yaml").read_text())
    assert case["id"] == place.name
    assert case["outcome"] == {"state": "failed", "stage": "kv_init", "cause": CAUSE}
    assert "it was the driver" in case["provenance"]["note"]
    (given,) = case["inputs"]
    assert (place / given["file"]).read_bytes() == b"".join(repository.inputs(store, first)[0].text.pieces())
    assert main(["feedback", "export", str(tmp_path / "cases")]) == 0  # what is there is left alone
    assert "0 cases" in capsys.readouterr().err


def test_a_case_is_analysed_to_what_it_says(store: Database, logs: Path, tmp_path: Path) -> None:
    from analyzer.analysis import analyze

    (logs / "a.log").write_bytes(LOG + SMI)
    for identifier in sent(store, logs):
        feedback.give(store, identifier, "x", datetime.now(UTC), helped=False)
    assert main(["feedback", "export", str(tmp_path / "cases")]) == 0
    for place in (tmp_path / "cases").iterdir():
        case = yaml.safe_load((place / "case.yaml").read_text())
        report = analyze([place / given["file"] for given in case["inputs"]])
        assert report.outcome.cause == case["outcome"]["cause"]


@pytest.mark.parametrize(
    ("names", "made"),
    [
        (["a.log", "a.log"], ["a.log", "1-a.log"]),
        (["../../x", "case.yaml", "配置"], ["x", "1-case.yaml", "input"]),
        (["", "-"], ["input", "1-input"]),
    ],
)
def test_file_names_are_safe_and_differ(names: list[str], made: list[str]) -> None:
    assert file_names(names) == made
