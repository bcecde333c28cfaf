"""SGLang's ledger, from the free memory it prints at every stage (reference/engines.md, section 1).

``device.free_at_start = weights + draft_weights + kv_cache + state_cache + cuda_graphs + free + unaccounted``; the card's size is not
printed.
What lies between two printed figures and has no line of its own (attention workspaces, tables of the pool) is unaccounted.
"""

from __future__ import annotations

from analyzer.engines import device
from analyzer.engines.case import Case
from analyzer.engines.lines import Lines, spell
from analyzer.engines.parts import add_sum, of_rank
from analyzer.facts.observation import Event
from analyzer.facts.view import View
from analyzer.model import Fact, Ledger, Source
from analyzer.model.units import GIB, number

#: Facts that one rank states about its own GPU.
RANK_FACTS = frozenset(
    {"device.free_at_start", "device.free_after_weights", "device.free_after_kv_cache", "weights", "kv_cache.k", "kv_cache"}
)
#: What is free, in the order of the start; the latest is the ledger's moment.
FREE = frozenset(
    {"device.free_at_start", "device.free_after_weights", "device.free_after_kv_cache", "device.free_before_graphs", "device.free"}
)
#: Sum of the parts and what is left may differ by the rounding of a dozen figures of two decimals.
ROUNDING_BYTES = GIB // 50


def ledgers(case: Case) -> list[Ledger]:
    """One ledger for each rank that prints figures of its own, or that an out-of-memory sentence is about."""
    view = case.view
    ranks: set[int] = {fact.rank or 0 for fact in view.facts if fact.name in RANK_FACTS}
    sentences: dict[int, Event] = {}
    for rank, gpu, event in device.sentence_events(case):
        place = gpu if gpu is not None else rank
        if place is not None:
            sentences.setdefault(place, event)
            ranks.add(place)
    found = []
    for rank in sorted(ranks):
        lines = Lines()
        if rank in sentences:
            device.out_of_memory(lines, view.event_facts(sentences[rank]))
        _parts(view, lines, rank)
        _rest(view, lines, rank)
        if lines:
            found.append(lines.ledger(view.attempt.index, rank, rank, case.moment))
    return found


def free_at_start(view: View, rank: int) -> Fact | None:
    """Free memory before the (first) model is loaded; a draft model's own line comes later."""
    return next(iter(of_rank(view, "device.free_at_start", rank)), None)


def free_after_weights(view: View, rank: int) -> int | None:
    """Bytes that are free once the main model is loaded."""
    found = of_rank(view, "device.free_after_weights", rank)
    if found:
        return found[0].bytes
    start, weights = free_at_start(view, rank), of_rank(view, "weights", rank)
    if start is None or start.bytes is None or not weights or weights[0].bytes is None:
        return None
    return start.bytes - weights[0].bytes


def _parts(view: View, lines: Lines, rank: int) -> None:
    start = free_at_start(view, rank)
    share = view.fact("budget.utilization")
    if start is not None and start.bytes and share is not None and isinstance(share.value, (int, float)):
        lines.derived(
            "budget",
            round(start.bytes * share.value),
            spell("free before loading × mem_fraction_static = {s} × {f}", s=start.bytes, f=float(share.value)),
            share.source,
        )
    weights = of_rank(view, "weights", rank)
    after = of_rank(view, "device.free_after_weights", rank)
    if weights:
        lines.measured("weights", weights[0])
    elif start is not None and start.bytes and after and after[0].bytes is not None:
        lines.derived(
            "weights",
            start.bytes - after[0].bytes,
            spell("free before − free after loading = {b} − {a}", b=start.bytes, a=after[0].bytes),
            after[0].source,
        )
    drafts = of_rank(view, "draft_weights", rank) or weights[1:]
    add_sum(lines, "draft_weights", [(fact.bytes, fact.source) for fact in drafts if fact.bytes])
    add_sum(lines, "kv_cache", _pool(view, rank))
    pooled = of_rank(view, "device.free_after_kv_cache", rank)
    if "kv_cache" not in lines and pooled and after and after[-1].bytes is not None and pooled[0].bytes is not None:
        # To 0.4.0 K and V are not printed: what the stage took is the pool and the few tables beside it.
        taken = after[-1].bytes - pooled[0].bytes
        if taken > 0:
            formula = spell("free after loading − free after the pool = {a} − {p}", a=after[-1].bytes, p=pooled[0].bytes)
            lines.estimated("kv_cache", taken, formula)
    state = view.attempt.signs.get("sglang.kv.state")
    if state is not None:
        place, groups = state.seen[0]
        size = round(sum(float(number(groups[name])) for name in ("conv", "ssm")) * GIB)
        lines.derived("state_cache", size, f"conv_state + ssm_state = {groups['conv']} + {groups['ssm']} GiB", view.source(place))
    _graphs(view, lines, rank)


def _pool(view: View, rank: int) -> list[tuple[int, Source]]:
    """The buffers of the pool: K and V of each, or one size (MLA; the sum of the two pools of a sliding-window model)."""
    whole = of_rank(view, "kv_cache", rank)
    if whole:
        return [(fact.bytes, fact.source) for fact in whole if fact.bytes]
    found = [fact for name in ("kv_cache.k", "kv_cache.v") for fact in of_rank(view, name, rank)]
    return [(fact.bytes, fact.source) for fact in found if fact.bytes]


def _graphs(view: View, lines: Lines, rank: int) -> None:
    """What captures took: the finished ones say it, one that did not finish is what has gone since it began."""
    own = [fact for fact in view.facts if fact.rank == rank or (fact.rank is None and not rank)]
    done = [fact for fact in own if fact.name == "cuda_graphs.actual" and fact.bytes]
    begun = [place for place, fact in enumerate(own) if fact.name == "device.free_before_graphs"]
    ended = [place for place, fact in enumerate(own) if fact.name in ("cuda_graphs.actual", "cuda_graphs.seconds")]
    add = sum(fact.bytes or 0 for fact in done)
    if begun and (not ended or begun[-1] > ended[-1]):
        before = own[begun[-1]]
        bars = [fact for fact in own[begun[-1] :] if fact.name == "device.free"]
        if bars and before.bytes and bars[-1].bytes is not None and before.bytes > bars[-1].bytes:
            taken = before.bytes - bars[-1].bytes
            formula = spell("free before − free in the capture = {b} − {n}", b=before.bytes, n=bars[-1].bytes)
            lines.derived("cuda_graphs", add + taken, formula, bars[-1].source)
            return
    add_sum(lines, "cuda_graphs", [(fact.bytes, fact.source) for fact in done if fact.bytes])


def _rest(view: View, lines: Lines, rank: int) -> None:
    """What is free at last, and what nobody names."""
    if "total" in lines:
        device.balance(lines)
        return
    free = [fact for fact in view.facts if fact.name in FREE and (fact.rank == rank or (fact.rank is None and not rank))]
    if not free:
        return
    lines.measured("free", free[-1])
    start = free_at_start(view, rank)
    if start is None or not start.bytes or free[-1] is start:
        return
    parts = sum(lines.get(name) or 0 for name in ("weights", "draft_weights", "kv_cache", "state_cache", "cuda_graphs"))
    rest = start.bytes - parts - (free[-1].bytes or 0)
    if abs(rest) >= ROUNDING_BYTES:
        lines.derived("unaccounted", rest, "free before loading − parts − free")
