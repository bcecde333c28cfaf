"""Rules on what stands between ranks and nodes: NCCL that never answers, Ray that finds no place, a proxy that gives up."""

from __future__ import annotations

import re
from collections.abc import Callable

from analyzer.diagnosis.verdict import Verdict, renamed
from analyzer.facts.attempt import STAGE_ORDER
from analyzer.facts.view import View
from analyzer.model import Confidence, Gpu, Source, State

#: A card that spins without work: full load, and no more than contexts and NCCL's buffers on it.
BUSY_PERCENT = 95
HELD_MIB = 4096
#: A card that waits for a lock.
IDLE_PERCENT = 5
#: One or two waits of a minute are normal while a start compiles or loads.
WAITS = 3
WAIT, STORE, WATCHDOG = "vllm.comm.shm_broadcast_wait", "symptom.rpc_timeout", "nccl.timeout"
#: That ranks had begun to talk to each other.
NCCL_REACHED = ("nccl.init_complete", "nccl.init_start", "nccl.channel_p2p", "nccl.connected", "vllm.comm.nccl")
TRANSLATED, PASSTHROUGH, REDIRECT, INTERPOSER = (
    "linux.iommu.translated", "linux.iommu.passthrough", "linux.acs.redirect", "linux.vgpu_interposer",
)  # fmt: skip
NO_ADDRESS, PLACEMENT, NODE = "ray.no_node_for_address", "ray.sign.placement_wait", "ray.sign.node"
SHORT_OF_GPUS = "vllm.parallel.short_of_gpus"
SEGMENT, UNHANDLED = "nccl.shm_segment_unexplained", "nccl.unhandled"
PORT_IN_USE, ANY_FREE_PORT = "system.port_in_use", "system.sign.any_free_port"
NOT_CONNECTED, FALLBACK = "gloo.connect_failed", "gloo.loopback_fallback"


def hang_p2p(view: View, verdict: Verdict) -> Verdict | None:
    """Ranks wait for each other before any weight is loaded, and the platform redirects what one card writes to another.

    Likely with the host's own word (IOMMU translation or ACS redirect) and cards that spin at full load with next to nothing on them;
    possible with one of the two.
    """
    if not _stuck_at_nccl(view, verdict) or _p2p_off(view) or INTERPOSER in view.attempt.signs:
        return None
    signs = view.attempt.signs
    redirected = REDIRECT in signs or (TRANSLATED in signs and PASSTHROUGH not in signs)
    spinning = _cards(view, lambda gpu: gpu.utilization_percent is not None and gpu.utilization_percent >= BUSY_PERCENT)
    if not (redirected or (spinning and "nccl.channel_p2p" in signs)):
        return None
    sure = Confidence.LIKELY if redirected and spinning else Confidence.POSSIBLE
    return _hang(view, verdict, "nccl.hang_p2p_iommu_acs", sure)


def hang_vgpu(view: View, verdict: Verdict) -> Verdict | None:
    """The same silence with a GPU-sharing library preloaded, and cards that do nothing."""
    if INTERPOSER not in view.attempt.signs or not _stuck_at_nccl(view, verdict):
        return None
    known = any(gpu.utilization_percent is not None for snapshot in view.snapshots for gpu in snapshot.gpus)
    idle = _cards(view, _is_idle)
    if known and not idle:
        return None
    return _hang(view, verdict, "nccl.hang_vgpu_interposer", Confidence.LIKELY if idle else Confidence.POSSIBLE)


def _stuck_at_nccl(view: View, verdict: Verdict) -> bool:
    """Whether the start came as far as NCCL and no further, and something says that it waited long."""
    attempt = view.attempt
    waits = attempt.event_counts.get(WAIT, 0) >= WAITS
    timed_out = verdict.cause == WATCHDOG or any(event.cause in (STORE, WATCHDOG) for event in attempt.events)
    # Every start under such a library prints its lines: without a wait or a dump of idle cards a log that ends here was only cut.
    idle = INTERPOSER in attempt.signs and (attempt.event_counts.get(WAIT, 0) > 0 or _cards(view, _is_idle))
    if not waits and not timed_out and not idle:
        return False
    if verdict.cause not in (None, WATCHDOG) or verdict.state not in (State.UNKNOWN, State.FAILED):
        return False
    if STAGE_ORDER.get(attempt.stage or "launch", 0) > STAGE_ORDER["device_init"]:
        return False
    return any(name in attempt.signs or name in attempt.patterns for name in NCCL_REACHED)


def _hang(view: View, verdict: Verdict, cause: str, sure: Confidence) -> Verdict:
    changed = renamed(verdict, cause, sure)
    changed.state, changed.stage = State.FAILED, "device_init"
    waits = [event for event in view.attempt.all_events() if event.pattern.id == WAIT]
    if changed.event is None and waits:
        changed.places += [waits[0].places[0], waits[-1].places[0]]
    loaded = [snapshot for snapshot in view.snapshots if any(gpu.utilization_percent is not None for gpu in snapshot.gpus)]
    changed.evidence += [snapshot.source for snapshot in loaded[-1:]]
    return changed


def _is_idle(gpu: Gpu) -> bool:
    return gpu.utilization_percent is not None and gpu.utilization_percent <= IDLE_PERCENT


def _p2p_off(view: View) -> bool:
    setting = view.environment.get("NCCL_P2P_DISABLE")
    return setting is not None and str(setting.value).strip() in ("1", "true", "True")


def _cards(view: View, holds: Callable[[Gpu], bool]) -> bool:
    """Whether the last dump with loads shows two cards or more, and ``holds`` for each of those that the ranks have touched."""
    for snapshot in reversed(view.snapshots):
        touched = [gpu for gpu in snapshot.gpus if gpu.utilization_percent is not None and (gpu.memory_used_mib or 0) > 100]
        if touched:
            few = all((gpu.memory_used_mib or 0) < HELD_MIB for gpu in touched)
            return few and all(holds(gpu) for gpu in touched)
    return False


def nccl_segment(view: View, verdict: Verdict) -> Verdict | None:
    """NCCL could not make a segment in /dev/shm and does not say why: full, unless its exception speaks of a CUDA call.

    src/misc/shmutils.cc: a file system that refuses is ncclSystemError; ncclUnhandledCudaError can only be cudaHostRegister.
    """
    events = view.attempt.all_events()
    segment = next((event for event in events if event.pattern.id == SEGMENT), None)
    if segment is None or verdict.cause is not None or verdict.state is not State.FAILED:
        return None
    if any(event.pattern.id == UNHANDLED and event.groups.get("kind", "").lower().endswith("cuda") for event in events):
        return None
    changed = renamed(verdict, "shm.too_small", Confidence.LIKELY)
    changed.event, changed.stage = segment, "device_init"
    return changed


def gloo_loopback(view: View, verdict: Verdict) -> Verdict | None:
    """Gloo's ranks did not reach each other, after one of them had said that it takes the loopback address."""
    events = {event.pattern.id: event for event in view.attempt.all_events()}
    failed, fallback = events.get(NOT_CONNECTED), events.get(FALLBACK)
    if failed is None or fallback is None or verdict.cause is not None or verdict.state is not State.FAILED:
        return None
    changed = renamed(verdict, "network.gloo_loopback", Confidence.LIKELY)
    changed.event, changed.stage = failed, "device_init"
    changed.places.append(fallback.places[0])
    return changed


def any_free_port(view: View, verdict: Verdict) -> Verdict | None:
    """The port that was in use is none that somebody owns: the line above in the traceback asked for any free one."""
    asked = view.attempt.signs.get(ANY_FREE_PORT)
    if asked is None or verdict.event is None or verdict.event.pattern.id != PORT_IN_USE:
        return None
    here = verdict.event.places[0]
    if not any(place.input == here.input and 0 < here.line - place.line <= 2 for place, _ in asked.seen):
        return None
    verdict.confidence = Confidence.POSSIBLE
    verdict.places.append(asked.seen[0][0])
    return verdict


# --- Ray ---------------------------------------------------------------------------------------------------------------------------


def ray_placement(view: View, verdict: Verdict) -> Verdict | None:
    """Ray has no place for a bundle: too few GPUs, or a node by an address that Ray does not know.

    Certain for the address where the cluster's own list of nodes lacks it while enough GPUs are free. That the cluster had too few GPUs
    when the start began is vLLM's own word, but nodes may have joined since.
    """
    attempt = view.attempt
    waiting = attempt.signs.get(PLACEMENT)
    undecided = verdict.cause is None and verdict.state in (State.UNKNOWN, State.FAILED) and waiting is not None
    if not undecided and verdict.cause not in ("ray.placement_group_ip_mismatch", "ray.not_enough_gpus"):
        return None
    if undecided and (verdict.stage is not None and STAGE_ORDER[verdict.stage] > STAGE_ORDER["device_init"]):
        return None
    wanted = _wanted_gpus(view)
    total, used = view.number("ray.gpus_total"), view.number("ray.gpus_used")
    asked = _asked_addresses(view)
    nodes = attempt.signs[NODE].values("address") if NODE in attempt.signs else []
    sources = _ray_sources(view)
    if total is not None and wanted is not None and total - (used or 0) < wanted:
        return _placed(verdict, "ray.not_enough_gpus", Confidence.CERTAIN if total < wanted else Confidence.LIKELY, sources)
    if asked and nodes and not any(address in nodes for address in asked):
        return _placed(verdict, "ray.placement_group_ip_mismatch", Confidence.CERTAIN, sources)
    if asked and total is not None and wanted is not None:
        return _placed(verdict, "ray.placement_group_ip_mismatch", Confidence.LIKELY, sources)
    if undecided and SHORT_OF_GPUS in attempt.patterns:
        return _placed(verdict, "ray.not_enough_gpus", Confidence.POSSIBLE, sources)
    if verdict.cause is not None and total is not None:
        verdict.evidence += sources
    return None


def _placed(verdict: Verdict, cause: str, sure: Confidence, sources: list[Source]) -> Verdict:
    changed = renamed(verdict, cause, sure)
    changed.state, changed.stage = State.FAILED, "device_init"
    changed.follows = None if verdict.cause in (cause, None) or verdict.cause.startswith("ray.") else verdict.cause
    changed.evidence += sources
    return changed


def _wanted_gpus(view: View) -> float | None:
    """The GPUs that this start asks for: the bundles it waits for, else tensor × pipeline parallel size."""
    waiting = view.attempt.signs.get(PLACEMENT)
    if waiting is not None:
        sizes = [float(size) for size in re.findall(r"'GPU': (\d+(?:\.\d+)?)", waiting.seen[0][1].get("specs", ""))]
        if sizes:
            return sum(sizes)
    world = view.number("parallel.world_size")
    if world is not None:
        return float(world)
    sizes = [value for flag in ("--tensor-parallel-size", "--pipeline-parallel-size") if isinstance(value := view.setting(flag), int)]
    return float(sizes[0] * (sizes[1] if len(sizes) > 1 else 1)) if sizes else None


def _asked_addresses(view: View) -> set[str]:
    """The addresses that bundles are pinned to."""
    found = {event.groups["address"] for event in view.attempt.all_events() if event.pattern.id == NO_ADDRESS and "address" in event.groups}
    waiting = view.attempt.signs.get(PLACEMENT)
    for _, groups in waiting.seen if waiting is not None else []:
        found |= set(re.findall(r"'node:([\d.:a-fA-F]+)'", groups.get("specs", "")))
    return found


def _ray_sources(view: View) -> list[Source]:
    found = [fact.source for name in ("ray.gpus_used", "ray.gpus_total") if (fact := view.fact(name)) is not None][:1]
    waiting = view.attempt.signs.get(PLACEMENT)
    return [*found, view.source(waiting.last)] if waiting is not None else found


# --- in front of the server --------------------------------------------------------------------------------------------------------


def proxy(view: View, verdict: Verdict) -> Verdict | None:
    """The engine serves without an error while a proxy says that it gave up waiting, or clients get its error pages."""
    if verdict.state is not State.HEALTHY:
        return None
    gave_up, pages = (view.attempt.signs.get(name) for name in ("proxy.upstream_timed_out", "proxy.closed_early"))
    if gave_up is None and pages is None:
        return None
    sure = Confidence.LIKELY if gave_up is not None else Confidence.POSSIBLE
    places = [sign.first for sign in (gave_up, pages) if sign is not None]
    return Verdict(State.DEGRADED, "serving", "network.proxy_or_firewall", sure, None, places=places)


__all__ = ["any_free_port", "gloo_loopback", "hang_p2p", "hang_vgpu", "nccl_segment", "proxy", "ray_placement"]
