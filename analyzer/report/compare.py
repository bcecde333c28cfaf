"""Two reports side by side: settings and ledgers that differ, and whether the failure is fixed, moved or the same. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from analyzer.model import STAGES, Ledger, Report, State, Value
from analyzer.model.ledger import LINES

Verdict = Literal["fixed", "moved", "same", "worse", "unclear"]
#: Lines that differ by less are called the same: logs print hundredths of a GiB.
SAME_BYTES = 6 * 2**20


@dataclass(frozen=True, slots=True)
class SettingDifference:
    """A setting with other values; ``known`` says on which side the inputs state it at all."""

    flag: str
    before: Value | None
    after: Value | None
    known: tuple[bool, bool]


@dataclass(frozen=True, slots=True)
class LineDifference:
    """One ledger line in both reports, in bytes; None where a report does not know it."""

    name: str
    before: int | None
    after: int | None

    @property
    def change(self) -> int | None:
        """Bytes more (below 0: less) than before; None where a side is unknown."""
        return None if self.before is None or self.after is None else self.after - self.before

    @property
    def differs(self) -> bool:
        return self.change is None or abs(self.change) >= SAME_BYTES


@dataclass(frozen=True, slots=True)
class LedgerDifference:
    """The ledgers of one GPU; a report that has none for it has None."""

    gpu: int | None
    before: Ledger | None
    after: Ledger | None
    lines: tuple[LineDifference, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """``verdict``: ``fixed`` (failed or degraded before, healthy after), ``same`` (the same outcome and cause), ``moved`` (another
    cause or stage), ``worse`` (healthy before, not after), ``unclear`` (one of them does not show its outcome)."""

    verdict: Verdict
    settings: tuple[SettingDifference, ...]
    ledgers: tuple[LedgerDifference, ...]
    further: bool | None  # whether the later start came further than the earlier one; None where the stages do not tell


def compare(before: Report, after: Report) -> Comparison:
    """What became of ``before`` in ``after``."""
    return Comparison(_verdict(before, after), _settings(before, after), _ledgers(before, after), _further(before, after))


def lines(before: Ledger | None, after: Ledger | None) -> tuple[LineDifference, ...]:
    """Every line that either ledger has, in the ledger's order."""
    found = []
    for name in LINES:
        first = before.get(name) if before is not None else None
        second = after.get(name) if after is not None else None
        if first is not None or second is not None:
            found.append(LineDifference(name, first, second))
    return tuple(found)


def _verdict(before: Report, after: Report) -> Verdict:
    first, second = before.outcome, after.outcome
    if State.UNKNOWN in (first.state, second.state):
        return "unclear"
    if first.state == second.state and first.cause == second.cause and first.stage == second.stage:
        return "same"
    if second.state is State.HEALTHY:
        return "fixed"
    if first.state is State.HEALTHY or (first.state is State.DEGRADED and second.state is State.FAILED):
        return "worse"
    return "moved"


def _further(before: Report, after: Report) -> bool | None:
    first, second = before.outcome.stage, after.outcome.stage
    if first not in STAGES or second not in STAGES or first == second:
        return None
    return STAGES.index(second) > STAGES.index(first)


def _settings(before: Report, after: Report) -> tuple[SettingDifference, ...]:
    names = [*before.settings, *(name for name in after.settings if name not in before.settings)]
    found = []
    for name in names:
        first, second = before.settings.get(name), after.settings.get(name)
        values = (first.value if first else None, second.value if second else None)
        if values[0] != values[1] or (first is None) != (second is None):
            found.append(SettingDifference(name, *values, known=(first is not None, second is not None)))
    return tuple(found)


def _ledgers(before: Report, after: Report) -> tuple[LedgerDifference, ...]:
    def key(ledger: Ledger, place: int) -> int:
        number = ledger.gpu if ledger.gpu is not None else ledger.rank
        return number if number is not None else place

    first = {key(ledger, place): ledger for place, ledger in enumerate(before.ledgers)}
    second = {key(ledger, place): ledger for place, ledger in enumerate(after.ledgers)}
    return tuple(
        LedgerDifference(gpu, first.get(gpu), second.get(gpu), lines(first.get(gpu), second.get(gpu))) for gpu in sorted({*first, *second})
    )


def to_json(comparison: Comparison) -> dict[str, Any]:
    """The comparison as plain values; sizes in bytes."""
    return {
        "verdict": comparison.verdict,
        "further": comparison.further,
        "settings": {item.flag: {"a": item.before, "b": item.after, "known": list(item.known)} for item in comparison.settings},
        "ledgers": [
            {
                "gpu": ledger.gpu,
                "lines": [{"name": line.name, "a": line.before, "b": line.after, "change": line.change} for line in ledger.lines],
            }
            for ledger in comparison.ledgers
        ],
    }
