"""Failures outside memory: a line leads to one cause, look-alikes of neighbouring causes too; what goes on serving ends nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from analyzer.patterns.load import load
from analyzer.patterns.runner import Runner

LIBRARY = load()
RUNNER = Runner(LIBRARY)
LINES = yaml.safe_load((Path(__file__).parents[2] / "fixtures/failures/lines.yaml").read_text(encoding="utf-8"))
PREFIX = "(Worker_TP1 pid=702) ERROR 12-05 16:20:36 [multiproc_executor.py:597] "
XIDS = [int(cause.rpartition(".")[2]) for cause in LIBRARY.causes if cause.startswith("gpu.xid.") and cause[-1].isdigit()]


def causes(text: str) -> set[str]:
    """The causes of all patterns that recognise a line of ``text``."""
    return {hit.pattern.cause for hit in RUNNER.scan_lines(text.split("\n")) if hit.pattern.cause is not None}


@pytest.mark.parametrize(("line", "cause"), [(row["line"], row["cause"]) for row in LINES["recognised"]])
def test_a_line_leads_to_one_cause(line: str, cause: str) -> None:
    assert causes(line) == {cause}
    assert causes(PREFIX + line) == {cause}


@pytest.mark.parametrize("line", LINES["goes_on"])
def test_a_warning_or_a_refused_request_ends_nothing(line: str) -> None:
    found = [hit.pattern for hit in RUNNER.scan_lines([line]) if hit.pattern.cause is not None]
    assert found
    assert all(pattern.keeps_running for pattern in found)


@pytest.mark.parametrize("line", LINES["ordinary"])
def test_an_ordinary_line_has_no_cause(line: str) -> None:
    assert causes(line) == set()


def test_an_unknown_exception_is_shown_without_a_cause() -> None:
    hits = RUNNER.scan_lines(["ERROR 10-30 07:44:51 [core.py:718] AttributeError: 'NoneType' object has no attribute 'shape'"])
    assert [(hit.pattern.marks, hit.pattern.cause) for hit in hits] == [("suspect", None)]


@given(st.integers(1, 999).filter(lambda code: code not in XIDS))
def test_an_xid_without_a_page_of_its_own_is_an_other_one(code: int) -> None:
    assert causes(f"[12.3] NVRM: Xid (PCI:0000:83:00): {code}, pid=1, name=x") == {"gpu.xid.other"}


@pytest.mark.parametrize("code", XIDS)
@pytest.mark.parametrize("prefix", ["[12.3] ", "[Sun Feb 23 16:24:18 2025] ", "Feb 23 16:24:18 host kernel: ", "kern  :err   : [12.3] "])
def test_an_xid_with_a_page_leads_to_it_alone(code: int, prefix: str) -> None:
    line = f"{prefix}NVRM: Xid (PCI:0000:83:00 GPU-I:05): {code}, pid='<unknown>', name=<unknown>, x"
    assert causes(line) == {f"gpu.xid.{code}"}


@given(st.text(alphabet="-—/\\ abcmodel0.,:'\"", min_size=1, max_size=60).filter(str.strip))
def test_unrecognised_arguments_have_exactly_one_reading(arguments: str) -> None:
    for program in ("vllm serve", "api_server.py"):
        found = causes(f"{program}: error: unrecognized arguments: {arguments.strip()}")
        assert len(found) == 1
        assert found <= {"args.unknown_flag", "args.positional_model", "args.malformed_command"}
