"""Rules that tell from statistics over time why requests wait, while no line says that anything is wrong."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from analyzer.diagnosis.verdict import Verdict
from analyzer.facts.view import View
from analyzer.model import Confidence, Series, Source, State
from analyzer.model.units import Number

#: Ray Serve's word on a replica that did not answer its health checks.
UNHEALTHY = "ray.serve.replica_unhealthy"
#: So many statistics lines in a row must show the same, or it is a moment and no state.
POINTS = 3
#: A pool that is less used than this (percent) is not what holds requests back.
IDLE_POOL = 50.0
#: A pool from this use on (percent) has no block for the next step of all running requests.
FULL_POOL = 95.0
#: Statistics lines within which requests have to go back to the queue twice.
STORM_POINTS = 30
#: Settings that let a connector park KV blocks outside the pool.
CONNECTORS = ("--kv-transfer-config", "--kv-offloading-backend", "--kv-offloading-size")


def capped_by_max_num_seqs(view: View, verdict: Verdict) -> Verdict | None:
    """Running stands at max_num_seqs while others wait and the pool is nearly empty: the cap makes the queue."""
    if verdict.state is not State.HEALTHY:
        return None
    cap = view.number("scheduler.max_num_seqs")
    tail = _tail(view, ("scheduler.running", "scheduler.waiting", "kv_cache.usage"))
    if cap is None or tail is None:
        return None
    if all(running == cap and waiting > 0 and usage < IDLE_POOL for running, waiting, usage in tail):
        return _degraded(view, verdict, "scheduler.max_num_seqs_cap", ("scheduler.max_num_seqs", "scheduler.waiting"))
    return None


def replica_unhealthy(view: View, verdict: Verdict) -> Verdict | None:
    """Ray Serve had no answer from a replica that nothing else says is ill: whether it hangs or is only late does not show."""
    if verdict.cause not in (None, "healthy") or verdict.state is State.FAILED or verdict.event is not None:
        return None
    event = next((event for event in view.attempt.all_events() if event.pattern.id == UNHEALTHY), None)
    if event is None:
        return None
    return replace(verdict, state=State.UNKNOWN, stage="serving", cause=None, confidence=Confidence.CERTAIN, event=event)


def prompt_exceeds_pool(view: View, verdict: Verdict) -> Verdict | None:
    """Nothing runs, the queue grows, the pool is empty, and a known prompt exceeds it (0.19+ reserves for the whole prompt)."""
    if verdict.state is not State.HEALTHY:
        return None
    tokens = view.number("kv_cache.tokens")
    prompts = [fact for fact in view.all("request.input_tokens") if isinstance(fact.value, (int, float))]
    tail = _tail(view, ("scheduler.running", "scheduler.waiting", "kv_cache.usage"))
    if tokens is None or tail is None or not any(float(fact.value) > tokens for fact in prompts):
        return None
    names = ("request.input_tokens", "kv_cache.tokens", "scheduler.waiting")
    if all(running == 0 and waiting > 0 and usage < 1 for running, waiting, usage in tail) and tail[-1][1] >= tail[0][1]:
        return _degraded(view, verdict, "scheduler.prompt_exceeds_kv_pool", names)
    return None


def deadlock_connector(view: View, verdict: Verdict) -> Verdict | None:
    """Nothing runs although requests wait, with a connector that parks KV blocks: what it has loaded holds what the head needs."""
    if verdict.state is not State.HEALTHY:
        return None
    connectors = [view.settings[flag] for flag in CONNECTORS if flag in view.settings]
    tail = _tail(view, ("scheduler.running", "scheduler.waiting"))
    if not connectors or tail is None:
        return None
    if all(running == 0 and waiting > 0 for running, waiting in tail) and tail[-1][1] >= tail[0][1]:
        changed = _degraded(view, verdict, "scheduler.deadlock_connector", ("scheduler.waiting", "kv_cache.usage"))
        changed.evidence = [*(setting.source for setting in connectors), *changed.evidence]
        changed.confidence = Confidence.POSSIBLE
        return changed
    return None


def preemption_storm(view: View, verdict: Verdict) -> Verdict | None:
    """Running requests go back to the queue while the pool is full: V1 before 0.12 does not say that it preempts.

    Where a reading has fewer running and at least as many more waiting than the one before, nothing new came and nothing was finished:
    the pool is full, so they were thrown out. It takes two such readings among the last STORM_POINTS; a queue at a full pool alone is none.
    """
    if verdict.state is not State.HEALTHY or view.engine not in (None, "vllm"):
        return None  # others say what they put back
    tail = _tail(view, ("scheduler.running", "scheduler.waiting", "kv_cache.usage"), STORM_POINTS)
    if tail is None:
        return None
    thrown_out = sum(
        1
        for (running, waiting, _), (running_after, waiting_after, usage) in pairwise(tail)
        if running_after < running and waiting_after - waiting >= running - running_after and usage >= FULL_POOL
    )
    if thrown_out < 2:
        return None
    return _degraded(view, verdict, "kv_cache.preemption", ("scheduler.waiting", "scheduler.running", "kv_cache.usage"))


def health_uncertain(view: View, verdict: Verdict) -> Verdict | None:
    """A queue that stays while nothing says why may be the load; a dump of /metrics alone shows a front end that answers."""
    if verdict.state is not State.HEALTHY or verdict.stage != "serving":
        return None
    scraped = bool(view.attempt.patterns) and all(".metrics." in name for name in view.attempt.patterns)
    return replace(verdict, confidence=Confidence.LIKELY) if scraped or standing_queue(view) else None


def standing_queue(view: View) -> dict[str, str]:
    """How many run and wait at the last reading, where some waited at each of the last POINTS (or of all, where there are fewer)."""
    courses = {name: [series for series in view.series() if series.name == f"scheduler.{name}"] for name in ("running", "waiting")}
    last = {name: found[-1].points[-POINTS:] for name, found in courses.items() if found}
    if len(last) < 2 or not all(value > 0 for _, value in last["waiting"]):
        return {}
    return {f"queue_{name}": str(points[-1][1]) for name, points in last.items()}


def _tail(view: View, names: tuple[str, ...], points: int = 0) -> list[tuple[Number, ...]] | None:
    """The last readings of the statistics ``names``, side by side: POINTS of them, or up to ``points``.

    None where there are fewer than POINTS or they do not belong together.
    """
    courses: list[Series] = []
    for name in names:
        found = [series for series in view.series() if series.name == name]
        if not found or found[-1].count < POINTS or len(found[-1].points) < POINTS:
            return None
        courses.append(found[-1])
    if len({series.count for series in courses}) != 1:
        return None
    last = points or POINTS
    return list(zip(*([value * _scale(series) for _, value in series.points[-last:]] for series in courses), strict=True))


def _scale(series: Series) -> int:
    """A share of the pool in percent, as vLLM prints it; SGLang prints a fraction."""
    return 100 if series.name == "kv_cache.usage" and series.unit == "fraction" else 1


def _degraded(view: View, verdict: Verdict, cause: str, names: tuple[str, ...]) -> Verdict:
    evidence: list[Source] = []
    for name in names:
        fact = view.fact(name)
        if fact is not None:
            evidence.append(fact.source)
    return Verdict(State.DEGRADED, "serving", cause, Confidence.LIKELY, verdict.event, evidence)
