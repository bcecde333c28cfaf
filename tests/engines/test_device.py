"""The card at the failure: the sentence's figures, and whose memory a dump shows, for any engine."""

from __future__ import annotations

import pytest

from analyzer.engines.lines import Lines, spell
from analyzer.model import Basis, Fact, Source
from analyzer.model.units import GIB, MIB
from tests.logs import oom, raised, start, told

SOURCE = Source("engine.log", 3, "a line")


def row(index: int, used: int) -> list[str]:
    return [
        f"|   {index}  NVIDIA H100 80GB HBM3          On  |   00000000:{index + 10:02X}:00.0 Off |                    0 |",
        f"| N/A   31C    P0            118W /  700W |   {used:5d}MiB /  81559MiB |      0%      Default |",
        "|                                         |                        |             Disabled |",
        "+-----------------------------------------+------------------------+----------------------+",
    ]


def smi(used: dict[int, int], processes: list[tuple[int, int, str, int]]) -> list[str]:
    """A dump: used MiB by card, and (card, pid, name, MiB) of its processes."""
    return [
        "+-----------------------------------------------------------------------------------------+",
        "| NVIDIA-SMI 570.86.15              Driver Version: 570.86.15      CUDA Version: 12.8     |",
        "|-----------------------------------------+------------------------+----------------------+",
        "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |",
        "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |",
        "|                                         |                        |               MIG M. |",
        "|=========================================+========================+======================|",
        *(line for index, size in used.items() for line in row(index, size)),
        "| Processes:                                                                              |",
        "|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |",
        "|        ID   ID                                                               Usage      |",
        "|=========================================================================================|",
        *(f"|    {gpu}   N/A  N/A         {pid:8d}      C   {name:<34s}  {size:8d}MiB |" for gpu, pid, name, size in processes),
        "+-----------------------------------------------------------------------------------------+",
    ]


REFUSED = (
    "ValueError: Free memory on device cuda:0 (20.00/79.19 GiB) on startup is less than desired GPU memory utilization (0.9, 71.27 GiB). "
    "Decrease GPU memory utilization or reduce GPU memory used by other processes."
)


def others(visible: str | None, processes: list[tuple[int, int, str, int]], tag: str = "") -> float | None:
    """GiB of other processes in the ledger of a start that was refused, beside a dump of two cards."""
    command = [f"CUDA_VISIBLE_DEVICES={visible} vllm serve org/model"] if visible is not None else []
    lines = [f"{tag}{line}" for line in [*start("0.14.0"), *raised(REFUSED)]]
    dump = smi({0: 60610, 1: 60610}, processes)
    ledgers = told(command, lines, dump).ledgers if command else told(lines, dump).ledgers
    (ledger,) = ledgers
    size = ledger.get("other_processes")
    return None if size is None else size / GIB


ON_0, ON_1 = (0, 4711, "python train.py", 60600), (1, 4712, "python other.py", 30300)


@pytest.mark.parametrize(
    ("visible", "processes", "gib"),
    [
        (None, [ON_0, ON_1], 60600 / 1024),
        ("0", [ON_0, ON_1], 60600 / 1024),
        ("1", [ON_0, ON_1], 30300 / 1024),
        ("1,0", [ON_0, ON_1], 30300 / 1024),
        ("1", [ON_0], None),
        (None, [], None),
    ],
)
def test_the_engines_gpu_is_found_in_the_dump(visible: str | None, processes: list[tuple[int, int, str, int]], gib: float | None) -> None:
    assert others(visible, processes) == (None if gib is None else pytest.approx(gib, abs=0.001))


def test_the_engines_own_processes_are_not_others() -> None:
    assert others(None, [ON_0], "(EngineCore pid=4711) ") is None
    assert others(None, [ON_0, (0, 9, "python", 1024)], "(EngineCore pid=4711) ") == pytest.approx(1.0)


def test_a_sentence_of_any_engine_makes_a_ledger() -> None:
    report = told(["a server that nobody knows", *raised(oom(total="79.19 GiB", own="79.05 GiB", free="100.00 MiB"))])
    (ledger,) = report.ledgers
    assert report.engine.name is None
    assert ledger.get("total") == round(79.19 * GIB)
    assert ledger.get("process") == round(79.05 * GIB)


@pytest.mark.parametrize(("free", "unaccounted"), [("142.00 MiB", None), ("100.00 MiB", 43.36), ("1.10 GiB", -983.04)])
def test_the_rest_is_told_where_it_is_more_than_rounding(free: str, unaccounted: float | None) -> None:
    """79.19 − 79.05 GiB are 143.36 MiB."""
    (ledger,) = told([*start(), *raised(oom(total="79.19 GiB", own="79.05 GiB", free=free), "profiling")]).ledgers
    size = ledger.get("unaccounted")
    assert (None if size is None else size / MIB) == (None if unaccounted is None else pytest.approx(unaccounted, abs=0.02))


def test_every_gpu_that_fails_has_a_ledger() -> None:
    lines = [f"(Worker_TP{rank} pid={rank + 9}) {line}" for rank in (1, 3) for line in raised(oom(gpu=rank), "profiling")]
    assert [(ledger.gpu, ledger.rank) for ledger in told([*start("0.10.2", tp=4), *lines]).ledgers] == [(1, 1), (3, 3)]


# --- putting lines together -----------------------------------------------------------------------------------------------------------


def test_the_first_amount_of_a_name_stays() -> None:
    lines = Lines()
    lines.measured("free", Fact("oom.free", 1.5, "GiB", SOURCE))
    lines.derived("free", GIB, "a formula")
    lines.estimated("weights", 2 * GIB, "a shape")
    ledger = lines.ledger(0, 1, 1, "profiling")
    assert [(line.name, line.bytes, line.basis) for line in ledger.lines] == [
        ("weights", 2 * GIB, Basis.ESTIMATED),
        ("free", round(1.5 * GIB), Basis.MEASURED),
    ]
    assert "free" in lines
    assert lines.get("total") is None


@pytest.mark.parametrize("fact", [None, Fact("oom.free", 0, "GiB", SOURCE), Fact("oom.free", "all of it", "", SOURCE)])
def test_what_is_unknown_or_nothing_is_left_out(fact: Fact | None) -> None:
    lines = Lines()
    lines.measured("free", fact)
    lines.derived("budget", None, "nothing")
    assert "free" not in lines
    assert not lines


def test_a_formula_spells_its_figures() -> None:
    assert spell("total × {u} = {t} × {u}", t=round(15.77 * GIB), u=0.95) == "total × 0.95 = 15.77 GiB × 0.95"


@pytest.mark.parametrize("others", ["", "Process 90417 has 78.90 GiB memory in use."])
def test_a_process_that_nvml_did_not_know_has_no_line(others: str) -> None:
    """It holds at least what PyTorch holds in it: 0 bytes are a figure that is missing, and whose the listed process is stays open."""
    (ledger,) = told([*start(), *raised(oom(own="0 bytes", others=others), "profiling")]).ledgers
    assert {"torch_allocated", "free"} <= {line.name for line in ledger.lines}
    assert not {"process", "process_non_torch", "other_processes", "unaccounted"} & {line.name for line in ledger.lines}
