"""More GPUs for one model, for engines that divide the weights among them: the number follows from the one that is set."""

from __future__ import annotations

from collections.abc import Callable

from analyzer.engines.case import Case
from analyzer.engines.computed import Computed
from analyzer.model import Action, Text


def more_gpus(flag: str) -> Callable[[Case], Computed]:
    """The solver for an engine whose number of GPUs ``flag`` sets."""

    def solve(case: Case) -> Computed:
        """Twice the GPUs; without a number where neither settings nor ranks tell how many there are."""
        before = _gpus(case)
        en, zh = f"a higher {flag}", f"增大 {flag}"
        if before is not None:
            en, zh = f"{flag} {2 * before} in place of {before}", f"把 {flag} 从 {before} 改为 {2 * before}"
        return Computed((Action(Text(f"{en}; or a checkpoint that is already quantized", f"{zh}；或使用已量化的模型文件")),))

    return solve


def _gpus(case: Case) -> int | None:
    """GPUs that hold the model: as set, as the ranks count them, or the one that every engine takes where its arguments name none."""
    view = case.view
    stated = int(view.number("parallel.tp") or 0)
    if stated or view.ranks.world_size > 1:
        return stated or view.ranks.world_size
    return 1 if view.command is not None or view.arguments_seen else None
