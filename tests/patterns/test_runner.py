"""Blocks in, hits out: at their lines, with the lines that follow, and the same ones wherever a block ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzer.intake.blocks import Blocks
from analyzer.intake.limits import Limits
from analyzer.patterns import extract
from analyzer.patterns.extract import Hit
from analyzer.patterns.load import load
from analyzer.patterns.model import FactSpec, Library, Pattern
from analyzer.patterns.runner import Runner

WEIGHTS = Pattern(
    "weights", "t", ("Loading model weights took",), r"took (?P<weights>[\d.]+) GB", "f", facts=(FactSpec("weights", "GiB", "weights"),)
)
ERROR = Pattern(
    "error",
    "t",
    ("ValueError: the model needs",),
    r"needs\s+(?P<needed>[\d,]+) (?P<unit>\w+)\n(?s:.*?)has (?P<has>[\d.]+) MiB",
    "f",
    window=3,
    facts=(FactSpec("needed", "B", "needed", unit_group="unit"), FactSpec("has", "MiB", "has")),
)
LIST = Pattern(
    "list",
    "t",
    ("processes:",),
    r"processes:(?: Process (?P<pid>\d+) has (?P<used>[\d.]+) (?P<unit>[GM]iB)\.?)+",
    "f",
    facts=(FactSpec("used", "MiB", "used", pid="pid", unit_group="unit", every=True), FactSpec("seen", "", value=1)),
)
BARE = Pattern("bare", "t", ("Killed",), None, "f", facts=(FactSpec("seen", "", value=1),))
SAID = FactSpec("said", "", "text", kind="text")
WHOLE = Pattern("whole", "t", ("kubelet:",), r"^(?:> )?(?P<host>\S+) kubelet: (?P<text>.+)$", "f", whole=True, facts=(SAID,))
REQUEST = Pattern("request", "t", ('"POST /',), None, "f", marks="request")
TWO = Pattern("two", "t", ("took", "Loading model"), "model weights", "f")
PATTERNS = (WEIGHTS, ERROR, LIST, BARE, WHOLE, REQUEST, TWO)
RUNNER = Runner(Library("test", PATTERNS, {}, {}, ()), ["| NVIDIA-SMI", "took"])


def found(text: str, limits: Limits = Limits()) -> tuple[list[tuple[int, str]], bool, int]:  # noqa: B008 - frozen
    """(line, pattern) of every hit, whether a reader is wanted, requests; over blocks."""
    hits: list[Hit] = []
    wanted, requests = False, 0
    blocks = Blocks(limits)
    for block in [*blocks.feed(text.encode()), blocks.close()]:
        more, look, count = RUNNER.scan(block)
        hits += more
        wanted, requests = wanted or look, requests + count
    return [(hit.line.number, hit.pattern.id) for hit in hits], wanted, requests


LOG = """\
INFO 01-23 07:32:42 model_runner.py:1071] Loading model weights took 4.3752 GB
INFO:     192.0.2.9:50126 - "POST /v1/chat/completions HTTP/1.1" 200 OK
(Worker pid=7) ERROR 01-23 07:32:43 [core.py:1] ValueError: the model needs 1,024 KiB
(Worker pid=7) ERROR 01-23 07:32:43 [core.py:1] of memory, and the card
(Worker pid=7) ERROR 01-23 07:32:43 [core.py:1] only has 512.5 MiB
Killed
"""


def test_hits_come_in_the_order_of_their_lines() -> None:
    hits, wanted, requests = found(LOG)
    assert [line for line, _ in hits] == [1, 1, 3, 6]
    assert sorted(hits) == [(1, "two"), (1, "weights"), (3, "error"), (6, "bare")]
    assert wanted  # "took" is a reader's anchor as well
    assert requests == 1
    assert found("nothing of the kind\n") == ([], False, 0)
    assert found("| NVIDIA-SMI 570\n") == ([], True, 0)


def test_a_window_sees_the_messages_of_the_following_lines() -> None:
    (hit,) = [hit for hit in RUNNER.scan_lines(LOG.split("\n")) if hit.pattern.id == "error"]
    assert [(figure.name, figure.value, figure.unit) for figure in hit.figures] == [("needed", 1024, "KiB"), ("has", 512.5, "MiB")]
    assert hit.text.count("\n") == 3
    assert hit.line.body == "ValueError: the model needs 1,024 KiB"


@given(st.integers(0, 60), st.integers(0, 60), st.integers(900, 2000))
def test_a_blocks_end_hides_no_hit_and_no_window(before: int, after: int, size: int) -> None:
    text = "another line of the log\n" * before + LOG + "a line between\n" * after + LOG
    limits = Limits(block_bytes=size, max_line_bytes=200)
    assert found(text, limits) == found(text)


def test_a_window_stops_at_the_texts_end() -> None:
    lines = LOG.split("\n")[2:4]
    assert RUNNER.scan_lines(lines) == []
    assert [hit.pattern.id for hit in RUNNER.scan_lines([*lines, "only has 7 MiB"])] == ["error"]


def test_every_repetition_becomes_a_figure_of_its_own() -> None:
    (hit,) = RUNNER.scan_lines(["processes: Process 7 has 1.25 GiB. Process 9 has 300.00 MiB."])
    assert [(figure.name, figure.value, figure.unit, figure.pid) for figure in hit.figures] == [
        ("used", 1.25, "GiB", 7),
        ("used", 300.0, "MiB", 9),
        ("seen", 1, "", None),
    ]
    assert [hit.text[slice(*figure.span)] for figure in hit.figures if figure.span] == ["1.25", "300.00"]


def test_the_whole_line_or_the_message() -> None:
    (hit,) = RUNNER.scan_lines(["node7 kubelet: it was evicted"])
    assert [(figure.name, figure.value) for figure in hit.figures] == [("said", "it was evicted")]
    # A message has lost what stood before it; the whole line has not.
    (hit,) = RUNNER.scan_lines(["> node7 kubelet: it was evicted"])
    assert hit.text == "> node7 kubelet: it was evicted"
    (hit,) = RUNNER.scan_lines(["> Killed"])
    assert hit.text == "Killed"
    assert RUNNER.scan_lines(["two words kubelet: it was evicted"]) == []


def test_a_line_with_two_anchors_is_hit_once_by_a_pattern() -> None:
    hits = RUNNER.scan_lines(["Loading model weights took 1.5 GB"])
    assert sorted(hit.pattern.id for hit in hits) == ["two", "weights"]


def test_what_does_not_match_behind_its_anchor_is_no_hit() -> None:
    assert [hit.pattern.id for hit in RUNNER.scan_lines(["Loading model weights took a while"])] == ["two"]


def test_wrapped_lines_are_put_together_first() -> None:
    line = "INFO 01-23 07:32:42 model_runner.py:1071] " + "a long way to say that " * 5 + "Loading model weights took 4.3752 GB"
    wrapped = [line[start : start + 90] for start in range(0, len(line), 90)]
    hits = RUNNER.scan_lines([*wrapped, *wrapped, *wrapped], first_line=101)
    assert [(hit.line.number, hit.pattern.id) for hit in hits if hit.pattern.id == "weights"] == [
        (101 + place * len(wrapped), "weights") for place in range(3)
    ]


def test_an_expression_that_runs_wild_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extract, "TIMEOUT_SECONDS", 0.05)
    wild = Pattern("wild", "t", ("aaaa",), r"^(?:(?:a|aa|aaa)+)+b", "f")
    runner = Runner(Library("test", (wild, BARE), {}, {}, ()))
    hits = runner.scan_lines(["a" * 200 + "!", "Killed"])
    assert [hit.pattern.id for hit in hits] == ["bare"]
    assert runner.extractors[0].timeouts == 1


@pytest.mark.parametrize(
    ("printed", "unit", "value"),
    [("7 bytes", "B", 7), ("1,024 kB", "KiB", 1024), ("3 GB", "GiB", 3), ("3 TiB", "TiB", 3), ("3 parsecs", "B", 3)],
)
def test_a_printed_unit_is_what_it_means(printed: str, unit: str, value: int) -> None:
    (hit,) = RUNNER.scan_lines([f"ValueError: the model needs {printed}", "it has 1 MiB"])
    assert (hit.figures[0].value, hit.figures[0].unit) == (value, unit)


@pytest.mark.parametrize("change", ["as they are", "padded", "repeated"])
def test_no_expression_of_the_library_runs_wild_on_any_example(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Examples of all patterns one after the other: a window sees foreign lines, of any length."""
    monkeypatch.setattr(extract, "TIMEOUT_SECONDS", 0.5)
    library = load()
    lines = [line for pattern in library.patterns for example in pattern.examples for line in example["line"].split("\n")]
    if change == "padded":
        lines = [line + " x" * 400 for line in lines]
    if change == "repeated":
        lines = [line * (4000 // max(len(line), 1)) for line in lines]
    real = Runner(library)
    assert real.scan_lines(lines)
    assert [extractor.pattern.id for extractor in real.extractors if extractor.timeouts] == []
