"""LMDeploy, as diagnosis sees it (see analyzer/engines/__init__.py).

``cache_max_entry_count`` below 1 is a ratio: of total memory, 0.5 unless set, in 0.2.0 and 0.2.1; of the memory that is free after the
weights, 0.8 unless set, from 0.2.2 on (reference/engines.md, section 7).
"""

from __future__ import annotations

from analyzer.engines import device
from analyzer.engines.base import PoolServer
from analyzer.engines.case import Case
from analyzer.engines.lines import Lines
from analyzer.engines.llama_cpp.fixes import smaller_context
from analyzer.engines.more_gpus import more_gpus
from analyzer.engines.neighbours import stop_process
from analyzer.engines.refinement import Refinement
from analyzer.facts.view import View
from analyzer.model import Confidence, Ledger
from analyzer.model.units import MIB, human, number
from analyzer.model.versions import Range

RATIO_OF_TOTAL = "engine.version_bug.kv_ratio_of_total_memory"
AFFECTED = Range.parse(">=0.2.0,<0.2.2")


def _affected(view: View) -> bool:
    try:
        return view.version is not None and view.version in AFFECTED
    except ValueError:
        return False


def _plan(view: View, lines: Lines) -> None:
    lines.measured("kv_cache", view.fact("kv_cache"))
    size, count = view.attempt.signs.get("lmdeploy.block_size"), view.fact("kv_cache.gpu_blocks")
    if size is not None and count is not None and isinstance(count.value, int):
        each = round(float(number(size.seen[-1][1]["size"])) * MIB)
        lines.derived("kv_cache", each * count.value, f"{count.value} blocks × {human(each)}", count.source)


FLAGS = dict.fromkeys(
    ("--cache-max-entry-count", "--session-len", "--max-batch-size", "--quant-policy", "--tp", "--max-prefill-token-num"),
    "",
)
SOLVERS = {
    "more_gpus_or_smaller_weights": more_gpus("--tp"),
    "smaller_context_other_engines": smaller_context,
    "stop_process": stop_process,
}


class LMDeploy(PoolServer):
    """Its pool is a ratio."""

    flags = FLAGS
    solvers = SOLVERS

    def ledgers(self, case: Case) -> list[Ledger]:
        """GPU 0's: the pool by its blocks or as it is printed; and one for each out-of-memory sentence."""
        return device.sentence_ledgers(case, _plan)

    def refine(self, case: Case) -> Refinement | None:
        """The two releases that took the ratio of the whole card ask for more than the weights leave."""
        if case.cause == "cuda_oom.kv_init" and case.view.version is not None and _affected(case.view):
            return Refinement(RATIO_OF_TOTAL, confidence=Confidence.CERTAIN)
        return None


ENGINE = LMDeploy()
