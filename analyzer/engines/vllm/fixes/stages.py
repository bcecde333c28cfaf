"""Pipeline parallelism: what each stage could hold by itself, and another split of the layers over unequal cards."""

from __future__ import annotations

from dataclasses import dataclass

from analyzer.engines.computed import Computed
from analyzer.engines.vllm import kv
from analyzer.engines.vllm.fixes.plan import Plan
from analyzer.engines.vllm.pool import cached_shape
from analyzer.model import EnvChange, Text

PARTITION = "VLLM_PP_LAYER_PARTITION"


@dataclass(frozen=True, slots=True)
class Stages:
    """``pools``: bytes of the KV pool of each stage, ``layers`` its layers, ``token``: bytes of one token in one layer."""

    pools: tuple[int, ...]
    layers: tuple[int, ...]
    token: int
    block: int

    def lengths(self) -> tuple[int, ...]:
        """Tokens that each stage holds, in whole blocks: ``pool / (layers × token)``."""
        return tuple(pool // (layers * self.token) // self.block * self.block for pool, layers in zip(self.pools, self.layers, strict=True))

    def holds(self, stage: int, more: int, layer: int, length: int) -> bool:
        """Whether ``stage`` holds a request of ``length`` with ``more`` layers, each of which takes ``layer`` bytes of weights."""
        return self.pools[stage] - more * layer >= (self.layers[stage] + more) * self.token * length


def stages(plan: Plan) -> Stages | None:
    """The stages of this run; None without pipeline parallelism, for models whose layers differ, or where pools or shape are not known."""
    view = plan.view
    degree = plan.whole("--pipeline-parallel-size")
    shape = cached_shape(view)
    if degree is None or degree < 2 or shape is None:
        return None
    if shape.state_layers or shape.window_layers:
        return None
    pools = [ledger.get("kv_cache") for ledger in plan.case.ledgers]
    tensor = plan.whole("--tensor-parallel-size") or 1
    if len(pools) != degree * tensor or any(pool is None or pool <= 0 for pool in pools):
        return None
    least = [min(size for size in pools[stage * tensor : (stage + 1) * tensor] if size is not None) for stage in range(degree)]
    try:
        layers = kv.stage_layers(shape.kv_layers, degree, plan.env.get(PARTITION))
    except ValueError:
        return None
    dtype = plan.setting("--dtype")
    token = kv.token_bytes_of_layer(
        shape,
        tensor_parallel=tensor,
        kv_cache_dtype=plan.kv_dtype,
        model_dtype=str(dtype).removeprefix("torch.") if dtype not in (None, "auto") else shape.dtype or "bfloat16",
    )
    if layers is None or token is None:
        return None
    return Stages(tuple(least), layers, token, plan.block_size)


def really_fits(plan: Plan) -> int | None:
    """The longest request by each stage's own layers, where that is clearly above the engine's estimate.

    Releases around 0.15 and 0.16 compare the need of all layers with the smallest stage's memory; the printed need shows it.
    """
    found = stages(plan)
    estimated = plan.view.number("kv_cache.estimated_max_len")
    if found is None or not estimated or not plan.needed or not plan.max_len:
        return None
    whole = sum(found.layers) * found.token * plan.max_len
    if abs(plan.needed - whole) > 0.03 * whole:
        return None  # what it asks for is not the need of all layers
    length = min(found.lengths())
    return length if length > 1.2 * estimated else None


def pp_layer_partition(plan: Plan) -> Computed | None:
    """Fewer layers for the stage that holds least. As many as let both stages hold the length, where the weights of a layer are known.

    Weights move with the layers. Where they are not known an eighth of the layers is a first step and not the end of it.
    """
    found = stages(plan)
    if found is None or max(found.pools) < 1.2 * min(found.pools):
        return None
    lengths = found.lengths()
    tight = lengths.index(min(lengths))
    wide = lengths.index(max(lengths))
    if lengths[tight] == lengths[wide]:
        return None
    weights = plan.case.ledgers[tight * (plan.whole("--tensor-parallel-size") or 1)].get("weights")
    if weights is None or plan.max_len is None:
        step = max(1, found.layers[tight] // 8)
    else:
        layer = weights // found.layers[tight]
        fitting = (moved for moved in range(1, found.layers[tight]) if found.holds(tight, -moved, layer, plan.max_len))
        step = next((moved for moved in fitting if found.holds(wide, moved, layer, plan.max_len)), 0)
    moved = list(found.layers)
    moved[tight] -= step
    moved[wide] += step
    if step == 0 or moved[tight] < 1:
        return None
    to = ",".join(str(count) for count in moved)
    values: dict[str, str | Text] = {"to": to, "before": ",".join(str(count) for count in found.layers)}
    return Computed((EnvChange(PARTITION, to),), values, verified=False)
