"""LMDeploy, as diagnosis sees it (see analyzer/engines/__init__.py).

``cache_max_entry_count`` below 1 is a ratio: of total memory, 0.5 unless set, in 0.2.0 and 0.2.1; of the memory that is free after the
weights, 0.8 unless set, from 0.2.2 on (reference/engines.md, section 7).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from analyzer.engines import device, settings
from analyzer.engines.case import Case
from analyzer.engines.computed import Computed
from analyzer.engines.generic import default_utilization, window
from analyzer.engines.layout import memory_layout, pool_note
from analyzer.engines.lines import Lines
from analyzer.engines.llama_cpp.fixes import smaller_context
from analyzer.engines.neighbours import stop_process
from analyzer.engines.refinement import Refinement
from analyzer.facts.view import View
from analyzer.model import Change, Confidence, Ledger, Source, Text
from analyzer.model.units import MIB, human, number
from analyzer.model.versions import Range

__all__ = [
    "SOLVERS",
    "compute",
    "default_utilization",
    "extra_figures",
    "ledgers",
    "notes",
    "possible_versions",
    "refine",
    "rewrite",
    "valid",
    "versions",
    "window",
]

RATIO_OF_TOTAL = "engine.version_bug.kv_ratio_of_total_memory"
AFFECTED = Range.parse(">=0.2.0,<0.2.2")
FLAGS = dict.fromkeys(
    ("--cache-max-entry-count", "--session-len", "--max-batch-size", "--quant-policy", "--tp", "--max-prefill-token-num"),
    "",
)


def ledgers(case: Case) -> list[Ledger]:
    """GPU 0's: the pool by its blocks or as it is printed; and one for each out-of-memory sentence."""
    view = case.view
    found = []
    for rank, gpu, event in device.sentence_units(case):
        lines = Lines()
        if event is not None:
            device.out_of_memory(lines, view.event_facts(event))
        lines.measured("kv_cache", view.fact("kv_cache"))
        size, count = view.attempt.signs.get("lmdeploy.block_size"), view.fact("kv_cache.gpu_blocks")
        if size is not None and count is not None and isinstance(count.value, int):
            each = round(float(number(size.seen[-1][1]["size"])) * MIB)
            lines.derived("kv_cache", each * count.value, f"{count.value} blocks × {human(each)}", count.source)
        device.balance(lines)
        if lines:
            place = gpu if gpu is not None else rank
            found.append(lines.ledger(view.attempt.index, place, rank, case.moment))
    return found


def refine(case: Case) -> Refinement | None:
    """The two releases that took the ratio of the whole card ask for more than the weights leave."""
    if case.cause == "cuda_oom.kv_init" and case.view.version is not None and _affected(case.view):
        return Refinement(RATIO_OF_TOTAL, confidence=Confidence.CERTAIN)
    return None


def _affected(view: View) -> bool:
    try:
        return view.version is not None and view.version in AFFECTED
    except ValueError:
        return False


def compute(fix: str, case: Case) -> Computed | None:
    """The numbers of one named fix."""
    solver = SOLVERS.get(fix)
    return solver(case) if solver is not None else None


def valid(changes: tuple[Change, ...], view: View) -> bool:
    """Whether every flag that is set is one of the server's."""
    return settings.valid(FLAGS, changes, view)


def versions(changes: tuple[Change, ...], view: View) -> str | None:
    """No bound is known."""
    return None


def rewrite(changes: tuple[Change, ...], view: View) -> str | None:
    """The user's own command with ``changes``."""
    return settings.rewritten(changes, view)


def possible_versions(view: View) -> Range:
    """The stated version, else what the wordings leave."""
    return settings.possible(view)


def notes(case: Case) -> Sequence[tuple[str, list[Source]]]:
    """The pool keeps its memory whatever the load."""
    return pool_note(case)


def extra_figures(case: Case) -> Mapping[str, str | Text]:
    """How the memory is laid out."""
    return memory_layout(case)


SOLVERS: dict[str, Callable[[Case], Computed | None]] = {"smaller_context_other_engines": smaller_context, "stop_process": stop_process}
