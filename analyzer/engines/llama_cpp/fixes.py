"""llama.cpp's fixes: layers, context, slots. A layer takes its weights and its part of the KV cache with it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from analyzer.engines.case import Case
from analyzer.engines.computed import Computed
from analyzer.engines.llama_cpp.ledger import buffers
from analyzer.engines.neighbours import stop_process
from analyzer.engines.predicted import replaced
from analyzer.facts.view import View
from analyzer.model import Action, Change, FlagChange, Text
from analyzer.model.units import GIB, human, natural

LAYERS, CONTEXT, ALL_EXPERTS = "--n-gpu-layers", "--ctx-size", "--cpu-moe"
#: A context that most uses get by with, where no figure bounds it.
USUAL_CONTEXT = 8192
#: Bytes of one value of a cache type, scales of a block included.
TYPE_BYTES = {"f32": 4.0, "f16": 2.0, "bf16": 2.0, "q8_0": 34 / 32, "q5_1": 24 / 32, "q5_0": 22 / 32, "q4_1": 20 / 32, "q4_0": 18 / 32}
#: What a device keeps free beside its buffers: the CUDA context and the pool of its kernels (the automatic fit's own target).
HEADROOM = GIB


@dataclass(frozen=True, slots=True)
class Layers:
    """``count`` layers lie (or were to lie) on the one GPU in use; each takes ``each`` bytes of it."""

    count: int
    each: float
    refused: int
    free: int | None


def layers(case: Case) -> Layers | None:
    """What a layer takes, where one GPU holds all that are offloaded; None for several, whose split is not printed."""
    view = case.view
    count = view.number("offload.layers")
    loading = (case.cause or "").endswith("weight_load") or case.cause == "engine.version_bug.layer_size_estimate"
    names = ("weights.needed",) if loading else ("oom.tried", "compute_buffers.needed")
    tried = next((fact.bytes for fact in case.figures if fact.name in names and fact.bytes), None)
    known = {fact.gpu for fact in view.facts if fact.name in ("weights", "weights.needed") and fact.gpu is not None}
    if not count or tried is None or len(known) > 1:
        return None
    gpu = next(iter(known), 0)
    free = [fact.bytes for fact in view.all("device.free_at_start") if fact.bytes and fact.gpu in (gpu, None)]
    if loading:
        return Layers(int(count), tried / int(count), tried, free[-1] if free else None)
    held = sum(size for name in ("weights", "kv_cache") for size, _ in buffers(view, name, gpu, alone=True))
    return Layers(int(count), held / int(count), tried, None) if held else None


def fewer_layers(case: Case) -> Computed | None:
    """As many layers less as the refused amount needs; where what was free is known, as many as fit beside a compute buffer."""
    known = layers(case)
    changes: tuple[Change, ...]
    if known is None:
        return _by_hand(case)
    if known.free is not None:
        graph = case.view.bytes("estimate.compute_buffers") or case.view.bytes("compute_buffers.needed") or 0
        room = known.free - max(graph, HEADROOM)
        to = min(int(room // known.each), known.count - 1)
        each, free, kept = human(known.each), human(known.free), human(max(graph, HEADROOM))
        arithmetic = Text(
            f"A layer takes {each}; {free} are free, {kept} of it for the compute buffer: {to} layers.",
            f"每层 {each}；空闲 {free}，其中 {kept} 留给计算缓冲：可放 {to} 层。",
        )
    else:
        less = math.ceil(known.refused / known.each)
        to = known.count - less
        arithmetic = Text(
            f"A layer takes {human(known.each)}, {human(known.refused)} was refused: {less} less.",
            f"每层 {human(known.each)}，被拒绝的是 {human(known.refused)}：减少 {less} 层。",
        )
    if to < 0:
        return _by_hand(case)
    values: dict[str, str | Text] = {"before": str(known.count), "to": str(to), "arithmetic": arithmetic}
    if case.view.engine == "ollama":
        changes = (Action(Text(f"set num_gpu to {to} (model parameter or API option)", f"把 num_gpu 设为 {to}（模型参数或 API 选项）")),)
    else:
        changes = (FlagChange(LAYERS, _stated(case.view, LAYERS), to),)
    predicted = None
    if known.free is None and case.ledger is not None:
        held = case.ledger.get("weights") or 0
        share = 1 - to / known.count
        predicted = replaced(case.ledger, {"weights": round(held * (1 - share))}, f"{to} of {known.count} layers")
    return Computed(changes, values, predicted, verified=known.free is None)


def _by_hand(case: Case) -> Computed:
    view = case.view
    # With --cpu-moe no expert is on a GPU any more.
    mixture = Text(", raise --n-cpu-moe for a mixture of experts", "；MoE 模型增大 --n-cpu-moe")
    experts = Text("", "") if ALL_EXPERTS in view.settings else mixture
    action = (
        Text("lower num_gpu (model parameter or API option)", "减小 num_gpu（模型参数或 API 选项）")
        if case.view.engine == "ollama"
        else Text(
            f"lower -ngl{experts.en}, or give the full device less in --tensor-split",
            f"减小 -ngl{experts.zh}；或在 --tensor-split 中减少已满那张卡的份额",
        )
    )
    empty = Text("", "")
    asked = view.setting(LAYERS)
    before = str(asked) if asked is not None else Text("all asked for", "所要求的层数")
    values: dict[str, str | Text] = {"before": before, "to": Text("fewer", "更少"), "arithmetic": empty}
    return Computed((Action(action),), values)


def automatic_fit(case: Case) -> Computed | None:
    """The start was told how many layers to take, so its own fit stood aside: let it choose."""
    sign = case.view.attempt.signs.get("llama.fit.aborted")
    if sign is None or "n_gpu_layers" not in sign.seen[-1][1].get("why", ""):
        return None
    return Computed((FlagChange(LAYERS, _stated(case.view, LAYERS), None),), {}, verified=True)


def smaller_context(case: Case) -> Computed | None:
    """A context by what a token costs; without its cost, the setting's name."""
    view = case.view
    each, tokens = token_bytes(view), _cells(view)
    slots = int(view.number("scheduler.slots") or 1)
    length = view.number("model.max_len")
    if each is None or tokens is None or not length:
        return _context_words(case)
    refused = next((fact.bytes for fact in case.figures if fact.name == "oom.tried" and fact.bytes), None)
    to = USUAL_CONTEXT
    if refused is not None and case.cause != "cuda_oom.kv_init" and refused < each * tokens:
        to = int((each * tokens - refused) / each / slots) // 1024 * 1024  # the whole of what was refused comes from the cache
    if not 0 < to < int(length):
        return _context_words(case)
    one, now, then = human(each), human(each * tokens), human(each * to * slots)
    arithmetic = Text(
        f"A token costs {one} over all devices: {tokens} tokens are {now}, {to * slots} would be {then}.",
        f"每个 token 在所有设备上合计 {one}：{tokens} 个为 {now}，{to * slots} 个为 {then}。",
    )
    values: dict[str, str | Text] = {"to": str(to), "arithmetic": arithmetic}
    if view.engine == "ollama":
        change: Change = Action(Text(f"set num_ctx (or OLLAMA_CONTEXT_LENGTH) to {to}", f"把 num_ctx（或 OLLAMA_CONTEXT_LENGTH）设为 {to}"))
    else:
        change = FlagChange(CONTEXT, _stated(view, CONTEXT), to * slots)
    return Computed((change,), values, verified=False)


def _context_words(case: Case) -> Computed:
    action = {
        "ollama": Text("set num_ctx or OLLAMA_CONTEXT_LENGTH to what is needed", "把 num_ctx 或 OLLAMA_CONTEXT_LENGTH 设为实际需要的长度"),
        "llama.cpp": Text("set -c to what requests need", "把 -c 设为实际需要的长度"),
    }.get(case.view.engine or "", Text("set the context to what requests need", "把上下文设为实际需要的长度"))
    return Computed((Action(action),), {"to": Text("what is needed", "实际需要的长度"), "arithmetic": Text("", "")})


def token_bytes(view: View) -> float | None:
    """Bytes of a token over all layers and devices: measured (cache / cells), estimated by Ollama, else from the widths that a verbose
    start prints, with the bytes of the cache's types."""
    cells = _cells(view)
    total = [fact.bytes for fact in view.all("kv_cache.total") if fact.bytes]
    measured = sum(fact.bytes or 0 for fact in view.facts if fact.name in ("kv_cache", "host.kv_cache"))
    if cells and (total or measured):
        return (total[-1] if total else measured) / cells
    estimated = view.bytes("kv_cache.needed") if view.number("kv_cache.tokens_needed") else None
    asked = view.number("kv_cache.tokens_needed")
    if estimated and asked and (view.fact("kv_cache.needed") or 0) and view.fact("estimate.full") is not None:
        return estimated / float(asked)
    refused = next((fact for fact in reversed(view.all("kv_cache.needed")) if fact.pattern == "llama.oom.kv" and fact.bytes), None)
    if refused is not None and cells and len({fact.gpu for fact in view.all("weights")}) == 1 and not view.all("host.kv_cache"):
        return (refused.bytes or 0) / cells  # one device holds all of the cache
    widths = [view.number(name) for name in ("model.k_width", "model.v_width", "model.layers")]
    if any(value is None for value in widths):
        return None
    k, v, layer_count = (float(value or 0) for value in widths)
    plan = view.attempt.signs.get("llama.kv.plan")
    text = plan.seen[-1][0].text if plan is not None else ""
    kinds = [next((name for name in TYPE_BYTES if f"type_{kind} = '{name}'" in text), "f16") for kind in ("k", "v")]
    return (k * TYPE_BYTES[kinds[0]] + v * TYPE_BYTES[kinds[1]]) * layer_count


def _cells(view: View) -> int | None:
    for name in ("kv_cache.tokens", "kv_cache.tokens_needed"):
        found = view.number(name)
        if found:
            return int(found)
    length = view.number("model.max_len")
    return int(length) * int(view.number("scheduler.slots") or 1) if length else None


def _stated(view: View, flag: str) -> int | str | None:
    value = view.setting(flag)
    if isinstance(value, str):
        count = natural(value)
        return value if count is None else count
    return value if isinstance(value, (int, str)) and not isinstance(value, bool) else None


def mapped_file(case: Case) -> Computed | None:
    """The model's file mapped into memory, where a line says that it is not."""
    if "llama.mmap_off" not in case.view.attempt.signs:
        return None
    action = (
        Text("remove use_mmap=false (model parameter or API option)", "去掉 use_mmap=false（模型参数或 API 选项）")
        if case.view.engine == "ollama"
        else Text("remove --no-mmap", "去掉 --no-mmap")
    )
    return Computed((Action(action),), {})


SOLVERS: dict[str, Callable[[Case], Computed | None]] = {
    "fewer_gpu_layers": fewer_layers,
    "llama_automatic_fit": automatic_fit,
    "gguf_mapped": mapped_file,
    "smaller_context_other_engines": smaller_context,
    "stop_process": stop_process,
}
