"""Rules that tell causes of memory apart: by the sentence's own figures, by who else holds the card, by the kind of device."""

from __future__ import annotations

import re
from dataclasses import replace
from math import copysign

from analyzer.diagnosis.verdict import Verdict, renamed
from analyzer.engines import device
from analyzer.engines.case import Case
from analyzer.facts.attempt import STAGE_ORDER
from analyzer.facts.view import View
from analyzer.model import Confidence, Fact, Source, State
from analyzer.model.units import GIB
from analyzer.model.versions import base

#: reference/causes.yaml: the request would fit into what PyTorch holds unused, by both thresholds.
FRAGMENTATION_BYTES = GIB
FRAGMENTATION_TIMES = 4
#: reference/causes.yaml: a neighbour that took the slack holds more than this.
NEIGHBOUR_BYTES = GIB
#: More than an engine takes by itself beside PyTorch: context, kernels and NCCL's buffers come to a few GiB at most.
BESIDE_TORCH_BYTES = 8 * GIB


def fragmentation(view: View, verdict: Verdict) -> Verdict | None:
    """PyTorch holds enough unused memory for the request, split into pieces."""
    if verdict.event is None or verdict.cause is None or not verdict.cause.startswith("cuda_oom."):
        return None
    named = _named(view.event_facts(verdict.event))
    tried, unused = named.get("oom.tried"), named.get("oom.reserved_unallocated")
    if tried is None or unused is None or not tried.bytes or unused.bytes is None:
        return None
    if unused.bytes >= FRAGMENTATION_BYTES and unused.bytes >= FRAGMENTATION_TIMES * tried.bytes:
        return renamed(verdict, "cuda_oom.fragmentation", Confidence.CERTAIN)
    return None


def process_limit(view: View, verdict: Verdict) -> Verdict | None:
    """A per-process limit was in force and what PyTorch holds together with the request is above it, with room on the card."""
    if verdict.event is None or verdict.cause is None or not verdict.cause.startswith("cuda_oom."):
        return None
    named = _named(view.event_facts(verdict.event))
    tried, free, limit = (named.get(name) for name in ("oom.tried", "oom.free", "oom.limit"))
    if limit is None or limit.bytes is None or tried is None or tried.bytes is None:
        return None
    held = sum(_size(named, name) for name in ("oom.torch_allocated", "oom.reserved_unallocated"))
    held = max(held, _size(named, "torch_reserved"))
    if held + tried.bytes > limit.bytes and (free is None or (free.bytes or 0) > tried.bytes):
        return renamed(verdict, "cuda_oom.process_limit", Confidence.CERTAIN)
    return None


def refused_with_room(view: View, verdict: Verdict) -> Verdict | None:
    """The stage is sure; that the card was full is not, where the sentence says that more was free than it refused."""
    if verdict.event is None or verdict.cause is None or not verdict.cause.startswith("cuda_oom."):
        return None
    if device.room(view.event_facts(verdict.event)) is None or verdict.confidence is not Confidence.CERTAIN:
        return None
    return replace(verdict, confidence=Confidence.LIKELY)


def sleep_mode(view: View, verdict: Verdict) -> Verdict | None:
    """The sleep-mode allocator refused: from 0.27.0 on the profile sees what it holds, and the cause is the stage's own."""
    if verdict.cause != "engine.version_bug.sleep_mode_kv_overestimate" or verdict.stage is None:
        return None
    if verdict.stage == "kv_init" and view.version is None:
        return None
    measured = view.version is not None and _newer(view.version, "0.27.0")
    if not measured and verdict.stage == "kv_init":
        return None
    stage = {"launch": "device_init", "shutdown": "serving"}.get(verdict.stage, verdict.stage)
    changed = renamed(verdict, f"cuda_oom.{stage}", Confidence.CERTAIN)
    changed.follows = None
    return changed


def _newer(version: str, than: str) -> bool:
    try:
        return base(version) >= base(than)
    except ValueError:
        return False


def neighbour_while_serving(view: View, verdict: Verdict) -> Verdict | None:
    """The sentence lists another process that holds more than the slack of a service."""
    if verdict.event is None or verdict.cause is None or not verdict.cause.startswith("cuda_oom.serving"):
        return None
    own, others = device.own_process(view.event_facts(verdict.event))
    held = sum(fact.bytes or 0 for fact in others)
    if own is not None and held > NEIGHBOUR_BYTES:
        changed = renamed(verdict, "cuda_oom.serving.other_process", Confidence.CERTAIN)
        changed.evidence += _lines_naming(view, [fact.pid for fact in others if fact.pid is not None])
        return changed
    return None


def empty_pool(view: View, verdict: Verdict) -> Verdict | None:
    """The figures show a pool without a block, the last thing that this start did; the error that vLLM then raises is not in the text.

    A model without attention has a pool of nothing and starts, and so does one whose number of blocks is set by hand. A pool below one
    request of full length is refused by V0 too (worker.py, raise_if_cache_size_invalid); hybrid caches of V1 print such a figure and run.
    """
    undecided = verdict.state is State.UNKNOWN or (verdict.state is State.FAILED and verdict.cause is None)
    told = verdict.event is not None and verdict.event.pattern.marks == "suspect"
    reached = view.attempt.stage
    if not undecided or told or view.engine != "vllm" or reached is None or STAGE_ORDER[reached] > STAGE_ORDER["kv_init"]:
        return None
    if view.fact("kv_cache.gpu_blocks_override") is not None or view.setting("--num-gpu-blocks-override") is not None:
        return None
    left = {(fact.process, fact.rank): fact for fact in view.all("kv_cache.available")}  # the last one of each
    proof = [fact for fact in left.values() if isinstance(fact.value, (int, float)) and copysign(1, fact.value) < 0]
    if not left and view.number("kv_cache.gpu_blocks") == 0 and view.number("kv_cache.cpu_blocks"):
        proof = view.all("kv_cache.gpu_blocks")
    if not proof:
        requests = view.number("concurrency.max")
        if view.generation != "v0" or not view.number("kv_cache.gpu_blocks") or requests is None or requests >= 1:
            return None
        changed = replace(
            verdict, state=State.FAILED, stage="kv_init", cause="kv_cache.too_small_for_max_len", confidence=Confidence.LIKELY
        )
        changed.evidence = [*verdict.evidence, *(fact.source for fact in view.all("concurrency.max")[-1:])]
        return changed
    changed = replace(verdict, state=State.FAILED, stage="kv_init", cause="kv_cache.no_memory_left", confidence=Confidence.CERTAIN)
    changed.evidence = [*verdict.evidence, *(fact.source for fact in proof)]
    return holder_named(view, changed) or changed


def holder_named(view: View, verdict: Verdict) -> Verdict | None:
    """The start found memory taken, and an input names who holds it: a process list, a note beside the command or another launch."""
    if verdict.cause not in ("startup.free_below_requested", "kv_cache.no_memory_left"):
        return None
    if verdict.cause == "kv_cache.no_memory_left" and not _others_shrink_the_pool(view):
        return None
    case = Case(view, verdict.state, verdict.stage)
    gpu = next((fact.rank for fact in view.all("device.free_at_start") if fact.rank is not None), 0)
    found = device.dump_of(case, gpu)
    if found is not None:
        snapshot, card = found
        foreign = [entry for entry in device.foreign_processes(case, snapshot, card.index) if entry[2] > GIB // 4]
        if foreign:
            changed = renamed(verdict, "startup.other_process", Confidence.CERTAIN)
            changed.evidence += _lines_naming(view, [pid for pid, _, _ in foreign if pid is not None])
            return changed
    for reading in view.readings:
        for note in reading.notes:
            if _names_a_neighbour(note.text):
                changed = renamed(verdict, "startup.other_process", Confidence.LIKELY)
                changed.evidence.append(note)
                return changed
    return _second_launch(view, verdict)


def _second_launch(view: View, verdict: Verdict) -> Verdict | None:
    """Two servers are launched, and the pool is empty as more is charged beside PyTorch than any engine takes: it is the other one's."""
    launches = [reading for reading in view.readings if reading.kind == "launch-command"]
    charged = [fact for fact in view.all("non_torch") if fact.bytes is not None and fact.bytes > BESIDE_TORCH_BYTES]
    if verdict.cause != "kv_cache.no_memory_left" or len(launches) < 2 or not charged:
        return None
    changed = renamed(verdict, "startup.other_process", Confidence.LIKELY)
    changed.evidence.append(charged[-1].source)
    return changed


#: Devices whose CPU and GPU share one pool of memory, as a dump names them.
UNIFIED = re.compile(r"\b(?:GB10|DGX Spark|Jetson|Orin|Thor|Tegra|GH200 unified)\b")

#: Lines that only such a device prints.
UNIFIED_SIGNS = ("linux.tegra.nvmap_refused", "linux.tegra.memory")

#: The pattern that finds them stated in a text, and the one of cards with memory of their own, beside which the statement is in doubt.
#: The cause lists the former among its signs, so its lines are shown.
UNIFIED_SIGN, DISCRETE_SIGN = "nvidia.sign.unified_memory", "nvidia.sign.discrete_card"


def unified_memory(view: View, verdict: Verdict) -> Verdict | None:
    """A process killed on a device with unified memory: what the budget takes, the host lacks.

    What tells the device is a dump, a line that only it prints, or, where no other card is named, a text that states it.
    """
    killed = verdict.cause in ("host_oom.killed", "engine.process_killed") or (
        verdict.cause is None and verdict.event is not None and "killed" in verdict.event.pattern.id
    )
    if verdict.state is not State.FAILED or not killed:
        return None
    signs = view.attempt.signs
    cards = [(card.name, snapshot) for snapshot in view.snapshots for card in snapshot.gpus if card.name]
    shown = next((snapshot.source for name, snapshot in cards if UNIFIED.search(name)), None)
    printed = next((view.source(signs[name].last) for name in UNIFIED_SIGNS if name in signs), None)
    stated = UNIFIED_SIGN in signs and DISCRETE_SIGN not in signs and not cards
    if shown is None and printed is None and not stated:
        return None
    changed = renamed(verdict, "unified_memory.exhausted", Confidence.LIKELY)
    changed.evidence += [source for source in (shown, printed) if source is not None]
    return changed


def _named(facts: list[Fact]) -> dict[str, Fact]:
    return {fact.name: fact for fact in facts}


def _size(named: dict[str, Fact], name: str) -> int:
    fact = named.get(name)
    return fact.bytes or 0 if fact is not None else 0


def _lines_naming(view: View, pids: list[int]) -> list[Source]:
    return [fact.source for fact in view.documents if fact.pid in pids and fact.name == "process.used"][:4]


def _others_shrink_the_pool(view: View) -> bool:
    """Whether the version counts other processes as its own memory, so that a neighbour empties the pool (V0-B, V0-D, V1-b)."""
    from analyzer.engines.vllm.eras import Others, common_others
    from analyzer.engines.vllm.ledger import eras

    return common_others(eras(view)) is Others.COUNTED


def _names_a_neighbour(text: str) -> bool:
    lowered = text.lower()
    return "same gpu" in lowered and any(word in lowered for word in ("another", "other", "second", "also runs", "already runs"))
