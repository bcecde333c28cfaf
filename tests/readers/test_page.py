"""What a reader shows of a line is redacted whole, then cut: the rest of a cut secret would not look like one any more."""

from __future__ import annotations

from analyzer.intake.redact import Redactor
from analyzer.model.facts import EXCERPT
from analyzer.patterns.load import load
from analyzer.readers import Page, read_page

TOKEN = "hf_" + "aB3dE5gH7j" * 4


def page(*lines: str) -> Page:
    return Page("x", lines, redact=Redactor(load().redactions).clean)


def test_a_source_holds_no_part_of_a_secret() -> None:
    for place in range(EXCERPT - len(TOKEN) - 2, EXCERPT + 2):
        shown = page("word " * (place // 5) + " " * (place % 5) + TOKEN).source(0).text
        assert len(shown) <= EXCERPT
        assert "hf_" not in shown


def test_a_process_has_no_part_of_a_secret_in_its_name() -> None:
    header = "PID     MEM(GB) COMMAND"
    row = f"4121    20.10   python serve.py --model /srv/models/llama --hf-token {TOKEN}"
    (reading,) = read_page(page("Memory on the node was 60.00GB / 62.00GB", "Top 10 memory users:", header, row))
    assert reading.holders[0].name.startswith("python serve.py")
    assert "hf_" not in reading.holders[0].name
