"""TensorRT-LLM, as diagnosis sees it (see analyzer/engines/__init__.py).

``pool = free after the engine × free_gpu_memory_fraction`` (0.9 unless set), ``tokens = blocks × tokens per block`` (reference/engines.md,
section 6).
"""

from __future__ import annotations

from analyzer.engines import device
from analyzer.engines.base import PoolServer
from analyzer.engines.case import Case
from analyzer.engines.lines import Lines
from analyzer.engines.llama_cpp.fixes import smaller_context
from analyzer.engines.neighbours import stop_process
from analyzer.engines.refinement import Refinement
from analyzer.facts.view import View
from analyzer.model import Confidence, Ledger

#: Lines with which the runtime's start ends: it prints no other sign of being ready.
POOLS = ("trtllm.pool.tokens", "trtllm.pool")


def _plan(view: View, lines: Lines) -> None:
    lines.measured("total", view.fact("device.total"))
    lines.measured("weights", view.fact("weights"))
    lines.measured("kv_cache", view.fact("kv_cache"))
    after, pool = view.fact("device.free_after_weights"), lines.get("kv_cache")
    if after is not None and after.bytes is not None and pool is not None and after.bytes > pool:
        lines.derived("free", after.bytes - pool, "free after the engine − pool", after.source)


FLAGS = {
    "--kv_cache_free_gpu_memory_fraction": "",
    "--max_seq_len": "",
    "--max_num_tokens": "",
    "--max_batch_size": "",
    "--tp_size": "",
}
SOLVERS = {"smaller_context_other_engines": smaller_context, "stop_process": stop_process}


class TensorRTLLM(PoolServer):
    """Its pool is a fraction of what the engine leaves."""

    flags = FLAGS
    solvers = SOLVERS

    def ledgers(self, case: Case) -> list[Ledger]:
        """GPU 0's (ranks repeat the lines without a name), and one for each out-of-memory sentence."""
        return device.sentence_ledgers(case, _plan)

    def refine(self, case: Case) -> Refinement | None:
        """The pool is the last line of this runtime's start: with it and no error the start succeeded."""
        signs = [case.view.attempt.signs[name] for name in POOLS if name in case.view.attempt.signs]
        if case.state != "unknown" or case.event is not None or not signs:
            return None
        named = [fact for name in ("kv_cache", "kv_cache.tokens") if (fact := case.view.fact(name)) is not None]
        return Refinement("healthy", "healthy", "kv_init", Confidence.CERTAIN, [fact.source for fact in named])


ENGINE = TensorRTLLM()
