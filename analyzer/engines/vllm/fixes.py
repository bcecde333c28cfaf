"""The numbers of every named fix for vLLM. Words: patterns/advice."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from analyzer.engines.case import Case
from analyzer.engines.computed import Computed

SOLVERS: dict[str, Callable[[Case], Computed | None]] = {}


def figures(case: Case) -> Mapping[str, str]:
    return {}
