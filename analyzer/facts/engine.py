"""Which engine wrote an attempt's lines. A paste can hold the logs of two, and an engine prints lines of another that it runs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

#: Engines that start another one and let its lines through: the inner one's name -> the outer one's.
RUN_BY = {"llama.cpp": frozenset({"ollama"})}
#: Engines whose server loads one model after the other: what it says of itself once holds for every load.
MANY_LOADS = frozenset({"ollama"})
#: A library that other engines are made of: it is the engine only where no other one shows.
LIBRARIES = frozenset({"transformers"})
#: Tags that vLLM alone gives its processes ("(EngineCore_DP0 pid=12)", set_process_title and decorate_logs).
_TAGS = re.compile(
    r"APIServer|ApiServer_\d+|DPCoordinator|EngineCore(?:_\w+)?|VllmWorker(?:Process| \w+)?|Worker(?:_(?:DP|PP|PCP|TP|DCP|EP)\d+)*"
)


@lru_cache(256)
def of_process(name: str, pid: int | None) -> str | None:
    """The engine whose process carries this tag; None for a tag that others use as well."""
    return "vllm" if pid is not None and _TAGS.fullmatch(name) else None


def outer(engine: str | None, unit: str | None) -> str | None:
    """The engine that let a line of ``engine`` through, where the service that printed it (``unit``) bears its name."""
    name = (unit or "").rstrip("0123456789").rstrip("-_")  # compose numbers its containers
    return name if name in RUN_BY.get(engine or "", ()) else None


def leading(counts: Mapping[str, int]) -> str | None:
    """The engine that ``counts`` (engine -> its recognised lines) speaks for: an outer one before its inner one, else the most lines."""
    if len(counts) == 1:
        return next(iter(counts))
    names = [name for name in counts if name not in LIBRARIES] or list(counts)
    outer = [name for name in names if not RUN_BY.get(name, frozenset()) & counts.keys()]
    return max(outer, key=lambda name: counts[name], default=None)


def foreign(engine: str | None, other: str | None) -> bool:
    """Whether lines of ``other`` cannot belong to a run of ``engine``."""
    if engine is None or other is None or engine == other or LIBRARIES & {engine, other}:
        return False
    return engine not in RUN_BY.get(other, ()) and other not in RUN_BY.get(engine, ())
