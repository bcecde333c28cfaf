"""TGI, as diagnosis sees it (see analyzer/engines/__init__.py)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from analyzer.engines import settings
from analyzer.engines.case import Case
from analyzer.engines.computed import Computed
from analyzer.engines.generic import refine, window
from analyzer.engines.layout import memory_layout, pool_note
from analyzer.engines.neighbours import stop_process
from analyzer.engines.tgi.ledger import ledgers
from analyzer.facts.view import View
from analyzer.model import Change, FlagChange, Source, Text
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

PREFILL, FRACTION = "--max-batch-prefill-tokens", "--cuda-memory-fraction"
FLAGS = dict.fromkeys(
    (
        PREFILL, FRACTION, "--cuda-graphs", "--max-batch-total-tokens", "--max-input-length", "--max-input-tokens", "--max-total-tokens",
        "--num-shard", "--quantize", "--kv-cache-dtype",
    ),
    "",
)  # fmt: skip
#: A prefill of fewer tokens needs no memory worth the name: the weights filled the card.
TINY = 256
HEADROOM = 0.9


def compute(fix: str, case: Case) -> Computed | None:
    """The numbers of one named fix."""
    solver = SOLVERS.get(fix)
    return solver(case) if solver is not None else None


def fewer_prefill_tokens(case: Case) -> Computed | None:
    """Half the tokens of the warm-up's prefill, not below the longest input; None where it was tiny, and the weights are the trouble."""
    before = case.view.number("scheduler.max_num_batched_tokens")
    least = case.view.number("model.max_input_len") or 0
    if not before or before <= TINY:
        return None
    to = max(int(before) // 2, int(least))
    if to >= before:
        return None
    values = {"before": str(int(before)), "to": str(to), "least": str(int(least)) if least else "--max-input-tokens"}
    return Computed((FlagChange(PREFILL, int(before), to),), dict(values), verified=False)


def headroom(case: Case) -> Computed | None:
    """A share below 1: the pool then leaves a tenth of the card."""
    share = case.view.number("budget.utilization") or 1.0
    to = min(HEADROOM, round(float(share) - 0.05, 2))
    if to < 0.5:
        return None
    return Computed((FlagChange(FRACTION, float(share), to),), {"before": f"{float(share):g}", "to": f"{to:g}"}, verified=False)


def valid(changes: tuple[Change, ...], view: View) -> bool:
    """Whether every flag that is set is one of the launcher's."""
    return settings.valid(FLAGS, changes, view)


def versions(changes: tuple[Change, ...], view: View) -> str | None:
    """The versions that have all flags of ``changes``."""
    return settings.versions(FLAGS, changes)


def rewrite(changes: tuple[Change, ...], view: View) -> str | None:
    """The user's own command with ``changes``."""
    return settings.rewritten(changes, view)


def default_utilization(view: View) -> float | None:
    """All of the card, unless --cuda-memory-fraction says less."""
    return 1.0


def possible_versions(view: View) -> Range:
    """The stated version, else what the wordings leave."""
    return settings.possible(view)


def notes(case: Case) -> Sequence[tuple[str, list[Source]]]:
    """The pool keeps its memory; the longest request may be what the pool holds, not what the model can."""
    found = list(pool_note(case))
    tokens = case.view.fact("kv_cache.tokens")
    if not found and tokens is not None:
        found.append(("healthy.kv_preallocation", [tokens.source]))
    length, trained = case.view.fact("model.max_len"), case.view.number("model.derived_max_len")
    value = case.view.number("model.max_len")
    if length is not None and length.pattern == "tgi.length" and value and trained and float(value) < float(trained):
        found.append(("healthy.context_fitted", [length.source]))
    return found


def extra_figures(case: Case) -> Mapping[str, str | Text]:
    """How the memory is laid out."""
    return memory_layout(case)


SOLVERS: dict[str, Callable[[Case], Computed | None]] = {
    "tgi_fewer_prefill_tokens": fewer_prefill_tokens,
    "tgi_headroom": headroom,
    "stop_process": stop_process,
}
