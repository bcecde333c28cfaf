"""What each engine does with memory: its identities by version, its flags, and the solver. Pure arithmetic, no input or output.

An engine is a folder here, named after it, whose module ``engine`` has the functions of ``Engine`` (those that it does not know it takes
from ``generic``). ``engine(name)`` finds it by that name; the rest of the product knows no names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol, cast

from analyzer.model import Change, Fix, Ledger, Source, Text, Window

if TYPE_CHECKING:
    from analyzer.engines.case import Case
    from analyzer.engines.computed import Computed
    from analyzer.engines.refinement import Refinement
    from analyzer.facts.view import View
    from analyzer.model.versions import Range

GENERIC = "analyzer.engines.generic"


class Engine(Protocol):
    """What diagnosis asks of an engine."""

    #: The fixes whose numbers the engine computes, each with its arithmetic.
    SOLVERS: Mapping[str, Callable[[Case], Computed | None]]

    def ledgers(self, case: Case) -> list[Ledger]:
        """The ledgers of the attempt's GPUs at its end."""

    def compute(self, fix: str, case: Case) -> Computed | None:
        """The numbers of the fix ``fix``; None where it does not apply or would not fit."""

    def valid(self, changes: tuple[Change, ...], view: View) -> bool:
        """Whether every flag exists in the versions that are possible."""

    def versions(self, changes: tuple[Change, ...], view: View) -> str | None:
        """The versions in which the flags of ``changes`` exist, as a PEP 440 range."""

    def rewrite(self, changes: tuple[Change, ...], view: View) -> str | None:
        """The user's own command with ``changes``, where the inputs hold it."""

    def default_utilization(self, view: View) -> float | None:
        """The budget's share when none is given, where all possible versions agree."""

    def possible_versions(self, view: View) -> Range:
        """The versions that are possible: the stated one, else what the wordings leave."""

    def window(self, case: Case, given: Sequence[Fix]) -> Window | None:
        """The feasible window of the cause's main setting; ``given``: the report's fixes, to name what opens an empty one."""

    def refine(self, case: Case) -> Refinement | None:
        """A truer or finer verdict that several of the engine's lines prove together, or lines that belong to the proof; None: as it is."""

    def notes(self, case: Case) -> Sequence[tuple[str, list[Source]]]:
        """What is worth explaining about a running server: causes of the family ``healthy`` with their lines."""

    def extra_figures(self, case: Case) -> Mapping[str, str | Text]:
        """Further figures for sentences: derived ones, by placeholder name."""


def engine(name: str | None) -> Engine:
    """The arithmetic of the engine ``name``; for one without a folder the part that holds for all (the card, PyTorch's sentence)."""
    return cast("Engine", import_module(_module(name or "")))


@cache
def _module(name: str) -> str:
    folder = "".join(letter if letter.isalnum() else "_" for letter in name.lower())
    if not folder.isidentifier():
        return GENERIC
    package = f"{__name__}.{folder}"
    known = find_spec(package) is not None and find_spec(f"{package}.engine") is not None
    return f"{package}.engine" if known else GENERIC
