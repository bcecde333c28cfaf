"""TensorRT-LLM, as diagnosis sees it (see analyzer/engines/__init__.py).

``pool = free after the engine × free_gpu_memory_fraction`` (0.9 unless set), ``tokens = blocks × tokens per block`` (reference/engines.md,
section 6).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from analyzer.engines import device
from analyzer.engines.base import PoolServer
from analyzer.engines.case import Case
from analyzer.engines.lines import Lines, spell
from analyzer.engines.llama_cpp.fixes import smaller_context
from analyzer.engines.more_gpus import more_gpus
from analyzer.engines.neighbours import stop_process
from analyzer.engines.parts import add_sum
from analyzer.engines.refinement import Refinement
from analyzer.facts.view import View
from analyzer.model import Confidence, Ledger, Text

#: Lines with which the runtime's start ends: it prints no other sign of being ready.
POOLS = ("trtllm.pool.tokens", "trtllm.pool")
#: What TensorRT's builder prints of a tactic without room: its error, and that it goes on.
BUILDER, SKIPPED, BUILD_FAILED = "trtllm.oom.tensorrt", "trtllm.build.tactic_skipped", "trtllm.build.failed"
TOO_SMALL = "trtllm.pool.below_one_sequence"


def _plan(view: View, lines: Lines) -> None:
    lines.measured("total", view.fact("device.total"))
    start, after = view.fact("device.free_at_start"), view.fact("device.free_after_weights")
    lines.measured("weights", view.fact("weights"))
    if start is not None and after is not None and start.bytes and after.bytes:
        formula = spell("free before the model − free after it = {s} − {a}", s=start.bytes, a=after.bytes)
        lines.derived("weights", start.bytes - after.bytes, formula, after.source)
    pools = view.all("kv_cache")
    if len(pools) == 2 and (pools[0].bytes or 0) > (pools[1].bytes or 0):
        # Of an encoder-decoder model, self and cross attention; a trial pool of the PyTorch backend is smaller than the one after it.
        add_sum(lines, "kv_cache", [(pool.bytes, pool.source) for pool in pools if pool.bytes])
    elif pools:
        lines.measured("kv_cache", pools[-1])
    last, pool = view.fact("device.free"), pools[-1].bytes if pools else None
    if last is not None:
        lines.measured("free", last)
    elif after is not None and after.bytes is not None and pool is not None and after.bytes > pool:
        lines.derived("free", after.bytes - pool, "free after the engine − pool", after.source)
    total, free = lines.get("total"), lines.get("free")
    if total is not None and free is not None and "process" not in lines and "torch_allocated" not in lines:
        rest = total - free - sum(lines.get(name) or 0 for name in ("weights", "kv_cache"))
        if abs(rest) >= device.ROUNDING_BYTES:
            lines.derived("unaccounted", rest, "total − weights − kv_cache − free")


FLAGS = {
    "--kv_cache_free_gpu_memory_fraction": "",
    "--max_seq_len": "",
    "--max_num_tokens": "",
    "--max_batch_size": "",
    "--tp_size": "",
}
SOLVERS = {
    "more_gpus_or_smaller_weights": more_gpus("--tp_size"),
    "smaller_context_other_engines": smaller_context,
    "stop_process": stop_process,
}


class TensorRTLLM(PoolServer):
    """Its pool is a fraction of what the engine leaves."""

    flags = FLAGS
    solvers = SOLVERS

    def ledgers(self, case: Case) -> list[Ledger]:
        """GPU 0's (ranks repeat the lines without a name), and one for each out-of-memory sentence."""
        return device.sentence_ledgers(case, _plan)

    def refine(self, case: Case) -> Refinement | None:
        """The pool is the last line of this runtime's start: with it and no error the start most likely succeeded."""
        if case.state == "failed" and case.cause is None and case.event is not None and _went_on(case):
            return Refinement(state="unknown")
        signs = [case.view.attempt.signs[name] for name in POOLS if name in case.view.attempt.signs]
        if case.state != "unknown" or case.event is not None or not signs:
            return None
        named = [fact for name in ("kv_cache", "kv_cache.tokens") if (fact := case.view.fact(name)) is not None]
        return Refinement("healthy", "healthy", "kv_init", Confidence.LIKELY, [fact.source for fact in named])

    def extra_figures(self, case: Case) -> Mapping[str, str | Text]:
        """``{one_sequence}``: tokens of a sequence of the full length, by the refusal's own figures."""
        found = dict(super().extra_figures(case))
        groups = case.view.groups(case.event) if case.event is not None and case.event.pattern.id == TOO_SMALL else {}
        factors = [int(groups[name]) for name in ("beam", "block", "blocks") if name in groups]
        return found | ({"one_sequence": str(prod(factors))} if len(factors) == 3 else {})


def _went_on(case: Case) -> bool:
    """Whether all that failed are tactics of the builder, which it left out."""
    failed = [event.pattern.id for event in case.view.attempt.all_events() if event.cause == "cuda_oom" or event.pattern.id == BUILD_FAILED]
    return SKIPPED in case.view.attempt.signs and set(failed) == {BUILDER}


ENGINE = TensorRTLLM()
