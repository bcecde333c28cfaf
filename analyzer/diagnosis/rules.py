"""Rules over several facts, where one line cannot tell. Each refines a verdict or leaves it; they run in the order of RULES."""

from __future__ import annotations

import re
from collections.abc import Callable

from analyzer.diagnosis.verdict import Verdict
from analyzer.engines import device
from analyzer.engines.case import Case
from analyzer.facts.view import View
from analyzer.model import Confidence, Fact, Source, State
from analyzer.model.units import GIB

#: reference/causes.yaml: the request would fit into what PyTorch holds unused, by both thresholds.
FRAGMENTATION_BYTES = GIB
FRAGMENTATION_TIMES = 4
#: reference/causes.yaml: a neighbour that took the slack holds more than this.
NEIGHBOUR_BYTES = GIB

Rule = Callable[[View, Verdict], Verdict | None]


def fragmentation(view: View, verdict: Verdict) -> Verdict | None:
    """PyTorch holds enough unused memory for the request, split into pieces."""
    if verdict.event is None or verdict.cause is None or not verdict.cause.startswith("cuda_oom."):
        return None
    named = _named(view.event_facts(verdict.event))
    tried, unused = named.get("oom.tried"), named.get("oom.reserved_unallocated")
    if tried is None or unused is None or not tried.bytes or unused.bytes is None:
        return None
    if unused.bytes >= FRAGMENTATION_BYTES and unused.bytes >= FRAGMENTATION_TIMES * tried.bytes:
        return _renamed(verdict, "cuda_oom.fragmentation", Confidence.CERTAIN)
    return None


def process_limit(view: View, verdict: Verdict) -> Verdict | None:
    """A per-process limit was in force and reached while the card had room for the request."""
    if verdict.event is None or verdict.cause is None or not verdict.cause.startswith("cuda_oom."):
        return None
    named = _named(view.event_facts(verdict.event))
    tried, free, limit = (named.get(name) for name in ("oom.tried", "oom.free", "oom.limit"))
    if limit is not None and tried is not None and free is not None and (free.bytes or 0) > (tried.bytes or 0):
        return _renamed(verdict, "cuda_oom.process_limit", Confidence.CERTAIN)
    return None


def neighbour_while_serving(view: View, verdict: Verdict) -> Verdict | None:
    """The sentence lists another process that holds more than the slack of a service."""
    if verdict.event is None or verdict.cause is None or not verdict.cause.startswith("cuda_oom.serving"):
        return None
    own, others = device.own_process(view.event_facts(verdict.event))
    held = sum(fact.bytes or 0 for fact in others)
    if own is not None and held > NEIGHBOUR_BYTES:
        changed = _renamed(verdict, "cuda_oom.serving.other_process", Confidence.CERTAIN)
        changed.evidence += _lines_naming(view, [fact.pid for fact in others if fact.pid is not None])
        return changed
    return None


def holder_named(view: View, verdict: Verdict) -> Verdict | None:
    """The start found memory taken, and an input names who holds it: a process list or a note beside the command."""
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
            changed = _renamed(verdict, "startup.other_process", Confidence.CERTAIN)
            changed.evidence += _lines_naming(view, [pid for pid, _, _ in foreign if pid is not None])
            return changed
    for reading in view.readings:
        for note in reading.notes:
            if _names_a_neighbour(note.text):
                changed = _renamed(verdict, "startup.other_process", Confidence.LIKELY)
                changed.evidence.append(note)
                return changed
    return None


#: Devices whose CPU and GPU share one pool of memory, as nvidia-smi and their users name them.
UNIFIED = re.compile(r"\b(?:GB10|DGX Spark|Jetson|Orin|Thor|Tegra|GH200 unified)\b")


def unified_memory(view: View, verdict: Verdict) -> Verdict | None:
    """A process killed on a device with unified memory: what the budget takes, the host lacks."""
    killed = verdict.cause in ("host_oom.killed", "engine.process_killed") or (
        verdict.cause is None and verdict.event is not None and "killed" in verdict.event.pattern.id
    )
    if verdict.state is not State.FAILED or not killed:
        return None
    for reading in view.readings:
        for note in reading.notes:
            if UNIFIED.search(note.text):
                changed = _renamed(verdict, "unified_memory.exhausted", Confidence.LIKELY)
                changed.evidence.append(note)
                return changed
    for snapshot in view.snapshots:
        if any(card.name and UNIFIED.search(card.name) for card in snapshot.gpus):
            changed = _renamed(verdict, "unified_memory.exhausted", Confidence.LIKELY)
            changed.evidence.append(snapshot.source)
            return changed
    return None


RULES: tuple[Rule, ...] = (process_limit, fragmentation, neighbour_while_serving, holder_named, unified_memory)


def refine(view: View, verdict: Verdict) -> Verdict:
    """``verdict`` after every rule that applies, in order; the first that changes the cause ends it."""
    for rule in RULES:
        changed = rule(view, verdict)
        if changed is not None:
            return changed
    return verdict


def _renamed(verdict: Verdict, cause: str, confidence: Confidence) -> Verdict:
    return Verdict(verdict.state, verdict.stage, cause, confidence, verdict.event, list(verdict.evidence), list(verdict.places), verdict.cause)


def _named(facts: list[Fact]) -> dict[str, Fact]:
    return {fact.name: fact for fact in facts}


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
