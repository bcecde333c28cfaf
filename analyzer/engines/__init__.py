"""What each engine does with memory: its identities by version, its flags, and the solver. Pure arithmetic, no input or output.

An engine is a module or folder here with the functions of ``Engine``; ``engine(name)`` finds it, the rest of the product knows no names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from analyzer.model import Change, Fix, Ledger, Text, Window

if TYPE_CHECKING:
    from analyzer.engines.case import Case
    from analyzer.engines.computed import Computed
    from analyzer.facts.view import View
    from analyzer.model.versions import Range

#: Engine name -> module with its arithmetic.
MODULES = {"vllm": "analyzer.engines.vllm.engine"}
GENERIC = "analyzer.engines.generic"


class Engine(Protocol):
    """What diagnosis asks of an engine."""

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

    def extra_figures(self, case: Case) -> Mapping[str, str | Text]:
        """Further figures for sentences: derived ones, by placeholder name."""


def engine(name: str | None) -> Engine:
    """The arithmetic of the engine ``name``; for one without a module the part that holds for all (the card, PyTorch's sentence)."""
    return cast("Engine", import_module(MODULES.get(name or "", GENERIC)))
