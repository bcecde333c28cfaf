"""Ranks find their cards and processes in dumps: by pid, UUID, index, total; and never a card that cannot be theirs."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzer.engines.moment import Run, When, between, dump_time, engine_time, place, run_of
from analyzer.engines.reconcile import Wanted, alive, cards_of, held, is_display, match, same_total, visible_devices
from analyzer.model import Gpu, GpuProcess, GpuSnapshot, Source
from analyzer.model.gpu import MigDevice
from analyzer.model.units import GIB, MIB

SOURCE = Source("smi.txt", 1, "")
A100, UUIDS = 81920, ("GPU-4f1d2a10-0001", "GPU-4f1d2a10-0002", "GPU-9b7c")


def snapshot(*cards: Gpu, processes: tuple[GpuProcess, ...] = (), parts: tuple[MigDevice, ...] = ()) -> GpuSnapshot:
    return GpuSnapshot(SOURCE, gpus=list(cards), processes=list(processes), mig_devices=list(parts))


def card(index: int, total: float | None = A100, used: float | None = None, uuid: str | None = None, name: str = "NVIDIA A100") -> Gpu:
    return Gpu(index, name, uuid, memory_total_mib=total, memory_used_mib=used)


def process(gpu: int | str | None, pid: int, used: float | None, name: str = "python3", **more: int) -> GpuProcess:
    return GpuProcess(gpu, pid, name, "C", used, **more)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("2,0", (2, 0)),
        (" 1 , 3 ", (1, 3)),
        ("GPU-4f1d,MIG-9", ("GPU-4f1d", "MIG-9")),
        ("0,-1,2", (0,)),  # CUDA stops at the first entry that is none
        ("", ()),
        ("all", None),
        (None, None),
    ],
)
def test_visible_devices(value: str | None, found: tuple[int | str, ...] | None) -> None:
    assert visible_devices(value) == found


@pytest.mark.parametrize(
    ("totals", "floor", "index", "doubt"),
    [
        ((11264, 97884), 79.82, 1, False),  # CUDA's first card is the fastest, the tool's the one on the first slot
        ((11264, 97884), 8.0, 0, False),
        ((11264, 16384), 79.82, 0, True),  # none of them: another machine
        ((11264,), 79.82, 0, True),
        ((97884, 97884), 79.82, 0, False),
    ],
)
def test_no_card_is_smaller_than_what_lies_on_it(totals: tuple[int, ...], floor: float, index: int, *, doubt: bool) -> None:
    dump = snapshot(*(card(place, total) for place, total in enumerate(totals)))
    found = match(dump, Wanted(gpu=0, rank=0, floor=round(floor * GIB)))
    assert found is not None
    assert (found.card.index, found.doubt) == (index, doubt)


@pytest.mark.parametrize(
    ("engine", "dump_mib", "same"),
    [
        (79.25, 81920, True),  # A100 80 GB
        (79.25, 81251, True),  # … with the total of a driver before 510
        (23.64, 24564, True),
        (14.56, 15360, True),  # T4: ECC and reserve
        (140.4, 143771, True),
        (44.39, 24564, False),
        (39.39, 81920, False),
        (19.50, 20096, True),  # a MIG slice
        (79.25, 40960, False),
    ],
)
def test_cuda_total_is_a_little_below_the_tools(engine: float, dump_mib: int, same: bool) -> None:
    assert same_total(round(engine * GIB), dump_mib * MIB) is same


def test_by_index_through_visible_devices() -> None:
    seen = snapshot(card(0), card(1), card(2), card(3))
    found = match(seen, Wanted(rank=1), (3, 2))
    assert found is not None
    assert (found.card.index, found.how) == (2, "index")
    assert match(seen, Wanted(rank=2), (3, 2)) is None


def test_by_a_cut_uuid() -> None:
    seen = snapshot(card(0, uuid=UUIDS[0]), card(1, uuid=UUIDS[1]), card(2, uuid=UUIDS[2]))
    found = match(seen, Wanted(rank=0), ("GPU-9b",))
    assert found is not None
    assert (found.card.index, found.how) == (2, "uuid")
    assert match(seen, Wanted(rank=0), ("GPU-4f1d2a10",)) is None, "two cards begin like that"


def test_the_rank_that_sees_only_its_own_card_calls_it_0() -> None:
    found = match(snapshot(card(0), card(1)), Wanted(gpu=0, rank=1))
    assert found is not None
    assert found.card.index == 1


def test_pid_beats_index() -> None:
    seen = snapshot(card(0), card(1), processes=(process(1, 4100, 70000), process(0, 4100, 300)))
    found = match(seen, Wanted(rank=0, pids=frozenset({4100}), family=frozenset({4100})))
    assert found is not None
    assert (found.card.index, found.how, found.own_by, found.process) == (1, "pid", "pid", 70000 * MIB)


def test_cuda_order_is_not_the_tools_where_totals_differ() -> None:
    seen = snapshot(card(0, 12288, name="NVIDIA GeForce RTX 3060"), card(1, 24576, name="NVIDIA GeForce RTX 3090"))
    found = match(seen, Wanted(gpu=0, rank=0, total=round(23.69 * GIB)))
    assert found is not None
    assert (found.card.index, found.how) == (1, "total")


def test_another_machines_dump_is_doubted() -> None:
    found = match(snapshot(card(0, 24576)), Wanted(rank=0, total=round(79.25 * GIB)))
    assert found is None or found.doubt


@pytest.mark.parametrize("by", ["total", "pid", "uuid", "old uuid"])
def test_a_slice_is_the_engines_card(by: str) -> None:
    parts = (
        MigDevice(0, 1, 0, 0, uuid="MIG-11", memory_total_mib=20096, memory_used_mib=16214),
        MigDevice(0, 2, 0, 1, uuid="MIG-22", memory_total_mib=40448, memory_used_mib=30000),
    )
    rows = (process(0, 900, 16100, gpu_instance=1), process(0, 901, 29900, gpu_instance=2))
    seen = snapshot(card(0, uuid=UUIDS[0]), processes=rows, parts=parts)
    wanted = {
        "total": Wanted(rank=0, total=round(19.5 * GIB)),
        "pid": Wanted(rank=0, pids=frozenset({900}), family=frozenset({900})),
        "uuid": Wanted(rank=0),
        "old uuid": Wanted(rank=0),
    }[by]
    visible = {"uuid": ("MIG-11",), "old uuid": (f"MIG-{UUIDS[0]}/1/0",)}.get(by)
    found = match(seen, wanted, visible)
    assert found is not None
    assert found.slice is parts[0]
    assert (found.total, found.used) == (20096 * MIB, 16214 * MIB)
    assert 901 not in {row.pid for row in (*found.own, *found.others)}
    assert match(seen, Wanted(rank=0)) is None, "two slices, and nothing tells which"
    held_by_engine = match(seen, Wanted(rank=0, floor=28000 * MIB))
    assert held_by_engine is not None
    assert held_by_engine.slice is parts[1], "only one of them holds as much as the engine"


def test_host_pids_of_a_container_are_told_by_amount() -> None:
    rows = (process(0, 88001, 73406, "python3"), process(0, 88500, 5948, "python3"))
    wanted = Wanted(rank=0, process=round(71.7 * GIB), pids=frozenset({231}), family=frozenset({1, 231}))
    found = match(snapshot(card(0), processes=rows), wanted)
    assert found is not None
    assert found.own_by == "amount"
    assert [row.pid for row in found.own] == [88001]
    assert found.foreign == 5948 * MIB
    twins = (process(0, 88001, 36000), process(0, 88002, 36010))
    alike = match(snapshot(card(0), processes=twins), Wanted(rank=0, process=36005 * MIB))
    assert alike is not None
    assert alike.own == (), "two engines of one size on one card cannot be told apart"


def test_host_pids_are_told_by_the_rank_in_the_name() -> None:
    rows = (process(1, 88001, 73406, "VLLM::Worker_TP1"), process(1, 88003, 500, "VLLM::Worker_TP0"))
    found = match(snapshot(card(0), card(1), processes=rows), Wanted(rank=1))
    assert found is not None
    assert (found.own_by, found.process) == ("name", 73406 * MIB)


def test_a_list_of_processes_alone_is_a_dump() -> None:
    rows = (process(UUIDS[0], 1881, 72318, "VLLM::EngineCore"), process(UUIDS[0], 90417, 498))
    seen = GpuSnapshot(SOURCE, processes=list(rows))
    found = match(seen, Wanted(rank=0, pids=frozenset({1881}), family=frozenset({1881})))
    assert found is not None
    assert found.process == 72318 * MIB
    assert found.foreign == 498 * MIB
    both = GpuSnapshot(SOURCE, processes=[process(UUIDS[0], 1, 5000), process(UUIDS[1], 2, 6000)])
    assert all(card.index is None for card in cards_of(both)), "UUIDs have no order"


@pytest.mark.parametrize(
    ("name", "kind", "display"), [("/usr/lib/xorg/Xorg", "G", True), ("python3", "C", False), ("VLLM::EngineCore", "C", False)]
)
def test_display(name: str, kind: str, display: bool) -> None:
    assert is_display(GpuProcess(0, 5, name, kind, 10)) is display


def test_alive() -> None:
    wanted = Wanted(pids=frozenset({40010}), family=frozenset({40010, 40001}))
    assert alive(snapshot(processes=(process(0, 40010, 1),)), wanted) is True
    assert alive(snapshot(processes=(process(0, 50010, 1),)), wanted) is False
    container = Wanted(pids=frozenset({231}), family=frozenset({1, 231}))
    assert alive(snapshot(processes=(process(0, 50010, 1),)), container) is None, "another pid namespace"


# --- properties --------------------------------------------------------------------------------------------------------------------


@given(
    total=st.integers(8000, 200000),
    sizes=st.lists(st.integers(10, 20000), min_size=1, max_size=6),
    own=st.integers(0, 5),
    index=st.integers(0, 7),
    hidden=st.integers(0, 600),
)
def test_what_is_on_the_card_is_shared_out_whole(total: int, sizes: list[int], own: int, index: int, hidden: int) -> None:
    """process + others + what no row names = used, for any processes, and no row is counted twice."""
    used = min(sum(sizes) + hidden, total)
    rows = tuple(process(index, 1000 + place, size) for place, size in enumerate(sizes))
    noise = tuple(process(index + 1, 5000 + place, 77) for place in range(3))
    mine = frozenset({1000 + own}) if own < len(sizes) else frozenset()
    seen = snapshot(*(card(place, total, used if place == index else 3) for place in range(8)), processes=(*rows, *noise))
    found = match(seen, Wanted(rank=index, pids=mine, family=mine))
    assert found is not None
    assert found.card.index == index
    named = (found.process or 0) + (found.foreign or 0)
    assert named == sum(sizes) * MIB
    assert {row.pid for row in (*found.own, *found.others, *found.siblings)} == {row.pid for row in rows}
    assert len(found.own) + len(found.others) + len(found.siblings) == len(rows)
    assert found.process == (sizes[own] * MIB if mine else None)


@given(total=st.floats(4 * 1024, 300 * 1024), below=st.floats(0, 1))
def test_every_total_that_cuda_may_report_fits(total: float, below: float) -> None:
    assert same_total(round((total - below * max(1100, 0.04 * total)) * MIB), round(total * MIB))


@given(first=st.integers(6000, 200000), second=st.integers(6000, 200000), rank=st.integers(0, 1))
def test_no_card_is_taken_against_its_total(first: int, second: int, rank: int) -> None:
    engine = round((first - 350) * MIB)
    found = match(snapshot(card(0, first), card(1, second)), Wanted(rank=rank, total=engine))
    if found is not None and not found.doubt and found.total is not None:
        assert same_total(engine, found.total)


# --- when ----------------------------------------------------------------------------------------------------------------------------

RUN = Run(datetime(2026, 2, 16, 10, 1, 10), datetime(2026, 2, 16, 10, 40, 36), ended=True)


@pytest.mark.parametrize(
    "text",
    ["Mon Feb 16 10:52:07 2026", "2026/02/16 10:52:07.114", "2026-02-16T10:52:07Z", "20260216 10:52:07", "Mon Feb\t16 10:52:07 2026"],
)
def test_dates_of_dumps(text: str) -> None:
    assert dump_time(text) == datetime(2026, 2, 16, 10, 52, 7)


@pytest.mark.parametrize("text", [None, "", "10:52:07", "lun. févr. 16 10:52:07 2026", "2026/02/30 10:00:00"])
def test_no_dates(text: str | None) -> None:
    assert dump_time(text) is None


@pytest.mark.parametrize(
    ("text", "year", "moment"),
    [
        ("02-16 10:40:36", 2026, datetime(2026, 2, 16, 10, 40, 36)),
        ("2025-08-07 12:00:01", 2026, datetime(2025, 8, 7, 12, 0, 1)),
        ("12:00:01", 2026, None),
        ("02-29 10:00:00", 2026, None),
    ],
)
def test_dates_of_engines(text: str, year: int, moment: datetime | None) -> None:
    assert engine_time(text, year) == moment


def test_a_run_over_new_year_is_short() -> None:
    assert between(datetime(2026, 1, 1, 0, 10), datetime(2026, 12, 31, 23, 50)) == timedelta(minutes=20)
    assert run_of(["02-16 10:01:10", None, "nonsense"], "02-16 10:40:36", ended=True, year=2026) == RUN


@pytest.mark.parametrize(
    ("clock", "alive_", "occupied", "when", "basis"),
    [
        ("09:58", None, None, When.BEFORE, "clock"),
        ("10:20", None, None, When.DURING, "clock"),
        ("10:52", True, True, When.AFTER, "clock"),  # orphans: alive, and after it
        ("10:52", None, None, When.AFTER, "clock"),
        ("09:58", True, None, When.DURING, "pid"),  # the clocks differ: before the run its processes did not exist
        ("10:20", None, False, When.UNKNOWN, "amount"),  # an empty card in the middle of the run is of another clock
        (None, True, None, When.UNKNOWN, "pid"),  # alive or left behind
        (None, None, None, When.UNKNOWN, None),
    ],
)
def test_when(clock: str | None, alive_: bool | None, occupied: bool | None, when: When, basis: str | None) -> None:
    taken = datetime.fromisoformat(f"2026-02-16T{clock}:00") if clock else None
    found = place(taken, RUN, alive=alive_, occupied=occupied)
    assert (found.when, found.basis) == (when, basis)


def test_a_running_engine_is_told_without_a_clock() -> None:
    running = Run(RUN.began, RUN.last, ended=False)
    assert place(None, running, alive=True).when is When.DURING
    assert place(None, running, occupied=True).when is When.DURING
    assert place(None, running).when is When.UNKNOWN
    assert place(datetime(2026, 2, 16, 12), running).when is When.DURING, "the log ends, the engine need not"


def test_held_is_none_where_the_tool_prints_none() -> None:
    assert held(GpuProcess(0, 1, "x", "C", None)) is None
