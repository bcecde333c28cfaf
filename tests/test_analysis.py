"""The loop around the road: any cutting gives the same report, any moment is good for one, any input ends, memory stays bounded."""

from __future__ import annotations

import gzip
import io
import itertools
import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzer import Analysis, analyze
from analyzer.intake.errors import IntakeError
from analyzer.intake.limits import Limits
from analyzer.model.units import GIB, KIB, MIB
from tests.case_files import answer, inputs

#: Logs of every kind: one process, many ranks, colours, a dump inside the log, wrapped lines, serving, two files.
LOGS = (
    "vllm-v0-graph-capture-oom-16gb",
    "vllm-v1-gptoss-120b-raising-util-moves-the-oom",
    "vllm-v1-sampler-warmup-oom-tp2-24gb",
    "0.32.0-colour-tty",
    "0.8.5.post2-preemption",
    "second-process-joins-gpu-oom-serving",
    "xid79-gpu-fell-off-bus-tp8",
)
CONTENTS = {name: [(path.name, path.read_bytes()) for path in inputs(name)] for name in LOGS}
#: Small blocks: what one block's end does to a log of a megabyte happens to these of some kilobytes.
SMALL = Limits(block_bytes=2 * KIB, max_line_bytes=2 * KIB)
_CUTS = st.lists(st.floats(0, 1), max_size=12)


def fed(files: list[tuple[str, bytes]], cuts: list[float], limits: Limits, *, ask: bool = False) -> str:
    """The report as JSON on ``files`` cut at these shares of their length; ``ask`` for a report at every cut too."""
    analysis = Analysis(limits=limits)
    for name, content in files:
        sink = analysis.open(name)
        places = [0, *sorted(round(cut * len(content)) for cut in cuts), len(content)]
        for start, end in itertools.pairwise(places):
            sink.feed(content[start:end])
            if ask and end:
                analysis.report().to_json()
        sink.close()
    return analysis.report().to_json()


WHOLE = {(name, limits): fed(CONTENTS[name], [], limits) for name in LOGS for limits in (Limits(), SMALL)}


@pytest.mark.parametrize("limits", [Limits(), SMALL], ids=["usual", "small blocks"])
@pytest.mark.parametrize("name", LOGS)
@settings(max_examples=8, deadline=None)
@given(cuts=_CUTS)
def test_the_same_report_however_the_bytes_are_cut(name: str, limits: Limits, cuts: list[float]) -> None:
    assert fed(CONTENTS[name], cuts, limits) == WHOLE[name, limits]


@pytest.mark.parametrize("name", LOGS)
def test_the_same_report_byte_by_byte(name: str) -> None:
    analysis = Analysis(limits=SMALL)
    for file, content in CONTENTS[name]:
        sink = analysis.open(file)
        for byte in range(len(content)):
            sink.feed(content[byte : byte + 1])
        sink.close()
    assert analysis.report().to_json() == WHOLE[name, SMALL]


@pytest.mark.parametrize("name", LOGS)
@settings(max_examples=8, deadline=None)
@given(cuts=_CUTS)
def test_compressed_bytes_may_be_cut_anywhere_too(name: str, cuts: list[float]) -> None:
    packed = [(file, gzip.compress(content, mtime=0)) for file, content in CONTENTS[name]]
    got, want = json.loads(fed(packed, cuts, Limits())), json.loads(WHOLE[name, Limits()])
    for report, files in ((got, packed), (want, CONTENTS[name])):
        assert [given.pop("bytes") for given in report["inputs"]] == [len(content) for _, content in files]
    assert got == want


@pytest.mark.parametrize("name", LOGS)
@settings(max_examples=5, deadline=None)
@given(cuts=st.lists(st.floats(0.01, 1), min_size=1, max_size=4))
def test_asking_for_a_report_on_the_way_changes_nothing(name: str, cuts: list[float]) -> None:
    assert fed(CONTENTS[name], cuts, SMALL, ask=True) == WHOLE[name, SMALL]


@pytest.mark.parametrize("size", [80, 500, 5000, 20000])
def test_a_report_before_the_end_is_the_one_on_what_has_come(size: int) -> None:
    content = CONTENTS["0.8.5.post2-preemption"][0][1][:size]
    open_one = Analysis()
    open_one.open("engine.log").feed(content)
    assert open_one.report().to_json() == fed([("engine.log", content)], [], Limits())


def test_an_error_that_two_lines_tell_keeps_its_traceback_in_a_report_before_the_end() -> None:
    """What is copied for an early report and what still comes belong together."""
    name = "vllm-v1-sampler-warmup-oom-tp2-24gb"
    (_, content), *rest = CONTENTS[name]
    assert not rest
    analysis = Analysis(limits=SMALL)
    analysis.open("engine.log").feed(content)
    outcome = analysis.report().outcome
    assert outcome.cause == answer(name)["outcome"]["cause"]


def test_the_kept_text_is_what_was_read() -> None:
    pieces: list[bytes] = []
    content = CONTENTS["vllm-v0-graph-capture-oom-16gb"][0][1]
    analysis = Analysis(limits=SMALL)
    sink = analysis.open("engine.log", keep=lambda block, start: pieces.append(block))
    for start in range(0, len(content), 777):
        sink.feed(content[start : start + 777])
    sink.close()
    assert b"".join(pieces) == content


def test_paths_and_streams_give_the_same_report(tmp_path: Path) -> None:
    content = CONTENTS["vllm-v0-graph-capture-oom-16gb"][0][1]
    path = tmp_path / "engine.log"
    path.write_bytes(content)
    assert analyze([path]).to_json() == analyze([("engine.log", io.BytesIO(content))]).to_json() == analyze([str(path)]).to_json()


# --- inputs that cannot be read ----------------------------------------------------------------------------------------------------

_PACKED = gzip.compress(CONTENTS["0.8.5.post2-preemption"][0][1])


@pytest.mark.parametrize(
    ("content", "code", "said"),
    [
        (b"", "empty_input", "nothing to read"),
        (b"\n \n\t\n", "empty_input", "nothing to read"),
        (b"\x7fELF\x02\x01\x01" + bytes(64), "not_text", "executable"),
        (b"\x89PNG\r\n\x1a\n" + bytes(64), "not_text", "picture"),
        (bytes(range(32)) * 40, "not_text", "NUL"),
        (_PACKED[:-9], "malformed_input", "in the middle"),
        (_PACKED[:200] + b"\xff" * 40 + _PACKED[240:], "malformed_input", "damaged"),
        (b"\x1f\x8b", "malformed_input", "in the middle"),
        (gzip.compress(b"\x7fELF" + bytes(400)), "not_text", "executable"),
        (b"\x28\xb5\x2f\xfd" + b"\xff" * 40, "malformed_input", "damaged"),
    ],
    ids=["empty", "blanks", "ELF", "PNG", "binary", "gzip cut", "gzip damaged", "gzip's first bytes", "ELF in gzip", "zstd damaged"],
)
def test_what_cannot_be_read_says_so(content: bytes, code: str, said: str) -> None:
    with pytest.raises(IntakeError, match=said) as caught:
        analyze([("input", io.BytesIO(content))])
    assert caught.value.code == code


def test_no_input_at_all_is_an_empty_one() -> None:
    with pytest.raises(IntakeError) as caught:
        analyze([])
    assert caught.value.code == "empty_input"


def test_one_empty_file_beside_a_log_is_no_error() -> None:
    report = analyze([("empty.log", io.BytesIO(b"")), ("engine.log", io.BytesIO(CONTENTS["vllm-v0-graph-capture-oom-16gb"][0][1]))])
    assert report.outcome.cause == "cuda_oom.graph_capture"
    assert report.inputs[0].lines == 0


def test_an_input_beyond_the_limits_is_refused() -> None:
    sink = Analysis(limits=Limits(max_body_bytes=1000)).open("engine.log")
    sink.feed(b"x" * 1000)
    with pytest.raises(IntakeError) as caught:
        sink.feed(b"x")
    assert caught.value.code == "input_too_large"
    analysis = Analysis(limits=Limits(max_files=1))
    analysis.open("first")
    with pytest.raises(IntakeError) as caught:
        analysis.open("second")
    assert caught.value.code == "input_too_large"


def test_a_gzip_that_its_sender_cut_is_read_as_far_as_it_goes() -> None:
    analysis = Analysis()
    sink = analysis.open("engine.log.gz")
    sink.feed(_PACKED[:-2000])
    sink.close(truncated=True)
    report = analysis.report()
    assert report.inputs[0].truncated
    assert report.inputs[0].lines > 10


def test_one_line_of_100_megabytes_ends() -> None:
    """The rest of the line is skipped and counted; what follows it is read at its own line."""
    piece, size = b"x" * MIB, 100 * MIB
    analysis = Analysis()
    sink = analysis.open("engine.log")
    for _ in range(size // len(piece)):
        sink.feed(piece)
    sink.feed(b"\nINFO 01-23 07:32:42 model_runner.py:1071] Loading model weights took 4.3752 GB\n")
    sink.close()
    report = analysis.report()
    assert report.inputs[0].lines == 2
    assert report.inputs[0].skipped_bytes == size - Limits().max_line_bytes
    assert [(fact.name, fact.source.line) for fact in report.facts] == [("weights", 2)]


# --- memory ------------------------------------------------------------------------------------------------------------------------

SERVING = textwrap.dedent("""
    import json, resource, sys
    from analyzer import Analysis

    def log(size):
        yield b"INFO 05-01 10:00:00 [api_server.py:1090] vLLM API server version 0.9.1\\n"
        yield b"INFO 05-01 10:01:00 [api_server.py:1349] Starting vLLM API server 0 on http://0.0.0.0:8000\\n"
        yield b"INFO:     Application startup complete.\\n"
        given, number = 0, 0
        while given < size:
            lines = []
            for step in range(2000):
                number += 1
                hour, minute, second = number // 3600 % 24, number // 60 % 60, number % 60
                if step % 50 == 0:
                    lines.append(
                        f"INFO 05-02 {hour:02}:{minute:02}:{second:02} [loggers.py:116] "
                        f"Engine 000: Avg prompt throughput: {number % 977}.5 tokens/s, "
                        f"Avg generation throughput: {number % 511}.1 tokens/s, "
                        f"Running: {number % 64} reqs, Waiting: 0 reqs, "
                        f"GPU KV cache usage: {number % 90}.3%, Prefix cache hit rate: 41.2%"
                    )
                else:
                    lines.append(
                        f"INFO 05-02 {hour:02}:{minute:02}:{second:02} [logger.py:43] Received request chatcmpl-{number:032x}: prompt: "
                        + "'some words of a prompt ' " * 8 + ", params: SamplingParams(n=1, temperature=0.7), prompt_token_ids: None"
                    )
                    lines.append('INFO:     10.0.0.7:41234 - "POST /v1/chat/completions HTTP/1.1" 200 OK')
            piece = ("\\n".join(lines) + "\\n").encode()
            given += len(piece)
            yield piece

    def peak():
        # The high-water mark of this program alone: getrusage hands the parent's on to a child that it starts.
        try:
            with open("/proc/self/status") as status:
                return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:"))
        except OSError:
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    size = int(sys.argv[1]) << 20
    analysis = Analysis()
    sink = analysis.open("engine.log")
    for piece in log(size):
        sink.feed(piece)
    sink.close()
    report = analysis.report()
    print(json.dumps({
        "bytes": report.inputs[0].bytes, "state": report.outcome.state, "series": len(report.series), "facts": len(report.facts),
        "points": max(len(series.points) for series in report.series), "count": max(series.count for series in report.series),
        "peak": peak(),
    }))
""")


def test_a_serving_log_of_200_megabytes_stays_below_200_of_memory() -> None:
    run = subprocess.run([sys.executable, "-c", SERVING, "200"], capture_output=True, text=True, timeout=120, check=True)
    told = json.loads(run.stdout)
    assert told["bytes"] >= 200 * MIB
    assert told["state"] == "healthy"
    assert told["points"] <= 2000 < told["count"]
    assert told["facts"] < 200
    assert told["peak"] < 200 * MIB < GIB
