"""A start as a report tells of it: what the what-if arithmetic needs of a Report or of its JSON, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from analyzer.engines.what_if import WhatIfError
from analyzer.model import Basis, Ledger, LedgerLine, Report, Source, Value
from analyzer.model.ledger import LINES, ordered
from analyzer.model.units import Number, to_bytes
from analyzer.model.versions import Range

#: No figure of a log is larger.
MOST = 2**60


@dataclass(frozen=True, slots=True)
class Figure:
    """A fact's value, in bytes too where it is a size."""

    name: str
    value: Value
    bytes: int | None
    rank: int | None


@dataclass(slots=True)
class Start:
    """The last start of a report. ``state``, ``stage``, ``cause``: its outcome."""

    engine: str | None = None
    version: str | None = None
    versions: Range = field(default_factory=Range)
    generation: str | None = None
    settings: dict[str, Value | None] = field(default_factory=dict)
    figures: list[Figure] = field(default_factory=list)
    ledgers: list[Ledger] = field(default_factory=list)
    state: str = "unknown"
    stage: str | None = None
    cause: str | None = None

    @classmethod
    def of(cls, report: Report) -> Start:
        """From a report."""
        last = max((fact.attempt for fact in report.facts), default=0)
        return cls(
            report.engine.name,
            report.engine.version,
            Range.parse(report.engine.version_range or ""),
            report.engine.generation,
            {flag: setting.value for flag, setting in report.settings.items()},
            [Figure(fact.name, fact.value, fact.bytes, fact.rank) for fact in report.facts if fact.attempt == last],
            list(report.ledgers),
            report.outcome.state.value,
            report.outcome.stage,
            report.outcome.cause,
        )

    @classmethod
    def of_json(cls, given: Mapping[str, Any]) -> Start:
        """From a report's parsed JSON, or from one ledger. WhatIfError for another shape."""
        if not isinstance(given, Mapping):
            raise WhatIfError("a report or a ledger is a JSON object")
        try:
            if "lines" in given:
                return cls("vllm", ledgers=[_ledger(given)])
            facts = given.get("facts") or []
            last = max((fact.get("attempt") or 0 for fact in facts), default=0)
            engine = given.get("engine") or {}
            outcome = given.get("outcome") or {}
            return cls(
                engine.get("name"),
                engine.get("version"),
                Range.parse(engine.get("version_range") or ""),
                engine.get("generation"),
                {str(flag): _plain(setting.get("value")) for flag, setting in (given.get("settings") or {}).items()},
                [_figure(fact) for fact in facts if (fact.get("attempt") or 0) == last],
                [_ledger(ledger) for ledger in given.get("ledgers") or []],
                outcome.get("state") or "unknown",
                outcome.get("stage"),
                outcome.get("cause"),
            )
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
            raise WhatIfError("this is neither a report nor a ledger of vramledger/report/1: {reason}", reason=repr(error)) from None

    def figure(self, name: str, rank: int | None = None) -> Figure | None:
        """The latest figure ``name`` of ``rank``; one without a rank stands in."""
        own = shared = None
        for figure in self.figures:
            if figure.name == name:
                if rank is not None and figure.rank == rank:
                    own = figure
                elif rank is None or figure.rank is None:
                    shared = figure
        return own or shared

    def bytes(self, name: str, rank: int | None = None) -> int | None:
        """Its bytes."""
        found = self.figure(name, rank)
        return None if found is None else found.bytes

    def number(self, name: str, *, smallest: bool = False, rank: int | None = None) -> Number | None:
        """Its number; ``smallest``: of the figures that every worker prints, the one in force."""
        if smallest:
            return min((f.value for f in self.figures if f.name == name and _is_number(f.value)), default=None)  # type: ignore[return-value]
        found = self.figure(name, rank)
        return found.value if found is not None and _is_number(found.value) else None  # type: ignore[return-value]

    def whole(self, flag: str) -> int | None:
        """A setting that is a whole number."""
        value = self.settings.get(flag)
        return value if isinstance(value, int) and not isinstance(value, bool) else None


def _is_number(value: Value) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _plain(value: Any) -> Any:
    """``value`` where it is a text or a number that arithmetic can bear. ValueError for anything else."""
    if isinstance(value, (int, float)) and not -MOST <= value <= MOST:  # not a number is not within either
        raise ValueError(f"{value} is out of range")
    if value is not None and not isinstance(value, (int, float, str)):
        raise ValueError(f"{value!r} is no plain value")
    return value


def _figure(fact: Mapping[str, Any]) -> Figure:
    value = _plain(fact["value"])
    size = _plain(fact.get("bytes"))
    if size is None and _is_number(value):
        size = to_bytes(value, str(fact.get("unit")))
    return Figure(str(fact["name"]), value, size if isinstance(size, int) else None, fact.get("rank"))


def _ledger(given: Mapping[str, Any]) -> Ledger:
    lines = []
    for line in given["lines"]:
        name, size = line["name"], line["bytes"]
        if name not in LINES or not isinstance(size, int) or isinstance(size, bool) or abs(size) > MOST:
            raise ValueError(f"no ledger line: {name}: {size!r}")
        source = line.get("source")
        at = Source(source["input"], source["line"], source.get("text") or "") if source else None
        lines.append(LedgerLine(name, size, Basis(line.get("basis") or "measured"), at, line.get("formula")))
    if len({line.name for line in lines}) != len(lines):
        raise ValueError("a ledger line stands twice")
    return Ledger(given.get("attempt") or 0, given.get("gpu"), given.get("rank"), given.get("moment"), ordered(lines))
