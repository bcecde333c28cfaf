"""Fixes of the weights: spread over more GPUs, or a smaller format."""

from __future__ import annotations

from analyzer.engines.computed import Computed
from analyzer.engines.vllm.fixes.budget import raise_utilization
from analyzer.engines.vllm.fixes.plan import Plan
from analyzer.engines.vllm.pool import weights_estimate
from analyzer.model import Action, FlagChange, Text
from analyzer.model.units import GIB, human

FLAG, OFFLOAD = "--tensor-parallel-size", "--cpu-offload-gb"
#: Weights beyond this part of a card leave nothing for a pool and a step.
ROOM = 0.8
LARGEST = 8
#: Weights of a rank below this are no burden on any card that an engine runs on: what sharing them frees decides nothing.
TINY_BYTES = GIB


def tensor_parallel(plan: Plan) -> Computed | None:
    """The next degree at which a rank's share of the weights leaves room on the card. What the share is, is estimated from the shape."""
    before = plan.tensor_parallel
    whole = _weights(plan)
    if _enough_without(plan) or plan.case.on_cpu or (plan.override is not None and plan.short_by_hand):
        return None
    if whole is None and plan.case.cause == "cuda_oom.weight_load":
        return _doubled(plan, before)
    if plan.case.cause == "cuda_oom.profiling" and whole is not None and plan.total is not None and whole / before < 0.6 * plan.total:
        return None  # the activations are the trouble, not the weights
    if whole is not None and whole / before < TINY_BYTES:
        return None
    to = before * 2
    while whole is not None and plan.total is not None and whole / to > ROOM * plan.total and to < LARGEST:
        to *= 2
    if whole is None or to > LARGEST or (plan.total is not None and whole / to > ROOM * plan.total):
        return None
    heads = plan.view.number("model.attention_heads")
    if heads and int(heads) % to:
        return None
    each: str | Text = human(whole / to)
    if _offloaded(plan):
        each = Text(f"{each} (less what {OFFLOAD} keeps in host memory)", f"{each}（减去 {OFFLOAD} 放到主机内存的部分）")
    values: dict[str, str | Text] = {"before": str(before), "to": str(to), "weights_each": each, "gpus": str(_gpus(plan, to))}
    return Computed((FlagChange(FLAG, plan.whole(FLAG), to),), values, verified=False)


def _gpus(plan: Plan, tensor: int) -> int:
    """GPUs in all: every pipeline stage and every data parallel engine has as many ranks."""
    return tensor * (plan.whole("--pipeline-parallel-size") or 1) * (plan.whole("--data-parallel-size") or 1)


def _doubled(plan: Plan, before: int) -> Computed | None:
    """Twice the ranks, where all that is known of the weights is what had been loaded when memory ran out."""
    held = plan.line("torch_allocated")
    if held is None or 2 * before > LARGEST:
        return None
    each = Text(f"half of what one holds now (more than {human(held)})", f"现在一张卡的一半（现在超过 {human(held)}）")
    values: dict[str, str | Text] = {
        "before": str(before),
        "to": str(2 * before),
        "weights_each": each,
        "gpus": str(_gpus(plan, 2 * before)),
    }
    return Computed((FlagChange(FLAG, plan.whole(FLAG), 2 * before),), values, verified=False)


def further_quantized(plan: Plan) -> Computed | None:
    """The checkpoint is quantized and does not fit all the same: layers that are not quantized stay 16 bits wide."""
    held = plan.line("torch_allocated")
    if plan.case.cause != "cuda_oom.weight_load" or not plan.case.quantized or held is None or plan.total is None:
        return None
    action = Action(
        Text(
            "choose a checkpoint that quantizes attention and the other large layers too (INT4 AWQ/GPTQ, or 4 bits throughout)",
            "改用连注意力等大层也量化的版本（INT4 AWQ/GPTQ，或全部 4 位）",
        )
    )
    return Computed((action,), {"held": human(held), "total": human(plan.total)}, verified=False)


def quantized_weights(plan: Plan) -> Computed | None:
    """A quantized checkpoint. Only said where the weights are large beside the card and not quantized yet."""
    whole = _weights(plan)
    total = plan.total
    if _enough_without(plan) or plan.short_by_hand:
        return None
    if whole is None or total is None or plan.setting("--quantization") not in (None, "None") or plan.case.quantized:
        return None
    share = whole / plan.tensor_parallel
    if share < 0.5 * total:
        return None
    return Computed((), {"weights": human(share), "total": human(total)}, verified=False)


def cpu_offload(plan: Plan) -> Computed | None:
    """Weights in host memory: what the card lacks beside them, in whole GiB and two more for the rest. Needs the weights and the card."""
    whole, total = _weights(plan), plan.total
    flag = plan.spelled(OFFLOAD)
    if whole is None or total is None or flag is None:
        return None
    missing = whole / plan.tensor_parallel - 0.85 * total
    if missing <= 0:
        return None
    to = int(missing // GIB) + 2
    stated = plan.setting(OFFLOAD)
    if isinstance(stated, (int, float)) and stated >= to:
        return None
    host = plan.view.bytes("host.available") or plan.view.bytes("host.total")
    if host is not None and to * GIB * plan.tensor_parallel > host:
        return None
    return Computed((FlagChange(flag, plan.whole(flag), to),), {"flag": flag, "to": str(to), "size": human(to * GIB)}, verified=False)


def _enough_without(plan: Plan) -> bool:
    """Whether the pool is short of so little that a larger share of the card closes the gap: then the weights are not the trouble."""
    return plan.case.cause == "kv_cache.too_small_for_max_len" and raise_utilization(plan) is not None


def _offloaded(plan: Plan) -> bool:
    """Whether a part of the weights is in host memory: the measured figure is without it, and the part is a number per GPU."""
    value = plan.setting(OFFLOAD)
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0


def _weights(plan: Plan) -> int | None:
    """Bytes of all weights: measured on this rank times the ranks, else, or where a part is offloaded, estimated from the model's shape."""
    measured = plan.view.bytes("weights", plan.rank)
    if measured is not None and not _offloaded(plan):
        return measured * plan.tensor_parallel
    return weights_estimate(plan.view)
