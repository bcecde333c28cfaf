"""The eras of vLLM's memory accounting: which identity a version uses, and what it counts.

An era is a stretch of releases of one engine generation (V0: ``vllm/worker/worker.py``; V1: ``vllm/v1/worker/gpu_worker.py``)
in which the size of the KV pool comes from the same identity. Where only a range of versions is known and it spans several
eras, every function answers for what they have in common, or with None; nothing is guessed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Literal, TypeVar

from analyzer.model.versions import Range, base

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Generation = Literal["v0", "v1"]

_Same = TypeVar("_Same")

#: A version, a range of them, or nothing known.
Where = str | Range | None

#: The newest release whose source the eras were read from. A later one is taken to be like it.
LAST_READ = "0.33.0"

V1_OPT_IN = Range.parse(">=0.6.4,<0.8.0")
V1_DEFAULT = Range.parse(">=0.8.0,<0.11.0")
V1_ONLY = Range.parse(">=0.11.0")


class Others(StrEnum):
    """What the memory of other processes on the card does to the KV pool."""

    UNSEEN = "unseen"  # neither they nor anything outside torch is looked at
    COUNTED = "counted"  # it counts as this instance's own and shrinks the pool
    CANCELLED = "cancelled"  # it cancels out as long as it stays constant


class GraphRule(StrEnum):
    """Whether CUDA graphs can lie inside the budget."""

    OUTSIDE = "outside"  # never
    OPT_IN = "opt_in"  # only with VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=1
    OPT_OUT = "opt_out"  # unless that variable is 0


@dataclass(frozen=True, slots=True)
class Era:
    """One identity: ``budget = kv_cache + the parts``.

    ``parts`` are the terms beside the pool, without the graphs (``graphs`` tells about those). ``check_at_start``: the start is refused
    when less than the budget is free. ``init_before_snapshot``: NCCL and context memory lie outside non_torch and already lower free0.
    """

    name: str
    generation: Generation
    versions: Range
    parts: tuple[str, ...]
    others: Others
    graphs: GraphRule
    check_at_start: bool
    init_before_snapshot: bool
    source: str


_WORKER = "vllm/worker/worker.py"
_GPU_WORKER = "vllm/v1/worker/gpu_worker.py"
_THREE = ("weights", "non_torch", "activation_peak")


def _era(
    name: str,
    versions: str,
    others: Others,
    *,
    parts: tuple[str, ...] = _THREE,
    graphs: GraphRule = GraphRule.OUTSIDE,
    check: bool = False,
    late: bool = False,
) -> Era:
    generation: Generation = "v0" if name.startswith("V0") else "v1"
    return Era(name, generation, Range.parse(versions), parts, others, graphs, check, late, _WORKER if generation == "v0" else _GPU_WORKER)


ERAS: tuple[Era, ...] = (
    _era("V0-A", "<0.2.5", Others.UNSEEN, parts=("weights", "activation_peak")),
    _era("V0-B", ">=0.2.5,<0.3.1", Others.COUNTED),
    _era("V0-C", ">=0.3.1,<0.6.4", Others.CANCELLED),
    _era("V0-D", ">=0.6.4,<0.6.5", Others.COUNTED),
    _era("V0-E", ">=0.6.5,<0.11.0", Others.CANCELLED),
    _era("V1-a", ">=0.6.4,<0.6.5", Others.CANCELLED),
    _era("V1-b", ">=0.6.5,<0.9.1", Others.COUNTED),
    _era("V1-c", ">=0.9.1,<0.11.0", Others.CANCELLED, check=True),
    _era("V1-d", ">=0.11.0,<0.18.0", Others.CANCELLED, check=True, late=True),
    _era("V1-e", ">=0.18.0,<0.20.0", Others.CANCELLED, check=True, late=True, graphs=GraphRule.OPT_IN),
    _era("V1-f", ">=0.20.0,<0.27.0", Others.CANCELLED, check=True, late=True, graphs=GraphRule.OPT_OUT),
    _era("V1-g", ">=0.27.0", Others.CANCELLED, check=True, late=True, graphs=GraphRule.OPT_OUT),
)


def as_range(where: Where) -> Range:
    """``where`` as a range; None is every version. ValueError for text that is no version."""
    if where is None:
        return Range()
    if isinstance(where, Range):
        return where
    base(where)  # raises for what is no version
    return Range(where, where)


def beyond_read(version: str) -> bool:
    """Whether ``version`` is newer than the newest release whose source was read."""
    return base(version) > base(LAST_READ)


def generations(where: Where, env: Mapping[str, str] | None = None) -> tuple[Generation, ...]:
    """The engine generations that ``where`` leaves possible, the default of those releases first.

    ``env``: VLLM_USE_V1 settles 0.6.4 to 0.10.2 as far as it can: ``0`` means V0, ``1`` means V1
    (a feature that V1 lacks is then an error).
    """
    span = as_range(where)
    chosen = (env or {}).get("VLLM_USE_V1")
    found: list[Generation] = []
    if span & Range.parse("<0.6.4"):
        found.append("v0")
    if span & V1_OPT_IN:
        found += ["v1"] if chosen == "1" else ["v0"] if chosen == "0" else ["v0", "v1"]
    if span & V1_DEFAULT:
        found += ["v1"] if chosen == "1" else ["v0"] if chosen == "0" else ["v1", "v0"]
    if span & V1_ONLY:
        found.append("v1")
    return tuple(dict.fromkeys(found))


def default_generation(where: Where, env: Mapping[str, str] | None = None) -> Generation | None:
    """The generation that runs unless something asks for the other one or makes vLLM fall back; None where the range spans a change."""
    span = as_range(where)
    chosen = (env or {}).get("VLLM_USE_V1")
    found: set[Generation] = set()
    if span & Range.parse("<0.6.4"):
        found.add("v0")
    if span & V1_OPT_IN:
        found.add("v1" if chosen == "1" else "v0")
    if span & V1_DEFAULT:
        found.add("v0" if chosen == "0" else "v1")
    if span & V1_ONLY:
        found.add("v1")
    return found.pop() if len(found) == 1 else None


def possible(where: Where, generation: Generation | None = None, env: Mapping[str, str] | None = None) -> tuple[Era, ...]:
    """Every era that the version (or range) and the generation leave open, oldest first. Empty where they contradict each other."""
    span = as_range(where)
    allowed = (generation,) if generation else generations(where, env)
    return tuple(era for era in ERAS if era.generation in allowed and era.versions & span)


def era_of(where: Where, generation: Generation | None = None, env: Mapping[str, str] | None = None) -> Era | None:
    """The one era that is left; None where several (or none) are."""
    found = possible(where, generation, env)
    return found[0] if len(found) == 1 else None


def common_others(eras: Iterable[Era]) -> Others | None:
    """How other processes count, where all of ``eras`` agree."""
    return _common(era.others for era in eras)


def common_parts(eras: Iterable[Era]) -> tuple[str, ...] | None:
    """The parts of the budget beside the pool (graphs aside), where all of ``eras`` agree."""
    return _common(era.parts for era in eras)


def common_check(eras: Iterable[Era]) -> bool | None:
    """Whether the start is refused when less than the budget is free, where all of ``eras`` agree."""
    return _common(era.check_at_start for era in eras)


def _common(values: Iterable[_Same]) -> _Same | None:
    found = set(values)
    return found.pop() if len(found) == 1 else None


def default_utilization(where: Where) -> float | None:
    """--gpu-memory-utilization when not given: 0.90, from 0.20.0 on 0.92 (``vllm/config/cache.py``). None where a range spans both."""
    span = as_range(where)
    old, new = bool(span & Range.parse("<0.20.0")), bool(span & Range.parse(">=0.20.0"))
    if old and new:
        return None
    return 0.92 if new else 0.9


def rounds_budget_up(where: Where) -> bool | None:
    """Whether the budget is ``ceil(total × utilization)`` (0.14.0+, ``vllm/v1/worker/utils.py``) instead of cut. None where unknown."""
    span = as_range(where)
    old, new = bool(span & Range.parse("<0.14.0")), bool(span & Range.parse(">=0.14.0"))
    return None if old and new else new
