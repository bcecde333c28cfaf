"""CUDA graphs: whether they lie inside the budget, and what the lines about them say (``vllm/v1/worker/gpu_worker.py``).

The order is always: load, profile, allocate the pool, capture graphs, warm up. Sizes in bytes, of one rank.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Literal

from analyzer.engines.vllm.eras import GraphRule, as_range, possible
from analyzer.model.versions import Range

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from analyzer.engines.vllm.eras import Generation, Where

Runner = Literal["v1", "v2"]

ESTIMATE = "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS"
V2_RUNNER = "VLLM_USE_V2_MODEL_RUNNER"

#: Releases whose V2 model runner estimates 0, and those that have it only when asked.
_V2_ESTIMATES_NOTHING = Range.parse("<0.29.0")
_V2_ON_REQUEST = Range.parse("<0.22.0")

#: Releases that estimate on CUDA alone.
_ROCM_ESTIMATES_NOTHING = Range.parse("<0.26.0")

#: Architectures that run on the V2 model runner by default, from the release on.
_V2_BY_DEFAULT: tuple[tuple[Range, frozenset[str]], ...] = (
    (Range.parse(">=0.22.0,<0.23.0"), frozenset({"Qwen3ForCausalLM"})),
    (Range.parse(">=0.23.0,<0.24.0"), frozenset({"Qwen3ForCausalLM", "LlamaForCausalLM", "MistralForCausalLM"})),
    (
        Range.parse(">=0.24.0,<0.25.0"),
        frozenset(
            {
                "Qwen3ForCausalLM",
                "LlamaForCausalLM",
                "MistralForCausalLM",
                "DeepseekV2ForCausalLM",
                "Qwen2MoeForCausalLM",
                "GraniteMoeForCausalLM",
            }
        ),
    ),
)
#: 0.25.0 to 0.28.0: every plain dense model that generates, and some mixtures; these are sure.
_V2_SURE = frozenset({"Qwen3ForCausalLM", "LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM"})


class Place(StrEnum):
    """Where the graphs' memory comes from."""

    INSIDE = "inside"  # an estimate is taken out of the budget; only its error lies outside
    OUTSIDE = "outside"  # from what the budget leaves of the card
    NONE = "none"  # no graphs are captured


def runner_of(where: Where, architecture: str | None = None, env: Mapping[str, str] | None = None) -> Runner | None:
    """The model runner of V1 where no line tells it ("Using V2 Model Runner", 0.16.0+); None where that is open.

    VLLM_USE_V2_MODEL_RUNNER decides; else the default by release and architecture. From 0.29.0 on it is the new one for all that it
    supports, which a name alone does not tell.
    """
    span = as_range(where)
    asked = (env or {}).get(V2_RUNNER)
    if asked in ("0", "1") and not span & Range.parse("<0.12.0"):
        return "v2" if asked == "1" else "v1"
    if not span & Range.parse(">=0.22.0"):
        return "v1"
    if span & _V2_ON_REQUEST or architecture is None:
        return None
    defaults = [names for reach, names in _V2_BY_DEFAULT if span & reach]
    if span & Range.parse(">=0.25.0"):
        return "v2" if architecture in _V2_SURE and all(architecture in names for names in defaults) and not _reaches_029(span) else None
    found = {architecture in names for names in defaults}
    if len(found) != 1:
        return None
    return "v2" if found.pop() else "v1"


def _reaches_029(span: Range) -> bool:
    return bool(span & Range.parse(">=0.29.0"))


def place(
    where: Where,
    generation: Generation | None = None,
    *,
    env: Mapping[str, str] | None = None,
    runner: Runner | None = None,
    architecture: str | None = None,
    eager: bool = False,
    platform: str = "cuda",
) -> Place | None:
    """Where the graphs of this run lie; None where version, runner or platform leave it open.

    ``runner``: what a line says of it; None: taken from ``architecture`` and ``env`` as far as they tell (runner_of). ``eager``:
    --enforce-eager, cudagraph_mode NONE, or a line that says so. ``platform``: ``cuda``, ``rocm`` (estimates from
    0.26.0 on) or another (never does).
    """
    if eager:
        return Place.NONE
    rules = {era.graphs for era in possible(where, generation, env)}
    if rules == {GraphRule.OUTSIDE}:
        return Place.OUTSIDE
    asked = (env or {}).get(ESTIMATE)
    if asked == "0":
        return Place.OUTSIDE
    span = as_range(where)
    if platform not in ("cuda", "rocm"):
        return Place.OUTSIDE
    if platform == "rocm" and span & _ROCM_ESTIMATES_NOTHING:
        return None if span & Range.parse(">=0.26.0") else Place.OUTSIDE
    runner = runner or runner_of(where, architecture, env)
    v2_counts = not span & _V2_ESTIMATES_NOTHING
    if runner == "v2" and not v2_counts:
        return Place.OUTSIDE if not span & Range.parse(">=0.29.0") else None
    if runner is None and not v2_counts and span & Range.parse(">=0.22.0"):
        return None
    applied = {rule is GraphRule.OPT_OUT or (rule is GraphRule.OPT_IN and asked == "1") for rule in rules}
    if len(applied) != 1:
        return None
    return Place.INSIDE if applied.pop() else Place.OUTSIDE


def graphs_inside(place_of_graphs: Place | None) -> bool | None:
    """Whether the identity has the estimate as a part."""
    return None if place_of_graphs is None else place_of_graphs is Place.INSIDE


def mode_estimate(first_capture: int, graphs: int, per_graph: int) -> int:
    """The V1 runner's estimate of one mode: ``first capture + (n − 1) × cost of the second`` (debug line, 0.18.0+)."""
    return first_capture + max(0, graphs - 1) * per_graph


def estimate(modes: Iterable[tuple[int, int, int]], encoder: int = 0) -> int:
    """The V1 runner's whole estimate: the largest first capture (modes share a pool), what every mode adds to its own, the encoder's.

    ``modes``: (first capture, number of graphs, bytes per further graph). ``encoder`` is printed apart from 0.23.0 on.
    """
    known = list(modes)
    first = max((mode[0] for mode in known), default=0)
    return first + sum(mode_estimate(0, graphs, per_graph) for _, graphs, per_graph in known) + encoder


def outside_the_budget(place_of_graphs: Place | None, actual: int | None, estimated: int | None) -> int | None:
    """Bytes that graphs take beyond the budget: all of them, or what the estimate missed; 0 where none are captured. None where unknown."""
    if place_of_graphs is Place.NONE:
        return 0
    if place_of_graphs is None or actual is None:
        return None
    if place_of_graphs is Place.OUTSIDE:
        return actual
    return None if estimated is None else max(0, actual - estimated)


def short_for_capture(room: int, needed: int) -> int:
    """Bytes that capture lacks: ``room`` is what the card has left outside the budget (inverse.room_outside), never below 0."""
    return max(0, needed - room)


def took(values: list[int]) -> int | None:
    """The graphs' memory out of the "Graph capturing finished …, took" lines of one rank: the last.

    The V2 runner of 0.29.0+ prints the line twice, first for the sample that it takes while profiling.
    """
    return values[-1] if values else None
