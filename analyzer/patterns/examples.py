"""Every pattern proves itself: its examples must match with the values they state, its counter-examples must not."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from analyzer.patterns.model import Library, Pattern
from analyzer.patterns.runner import Runner


def failures(library: Library) -> list[str]:
    """One line for every example that is not fulfilled."""
    runner = Runner(library)
    return [problem for pattern in library.patterns for problem in check(pattern, runner)]


def check(pattern: Pattern, runner: Runner) -> Iterator[str]:
    """The problems of one pattern's examples."""
    label = f"{pattern.file}: {pattern.id}"
    if pattern.marks == "request":
        # Its hits are only counted.
        lines = [example["line"] for example in pattern.examples]
        yield from (f"{label}: the example is not counted: {line[:160]!r}" for line in lines if not _counted(runner, line))
        yield from (f"{label}: the counter-example is counted: {line[:160]!r}" for line in pattern.not_examples if _counted(runner, line))
        return
    for example in pattern.examples:
        line: str = example["line"]
        hits = [hit for hit in runner.scan_lines(line.split("\n")) if hit.pattern.id == pattern.id]
        if not hits:
            yield f"{label}: the example is not found: {line[:160]!r}"
            continue
        figures = [figure for hit in hits for figure in hit.figures]
        for name, wanted in (example.get("facts") or {}).items():
            values = [figure.value for figure in figures if figure.name == name]
            for value in wanted if isinstance(wanted, list) else [wanted]:
                if not any(_same(value, found) for found in values):
                    yield f"{label}: {name} should be {value!r}, is {values or 'missing'}: {line[:160]!r}"
    for line in pattern.not_examples:
        if any(hit.pattern.id == pattern.id for hit in runner.scan_lines(line.split("\n"))):
            yield f"{label}: the counter-example is found: {line[:160]!r}"


def _counted(runner: Runner, line: str) -> int:
    return runner.scan_text(line.split("\n"))[1]


def _same(wanted: Any, found: Any) -> bool:
    if isinstance(wanted, str) and not isinstance(found, str):
        wanted = wanted.split(" ")[0]
        try:
            wanted = float(wanted)
        except ValueError:
            return False
    if isinstance(wanted, (int, float)) and isinstance(found, (int, float)):
        return math.isclose(wanted, found, rel_tol=1e-9, abs_tol=1e-9)
    return bool(wanted == found)
