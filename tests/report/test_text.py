"""The report on a terminal: its width, its characters, its colours; whatever stands in the input."""

from __future__ import annotations

import html
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzer.model import LANGUAGES, Report
from analyzer.report import render
from analyzer.report.common import formula
from analyzer.report.layout import Paint, bar, cut, pad, safe, width, wrap
from analyzer.report.messages import translator
from tests.case_files import FOLDERS, report
from tests.logs import AVAILABLE, READY, WEIGHTS, oom, raised, start, told

NAMES = sorted(FOLDERS)
STATES = {"failed": "FAILED", "healthy": "HEALTHY", "degraded": "DEGRADED", "unknown": "UNDECIDED"}
COLUMNS = 80
START = [*start("0.11.0"), WEIGHTS.format(weights="15.00"), AVAILABLE.format(kv="50.00")]
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


def columns(line: str) -> int:
    """Columns that a terminal gives to ``line``, by Unicode's own table."""
    return sum(0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in line)


def body(shown: str, told_: Report) -> list[str]:
    """The lines that have to keep to the width: not the proof, which is the input's, and not the user's own command."""
    proof = {f"{source.input}:{source.line}" for found in told_.findings for source in found.evidence}
    command = set((told_.command or "").splitlines())
    return [line for line in shown.splitlines() if line.strip() not in command and line.strip().split("  ")[0] not in proof]


@pytest.mark.parametrize("name", NAMES)
def test_a_formula_is_told_in_chinese(name: str) -> None:
    """Names, figures and signs stay; words between them are the reader's."""
    made = report(name)
    ledgers = [*made.ledgers, *(fix.predicted for found in made.findings for fix in found.fixes if fix.predicted)]
    formulas = {line.formula for ledger in ledgers for line in ledger.lines if line.formula}
    for text in formulas:
        assert formula(text, translator("en")) == text
        assert not re.search(r"[a-z']+ [a-z']+ [a-z]+", formula(text, translator("zh"))), text


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", NAMES)
def test_no_line_is_wider_than_the_terminal(name: str, language: str) -> None:
    shown = render(report(name), "text", language, width=COLUMNS)
    assert [line for line in body(shown, report(name)) if columns(line) > COLUMNS] == []
    assert shown.endswith("\n")
    assert not shown.endswith("\n\n")
    assert [line for line in shown.splitlines() if line != line.rstrip()] == []


@pytest.mark.parametrize("wide", [60, 100, 160])
@pytest.mark.parametrize("name", NAMES[::9])
def test_any_width_is_kept(name: str, wide: int) -> None:
    shown = render(report(name), "text", "zh", width=wide)
    assert [line for line in body(shown, report(name)) if columns(line) > wide] == []


@pytest.mark.parametrize("name", NAMES)
def test_verdict_and_cause_come_first_and_the_proof_is_there(name: str) -> None:
    told_ = report(name)
    shown = render(told_, "text", "en", width=COLUMNS)
    first = shown.splitlines()[0]
    assert first.startswith(STATES[told_.outcome.state.value])
    if told_.outcome.cause is not None:
        assert told_.outcome.cause in shown.splitlines()[:4]
    root = told_.root
    assert root is not None
    for source in root.evidence:
        assert f"{source.input}:{source.line}" in shown
    for fix in root.fixes:
        assert " ".join(fix.title.en.split()) in " ".join(shown.split())


@pytest.mark.parametrize("name", NAMES[::4])
def test_colours_only_where_they_are_wanted(name: str) -> None:
    plain = render(report(name), "text", "en", width=COLUMNS)
    painted = render(report(name), "text", "en", width=COLUMNS, color=True)
    assert "\x1b" not in plain
    assert painted.startswith("\x1b[")
    assert _ESCAPES.sub("", painted) == plain


# --- hostile inputs --------------------------------------------------------------------------------------------------------------------

HOSTILE = (
    "a\x1b[31mred\x1b[0m \x1b]0;title\x07 bell\x07 back\x08space \x7f del \x9b31m c1 \u202eturned\u202c \u2028line "
    "\u2066iso\u2069 \x00nul {0} {x} %s 显存"
)
STEERING = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


@pytest.mark.parametrize("color", [False, True])
@pytest.mark.parametrize("language", LANGUAGES)
def test_no_character_of_the_input_steers_the_terminal(language: str, color: bool) -> None:
    import io

    from analyzer import analyze

    lines = [*start(), *raised(f"SomethingError: {HOSTILE}", "profiling"), f"vllm serve 'org/{HOSTILE}' --max-model-len 4096"]
    content = ("\n".join(lines) + "\n").encode("utf-8")
    told_ = analyze([(f"a {HOSTILE}.log", io.BytesIO(content))])
    shown = render(told_, "text", language, width=COLUMNS, color=color)
    assert not STEERING.search(_ESCAPES.sub("", shown) if color else shown)
    assert "SomethingError" in shown


def test_a_very_long_line_is_cut() -> None:
    shown = render(told([*start(), *raised("SomethingError: " + "x" * 5000, "profiling")]), "text", "en", width=COLUMNS)
    assert max(map(columns, shown.splitlines())) <= 2 * COLUMNS


def test_the_failing_gpu_is_shown_and_like_ones_are_not_repeated() -> None:
    lines = [f"(Worker_TP{rank} pid={rank + 9}) {line}" for rank in range(4) for line in raised(oom(gpu=rank), "profiling")]
    shown = render(told([*start("0.10.2", tp=4), *lines]), "text", "en", width=COLUMNS)
    assert shown.count("at the failure") == 1
    assert "GPU 1, 2, 3: the same" in shown


# --- the layout's parts -----------------------------------------------------------------------------------------------------------------

_TEXT = st.text(st.one_of(st.characters(exclude_categories=["Cc", "Cs"]), st.sampled_from("显存不足的 a1-_")), max_size=200)


@given(_TEXT, st.integers(10, 120))
def test_cut_keeps_to_its_columns(text: str, size: int) -> None:
    shown = cut(text, size)
    assert width(shown) <= max(size, 0) or shown == text
    assert shown == text if width(text) <= size else shown.endswith("…")


@given(st.lists(st.sampled_from(["word", "a", "显存", "不足，请", "--max-model-len", "4.55 GiB", "é"]), max_size=60), st.integers(30, 100))
def test_wrap_loses_nothing_and_keeps_to_its_columns(words: list[str], size: int) -> None:
    text = " ".join(words)
    lines = wrap(text, size, "  ", "    ")
    assert all(width(line) <= size for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())
    assert all(line.startswith("    ") for line in lines[1:])


@pytest.mark.parametrize(("text", "columns_"), [("abc", 3), ("显存", 4), ("e\u0301", 1), ("ａ", 2), ("", 0), ("█▏…", 3)])
def test_columns_of_a_text(text: str, columns_: int) -> None:
    assert width(text) == columns_
    assert pad(text, columns_ + 3) == text + "   "
    assert pad(text, columns_ - 1) == text


@given(st.floats(0, 100), st.floats(0.1, 100), st.integers(1, 60))
def test_a_bar_shows_its_part_of_the_whole(part: float, whole: float, size: int) -> None:
    shown = bar(part, whole, size)
    assert len(shown) <= size
    assert bool(shown) is (part > 0)
    if part >= whole:
        assert shown == "█" * size
    assert abs(len(shown) - min(part / whole, 1) * size) <= 1.07


def test_what_steers_a_terminal_is_taken_out() -> None:
    assert not STEERING.search(safe(HOSTILE).replace("\t", ""))
    assert safe("plain 显存 text") == "plain 显存 text"
    assert Paint(on=False)("x", 1) == "x"
    assert Paint(on=True)("x", 1, 31) == "\x1b[1;31mx\x1b[0m"


@pytest.mark.parametrize("form", ["text", "markdown", "html"])
@pytest.mark.parametrize("name", NAMES)
def test_what_a_fix_asks_to_be_set_or_done_is_said(name: str, form: str) -> None:
    """In the title, or beside it: an advice without its setting is none."""
    told_ = report(name)
    shown = render(told_, form, "en", width=COLUMNS)
    if form == "html":
        shown = html.unescape(re.sub(r"<[^>]+>", "", shown))
    shown = re.sub(r"[\s\\`*]+", "", shown)
    for fix in told_.root.fixes if told_.root is not None else ():
        for item in fix.changes:
            said = getattr(item, "flag", None) or getattr(item, "env", None) or getattr(item, "option", None) or item.action.en  # type: ignore[union-attr]
            assert re.sub(r"[\s\\`*]+", "", said) in shown


@pytest.mark.parametrize(("last", "moment"), [(START[-1], "as far as the inputs tell"), (oom(), "at the failure"), (READY, "when ready")])
def test_a_ledger_says_of_which_moment_it_is(last: str, moment: str) -> None:
    shown = told([*START, last])
    for form in ("text", "markdown"):
        assert f"GPU 0 {moment}" in render(shown, form, "en", width=COLUMNS)
    assert moment in render(shown, "html", "en", width=COLUMNS)
