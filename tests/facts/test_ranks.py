"""Which rank a process is, by its tag and by what vLLM's launchers always do."""

from __future__ import annotations

import pytest

from analyzer.facts.attempt import process_key
from analyzer.facts.ranks import Ranks
from analyzer.intake.lines import Process, parse


def process(tag: str) -> Process | None:
    """The process of a line with this tag; without one, nobody."""
    return parse(f"{tag} a message".strip(), 1).process


def ranks(*tags: str, tp: int | None = None, pp: int | None = None) -> list[int | None]:
    """The rank of every tag among all of them."""
    found = [process(tag) for tag in tags]
    known = Ranks({process_key(one) or "": one for one in found if one is not None}, tp, pp)
    return [known.of(one) for one in found]


@pytest.mark.parametrize(
    ("tags", "tp", "pp", "wanted"),
    [
        # one GPU
        ([""], None, None, [0]),
        (["(EngineCore_0 pid=3)", "(APIServer pid=1)"], None, None, [0, None]),
        (["(EngineCore pid=3)", ""], 1, 1, [0, 0]),
        (["(EngineCore_DP0 pid=3)"], None, None, [0]),
        (["(VllmWorker pid=9)"], None, None, [0]),
        (["(Worker pid=9)", "(EngineCore pid=3)"], None, None, [0, None]),
        # several, but nothing says which: nobody's figure is given a rank
        ([""], 2, None, [None]),
        (["(EngineCore_0 pid=3)"], 4, None, [None]),
        (["(RayWorkerWrapper pid=812)"], 2, None, [None]),
        (["(RayWorkerWrapper pid=812, ip=10.1.2.3)"], None, None, [None]),
        # V0: the driver is 0, the workers follow in the order of their pids
        (["", "(VllmWorkerProcess pid=90)"], 2, None, [0, 1]),
        (["(VllmWorkerProcess pid=92)", "(VllmWorkerProcess pid=90)", "", "(VllmWorkerProcess pid=91)"], 4, None, [3, 1, 0, 2]),
        # V1: the tag says it
        (["(VllmWorker rank=1 pid=9)", "(VllmWorker rank=0 pid=8)"], 2, None, [1, 0]),
        (["(VllmWorker TP0 pid=8)", "(VllmWorker TP1 pid=9)", "(EngineCore_0 pid=3)"], None, None, [0, 1, None]),
        (["(Worker_TP0 pid=8)", "(Worker_TP3 pid=9)"], 4, None, [0, 3]),
        (["(Worker_PP1 pid=8)", "(Worker_PP0 pid=9)"], None, 2, [1, 0]),
        (["(Worker_PP0_TP1 pid=8)", "(Worker_PP1_TP0 pid=9)", "(Worker_PP1_TP1 pid=7)"], None, None, [1, 2, 3]),
        (["(Worker_DP0_TP1 pid=8)", "(Worker_DP1_TP0 pid=9)", "(Worker_DP1_TP1 pid=7)"], None, None, [1, 2, 3]),
        (["(Worker_DP1_EP1 pid=8)", "(Worker_DP0_EP0 pid=9)"], None, None, [1, 0]),
        (["(EngineCore_DP0 pid=3)", "(EngineCore_DP1 pid=4)"], None, None, [0, 1]),
        (["(APIServer pid=1)", "(ApiServer_1 pid=2)", "(Worker_TP1 pid=9)"], None, None, [None, None, 1]),
        (["(RayWorkerWrapper pid=812, ip=10.1.2.3) (Worker_TP3 pid=812)"], 4, None, [3]),
        (["[rank3]:", "[rank0]:"], 4, None, [3, 0]),
    ],
)
def test_the_rank_of_a_process(tags: list[str], tp: int | None, pp: int | None, wanted: list[int | None]) -> None:
    assert ranks(*tags, tp=tp, pp=pp) == wanted


@pytest.mark.parametrize(
    ("tags", "tp", "pp", "size"),
    [
        ([], None, None, 1),
        ([], 4, 2, 8),
        (["(Worker_PP1_TP3 pid=9)"], None, None, 8),
        (["(VllmWorkerProcess pid=90)", "(VllmWorkerProcess pid=91)"], None, None, 3),
        (["(Worker_TP1 pid=9)"], 8, None, 8),
    ],
)
def test_the_world_as_far_as_it_shows(tags: list[str], tp: int | None, pp: int | None, size: int) -> None:
    known = {process_key(one) or "": one for one in map(process, tags) if one is not None}
    assert Ranks(known, tp, pp).world_size == size
