"""Which rank a process is: stated by its tag, or by what the engine's launcher always does. Prefixes: vllm-memory-model.md, section 8."""

from __future__ import annotations

import re
from collections.abc import Mapping

from analyzer.intake.lines import Process

_TRAILING = re.compile(r"(?:^|[-_ ])(\d+)$")
_INDEXES = re.compile(r"(?:(?:DP|PP|TP|EP|ATTN_TP|ATTN_DP|MOE_EP|MOE_TP|CP)\d+ ?)+")
_WORKER = re.compile(r"Worker|RayWorker")


class Ranks:
    """Maps the processes of one attempt to ranks (0 … world size - 1 of one engine; data parallel replicas follow each other)."""

    def __init__(self, processes: Mapping[str, Process], tensor_parallel: int | None, pipeline_parallel: int | None) -> None:
        self._tp = max([tensor_parallel or 1, *((p.group("TP") or 0) + 1 for p in processes.values())])
        self._pp = max([pipeline_parallel or 1, *((p.group("PP") or 0) + 1 for p in processes.values())])
        names = [process.name for process in processes.values()]
        self._has_workers = any(_WORKER.search(name) for name in names)
        # V0's multiprocessing executor starts ranks 1 … n-1 in order (vllm/executor/multiproc_gpu_executor.py, 0.4.2 to 0.10.2):
        # their pids rise with the rank, and the driver, which logs without a tag, is rank 0.
        v0 = sorted({p.pid for p in processes.values() if p.name == "VllmWorkerProcess" and p.pid is not None})
        self._v0 = {pid: place for place, pid in enumerate(v0, 1)}

        # SGLang tags by index, without a pid. With data-parallel attention the TP index counts all ranks; else each replica has its own.
        pairs = {(p.group("TP"), p.group("DP")) for p in processes.values() if _indexed(p)}
        self._replicas = len({tp for tp, _ in pairs}) < len(pairs)

    @property
    def world_size(self) -> int:
        """Ranks of one engine, as far as tags and settings tell."""
        return max(self._tp * self._pp, len(self._v0) + 1 if self._v0 else 1)

    def of(self, process: Process | None) -> int | None:
        """The rank of ``process``, or None where that cannot be told (an API server, a Ray worker without a rank)."""
        if process is None:
            return 0 if self._v0 or (not self._has_workers and self.world_size == 1) else None
        if process.rank is not None:
            return process.rank
        if process.name == "VllmWorkerProcess":
            return self._v0.get(process.pid) if process.pid is not None else None
        dp, tp, pp = (process.group(name) for name in ("DP", "TP", "PP"))
        if _indexed(process):
            return ((dp if dp and self._replicas else 0) * self._pp + (pp or 0)) * self._tp + (tp or 0)
        if _WORKER.search(process.name):
            if tp is not None or pp is not None or dp is not None:
                return ((dp or 0) * self._pp + (pp or 0)) * self._tp + (tp or 0)
            trailing = _TRAILING.search(process.name)
            if trailing:
                return int(trailing[1])
            return 0 if self.world_size == 1 and not process.name.startswith("Ray") else None
        if process.name.startswith("EngineCore") and not self._has_workers and self.world_size == 1:
            return dp or 0  # with one GPU the worker runs inside the core
        return None


def _indexed(process: Process) -> bool:
    """Whether the tag is nothing but indexes: ``DP1 TP3``."""
    return process.pid is None and bool(_INDEXES.fullmatch(process.name))
