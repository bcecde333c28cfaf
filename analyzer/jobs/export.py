"""``vramledger feedback export``: reports that somebody said something of, as case folders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analyzer.report.case import case_yaml, file_names
from analyzer.store import repository

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from analyzer.store.database import Database
    from analyzer.store.feedback import Said


def export(database: Database, said: Sequence[Said], folder: Path) -> Iterator[Path]:
    """Write a case folder for each analysis of ``said`` that is not there yet; gives each. Inputs are as they are stored: redacted."""
    by_id: dict[str, list[Said]] = {}
    for one in said:
        by_id.setdefault(one.analysis_id, []).append(one)
    for identifier, words in by_id.items():
        place = folder / name_of(words[0])
        if place.exists():
            continue
        stored = repository.get(database, identifier)
        inputs = repository.inputs(database, identifier)
        if stored is None or stored.report is None or not inputs:
            continue
        place.mkdir(parents=True)
        for name, kept in zip(file_names([info.name for info in stored.report.inputs]), inputs, strict=True):
            with (place / name).open("wb") as out:
                out.writelines(kept.text.pieces())
        (place / "case.yaml").write_text(case_yaml(stored.report, place.name, _note(words)), encoding="utf-8")
        yield place


def name_of(one: Said) -> str:
    """The folder of a case: what it is about, and enough of the id to tell two apart."""
    about = (one.cause or "unknown").replace(".", "-").replace("_", "-")
    return f"{(one.engine or 'log').replace('.', '')}-{about}-{one.analysis_id[:8].replace('_', '-').strip('-').lower()}"


def _note(words: Sequence[Said]) -> str:
    told = [f"{'helped' if one.helped else 'wrong'}{f', because: {one.because}' if one.because else ''}" for one in words]
    return (
        f"{'; '.join(told)}. Every answer here is what the program said (pattern library {words[0].library}); "
        "correct what is wrong before this is kept as a case."
    )
