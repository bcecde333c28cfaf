"""What holds for every engine: the card at the moment of failure. Engines without arithmetic of their own fall back on this."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from analyzer.engines import device
from analyzer.engines.case import Case
from analyzer.engines.computed import Computed
from analyzer.engines.lines import Lines
from analyzer.engines.refinement import Refinement
from analyzer.facts.view import View
from analyzer.model import Change, Fix, FlagChange, Ledger, Source, Text, Window
from analyzer.model.versions import Range


def ledgers(case: Case) -> list[Ledger]:
    """One ledger for each GPU that an out-of-memory sentence names."""
    found = []
    for rank, gpu, event in device.sentence_events(case):
        lines = Lines()
        facts = case.view.event_facts(event)
        device.out_of_memory(lines, facts, device.dump_names(case))
        device.name_others(case, lines, gpu, rank, [fact for fact in facts if fact.name == "process.used"])
        device.balance(lines)
        if lines:
            found.append(lines.ledger(case.view.attempt.index, gpu if gpu is not None else rank, rank, case.moment))
    return found


#: No arithmetic is known for an engine without a folder.
SOLVERS: dict[str, Callable[[Case], Computed | None]] = {}


def compute(fix: str, case: Case) -> Computed | None:
    """No arithmetic is known for this engine."""
    return None


def valid(changes: tuple[Change, ...], view: View) -> bool:
    """Without a table of this engine's flags, only changes that name none are sure."""
    return not any(isinstance(change, FlagChange) for change in changes)


def versions(changes: tuple[Change, ...], view: View) -> str | None:
    """Unknown."""
    return None


def rewrite(changes: tuple[Change, ...], view: View) -> str | None:
    """Not done for engines whose flags are not known."""
    return None


def default_utilization(view: View) -> float | None:
    """Unknown."""
    return None


def possible_versions(view: View) -> Range:
    """Any."""
    return view.versions


def extra_figures(case: Case) -> Mapping[str, str | Text]:
    """None."""
    return {}


def window(case: Case, given: Sequence[Fix]) -> Window | None:
    """Unknown."""
    return None


def refine(case: Case) -> Refinement | None:
    """Nothing beyond what the lines say one by one."""
    return None


def notes(case: Case) -> Sequence[tuple[str, list[Source]]]:
    """None."""
    return ()
