"""docs/engines.md says what the library and the engines' folders hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from analyzer.engines import engine
from analyzer.patterns.load import load
from analyzer.report.engines_page import engines_page

ROOT = Path(__file__).parents[2]
LIBRARY = load()
NAMES = sorted({pattern.engine for pattern in LIBRARY.patterns if pattern.engine})


def test_the_published_page_is_the_library_s() -> None:
    published = (ROOT / "docs" / "engines.md").read_text(encoding="utf-8")
    assert published == engines_page(LIBRARY) + "\n", "run: vramledger engines > docs/engines.md"


@pytest.mark.parametrize("name", NAMES)
def test_every_engine_with_patterns_has_a_section_and_a_row(name: str) -> None:
    page = engines_page(LIBRARY)
    assert f"\n## {name}\n" in page
    assert f"\n| [{name}](#" in page


@pytest.mark.parametrize("name", NAMES)
def test_every_computed_fix_has_words(name: str) -> None:
    assert all(LIBRARY.advice[fix].kind == "fix" for fix in engine(name).solvers)
