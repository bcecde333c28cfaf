"""TGI, as diagnosis sees it (see analyzer/engines/__init__.py)."""

from __future__ import annotations

from collections.abc import Sequence

from analyzer.engines.base import PoolServer
from analyzer.engines.case import Case
from analyzer.engines.computed import Computed
from analyzer.engines.layout import pool_note
from analyzer.engines.more_gpus import more_gpus
from analyzer.engines.neighbours import stop_process
from analyzer.engines.refinement import Refinement
from analyzer.engines.tgi.ledger import ledgers
from analyzer.facts.view import View
from analyzer.model import Confidence, FlagChange, Ledger, Source

PREFILL, FRACTION = "--max-batch-prefill-tokens", "--cuda-memory-fraction"
#: The longest input, by its newer name first.
INPUT = ("--max-input-tokens", "--max-input-length")
#: A prefill of fewer tokens needs no memory worth the name: the weights filled the card.
TINY = 256
HEADROOM = 0.9
#: The launcher gave a shard up before it had loaded.
NOT_LOADED = "tgi.death.shard_start"


def fewer_prefill_tokens(case: Case) -> Computed | None:
    """Half the tokens of the warm-up's prefill, not below the longest input; where that is as long, half of both.

    None where the prefill was tiny, and the weights are the trouble.
    """
    before = int(case.view.number("scheduler.max_num_batched_tokens") or 0)
    least = int(case.view.number("model.max_input_len") or 0)
    if before <= TINY:
        return None
    to = max(before // 2, least)
    changes = [FlagChange(PREFILL, before, to)]
    if to >= before:
        to = before // 2
        flag = next((name for name in INPUT if case.view.setting(name) is not None), INPUT[0])
        changes = [FlagChange(PREFILL, before, to), FlagChange(flag, least, to)]
        least = to
    values = {"before": str(before), "to": str(to), "least": str(least) if least else INPUT[0]}
    return Computed(tuple(changes), dict(values), verified=False)


def headroom(case: Case) -> Computed | None:
    """A share below 1: the pool then leaves a tenth of the card."""
    share = case.view.number("budget.utilization") or 1.0
    to = min(HEADROOM, round(float(share) - 0.05, 2))
    if to < 0.5:
        return None
    return Computed((FlagChange(FRACTION, float(share), to),), {"before": f"{float(share):g}", "to": f"{to:g}"}, verified=False)


FLAGS = dict.fromkeys(
    (
        PREFILL, FRACTION, "--cuda-graphs", "--max-batch-total-tokens", "--max-input-length", "--max-input-tokens", "--max-total-tokens",
        "--num-shard", "--quantize", "--kv-cache-dtype",
    ),
    "",
)  # fmt: skip
SOLVERS = {
    "more_gpus_or_smaller_weights": more_gpus("--num-shard"),
    "stop_process": stop_process,
    "tgi_fewer_prefill_tokens": fewer_prefill_tokens,
    "tgi_headroom": headroom,
}


class TGI(PoolServer):
    """Its pool is what a warm-up leaves."""

    flags = FLAGS
    solvers = SOLVERS

    def ledgers(self, case: Case) -> list[Ledger]:
        return ledgers(case)

    def refine(self, case: Case) -> Refinement | None:
        """An out-of-memory that nothing dates, in a shard that never came to be ready: the weights were still on their way."""
        if case.state != "failed" or case.cause is not None or case.event is None or case.event.cause != "cuda_oom":
            return None
        given_up = next((event for event in case.view.attempt.all_events() if event.pattern.id == NOT_LOADED), None)
        if given_up is None or case.stage not in (None, "launch", "device_init", "weight_load"):
            return None
        evidence = [case.view.source(given_up.places[0])]
        return Refinement("cuda_oom.weight_load", stage="weight_load", confidence=Confidence.LIKELY, evidence=evidence)

    def default_utilization(self, view: View) -> float | None:
        """All of the card, unless --cuda-memory-fraction says less."""
        return 1.0

    def notes(self, case: Case) -> Sequence[tuple[str, list[Source]]]:
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


ENGINE = TGI()
