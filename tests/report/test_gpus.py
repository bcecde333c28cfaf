"""A dump alone is shown as what it is, on a terminal and as Markdown, and a course as one column a card and process."""

from __future__ import annotations

import io

import pytest

from analyzer import analyze
from analyzer.model import Gpu, GpuProcess, GpuSnapshot, Report, Source
from analyzer.report.gpus import MOMENTS, PROCESSES, over_time, tables
from analyzer.report.markdown import markdown
from analyzer.report.text import text

CARDS = """\
index, name, memory.used [MiB], memory.total [MiB], ecc.errors.uncorrected.volatile.total
0, NVIDIA | A100, 71034 MiB, 81920 MiB, 0
1, NVIDIA A100, 4 MiB, 81920 MiB, 3
"""
APPS = """\
timestamp, pid, process_name, used_gpu_memory [MiB]
2025/09/24 14:00:00.031, 1881, VLLM::EngineCore, 72340 MiB
2025/09/24 14:02:00.031, 1881, VLLM::EngineCore, 72340 MiB
2025/09/24 14:02:00.031, 90417, python3, 3910 MiB
"""


def report(**files: str) -> Report:
    return analyze([(name, io.BytesIO(content.encode())) for name, content in files.items()])


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_dump_alone_is_explained(language: str) -> None:
    found = report(cards=CARDS)
    assert (found.outcome.state, found.outcome.cause) == ("unknown", None)
    shown = text(found, language, width=100, color=False, url=None)
    assert "71,034" in shown
    assert "81,920" in shown
    assert "69.37 GiB" in shown
    pasted = markdown(found, language)
    assert "NVIDIA \\| A100" in pasted, "a cell never ends its column"
    rows = [line for line in pasted.splitlines() if line.startswith("| ")]
    assert len({line.replace("\\|", "").count("|") for line in rows}) == 1


def test_sizes_that_a_tool_rounds_are_shown_as_it_prints_them() -> None:
    monitor = (
        "GPU  POWER   GPU_T   MEM_T   GFX_CLK   GFX%   MEM%   ENC%   DEC%      VRAM_USAGE\n"
        "  0  305 W   49 °C   43 °C  2106 MHz   97 %    1 %    N/A    0 %    3.0/191.7 GB\n"
    )
    shown = text(report(monitor=monitor), "en", width=100, color=False, url=None)
    assert "3 GB  191.7 GB" in shown.replace("   ", "  ")
    assert "GPU 0: 3 of 191.7 GB in use." in shown


def test_slices_of_an_exporter_are_shown() -> None:
    """A card in MIG mode: each GPU instance has figures of its own, and the card none."""
    line = 'DCGM_FI_DEV_FB_{name}{{gpu="0",UUID="GPU-1",modelName="NVIDIA A30",GPU_I_PROFILE="1g.6gb",GPU_I_ID="{part}"}} {size}\n'
    figures = [("FREE", 3, 5912), ("FREE", 4, 1200), ("USED", 3, 12), ("USED", 4, 4724)]
    found = report(metrics="".join(line.format(name=name, part=part, size=size) for name, part, size in figures))
    (snapshot,) = found.gpu_snapshots
    assert [(part.gpu_instance, part.memory_used_mib, part.memory_free_mib) for part in snapshot.mig_devices] == [
        (3, 12, 5912),
        (4, 4724, 1200),
    ]
    assert [(card.mig, card.memory_used_mib) for card in snapshot.gpus] == [(True, None)]
    assert "GI 4" in text(found, "en", width=100, color=False, url=None)


def test_lines_keep_to_the_width() -> None:
    shown = text(report(apps=APPS), "en", width=60, color=False, url=None)
    assert max(map(len, shown.splitlines())) <= 60


def test_processes_have_their_own_columns() -> None:
    table = over_time(report(apps=APPS).gpu_snapshots, str)
    assert table is not None
    assert [column.split()[0] for column in table.columns[1:]] == ["1881", "90417"]
    assert [row[1:] for row in table.rows] == [("72,340", ""), ("72,340", "3,910")]


def test_many_dumps_are_thinned_and_the_last_one_stays() -> None:
    snapshots = [
        GpuSnapshot(
            Source("smi.txt", at, ""),
            time=f"{at}",
            gpus=[Gpu(0, memory_used_mib=float(at))],
            processes=[GpuProcess(0, pid, f"p{pid}", "C", float(pid)) for pid in range(1, 20)],
        )
        for at in range(1, 500)
    ]
    table = over_time(snapshots, str)
    assert table is not None
    assert len(table.rows) <= MOMENTS + 1
    assert table.rows[-1][:2] == ("499", "499")
    assert len(table.columns) == 2 + PROCESSES
    assert over_time(snapshots[:1], str) is None


def test_beside_a_log_the_ledger_speaks() -> None:
    log = "INFO 01-09 20:10:02 model_runner.py:1099] Loading model weights took 2.6829 GB\n"
    assert tables(report(log=log, cards=CARDS), str) == []


def test_what_is_odd_about_a_card_is_noted() -> None:
    found = report(cards=CARDS)
    notes = [row[2] for table in tables(found, str)[:1] for row in table.rows]
    assert notes == ["", "3 uncorrectable ECC errors"]
