"""Rules over several facts, where one line cannot tell. Each refines a verdict or leaves it; the first that does ends it."""

from __future__ import annotations

from collections.abc import Callable

from analyzer.diagnosis.rules import engines, host, memory, network, service, versions
from analyzer.diagnosis.verdict import Verdict
from analyzer.facts.view import View

Rule = Callable[[View, Verdict], Verdict | None]

#: In this order: what the failing sentence itself proves comes before what other inputs add.
RULES: tuple[Rule, ...] = (
    memory.process_limit,
    memory.fragmentation,
    memory.sleep_mode,
    memory.neighbour_while_serving,
    memory.refused_with_room,
    memory.empty_pool,
    memory.holder_named,
    memory.unified_memory,
    versions.inductor_strides,
    versions.max_len_override,
    host.lfs_pointer,
    host.container_exited,
    host.rss_growth,
    host.gpu_leak,
    network.nccl_segment,
    network.gloo_loopback,
    network.any_free_port,
    network.ray_placement,
    network.hang_vgpu,
    network.hang_p2p,
    service.replica_unhealthy,
    service.prompt_exceeds_pool,
    service.deadlock_connector,
    service.capped_by_max_num_seqs,
    service.preemption_storm,
    network.proxy,
    service.health_uncertain,
)


def refine(view: View, verdict: Verdict) -> Verdict:
    """``verdict`` after the first rule that applies, and after what the engine's own rules say."""
    found = next((changed for rule in RULES if (changed := rule(view, verdict)) is not None), verdict)
    return engines.refined_by_engine(view, found)
