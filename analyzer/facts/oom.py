"""Which process of an out-of-memory sentence is the failing one itself (gpu-errors.md, section 1.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from analyzer.facts.observation import Observation
from analyzer.intake.lines import Process
from analyzer.model.units import MIB, to_bytes

#: Printed sizes are rounded to two decimals of GiB.
ROUNDING_BYTES = 6 * MIB


def own_process(seen: Sequence[Observation], process: Process | None) -> Observation | None:
    """``oom.process_in_use`` out of a list of ``Process P has …``, where the sentence does not state it itself.

    It is the entry with the pid that printed the line. In a container the own process is listed by its host pid: there a sole entry that
    holds at least what PyTorch holds is the own one.
    """
    listed = [item for item in seen if item.name == "process.used"]
    if not listed:
        return None
    named = {item.name: item for item in seen}
    if "oom.process_in_use" in named:
        return None
    mine = [item for item in listed if process is not None and item.pid is not None and item.pid == process.pid]
    if not mine:
        held = sum(_size(named[name]) for name in ("oom.torch_allocated", "oom.reserved_unallocated") if name in named)
        mine = [item for item in listed if held and _size(item) >= held - ROUNDING_BYTES]
    return replace(mine[0], name="oom.process_in_use") if len(mine) == 1 else None


def _size(item: Observation) -> int:
    return to_bytes(item.value, item.unit) or 0 if isinstance(item.value, (int, float)) else 0
