"""TensorRT-LLM, as diagnosis sees it (see analyzer/engines/__init__.py).

``pool = free after the engine × free_gpu_memory_fraction`` (0.9 unless set), ``tokens = blocks × tokens per block`` (reference/engines.md,
section 6).
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
from analyzer.model import Change, Confidence, FlagChange, Ledger, Source, Text
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

#: Lines with which the runtime's start ends: it prints no other sign of being ready.
POOLS = ("trtllm.pool.tokens", "trtllm.pool")
FLAGS = {"--kv_cache_free_gpu_memory_fraction": "", "--max_seq_len": "", "--max_num_tokens": "", "--max_batch_size": "", "--tp_size": ""}


def ledgers(case: Case) -> list[Ledger]:
    """GPU 0's (ranks repeat the lines without a name), and one for each out-of-memory sentence."""
    view = case.view
    found = []
    for rank, gpu, event in device.sentence_units(case):
        lines = Lines()
        if event is not None:
            device.out_of_memory(lines, view.event_facts(event))
        lines.measured("total", view.fact("device.total"))
        lines.measured("weights", view.fact("weights"))
        lines.measured("kv_cache", view.fact("kv_cache"))
        after, pool = view.fact("device.free_after_weights"), lines.get("kv_cache")
        if after is not None and after.bytes is not None and pool is not None and after.bytes > pool:
            lines.derived("free", after.bytes - pool, "free after the engine − pool", after.source)
        device.balance(lines)
        if lines:
            place = gpu if gpu is not None else rank
            found.append(lines.ledger(view.attempt.index, place, rank, case.moment))
    return found


def refine(case: Case) -> Refinement | None:
    """The pool is the last line of this runtime's start: with it and no error the start succeeded."""
    signs = [case.view.attempt.signs[name] for name in POOLS if name in case.view.attempt.signs]
    if case.state != "unknown" or case.event is not None or not signs:
        return None
    named = [fact for name in ("kv_cache", "kv_cache.tokens") if (fact := case.view.fact(name)) is not None]
    return Refinement("healthy", "healthy", "kv_init", Confidence.CERTAIN, [fact.source for fact in named])


def compute(fix: str, case: Case) -> Computed | None:
    """The numbers of one named fix."""
    solver = SOLVERS.get(fix)
    return solver(case) if solver is not None else None


def valid(changes: tuple[Change, ...], view: View) -> bool:
    """Whether every flag that is set is one of trtllm-serve's."""
    return settings.valid(FLAGS, changes, view)


def versions(changes: tuple[Change, ...], view: View) -> str | None:
    """No bound is known."""
    return None


def rewrite(changes: tuple[Change, ...], view: View) -> str | None:
    """The user's own command with ``changes``."""
    return settings.rewritten(tuple(change for change in changes if isinstance(change, FlagChange)), view)


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
