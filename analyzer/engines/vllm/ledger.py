"""vLLM's ledgers: the plan (budget) and the card (device), per rank. Identities: eras.py and identity.py; reference sections 2 to 4."""

from __future__ import annotations

from dataclasses import dataclass

from analyzer.engines import device
from analyzer.engines.case import Case
from analyzer.engines.lines import Lines, spell
from analyzer.engines.vllm import graphs
from analyzer.engines.vllm.changes import where
from analyzer.engines.vllm.eras import Era, GraphRule, as_range, default_utilization, possible
from analyzer.engines.vllm.identity import budget_bytes
from analyzer.engines.vllm.pool import overridden, pool_estimate
from analyzer.facts.observation import Event
from analyzer.facts.view import View
from analyzer.model import Fact, Ledger
from analyzer.model.versions import Range

#: Moments at which the pools are in place; releases whose tensors keep what no other rank has; less is rounding of printed figures.
CUT_AT = ("ready", "graph_capture", "warmup", "serving")
KEEPS_REST = Range.parse("<0.12.0")
UNEQUAL_BYTES = 2**30 // 50

#: Facts that one rank states about its own GPU.
RANK_FACTS = frozenset(
    {
        "weights",
        "draft_weights",
        "kv_cache.available",
        "non_torch",
        "activation_peak",
        "torch_peak",
        "budget.bytes",
        "budget.consumed",
        "device.total",
        "device.free_at_start",
        "device.free_after_profile",
        "cuda_graphs.actual",
        "cuda_graphs.estimated",
        "kv_cache.requested",
        "kv_cache.needed",
    }
)


#: The pattern of the summary from 0.27.0 on, whose peak contains the estimate of the graphs.
PEAK_WITH_GRAPHS = "vllm.profiling.summary_consumed"


@dataclass(slots=True)
class _Unit:
    """One GPU of the engine, as far as the lines tell them apart."""

    rank: int | None
    gpu: int | None
    event: Event | None = None


def ledgers(case: Case) -> list[Ledger]:
    """The ledgers of the attempt's GPUs at its end, in order of rank; none for the CPU backend, which has no GPU."""
    view = case.view
    if case.on_cpu:
        return []
    found = []
    for unit in _units(case):
        lines = Lines()
        if unit.event is not None:
            device.out_of_memory(lines, view.event_facts(unit.event), device.dump_names(case))
        _plan(case, lines, unit)
        _card(case, lines, unit)
        if lines:
            found.append(lines.ledger(view.attempt.index, unit.gpu if unit.gpu is not None else unit.rank, unit.rank, case.moment))
    return found


def eras(view: View) -> tuple[Era, ...]:
    """The eras of memory accounting that version and wording leave open."""
    generation = view.generation if view.generation in ("v0", "v1") else None
    return possible(where(view), generation, environment(view))  # type: ignore[arg-type]


def environment(view: View) -> dict[str, str]:
    """The engine's environment variables, as text."""
    return {name: str(setting.value) for name, setting in view.environment.items() if setting.value is not None}


def _known(version: str) -> bool:
    from analyzer.model.versions import base

    try:
        base(version)
    except ValueError:
        return False
    return True


def _units(case: Case) -> list[_Unit]:
    view = case.view
    ranks = sorted({fact.rank for fact in view.facts if fact.rank is not None and fact.name in RANK_FACTS})
    gpus = {fact.rank: fact.gpu for fact in view.all("device.free_at_start")}  # where the line says which device it looked at
    only = next(iter(gpus.values())) if len(gpus) == 1 and len(ranks) < 2 else None
    units = {rank: _Unit(rank, gpus.get(rank, only)) for rank in ranks}
    loose: list[_Unit] = []
    for rank, gpu, event in device.sentence_events(case):
        if rank is None and gpu in units:
            rank = gpu
        if rank is None and gpu is None and len(units) == 1:
            rank = next(iter(units))
        if rank is None:
            loose.append(_Unit(None, gpu, event))
            continue
        unit = units.setdefault(rank, _Unit(rank, None))
        if unit.event is None or event is case.event:
            unit.event, unit.gpu = event, gpu
    if not units and not loose:
        return [_Unit(None, only)]
    return [*(units[rank] for rank in sorted(units)), *loose]


def _plan(case: Case, lines: Lines, unit: _Unit) -> None:
    """budget = weights + kv_cache + non_torch + activation_peak (+ graphs), by the era's terms."""
    view, rank = case.view, unit.rank
    override, cut = overridden(view, rank), _cut_to(case, rank)
    # A pool set by hand or cut to another rank's leaves the share of the card open: there is no budget to sum up to.
    by_hand = override is not None or view.fact("kv_cache.requested", rank) is not None or cut is not None
    lines.measured("total", view.fact("device.total", rank))
    if not by_hand:
        lines.measured("budget", view.fact("budget.bytes", rank))
    total = lines.get("total")
    utilization = view.fact("budget.utilization") if not by_hand else None
    if "budget" not in lines and total is not None and utilization is not None and isinstance(utilization.value, (int, float)):
        share = float(utilization.value)
        lines.derived(
            "budget", budget_bytes(total, share), spell("total × gpu_memory_utilization = {t} × {u}", t=total, u=share), utilization.source
        )
    if "budget" not in lines and total is not None and utilization is None and view.version is not None and not by_hand:
        _default_budget(view, lines, total)
    _without_reserved(view, lines, rank)
    weights = view.fact("weights", rank)
    lines.measured("weights", weights)
    lines.measured("draft_weights", view.fact("draft_weights", rank))
    if override is not None and override.pool is not None and override.block is not None:
        words = f"num_gpu_blocks_override × bytes of a block = {override.blocks} × {override.block}"
        lines.derived("kv_cache", override.pool, words, override.source)
    if cut is not None:
        lines.derived("kv_cache", cut.bytes, "the smallest pool of the ranks, to whose blocks this one is cut", cut.source)
    lines.measured("kv_cache", view.fact("kv_cache.available", rank))
    if "kv_cache" not in lines:
        lines.measured("kv_cache", view.fact("kv_cache.requested", rank))
    if "kv_cache" not in lines:
        _pool_from_shape(case, lines)
    estimate = view.bytes("cuda_graphs.estimated", rank) if graphs_inside(view) else None
    lines.measured("non_torch", view.fact("non_torch", rank))
    consumed = view.bytes("budget.consumed", rank)
    if "non_torch" not in lines and consumed is not None and weights is not None and weights.bytes is not None:
        fact = view.fact("budget.consumed", rank)
        lines.derived(
            "non_torch",
            consumed - weights.bytes,
            spell("consumed − weights = {c} − {w}", c=consumed, w=weights.bytes),
            fact.source if fact else None,
        )
    elif consumed is not None and weights is None:  # the summary's line alone: no line tells the two apart
        lines.estimated("weights", consumed, spell("weights + non-torch = {c}, the most that the weights take", c=consumed))
    activation = view.fact("activation_peak", rank)
    if activation is not None and activation.pattern == PEAK_WITH_GRAPHS and graphs_inside(view) is not False:
        printed = activation.bytes or 0
        if estimate:
            net = spell("printed peak − graph estimate = {p} − {g}", p=printed, g=estimate)
            lines.derived("activation_peak", printed - estimate, net, activation.source)
        else:
            lines.estimated("activation_peak", printed, spell("activation peak + graphs reserved = {p}", p=printed))
    else:
        lines.measured("activation_peak", activation)
    peak = view.bytes("torch_peak", rank)
    if "activation_peak" not in lines and peak is not None and weights is not None and weights.bytes is not None:
        fact = view.fact("torch_peak", rank)
        lines.derived(
            "activation_peak",
            peak - weights.bytes,
            spell("torch_peak − weights = {p} − {w}", p=peak, w=weights.bytes),
            fact.source if fact else None,
        )
    if estimate and not _closes_without(lines, estimate):
        lines.measured("cuda_graphs_reserved", view.fact("cuda_graphs.estimated", rank))
    actual = view.fact("cuda_graphs.actual", rank)
    lines.measured("cuda_graphs", actual)


def _cut_to(case: Case, rank: int | None) -> Fact | None:
    """The least that a rank of the same engine has for its pool, where it decides the size of this one's tensors.

    All ranks use its number of blocks; from 0.12.0 on they allocate no more than that (``kv_cache_utils.get_kv_cache_configs``), before
    they keep the rest unused. Not with pipeline parallelism, where the blocks of the ranks differ in bytes.
    """
    view = case.view
    pipeline = view.setting("--pipeline-parallel-size")
    if rank is None or case.moment not in CUT_AT or as_range(where(view)) & KEEPS_REST or pipeline not in (None, 1):
        return None
    size = view.ranks.world_size
    pools = {fact.rank: fact for fact in view.all("kv_cache.available") if fact.rank is not None and fact.rank // size == rank // size}
    own, least = pools.get(rank), min(pools.values(), key=lambda fact: fact.bytes or 0, default=None)
    if own is None or least is None or (own.bytes or 0) - (least.bytes or 0) <= UNEQUAL_BYTES or (least.bytes or 0) <= 0:
        return None
    return least


def reserved(view: View, rank: int | None) -> int:
    """Bytes of the budget that go to neither parts nor pool of this process: weights that another process holds (0.32.0+), and what a
    multimodal front end is given after the pool was measured (0.25.0+, where the line says that the pool is reduced by it)."""
    size = view.bytes("weights.external", rank) or 0
    if "vllm.profiling.multimodal_reserve" in view.attempt.patterns:
        size += view.bytes("budget.multimodal_reserve", rank) or 0
    return size


def _without_reserved(view: View, lines: Lines, rank: int | None) -> None:
    size, budget = reserved(view, rank), lines.line("budget")
    if size and budget is not None and size < budget.bytes:
        net = spell("budget − held for others = {b} − {r}", b=budget.bytes, r=size)
        lines.replace("budget", budget.bytes - size, net, budget.source)


def _default_budget(view: View, lines: Lines, total: int) -> None:
    """The budget by the version's default: derived where the engine printed its arguments and names no share, else an assumption."""
    share = default_utilization(view.version if _known(view.version or "") else None)
    if share is None:
        return
    formula = spell("total × default gpu_memory_utilization = {t} × {u}", t=total, u=share)
    if view.arguments_seen:
        lines.derived("budget", budget_bytes(total, share), formula)
    else:
        lines.estimated("budget", budget_bytes(total, share), formula)


def _closes_without(lines: Lines, estimate: int) -> bool:
    """Whether the figures close by themselves: then the estimate was not applied, whatever version and environment suggest."""
    parts = [lines.get(name) for name in ("weights", "kv_cache", "non_torch", "activation_peak")]
    budget = lines.get("budget")
    if budget is None or any(part is None for part in parts):
        return False
    rest = budget - sum(part for part in parts if part is not None)
    return abs(rest) < abs(rest - estimate)


def _pool_from_shape(case: Case, lines: Lines) -> None:
    """The pool from its blocks and the model's shape, where no line gives its bytes: an estimate."""
    found = pool_estimate(case.view)
    if found is not None:
        lines.estimated("kv_cache", found.bytes, found.formula)


def _card(case: Case, lines: Lines, unit: _Unit) -> None:
    view, rank = case.view, unit.rank
    if case.stage in ("device_init", "profiling", "kv_init") and unit.event is None:
        after: Fact | None = view.fact("device.free_after_profile", rank) if case.stage == "profiling" else None
        if case.stage == "device_init" or after is not None:
            lines.measured("free", after or view.fact("device.free_at_start", rank))
        device.before_the_start(case, lines, unit.gpu, rank if rank is not None else unit.gpu)
    if case.moment == "ready" and unit.event is None:
        device.in_service(case, lines, unit.gpu, rank)
    device.total_of_dump(case, lines, unit.gpu, rank)
    if unit.event is not None:
        listed = [fact for fact in view.event_facts(unit.event) if fact.name == "process.used"]
        device.name_others(case, lines, unit.gpu, rank, listed)
    device.balance(lines)


def graphs_inside(view: View) -> bool | None:
    """Whether the budget reserves CUDA graphs; None where version, runner or platform leave that open (graphs.py)."""
    generation = view.generation if view.generation in ("v0", "v1") else None
    found = graphs.place(
        where(view),
        generation,  # type: ignore[arg-type]
        env=environment(view),
        runner=_runner(view),
        architecture=_architecture(view),
        eager=bool(view.setting("--enforce-eager")),
    )
    inside = graphs.graphs_inside(found)
    if inside is None and view.fact("cuda_graphs.estimated") is not None:
        # The estimate is printed by the versions that can reserve it; which of them, the era's rule tells (0.18.0+).
        rules = {era.graphs for era in eras(view)}
        return True if rules == {GraphRule.OPT_OUT} else None
    return inside


def _runner(view: View) -> graphs.Runner | None:
    """The model runner that a line names (0.16.0+: "Using V2 Model Runner", or that V1's is used instead)."""
    if "vllm.banner.v1_runner" in view.attempt.patterns:
        return "v1"
    return "v2" if "vllm.banner.v2_runner" in view.attempt.patterns else None


def _architecture(view: View) -> str | None:
    names = (view.model or {}).get("architectures")
    return str(names[0]) if isinstance(names, list) and names else None
