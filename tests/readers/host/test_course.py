"""Tables of memory over time: what a column means, and what is no such table."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzer.readers.base import Page
from analyzer.readers.host import course


def facts(text: str) -> list[tuple[str, float, str, int | None]]:
    """(name, value, unit, gpu) of everything that is read."""
    readings = course.read(Page("memory.csv", text.split("\n")))
    return [(fact.name, float(fact.value), fact.unit, fact.gpu) for reading in readings for fact in reading.facts]


@pytest.mark.parametrize(
    ("header", "row", "expected"),
    [
        (
            "time,host_rss_gib,gpu_used_mib,requests",
            "09:00,6.1,21040,0",
            [("host.limit_used", 6.1, "GiB", None), ("device.used", 21040, "MiB", None)],
        ),
        ("timestamp;rss_mb;gpu0_mem_used_mb", "1;612;8000", [("process.rss", 612, "MiB", None), ("device.used", 8000, "MiB", 0)]),
        ("ts\trss\tvram_used", "1\t6.1GiB\t8000MiB", [("process.rss", 6.1, "GiB", None), ("device.used", 8000, "MiB", None)]),
        ("time,container_memory_working_set_bytes", "1,33930000384", [("host.limit_used", 33930000384, "B", None)]),
        ("Time,gpu_used_mib,gpu_util,gpu_temp,gpu_total_mib", "1,21040,99,61,24564", [("device.used", 21040, "MiB", None)]),
        ('"time","rss_kb"', '"10:00","1024"', [("process.rss", 1024, "KiB", None)]),
        # No unit anywhere, no time, other columns, a sentence: nothing is read.
        ("time,rss,gpu_used", "1,612,8000", []),
        ("step,rss_mb", "1,612", []),
        ("time,loss,accuracy_rss_free", "1,0.2,0.9", []),
        ("the rss, over time, grew", "by 3 GiB, since noon, steadily", []),
    ],
)
def test_columns(header: str, row: str, expected: list[tuple[str, float, str, int | None]]) -> None:
    assert facts(f"{header}\n{row}") == [(name, float(value), unit, gpu) for name, value, unit, gpu in expected]


def test_of_a_long_table_the_ends_are_kept() -> None:
    rows = [f"{place},{place}" for place in range(5000)]
    found = facts("\n".join(["time,rss_mib", *rows]))
    assert len(found) <= course.ROWS + 1
    assert found[0][1] == 0
    assert found[-1][1] == 4999


@given(st.text(max_size=300))
def test_any_text_is_survived(text: str) -> None:
    facts("time,rss_mib,gpu_used_mib\n" + text)
