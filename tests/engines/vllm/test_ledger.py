"""The ledger of every era out of the lines that it prints, and that it closes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzer.model import Basis, Ledger, Report
from analyzer.model.ledger import BUDGET_PARTS, DEVICE_PARTS, PROCESS_PARTS
from analyzer.model.units import GIB
from tests.logs import AVAILABLE, READY, WEIGHTS, oom, raised, start, told

#: Printed figures have two decimals: an identity closes within this.
ROUNDING_GIB = 0.02


def gib(ledger: Ledger) -> dict[str, float]:
    return {line.name: line.bytes / GIB for line in ledger.lines}


def closes(ledger: Ledger) -> None:
    """Every identity whose parts are there closes within the rounding."""
    have = gib(ledger)
    for whole, parts, needed in (
        ("budget", BUDGET_PARTS, ("weights", "kv_cache", "non_torch", "activation_peak")),
        ("total", DEVICE_PARTS, ("process", "free")),
        ("process", PROCESS_PARTS, PROCESS_PARTS),
    ):
        if whole in have and all(part in have for part in needed):
            rest = have[whole] - sum(have.get(part, 0.0) for part in parts)
            assert abs(rest) <= ROUNDING_GIB + 1e-9, (whole, rest, have)


def only(report: Report) -> Ledger:
    (ledger,) = report.ledgers
    closes(ledger)
    return ledger


def v0(
    total: float, share: float, weights: float, non_torch: float, peak: float, *, version: str = "0.6.5", max_len: int = 8192
) -> list[str]:
    """The head of a V0 start with its profile lines (0.6.5 to 0.10.2); every figure in GiB."""
    budget = total * share
    return [
        (
            f"INFO 08-16 22:31:00 llm_engine.py:237] Initializing an LLM engine (v{version}) with config: model='org/model', "
            f"dtype=torch.bfloat16, max_seq_len={max_len}, tensor_parallel_size=1, pipeline_parallel_size=1"
        ),
        "INFO 08-16 22:31:21 worker.py:225] Memory profiling takes 16.72 seconds",
        (
            "INFO 08-16 22:31:21 worker.py:225] the current vLLM instance can use "
            f"total_gpu_memory ({total:.2f}GiB) x gpu_memory_utilization ({share:.2f}) = {budget:.2f}GiB"
        ),
        (
            f"INFO 08-16 22:31:21 worker.py:225] model weights take {weights:.2f}GiB; non_torch_memory takes {non_torch:.2f}GiB; PyTorch "
            f"activation peak memory takes {peak:.2f}GiB; the rest of the memory reserved for KV Cache is "
            f"{budget - weights - non_torch - peak:.2f}GiB."
        ),
    ]


SUMMARY = (
    "(EngineCore_DP0 pid=8603) INFO 10-13 19:45:34 [gpu_worker.py:768] Free memory on device ({free}/{total} GiB) on startup. Desired GPU "
    "memory utilization is ({share}, {budget} GiB). Actual usage is {usage} GiB for CUDAGraph memory. Replace gpu_memory_utilization "
    "config with `--kv-cache-memory=5326884204` (4.96 GiB) to fit into requested memory, or `--kv-cache-memory=6540366809` (6.09 GiB) to "
    "fully utilize gpu memory. Current kv cache memory in use is {kv} GiB."
)


def v1(version: str, usage: str, kv: str, *, weights: str = "5.98", estimate: str = "") -> list[str]:
    """A V1 start up to ready with its summary line; 15.55 GiB at 0.85."""
    tag = "(EngineCore_DP0 pid=8603) INFO 10-13 19:45:20 [gpu_model_runner.py:5686]"
    estimated = f"{tag} Estimated CUDA graph memory: {estimate} GiB total"
    summary = SUMMARY.format(free="14.35", total="15.55", share="0.85", budget="13.22", usage=usage, kv=kv)
    head = [*start(version), WEIGHTS.format(weights=weights)]
    return [*head, *([estimated] if estimate else []), AVAILABLE.format(kv=kv), summary, READY]


ERAS = {
    "0.6.4: one line": (
        [
            "INFO 09-07 23:47:00 llm_engine.py:237] Initializing an LLM engine (v0.6.4) with config: model='org/model', max_seq_len=8192",
            "INFO 09-07 23:47:20 model_runner.py:1077] Loading model weights took 8.0000 GB",
            (
                "INFO 09-07 23:47:26 worker.py:232] Memory profiling results: total_gpu_memory=22.07GiB initial_memory_usage=9.81GiB "
                "peak_torch_memory=12.10GiB memory_usage_post_profile=10.06GiB non_torch_memory=0.48GiB kv_cache_size=8.39GiB "
                "gpu_memory_utilization=0.95"
            ),
        ],
        {"total": 22.07, "budget": 20.97, "weights": 8.0, "activation_peak": 4.10, "non_torch": 0.48, "kv_cache": 8.39},
    ),
    "0.6.5: three lines": (
        v0(95.13, 0.90, 25.58, 1.59, 5.77),
        {"total": 95.13, "budget": 85.62, "weights": 25.58, "activation_peak": 5.77, "non_torch": 1.59, "kv_cache": 52.68},
    ),
    "0.10.2: the summary, graphs outside": (
        v1("0.10.2", "5.98 GiB for weight, 1.56 GiB for peak activation, 0.30 GiB for non-torch memory, and 0.50", "5.38"),
        {
            "total": 15.55,
            "budget": 13.22,
            "weights": 5.98,
            "activation_peak": 1.56,
            "non_torch": 0.30,
            "kv_cache": 5.38,
            "cuda_graphs": 0.5,
        },
    ),
    "0.26.0: the summary, the estimate inside": (
        v1("0.26.0", "5.98 GiB for weight, 1.56 GiB for peak activation, 0.30 GiB for non-torch memory, and 0.50", "4.93", estimate="0.45"),
        {"budget": 13.22, "weights": 5.98, "activation_peak": 1.56, "non_torch": 0.30, "kv_cache": 4.93, "cuda_graphs_reserved": 0.45},
    ),
    "0.27.0: consumed, the printed peak holds the estimate": (
        v1("0.27.0", "6.36 GiB for consumed memory (weights + non-torch), 1.65 GiB for peak activation, and 0.10", "5.2", estimate="0.09"),
        {"budget": 13.22, "weights": 5.98, "activation_peak": 1.56, "non_torch": 0.38, "kv_cache": 5.2, "cuda_graphs_reserved": 0.09},
    ),
}


CONSUMED = "6.36 GiB for consumed memory (weights + non-torch), 1.65 GiB for peak activation, and 0.10"


def test_a_figure_that_no_line_divides_stays_in_the_plan() -> None:
    """0.27.0+: a paste of the summary alone tells neither the weights from the rest nor the peak from the graphs."""
    ledger = only(told(v1("0.27.0", CONSUMED, "5.2")[3:]))
    parts = {line.name: (line.bytes / GIB, line.basis) for line in ledger.lines if line.name in BUDGET_PARTS}
    assert parts == {
        "weights": (pytest.approx(6.36), Basis.ESTIMATED),
        "kv_cache": (pytest.approx(5.2), Basis.MEASURED),
        "activation_peak": (pytest.approx(1.65), Basis.ESTIMATED),
    }
    assert sum(size for size, _ in parts.values()) == pytest.approx(gib(ledger)["budget"], abs=0.02)


@pytest.mark.parametrize(("log", "wanted"), ERAS.values(), ids=ERAS.keys())
def test_the_plan_of_every_era(log: list[str], wanted: dict[str, float]) -> None:
    have = gib(only(told(log)))
    assert {name: have.get(name) for name in wanted} == {name: pytest.approx(size, abs=0.011) for name, size in wanted.items()}


_SIZES = st.floats(0.05, 30).map(lambda size: round(size, 2))


@settings(max_examples=40, deadline=None)
@given(st.floats(15, 280).map(lambda size: round(size, 2)), st.integers(50, 99), _SIZES, _SIZES, _SIZES)
def test_v0s_lines_close_whatever_their_figures(total: float, share: int, weights: float, non_torch: float, peak: float) -> None:
    ledger = only(told(v0(total, share / 100, weights, non_torch, peak)))
    assert gib(ledger)["kv_cache"] == pytest.approx(total * share / 100 - weights - non_torch - peak, abs=0.006)


def test_a_negative_pool_is_what_the_engine_printed() -> None:
    assert gib(only(told(v0(23.67, 0.80, 18.0, 1.0, 2.0))))["kv_cache"] == pytest.approx(-2.06, abs=0.011)


def test_what_no_line_says_is_absent() -> None:
    ledger = only(told([*start(), WEIGHTS.format(weights="14.99"), AVAILABLE.format(kv="5.86"), READY]))
    assert {line.name for line in ledger.lines} == {"weights", "kv_cache"}
    assert told(start()).ledgers == []


def test_a_measured_line_names_its_source_a_derived_one_its_formula() -> None:
    ledger = only(told(ERAS["0.6.4: one line"][0]))
    basis = {line.name: line.basis for line in ledger.lines}
    assert basis == {
        "total": Basis.MEASURED,
        "budget": Basis.DERIVED,
        "weights": Basis.MEASURED,
        "kv_cache": Basis.MEASURED,
        "activation_peak": Basis.DERIVED,
        "non_torch": Basis.MEASURED,
    }
    peak = ledger.line("activation_peak")
    assert peak is not None
    assert "12.10" in (peak.formula or "")
    assert "8.00" in (peak.formula or "")


def test_every_rank_has_its_own() -> None:
    lines = [f"(Worker_TP{rank} pid={rank + 9}) {WEIGHTS.format(weights=f'{7 + rank}.50')}" for rank in range(3)]
    ledgers = told([*start("0.10.2", tp=3), *lines]).ledgers
    assert [(ledger.rank, ledger.gpu, gib(ledger)["weights"]) for ledger in ledgers] == [(0, 0, 7.5), (1, 1, 8.5), (2, 2, 9.5)]


# --- the card ------------------------------------------------------------------------------------------------------------------------


def test_the_sentence_is_the_card_at_the_failure() -> None:
    sentence = oom(
        tried="4.64 GiB", free="1.37 GiB", total="44.39 GiB", own="41.77 GiB", allocated="40.88 GiB", unused="297.00 MiB",
        others="Process 90417 has 1.25 GiB memory in use.",
    )  # fmt: skip
    have = gib(only(told([*start(), WEIGHTS.format(weights="14.99"), *raised(sentence, "profiling")])))
    del have["budget"]  # by the version's default: an assumption
    assert have == {
        "total": pytest.approx(44.39),
        "weights": pytest.approx(14.99),
        "process": pytest.approx(41.77),
        "torch_allocated": pytest.approx(40.88),
        "reserved_unallocated": pytest.approx(297 / 1024),
        "process_non_torch": pytest.approx(41.77 - 40.88 - 297 / 1024),
        "other_processes": pytest.approx(1.25),
        "free": pytest.approx(1.37),
    }


def test_what_nobody_names_is_unaccounted() -> None:
    sentence = oom(total="79.19 GiB", own="70.00 GiB", free="100.00 MiB", allocated="69.00 GiB")
    have = gib(only(told([*start(), *raised(sentence, "profiling")])))
    assert have["unaccounted"] == pytest.approx(79.19 - 70 - 100 / 1024, abs=0.001)


@settings(max_examples=40, deadline=None)
@given(st.floats(8, 280), st.floats(0, 1), st.floats(0.05, 0.95), st.floats(0, 0.5), st.floats(0, 0.3))
def test_a_sentence_closes_whatever_its_figures(total: float, free: float, share: float, unused: float, others: float) -> None:
    room = total * (1 - free * 0.05)
    other, own = room * others, room * (1 - others)
    sentence = oom(
        free=f"{total - room:.2f} GiB", total=f"{total:.2f} GiB", own=f"{own:.2f} GiB", allocated=f"{own * share * (1 - unused):.2f} GiB",
        unused=f"{own * share * unused:.2f} GiB", others=f"Process 900 has {other:.2f} GiB memory in use." if other >= 0.01 else "",
    )  # fmt: skip
    only(told([*start(), *raised(sentence, "profiling")]))


FREE_BELOW = (
    "ValueError: Free memory on device cuda:0 (20.00/79.19 GiB) on startup is less than desired GPU memory utilization (0.9, 71.27 GiB). "
    "Decrease GPU memory utilization or reduce GPU memory used by other processes."
)
SMI = [
    "+-----------------------------------------------------------------------------------------+",
    "| NVIDIA-SMI 570.86.15              Driver Version: 570.86.15      CUDA Version: 12.8     |",
    "|-----------------------------------------+------------------------+----------------------+",
    "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |",
    "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |",
    "|                                         |                        |               MIG M. |",
    "|=========================================+========================+======================|",
    "|   0  NVIDIA H100 80GB HBM3          On  |   00000000:19:00.0 Off |                    0 |",
    "| N/A   31C    P0            118W /  700W |   60610MiB /  81559MiB |      0%      Default |",
    "|                                         |                        |             Disabled |",
    "+-----------------------------------------+------------------------+----------------------+",
    "| Processes:                                                                              |",
    "|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |",
    "|        ID   ID                                                               Usage      |",
    "|=========================================================================================|",
    "|    0   N/A  N/A            4711      C   python train.py                      60600MiB |",
    "+-----------------------------------------------------------------------------------------+",
]


def test_a_refused_start_and_the_dump_beside_it() -> None:
    have = gib(only(told([*start("0.14.0"), *raised(FREE_BELOW)], SMI)))
    assert have["total"] == pytest.approx(79.19)
    assert have["budget"] == pytest.approx(71.27)
    assert have["free"] == pytest.approx(20.0)
    assert have["other_processes"] == pytest.approx(60600 / 1024, abs=0.001)
    # Without the dump nobody is named: the gap stays a gap.
    alone = gib(only(told([*start("0.14.0"), *raised(FREE_BELOW)])))
    assert "other_processes" not in alone
    assert alone["free"] == pytest.approx(20.0)
