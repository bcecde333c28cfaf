"""The command line as a shell runs it: exit status, standard input and output, languages, and no traceback whatever happens."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from analyzer import __version__
from tests.case_files import FOLDERS, inputs

FAILED = "vllm-v0-graph-capture-oom-16gb"
LOG = inputs(FAILED)[0]
EMPTY_ENTRY = "- id: mine.nothing\n  topic: mine\n  match: 'x'\n"
OWN = """\
- id: mine.disk_warning
  topic: mine
  anchor: "the scratch disk is slow today"
  match: 'the scratch disk is slow today: (?P<count>\\d+) retries'
  facts:
    scheduler.waiting: {group: count, unit: ""}
  examples:
    - line: "the scratch disk is slow today: 7 retries"
      facts: {scheduler.waiting: 7}
"""


def run(*arguments: str | Path, stdin: bytes | None = None, **environment: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "analyzer.cli", *map(str, arguments)]
    surroundings = {key: value for key, value in os.environ.items() if key != "VRAMLEDGER_LANG"} | environment
    return subprocess.run(command, input=stdin or b"", capture_output=True, env=surroundings, timeout=60, check=False)


def clean(result: subprocess.CompletedProcess[bytes], status: int) -> str:
    """Standard output of a run that ended with ``status`` and had nothing to complain of."""
    assert (result.returncode, result.stderr.decode()) == (status, "")
    return result.stdout.decode()


def refused(result: subprocess.CompletedProcess[bytes], *said: str) -> None:
    """Misuse: status 64, a sentence on standard error, nothing on standard output, no traceback."""
    message = result.stderr.decode()
    assert result.returncode == 64, message
    assert "Traceback" not in message
    assert all(piece in message for piece in said), message
    assert result.stdout == b""


# --- analyze -----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("case", "status"),
    [
        ("0.32.0-healthy", 0),
        ("0.8.5.post2-preemption", 0),
        (FAILED, 1),
        ("vllm-v1-wrapper-only-paste", 1),
        ("vllm-v1-cut-while-loading-shards", 2),
    ],
    ids=["healthy", "degraded", "failed", "failed, cause unknown", "undecided"],
)
def test_the_exit_status_tells_the_outcome(case: str, status: int) -> None:
    assert clean(run("analyze", *inputs(case)), status)


def test_standard_input_is_read_where_no_file_is_named_and_as_a_dash() -> None:
    content = LOG.read_bytes()
    piped = clean(run("analyze", "--format", "json", stdin=content), 1)
    assert json.loads(piped)["inputs"][0]["name"] == "stdin"
    assert clean(run("analyze", "--format", "json", "-", stdin=content), 1) == piped
    assert clean(run("analyze", "--format", "json", stdin=gzip.compress(content)), 1).replace("\n", "") != ""


def test_several_files_are_one_run() -> None:
    report = json.loads(clean(run("analyze", "--format", "json", *inputs("second-process-joins-gpu-oom-serving")), 1))
    assert [given["name"] for given in report["inputs"]] == [path.name for path in inputs("second-process-joins-gpu-oom-serving")]
    assert report["outcome"]["cause"] == "cuda_oom.serving.other_process"


@pytest.mark.parametrize(
    ("form", "begins", "holds"),
    [
        ("text", "FAILED at graph capture", "cuda_oom.graph_capture"),
        ("json", "{\n", '"schema": "vramledger/report/1"'),
        ("markdown", "#", "cuda_oom.graph_capture"),
        ("html", "<!doctype html>", "cuda_oom.graph_capture"),
    ],
)
def test_formats(form: str, begins: str, holds: str) -> None:
    shown = clean(run("analyze", "--format", form, LOG), 1)
    assert shown.lower().startswith(begins.lower())
    assert holds in shown
    assert shown.endswith("\n")


@pytest.mark.parametrize(
    ("arguments", "environment", "chinese"),
    [
        ((), {}, False),
        (("--lang", "zh"), {}, True),
        ((), {"VRAMLEDGER_LANG": "zh_CN.UTF-8"}, True),
        (("--lang", "en"), {"VRAMLEDGER_LANG": "zh"}, False),
        ((), {"VRAMLEDGER_LANG": "fr"}, False),
    ],
)
def test_languages(arguments: tuple[str, ...], environment: dict[str, str], chinese: bool) -> None:
    shown = clean(run("analyze", *arguments, LOG, **environment), 1)
    assert ("显存" in shown) is chinese
    assert ("graph capture" in shown) is not chinese


def test_colours_only_where_they_are_asked_for() -> None:
    """Standard output is no terminal here."""
    assert "\x1b[" not in clean(run("analyze", LOG), 1)
    assert "\x1b[1;31m" in clean(run("analyze", "--color", "always", LOG), 1)
    assert "\x1b[" not in clean(run("analyze", "--color", "never", LOG), 1)


def test_the_same_bytes_twice_whatever_hash_seed_and_place(tmp_path: Path) -> None:
    other = tmp_path / LOG.name
    other.write_bytes(LOG.read_bytes())
    first = clean(run("analyze", "--format", "json", LOG, PYTHONHASHSEED="1"), 1)
    assert clean(run("analyze", "--format", "json", other, PYTHONHASHSEED="2", TZ="Asia/Shanghai", LC_ALL="C"), 1) == first


def test_own_patterns_stand_beside_the_library(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(OWN)
    log = LOG.read_bytes() + b"the scratch disk is slow today: 12 retries\n"
    report = json.loads(clean(run("analyze", "--format", "json", "--patterns", tmp_path, stdin=log), 1))
    assert [fact["value"] for fact in report["facts"] if fact["pattern"] == "mine.disk_warning"] == [12]
    assert report["outcome"]["cause"] == "cuda_oom.graph_capture"
    without = json.loads(clean(run("analyze", "--format", "json", stdin=log), 1))
    assert without["library"] != report["library"]
    assert not [fact for fact in without["facts"] if fact["value"] == 12 and fact["name"] == "scheduler.waiting"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "nothing to read"),
        (b"  \n\n", "nothing to read"),
        (b"\x7fELF" + bytes(100), "executable"),
        (gzip.compress(b"a log\n" * 500, mtime=0)[:-12], "gzip"),
    ],
    ids=["empty", "blanks", "binary", "broken gzip"],
)
def test_an_input_that_cannot_be_read_is_misuse(content: bytes, said: str) -> None:
    refused(run("analyze", stdin=content), said)


def test_misuse(tmp_path: Path) -> None:
    refused(run(), "COMMAND")
    refused(run("analyse"), "analyse")
    refused(run("analyze", "--format", "pdf", LOG), "pdf")
    refused(run("analyze", "--lang", "fr", LOG), "fr")
    refused(run("analyze", tmp_path / "absent.log"), "absent.log", "No such file")
    refused(run("analyze", tmp_path), str(tmp_path.name), "directory")
    refused(run("analyze", "--patterns", tmp_path / "absent", LOG), "absent", "no such folder")
    (tmp_path / "mine.yaml").write_text(EMPTY_ENTRY)
    refused(run("analyze", "--patterns", tmp_path, LOG), "mine.yaml: mine.nothing", "anchor")


@pytest.mark.parametrize(
    ("arguments", "stdin", "said"),
    [
        (("analyze",), b"\x7fELF\x02\x01" + bytes(4096), "stdin：这不是日志：可执行文件"),
        (("analyze",), b"\n", "stdin 中没有可读的内容"),
        (("analyze",), gzip.compress(b"x" * 5000, mtime=0)[:-9], "gzip 输入在 31 字节之后损坏：数据不完整，中途结束"),
        (("analyze", "--patterns", "/absent", LOG), b"", "模式文件无法使用："),
        (("patterns", "show", "no.such"), b"", "没有 id 为 'no.such' 的模式或原因"),
        (("lint-command", "ls"), b"", "这段文本里没有 vLLM 命令"),
        (("lint-command", "vllm serve m", "--version", "new"), b"", "'new' 不是版本号"),
    ],
)
def test_misuse_is_told_in_the_language_of_the_command(arguments: tuple[str | Path, ...], stdin: bytes, said: str) -> None:
    refused(run(*arguments, "--lang", "zh", stdin=stdin), said)
    refused(run(*arguments, stdin=stdin, VRAMLEDGER_LANG="zh"), said)


def test_help_and_version() -> None:
    assert clean(run("--version"), 0) == f"vramledger {__version__}\n"
    shown = clean(run("--help"), 0)
    assert all(command in shown for command in ("analyze", "redact", "serve", "patterns", "schema", "db"))


@pytest.mark.parametrize("arguments", [("analyze", "--format", "html", LOG), ("patterns", "list"), ("schema",)])
def test_a_reader_that_goes_away_is_no_error(arguments: tuple[str | Path, ...]) -> None:
    """The pipe is closed before anything is written to it."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "analyzer.cli", *map(str, arguments)]
    try:
        result = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, timeout=60, check=False)
    finally:
        os.close(writing)
    assert result.stderr == b""
    assert result.returncode == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("arguments", [("analyze", LOG), ("patterns", "list"), ("schema",)])
def test_an_output_that_is_full_is_told(arguments: tuple[str | Path, ...]) -> None:
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-m", "analyzer.cli", *map(str, arguments)]
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, timeout=60, check=False)
    assert result.returncode == 64
    assert result.stderr.decode() == "vramledger: output: No space left on device\n"


# --- redact ------------------------------------------------------------------------------------------------------------------------


def test_redact_takes_secrets_out_and_leaves_the_rest(tmp_path: Path) -> None:
    text = b"one line\r\nHF_TOKEN=hf_" + b"AbCdEfGhIjKlMnOpQrStUvWxYz01234567" + b" mail: jane.doe@corp.example\nlast line without an end"
    shown = clean(run("redact", stdin=text), 0)
    assert "hf_AbCd" not in shown
    assert "jane.doe" not in shown
    assert shown.startswith("one line\r\n")
    assert shown.endswith("last line without an end")
    path = tmp_path / "engine.log"
    path.write_bytes(text)
    assert clean(run("redact", path), 0) == shown


def test_redact_refuses_what_is_not_there(tmp_path: Path) -> None:
    refused(run("redact", tmp_path / "absent.log"), "absent.log", "No such file")


# --- the library -------------------------------------------------------------------------------------------------------------------


def test_patterns_check_of_this_library_finds_no_problem() -> None:
    assert "no problems" in clean(run("patterns", "check"), 0)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (EMPTY_ENTRY, "mine.yaml: mine.nothing: «anchor» is missing"),
        (OWN.replace("is slow today: 7", "is fast today: 7"), "mine.yaml: mine.disk_warning: the example is not found"),
        (OWN.replace("waiting: 7}", "waiting: 8}"), "scheduler.waiting should be 8, is [7]"),
        ("{", "mine.yaml: no valid YAML"),
    ],
    ids=["not valid", "example not found", "another value", "no YAML"],
)
def test_patterns_check_tells_every_problem_of_own_patterns(content: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(content)
    result = run("patterns", "check", "--patterns", tmp_path)
    assert result.returncode == 1
    assert said in result.stderr.decode()
    assert "Traceback" not in result.stderr.decode()


def test_patterns_list_and_show(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(OWN)
    listed = clean(run("patterns", "list", "--patterns", tmp_path), 0).splitlines()
    ids = [line.split()[0] for line in listed]
    assert len(ids) == len(set(ids)) > 300
    assert "mine.disk_warning" in ids
    shown = clean(run("patterns", "show", "mine.disk_warning", "--patterns", tmp_path), 0)
    assert shown.startswith("# mine.disk_warning\n")
    assert "the scratch disk is slow today: 7 retries" in shown
    assert "显存" in clean(run("patterns", "show", "cuda_oom.graph_capture", "--lang", "zh"), 0)
    refused(run("patterns", "show", "no.such.id"), "no.such.id")
    refused(run("patterns", "list", "--patterns", tmp_path / "absent"), "absent", "no such folder")
    refused(run("patterns", "show", "x", "--patterns", tmp_path / "absent"), "absent", "no such folder")


def test_schema_is_a_json_schema() -> None:
    schema = json.loads(clean(run("schema"), 0))
    assert schema["properties"]["schema"] == {"const": "vramledger/report/1"}


def test_every_case_is_there() -> None:
    """What the tests above name exists, so that none of them passes for want of its case."""
    assert {"0.32.0-healthy", "0.8.5.post2-preemption", FAILED, "xid79-gpu-fell-off-bus-tp8"} <= FOLDERS.keys()
