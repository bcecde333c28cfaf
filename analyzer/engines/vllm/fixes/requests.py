"""Fixes of what a step holds: sequences, tokens, captured graphs."""

from __future__ import annotations

from analyzer.engines.computed import Computed
from analyzer.engines.vllm import defaults, flags
from analyzer.engines.vllm.eras import Generation
from analyzer.engines.vllm.fixes import budget
from analyzer.engines.vllm.fixes.plan import Plan
from analyzer.model import Action, EnvChange, FlagChange, Text
from analyzer.model.units import human

SEQS, TOKENS = "--max-num-seqs", "--max-num-batched-tokens"


def lower_max_num_seqs(plan: Plan) -> Computed | None:
    """Fewer sequences: by the state blocks there are, by what the sampler's matrix may take, or a first step down."""
    before = _sequences(plan)
    if before is None and plan.case.cause == "cuda_oom.graph_capture":
        # The default depends on version and card (256 or 1024); graphs for more than 64 sequences are the large ones.
        words: dict[str, str | Text] = {
            "before": Text("default", "默认值"),
            "to": "64",
            "why_number": Text("graphs are captured up to this size", "graph 只捕获到这个尺寸"),
        }
        return Computed((FlagChange(SEQS, None, 64),), words, verified=False)
    if before is None or before <= 1 or plan.beyond_card or budget.sequences_and_utilization(plan) is not None:
        return None
    blocks = plan.view.number("mamba.blocks")
    cause = plan.case.cause or ""
    verified = False
    why: str | Text
    if cause == "kv_cache.mamba_blocks_below_max_num_seqs" and blocks:
        why = Text(f"{int(blocks)} state blocks are there", f"共有 {int(blocks)} 个状态块")
        to, verified = _power_of_two(int(blocks)), True
    elif "sampler" in cause and plan.shortfall is not None and plan.shortfall.tried > plan.shortfall.free > 0:
        # The sampler's matrix is sequences × vocabulary: what is free bounds the sequences in proportion.
        to = _power_of_two(int(before * plan.shortfall.free / plan.shortfall.tried))
        why = f"{before} × {human(plan.shortfall.free)} / {human(plan.shortfall.tried)}"
    elif cause == "cuda_oom.profiling":
        to, why = max(before // 16, 1), Text("a sixteenth, as a first step", "先降到十六分之一")
    elif cause == "kv_cache.too_small_for_max_len" or (cause == "kv_cache.no_memory_left" and before < 64):
        return None  # the check asks for one request whatever the number; so few sequences take nothing worth having
    else:
        to, why = _power_of_two(max(before // 4, 1)), Text("a quarter, as a first step", "先降到四分之一")
    together = _ran_together(plan) if cause == "kv_cache.preemption" else None
    if together is not None and together <= to:  # a cap above what ran when requests were thrown out would keep none back
        to, why = _power_of_two(together - 1), Text(f"fewer than the {together} that ran at a time", f"少于同时运行过的 {together} 个")
    if not 0 < to < before:
        return None
    return Computed((FlagChange(SEQS, plan.whole(SEQS), to),), {"before": str(before), "to": str(to), "why_number": why}, verified=verified)


def raise_max_num_seqs(plan: Plan) -> Computed | None:
    """The cap holds requests back while the pool is nearly empty: twice the cap, as long as the pool's use leaves that much room."""
    before = _sequences(plan)
    usage, running = plan.view.number("kv_cache.usage"), plan.view.number("scheduler.running")
    if before is None or usage is None or running is None or running < before or not 0 < usage < 45:
        return None
    to = min(_power_of_two(int(before * 80 / usage)), 8 * before)
    if to <= before:
        return None
    values = {"before": str(before), "to": str(to), "why_number": f"{usage:g} % × {to} / {before} ≈ {usage * to / before:.0f} %"}
    return Computed((FlagChange(SEQS, plan.whole(SEQS), to),), dict(values), verified=True)


def enable_chunked_prefill(plan: Plan) -> Computed | None:
    """V0 profiles and runs a prompt of max_model_len tokens at once unless prefill is chunked (on by itself above 32768 tokens, 0.4.1+)."""
    if plan.case.on_cpu or plan.short_by_hand or plan.view.generation != "v0" or plan.setting("--enable-chunked-prefill"):
        return None
    if plan.max_len is None or not 2048 < plan.max_len <= 32768:
        return None
    to = 2048
    values = {"flag": "--enable-chunked-prefill", "before": str(plan.max_len), "to": str(to)}
    changes = (FlagChange("--enable-chunked-prefill", None, True), FlagChange(TOKENS, plan.whole(TOKENS), to))
    return Computed(changes, dict(values), verified=False)


def limit_mm_per_prompt(plan: Plan) -> Computed | None:
    """Fewer images a prompt than the inputs state."""
    if plan.setting("--limit-mm-per-prompt") is None or plan.beyond_card:
        return None
    action = Text("lower --limit-mm-per-prompt to what a prompt really holds", "把 --limit-mm-per-prompt 调低到每个请求实际的数量")
    return Computed((Action(action),), {"flag": "--limit-mm-per-prompt"}, verified=False)


def smaller_loras(plan: Plan) -> Computed | None:
    """LoRA buffers for fewer or smaller adapters, where LoRA is on: they are made at load and counted as weights."""
    if not plan.setting("--enable-lora"):
        return None
    loras, rank = plan.whole("--max-loras") or 1, plan.whole("--max-lora-rank") or 16
    action = Text(
        "lower --max-loras to the adapters used at the same time, --max-lora-rank to the highest rank among them",
        "把 --max-loras 降到实际同时使用的数量，--max-lora-rank 降到其中的最高秩",
    )
    return Computed((Action(action),), {"loras": str(loras), "rank": str(rank)}, verified=False)


#: Lines that only models with an encoder print.
_MULTIMODAL = ("multimodal", "encoder", "mm_", "vision")


def language_model_only(plan: Plan) -> Computed | None:
    """Neither load nor profile the encoder of a model that the log or its config shows to have one."""
    if plan.setting("--language-model-only") or plan.short_by_hand:
        return None
    config = plan.view.model or {}
    if "vision_config" not in config and not any(word in name for name in plan.view.attempt.patterns for word in _MULTIMODAL):
        return None
    return Computed((FlagChange("--language-model-only", None, True),), {}, verified=False)


def skip_deep_gemm_warmup(plan: Plan) -> Computed | None:
    """Only where the warm-up of DeepGEMM is what ran out of memory."""
    frames = [place.text for _, place in plan.case.event.frames] if plan.case.event is not None else []
    if not any("deep_gemm" in text for text in frames):
        return None
    return Computed((EnvChange("VLLM_DEEP_GEMM_WARMUP", "skip"),), {}, verified=True)


def flashinfer_sampler_off(plan: Plan) -> Computed | None:
    """Only where FlashInfer's sampler is what ran out of memory."""
    frames = [place.text for _, place in plan.case.event.frames] if plan.case.event is not None else []
    if not any("flashinfer" in text for text in frames):
        return None
    return Computed((EnvChange("VLLM_USE_FLASHINFER_SAMPLER", "0"),), {}, verified=True)


def swap_space_zero(plan: Plan) -> Computed | None:
    """No swap space: V0's pool for preempted groups of several sequences, 4 GiB a GPU unless set (flag gone from 0.18.0).

    V1 reserves none, whatever the flag says, but up to 0.17.1 refuses one that is too large (vllm-project/vllm#27984).
    """
    before = plan.setting("--swap-space")
    if plan.view.generation != "v0" and plan.case.cause != "args.swap_space_too_large":
        return None
    values = {"flag": "--swap-space", "before": f"{before:g}" if isinstance(before, (int, float)) else "4"}
    return Computed((FlagChange("--swap-space", before if isinstance(before, (int, float)) else None, 0),), dict(values), verified=True)


def disable_sleep_mode(plan: Plan) -> Computed | None:
    """Start without the sleep-mode allocator."""
    stated = plan.setting("--enable-sleep-mode")
    return Computed((FlagChange("--enable-sleep-mode", True if stated is None else bool(stated), None),), {}, verified=True)


def _sequences(plan: Plan) -> int | None:
    """max_num_seqs in force: stated in the failing line, by a setting, else the default where all possible versions agree on one."""
    stated = plan.view.number("scheduler.max_num_seqs")
    if stated is not None:
        return int(stated)
    found = flags.default(SEQS, plan.where)
    value = found.value if found is not None else None
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return 256 if plan.view.generation == "v0" else None


def _ran_together(plan: Plan) -> int | None:
    """The most requests that ran at a time, by the statistics."""
    return max((int(fact.value) for fact in plan.view.all("scheduler.running") if isinstance(fact.value, (int, float))), default=None)


def _power_of_two(limit: int) -> int:
    """The largest power of two that is at most ``limit``; 0 for none."""
    return 1 << (limit.bit_length() - 1) if limit > 0 else 0


def lower_max_num_batched_tokens(plan: Plan) -> Computed | None:
    """Half the tokens of a step: the profile run's peak, warm-up matrices and prefill buffers grow with it."""
    before = plan.view.number("scheduler.max_num_batched_tokens")
    if before is None:
        found = flags.default(TOKENS, plan.where)
        value = found.value if found is not None else None
        before = value if isinstance(value, int) and not isinstance(value, bool) else None
    if before is None or before <= 1024 or (plan.short_by_hand and not plan.hybrid) or plan.beyond_card:
        return None
    # Without chunked prefill a step holds a whole prompt: fewer tokens than max_model_len are refused (SchedulerConfig._verify_args).
    chunked = plan.setting("--enable-chunked-prefill")
    if chunked is None:
        generation: Generation | None = "v0" if plan.view.generation == "v0" else "v1" if plan.view.generation == "v1" else None
        chunked = defaults.chunked_prefill(plan.where, generation, plan.max_len)
    least = 1024 if chunked else max(plan.max_len or 0, 1024)
    to = max(_power_of_two(int(before) // 2), least)
    short = plan.shortfall if plan.case.cause == "cuda_oom.serving.prompt_logprobs" else None
    if short is not None and 0 < short.free < short.tried:
        # The buffer is tokens × vocabulary: what is free bounds the tokens in proportion.
        to = max(_power_of_two(int(before * short.free / short.tried)), 256 if chunked else least)
    if to >= before:
        return None
    return Computed((FlagChange(TOKENS, plan.whole(TOKENS), to),), {"before": str(int(before)), "to": str(to)}, verified=False)


def enforce_eager(plan: Plan) -> Computed | None:
    """No graphs at all: what they took or would take is free, decoding is slower."""
    if plan.setting("--enforce-eager"):
        return None
    graphs = plan.view.bytes("cuda_graphs.actual", plan.rank) or plan.view.bytes("cuda_graphs.estimated", plan.rank)
    saves: Text
    if plan.case.cause == "kv_cache.mamba_blocks_below_max_num_seqs":
        saves = Text("the number of blocks is not checked then", "这样就不检查块数")
    elif plan.captured > (graphs or 0):
        more = human(plan.captured)
        saves = Text(f"saves what they take, more than {more}", f"省下它们的全部占用，超过 {more}")
    elif graphs:
        saves = Text(f"saves {human(graphs)}", f"节省 {human(graphs)}")
    else:
        saves = Text("saves what they take", "省下它们的全部占用")
    return Computed((FlagChange("--enforce-eager", None, True),), {"saves": saves}, verified=False)


def fewer_capture_sizes(plan: Plan) -> Computed | None:
    """Capture graphs for small batches only, by the option that this version has for it."""
    for flag, to in (("--max-cudagraph-capture-size", 64), ("--cuda-graph-sizes", 64)):
        if flags.exists(flag, plan.where):
            return Computed((FlagChange(flag, plan.whole(flag), to),), {"flag": flag, "to": str(to)}, verified=False)
    return None
