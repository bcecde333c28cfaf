"""The numbers of every named fix for vLLM. Words: patterns/advice. A solver answers None where its fix does not apply or would not fit."""

from __future__ import annotations

from collections.abc import Callable

from analyzer.engines.case import Case
from analyzer.engines.computed import Computed
from analyzer.engines.vllm.fixes import arguments, budget, by_hand, host, length, processes, releases, requests, stages, weights
from analyzer.engines.vllm.fixes.arguments import refused_though_known
from analyzer.engines.vllm.fixes.figures import figures
from analyzer.engines.vllm.fixes.plan import Plan
from analyzer.engines.vllm.fixes.window import window

__all__ = ["SOLVERS", "Plan", "figures", "refused_though_known", "window"]

Solver = Callable[[Plan], Computed | None]


def _solver(solve: Solver) -> Callable[[Case], Computed | None]:
    return lambda case: solve(Plan(case))


SOLVERS: dict[str, Callable[[Case], Computed | None]] = {
    name: _solver(solve)
    for name, solve in {
        "raise_utilization": budget.raise_utilization,
        "raise_utilization_above": budget.raise_utilization_above,
        "lower_utilization": budget.lower_utilization,
        "raise_by_missing": budget.raise_by_missing,
        "lower_utilization_by": budget.lower_utilization_by,
        "sequences_and_utilization": budget.sequences_and_utilization,
        "utilization_to_free": budget.utilization_to_free,
        "cumulative_utilization": budget.cumulative_utilization,
        "kv_cache_memory_bytes": by_hand.kv_cache_memory_bytes,
        "larger_pinned_pool": by_hand.larger_pinned_pool,
        "blocks_override": by_hand.blocks_override,
        "mm_ipc_memory": budget.mm_ipc_memory,
        "utilization_for_external": budget.utilization_for_external,
        "startup_plan_off": releases.startup_plan_off,
        "graph_estimate_on": releases.graph_estimate_on,
        "smaller_loras": requests.smaller_loras,
        "cpu_kv_space": host.cpu_kv_space,
        "cpu_utilization": host.cpu_utilization,
        "lower_cpu_kv_space": host.lower_cpu_kv_space,
        "max_model_len_fits": length.max_model_len_fits,
        "kv_cache_fp8": length.kv_cache_fp8,
        "lower_max_num_seqs": requests.lower_max_num_seqs,
        "lower_max_num_batched_tokens": requests.lower_max_num_batched_tokens,
        "enforce_eager": requests.enforce_eager,
        "fewer_capture_sizes": requests.fewer_capture_sizes,
        "tensor_parallel": weights.tensor_parallel,
        "quantized_weights": weights.quantized_weights,
        "cpu_offload": weights.cpu_offload,
        "further_quantized": weights.further_quantized,
        "pp_layer_partition": stages.pp_layer_partition,
        "language_model_only": requests.language_model_only,
        "cap_kv_blocks": by_hand.cap_kv_blocks,
        "upgrade_to": releases.upgrade_to,
        "raise_max_num_seqs": requests.raise_max_num_seqs,
        "enable_chunked_prefill": requests.enable_chunked_prefill,
        "limit_mm_per_prompt": requests.limit_mm_per_prompt,
        "skip_deep_gemm_warmup": requests.skip_deep_gemm_warmup,
        "flashinfer_sampler_off": requests.flashinfer_sampler_off,
        "swap_space_zero": requests.swap_space_zero,
        "disable_sleep_mode": requests.disable_sleep_mode,
        "stop_process": processes.stop_process,
        "use_right_flag": arguments.use_right_flag,
        "drop_flag": arguments.drop_flag,
        "max_model_len_of_model": arguments.max_model_len_of_model,
        "tp_that_divides": arguments.tp_that_divides,
        "max_tokens_that_fit": arguments.max_tokens_that_fit,
    }.items()
}
