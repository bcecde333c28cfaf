"""Causes that follow from several facts together, on both sides of every threshold."""

from __future__ import annotations

import pytest

from analyzer.model import Confidence, Report, Severity
from tests.logs import FIRST_REQUEST, WEIGHTS, finding, oom, raised, served, start, told

LOADED = [*start(), WEIGHTS.format(weights="14.99")]


def starting(**sentence: str) -> Report:
    return told([*LOADED, *raised(oom(**sentence), "profiling")])  # type: ignore[arg-type]


def serving(**sentence: str) -> Report:
    return told([*served(), FIRST_REQUEST, *raised(oom(**sentence), "profiling")])  # type: ignore[arg-type]


# --- fragmentation: unused memory of at least 1 GiB and four times the request ------------------------------------------------------


@pytest.mark.parametrize(
    ("tried", "unused", "fragmented"),
    [
        ("256.00 MiB", "1.00 GiB", True),
        ("256.00 MiB", "1023.00 MiB", False),
        ("256.00 MiB", "1.50 GiB", True),
        ("20.00 MiB", "900.00 MiB", False),
        ("1.00 GiB", "4.00 GiB", True),
        ("1.00 GiB", "3.99 GiB", False),
        ("2.00 GiB", "4.00 GiB", False),
    ],
)
def test_fragmentation(tried: str, unused: str, fragmented: bool) -> None:
    report = starting(tried=tried, unused=unused, allocated="70.00 GiB")
    assert report.outcome.cause == ("cuda_oom.fragmentation" if fragmented else "cuda_oom.profiling")
    assert report.outcome.stage == "profiling"
    if fragmented:
        assert finding(report, "cuda_oom.profiling").consequence_of == "cuda_oom.fragmentation"


# --- a limit of the process's own ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "free", "limited"),
    [("77.50 GiB", "1.50 GiB", True), ("77.50 GiB", "100.00 MiB", False), ("79.00 GiB", "1.50 GiB", False), ("", "1.50 GiB", False)],
)
def test_a_limit_of_the_process(limit: str, free: str, limited: bool) -> None:
    """There was room on the card, and what is held together with the request is above what is allowed."""
    report = starting(tried="512.00 MiB", free=free, own="77.60 GiB", limit=limit)
    assert report.outcome.cause == ("cuda_oom.process_limit" if limited else "cuda_oom.profiling")


# --- neighbours -----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("others", "neighbour"),
    [
        ("Process 900 has 1.05 GiB memory in use.", True),
        ("Process 900 has 900.00 MiB memory in use.", False),
        ("Process 900 has 600.00 MiB memory in use. Process 901 has 600.00 MiB memory in use.", True),
        ("", False),
    ],
)
def test_a_neighbour_beside_a_service(others: str, neighbour: bool) -> None:
    report = serving(others=others, own="77.00 GiB", allocated="75.00 GiB")
    assert report.outcome.cause == ("cuda_oom.serving.other_process" if neighbour else "cuda_oom.serving")
    if neighbour:
        root = report.root
        assert root is not None
        assert others.split(".")[0] in root.evidence[0].text


def test_a_neighbour_beside_a_start_is_not_the_services_one() -> None:
    assert starting(others="Process 900 has 8.05 GiB memory in use.", own="70.00 GiB").outcome.cause == "cuda_oom.profiling"


REFUSED = (
    "ValueError: Free memory on device (20.00/79.19 GiB) on startup is less than desired GPU memory utilization (0.9, 71.27 GiB). "
    "Decrease GPU memory utilization or reduce GPU memory used by other processes."
)
SMI = """\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 570.86.15              Driver Version: 570.86.15      CUDA Version: 12.8     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA H100 80GB HBM3          On  |   00000000:19:00.0 Off |                    0 |
| N/A   31C    P0            118W /  700W |   {used:5d}MiB /  81559MiB |      0%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+

+-----------------------------------------------------------------------------------------+
| Processes:                                                                              |
|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |
|        ID   ID                                                               Usage      |
|=========================================================================================|
{rows}
+-----------------------------------------------------------------------------------------+"""
ROW = "|    0   N/A  N/A         {pid:8d}      C   {name:<34s}  {used:8d}MiB |"


def smi(*processes: tuple[int, str, int]) -> list[str]:
    rows = "\n".join(ROW.format(pid=pid, name=name, used=used) for pid, name, used in processes)
    return SMI.format(used=sum(used for _, _, used in processes), rows=rows).split("\n")


def test_the_holder_of_the_memory_is_named_by_a_dump() -> None:
    report = told([*start(), *raised(REFUSED)], smi((4711, "python train.py", 60000)))
    assert report.outcome.cause == "startup.other_process"
    root = report.root
    assert root is not None
    assert any("4711" in source.text for source in root.evidence)
    assert finding(report, "startup.free_below_requested").consequence_of == "startup.other_process"


@pytest.mark.parametrize("processes", [(), ((4711, "/usr/lib/xorg/Xorg", 120),)])
def test_without_a_holder_in_the_dump_nobody_is_named(processes: tuple[tuple[int, str, int], ...]) -> None:
    assert told([*start(), *raised(REFUSED)], smi(*processes)).outcome.cause == "startup.free_below_requested"
    assert told([*start(), *raised(REFUSED)]).outcome.cause == "startup.free_below_requested"


def test_ones_own_process_is_no_neighbour() -> None:
    log = [f"(EngineCore_0 pid=4711) {line}" for line in [*start(), *raised(REFUSED)]]
    assert told(log, smi((4711, "VLLM::EngineCore", 60000))).outcome.cause == "startup.free_below_requested"


LAUNCH = "python3 -m vllm.entrypoints.openai.api_server --model /models/{model} --gpu-memory-utilization {share}"
NO_BLOCKS = "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine."
PROFILED = (
    "Memory profiling results: total_gpu_memory=79.15GiB initial_memory_usage=68.01GiB peak_torch_memory=13.25GiB "
    "memory_usage_post_profile=68.18GiB non_torch_memory={beside}GiB kv_cache_size={left}GiB gpu_memory_utilization=0.20"
)


@pytest.mark.parametrize(
    ("launches", "beside", "left", "cause"),
    [
        (2, "58.73", "-56.15", "startup.other_process"),
        (1, "58.73", "-56.15", "kv_cache.no_memory_left"),  # nobody is named
        (2, "3.20", "-0.62", "kv_cache.no_memory_left"),  # what an engine may take by itself
    ],
)
def test_two_servers_are_launched_where_the_neighbour_is_counted(launches: int, beside: str, left: str, cause: str) -> None:
    commands = [LAUNCH.format(model=model, share=share) for model, share in (("72B", 0.75), ("14B", 0.2))][-launches:]
    outcome = told([*commands, "", PROFILED.format(beside=beside, left=left), NO_BLOCKS]).outcome
    assert outcome.cause == cause


# --- unified memory ---------------------------------------------------------------------------------------------------------------------

KILLED = "ERROR 07-01 09:00:00 [multiproc_worker_utils.py:120] Worker VllmWorkerProcess pid 8788 died, exit code: -9"


@pytest.mark.parametrize(("device", "unified"), [("NVIDIA GB10", True), ("Orin (nvgpu)", True), ("NVIDIA H100 80GB HBM3", False)])
def test_a_kill_on_a_device_whose_memory_is_the_hosts(device: str, unified: bool) -> None:
    dump = [line.replace("NVIDIA H100 80GB HBM3", f"{device:<21s}"[:21]) for line in smi()]
    report = told([*start("0.8.5", tp=2), KILLED], dump)
    assert report.outcome.cause == ("unified_memory.exhausted" if unified else "engine.process_killed")
    if unified:
        assert report.outcome.confidence is Confidence.LIKELY


@pytest.mark.parametrize(
    ("said", "unified"),
    [
        ("Jetson Orin NX 16G", True),
        ("docker: dustynv/vllm:0.6.3-r36.4.0", True),
        ("H100, 80 GB", False),
        ('INFO 07-01 09:00:00 logger.py:39] Received request cmpl-1: prompt: "Which Jetson Orin has 16 GB?"', False),
    ],
)
def test_the_text_itself_may_name_such_a_device(said: str, unified: bool) -> None:
    outcome = told([said, *start("0.8.5", tp=2), KILLED]).outcome
    assert outcome.cause == ("unified_memory.exhausted" if unified else "engine.process_killed")


def test_no_rule_speaks_of_a_healthy_start() -> None:
    report = told(served(), smi((4711, "python train.py", 60000)))
    assert report.outcome.cause == "healthy"
    assert not [found for found in report.findings if found.severity is Severity.ERROR]


# --- memory that CPU and GPU share ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("head", "shared"),
    [
        ("Jetson Orin NX 16G", True),
        ("Device: Jetson AGX Orin 64GB (JetPack 6.2)", True),
        ("It runs on my Jetson Orin, but not here:", False),
        ("# note: config copied from our DGX Spark setup", False),
        ("Jetson Orin NX 16G\nGPU 0: NVIDIA A100-SXM4-80GB", False),
    ],
)
def test_shared_memory_is_a_devices_own_name(head: str, shared: bool) -> None:
    """A kill on a Jetson is the shared pool's; a word about another machine proves nothing."""
    report = told([*head.split("\n"), *LOADED, "Killed"])
    assert report.outcome.cause == ("unified_memory.exhausted" if shared else None)


# --- what a worker of V0 says of itself -----------------------------------------------------------------------------------------------

WORKER = "(VllmWorkerProcess pid=214) ERROR 09-27 05:20:38 multiproc_worker_utils.py:233] Exception in worker VllmWorkerProcess while processing method "


@pytest.mark.parametrize(("method", "stage"), [("determine_num_available_blocks", "profiling"), ("load_model", "weight_load")])
def test_a_workers_method_dates_its_error(method: str, stage: str) -> None:
    report = told([f"{WORKER}{method}: {oom().partition('Error: ')[2]}"])
    assert (report.outcome.cause, report.outcome.stage) == (f"cuda_oom.{stage}", stage)


def test_a_worker_that_was_told_to_end_does_not_hide_the_error() -> None:
    died = "ERROR 09-27 05:20:38 multiproc_worker_utils.py:120] Worker VllmWorkerProcess pid 214 died, exit code: -15"
    report = told([died, f"[rank0]: {oom()}"])
    assert report.outcome.cause is None
    assert "GPU memory" in report.findings[0].title.en
