"""Findings: what was recognised, how sure, on which lines, and what to change."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from analyzer.model.facts import Source, Value
from analyzer.model.ledger import Ledger
from analyzer.model.text import Text


class Severity(StrEnum):
    ERROR = "error"  # it failed
    WARNING = "warning"  # it runs, and somebody feels it
    INFO = "info"  # worth explaining, nothing wrong


class Confidence(StrEnum):
    CERTAIN = "certain"  # the text states it
    LIKELY = "likely"  # the arithmetic of the ledger supports it
    POSSIBLE = "possible"  # an ambiguity that the report states


@dataclass(frozen=True, slots=True)
class FlagChange:
    """A long flag of the engine, as this version spells it; ``to`` None removes it."""

    flag: str
    before: Value | None
    to: Value | None


@dataclass(frozen=True, slots=True)
class EnvChange:
    """An environment variable of the engine's process; ``to`` None unsets it."""

    env: str
    to: str | None


@dataclass(frozen=True, slots=True)
class OptionChange:
    """An option of another program, e.g. ``--shm-size`` of docker."""

    option: str
    of: str
    to: str


@dataclass(frozen=True, slots=True)
class Action:
    """Something to do that is no setting."""

    action: Text


Change = FlagChange | EnvChange | OptionChange | Action


@dataclass(frozen=True, slots=True)
class Fix:
    """A change worth trying: why, at which cost, the ledger as it would be, and in which versions it is valid.

    ``verified`` is False where the input lacks a figure that the check needs; ``why`` then names it.
    """

    title: Text
    changes: tuple[Change, ...]
    why: Text
    cost: Text | None = None
    predicted: Ledger | None = None
    versions: str | None = None
    verified: bool = False


@dataclass(frozen=True, slots=True)
class NotThis:
    """Popular advice that would not help here, and why."""

    advice: Text
    why: Text


@dataclass(frozen=True, slots=True)
class Window:
    """The values of one setting, the main one of this cause, with which the start works.

    ``low``, ``high``: the smallest and the largest such value, in the setting's own unit; None: the inputs do not show that end.
    ``feasible`` False: no value works, because ``low`` would have to be above ``high``; ``opens`` then names the setting that changes
    that, where one is known. ``limit``: what sets the upper end (``free0``: free memory at start, ``graphs``: room beside the budget,
    ``total``, ``failed``: a value that failed, ``kv_cache``, ``blocks``, ``host``). ``verified``: every figure that the ends depend on
    was in the inputs. ``text`` says all of it.
    """

    flag: str
    low: float | int | None
    high: float | int | None
    limit: str | None
    feasible: bool
    verified: bool
    text: Text
    opens: str | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """A cause (an id of reference/causes.yaml, or None where the inputs do not show one) with its proof."""

    cause: str | None
    severity: Severity
    confidence: Confidence
    title: Text
    explanation: Text
    evidence: tuple[Source, ...] = ()
    root: bool = False
    consequence_of: str | None = None
    needs: tuple[Text, ...] = ()
    not_this: tuple[NotThis, ...] = ()
    fixes: tuple[Fix, ...] = ()
    pattern: str | None = None
    stage: str | None = None
    window: Window | None = None

    @property
    def docs(self) -> str | None:
        """Path of the page that explains it."""
        return f"/patterns/{self.pattern}" if self.pattern else None
