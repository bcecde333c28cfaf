"""Host memory over time, tiny checkpoint files, exit codes, and what the kernel's log says beside an engine's."""

from __future__ import annotations

import pytest

from tests.diagnosis.texts import BANNER, NCCL, READY, WEIGHTS, found, said, statistics

SERVING = BANNER.format(version="0.11.2") + NCCL + WEIGHTS + READY + statistics([(3, 0, 12.0), (3, 0, 12.5), (2, 0, 9.0)])
POD = (
    "$ kubectl describe pod llm-0\nName:         llm-0\nContainers:\n  vllm:\n    Image:         "
    "vllm/vllm-openai:v0.11.2\n    Last State:     Terminated\n"
    "      Reason:       OOMKilled\n      Exit Code:    137\n    Limits:\n      memory:          32Gi\n"
)
GROWTH, KILLED = "host_oom.killed.rss_growth", "host_oom.killed"


def course(host: list[float], card: list[int]) -> str:
    """A table of memory over time as somebody exports it."""
    rows = [f"2025-11-19T{hour:02d}:00,{used},{gpu}" for hour, (used, gpu) in enumerate(zip(host, card, strict=True))]
    return "\n".join(["time,container_rss_gib,gpu_used_mib", *rows]) + "\n"


RISING = [6.1, 9.0, 12.2, 15.1, 18.0, 21.3, 24.2, 27.0, 29.9, 31.6]
NOISY = [6.1, 9.4, 9.1, 14.8, 14.2, 19.9, 23.0, 22.8, 28.5, 31.2]
STEP = [6.0, 6.0, 6.1, 6.0, 6.1, 6.1, 6.0, 6.1, 31.5, 31.6]
FLAT = [30.8, 30.9, 30.8, 30.9, 30.8, 30.9, 30.8, 30.9, 30.8, 30.9]
STEADY = [21040, *[21212] * 9]


@pytest.mark.parametrize(
    ("inputs", "cause"),
    [
        ((POD, course(RISING, STEADY), SERVING), GROWTH),
        ((SERVING, course(NOISY, STEADY), POD), GROWTH),
        ((SERVING, POD), KILLED),
        ((SERVING, course(STEP, STEADY), POD), KILLED),  # one step is a load, no growth
        ((SERVING, course(FLAT, STEADY), POD), KILLED),
        ((SERVING, course([9.0, 31.6], [21212, 21212]), POD), KILLED),  # two readings are no course
        ((SERVING, course([value / 3 for value in RISING], STEADY), POD), KILLED),  # ended far below the limit
        ((SERVING, course(RISING, [10000 + 1000 * step for step in range(10)]), POD), KILLED),  # the card grew with it
    ],
)
def test_growth_up_to_the_limit(inputs: tuple[str, ...], cause: str) -> None:
    outcome = said(*inputs).outcome
    assert (outcome.state.value, outcome.cause, outcome.stage) == ("failed", cause, "serving")


def test_growth_alone_is_no_failure() -> None:
    assert said(SERVING, course(RISING, STEADY)).outcome.state.value == "healthy"


LINE = [38000 + 700 * step for step in range(10)]
LEAK_OOM = (
    "(Worker_TP0 pid=4102) ERROR 01-25 21:40:36 [multiproc_executor.py:822] torch.OutOfMemoryError: CUDA out of "
    "memory. Tried to allocate 512.00 MiB. "
    "GPU 0 has a total capacity of 44.39 GiB of which 137.12 MiB is free. Including non-PyTorch memory, this "
    "process has 44.20 GiB memory in use. "
    "Of the allocated memory 42.13 GiB is allocated by PyTorch, and 97.00 MiB is reserved by PyTorch but unallocated.\n"
)


@pytest.mark.parametrize(
    ("command", "card", "cause"),
    [
        ("", LINE, "engine.version_bug.gpu_leak"),
        ("vllm serve m --kv-offloading-backend native\n", LINE, "engine.version_bug.gpu_leak.kv_offload"),
        ("", [38000] * 8 + [45000, 45200], "cuda_oom.serving"),
        ("", [38000 + 700 * step for step in range(4)], "cuda_oom.serving"),
    ],
)
def test_a_straight_line_to_the_end_of_the_card(command: str, card: list[int], cause: str) -> None:
    table = course([8.0] * len(card), card)
    outcome = said(SERVING + LEAK_OOM, table, *([command] if command else [])).outcome
    assert (outcome.cause, outcome.stage) == (cause, "serving")


HEADER_TOO_LARGE = (
    "(EngineCore_DP0 pid=4050) ERROR 01-25 19:41:02 [core.py:1123] safetensors_rust.SafetensorError: Error while "
    "deserializing header: HeaderTooLarge\n"
)


@pytest.mark.parametrize(
    ("listing", "cause"),
    [
        ("-rw-r--r-- 1 root root 135 Mar  3 04:11 model-00002-of-00002.safetensors\n", "checkpoint.lfs_pointer"),
        ("-rw-r--r-- 1 root root 3621273600 model-00001-of-00011.safetensors\n", "checkpoint.corrupt_or_incomplete"),
        ("lrwxrwxrwx 1 root root 79 Mar  3 04:11 model.safetensors -> ../../blobs/0a1b\n", "checkpoint.corrupt_or_incomplete"),
        ("-rw-r--r-- 1 root root 135 Mar  3 04:11 config.json\n", "checkpoint.corrupt_or_incomplete"),
    ],
)
def test_a_shard_of_a_few_bytes_is_a_pointer(listing: str, cause: str) -> None:
    outcome = said(BANNER.format(version="0.11.2") + NCCL + HEADER_TOO_LARGE, listing).outcome
    assert (outcome.cause, outcome.stage) == (cause, "weight_load")


@pytest.mark.parametrize(
    ("code", "cause", "confidence"),
    [
        (-7, "shm.too_small", "likely"),
        (-4, "install.cpu_instruction_missing", "likely"),
        (-9, "engine.process_killed", "certain"),
        (-11, "process.segfault", "certain"),
        (-6, None, None),
        (1, None, None),
    ],
)
def test_what_an_exit_code_says(code: int, cause: str | None, confidence: str | None) -> None:
    died = (
        f"(EngineCore pid=4050) ERROR 04-26 14:05:22 [multiproc_executor.py:380] Worker proc VllmWorker-0 died "
        f"unexpectedly (exit code: {code}), shutting down executor.\n"
    )
    outcome = said(BANNER.format(version="0.26.0") + NCCL + died).outcome
    assert (outcome.state.value, outcome.cause) == ("failed", cause)
    assert confidence in (None, outcome.confidence.value)


DECEMBER = "Tue Dec  2 03:04:05 2025"
EVENING, DAYS_LATER = "Sun Jan 25 20:04:01 2026", "Wed Jan 28 09:12:44 2026"
CONTAINED = SERVING.replace("pid=4001", "pid=1").replace("pid=4102", "pid=231")
LOST = "[9.2] NVRM: Xid (PCI:0000:83:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
XID = "[{clock}] NVRM: Xid (PCI:0000:83:00): {code}, pid={pid}, name={name}, Ch 00000008\n"
KILL = (
    "[{clock}] Out of memory: Killed process {pid} ({name}) total-vm:91823344kB, anon-rss:61220044kB, file-rss:70212kB, shmem-rss:10240kB\n"
)
STRAY = (
    "(Worker_TP0 pid=4102) ERROR 01-25 20:04:05 [multiproc_executor.py:671] RuntimeError: CUDA error: an illegal "
    "memory access was encountered\n"
)
LAUNCH = STRAY.replace("an illegal memory access was encountered", "unspecified launch failure")


OOMD = (
    "Mar 03 04:11:09 gpu1 systemd-oomd[812]: {word} due to memory used (66512281600) / total (67296841728) and swap used (8589930496) / "
    "total (8589930496) being more than 90.00%\n"
)
UNIT = "Mar 03 04:11:09 gpu1 systemd[1]: {unit}: {words}\n"
KERNEL, OLD = "The kernel OOM killer killed some processes in this unit.", "A process of this unit has been killed by the OOM killer."
BROWSER = (
    "/user.slice/user-1002.slice/user@1002.service/app.slice/app-chrome\\x2diidheibmjbpieikekgapdklcblnmllmh\\x2dDefault@8fdcfdb5.service"
)
LIMIT = "[9.0] Task in {group} killed as a result of limit of {group}\n"
GROUP = "/kubepods.slice/kubepods-burstable.slice/docker-b27201334a41cd.scope"


@pytest.mark.parametrize(
    ("log", "kernel", "state", "cause"),
    [
        # A server that serves, and the units of others; alone they tell nothing of a server.
        (SERVING, OOMD.format(word=f"Killed {BROWSER}"), "healthy", "healthy"),
        (SERVING, UNIT.format(unit="system-postgresql.slice", words=OLD), "healthy", "healthy"),
        ("", UNIT.format(unit="system-postgresql.slice", words=OLD), "unknown", None),
        ("", UNIT.format(unit="user.slice", words=KERNEL), "unknown", None),
        ("", UNIT.format(unit="vte-spawn-5207.scope", words="systemd-oomd killed 29 process(es) in this unit."), "unknown", None),
        ("", OOMD.format(word="Marked /user.slice/user-1000.slice/session-924.scope for killing"), "unknown", None),
        ("", KILL.format(clock="9.1", pid=2210, name="chrome"), "unknown", None),
        ("", "earlyoom[454]: low memory! at or below SIGTERM limits: mem 10.00%, swap 10.00%\n", "unknown", None),
        ("", 'earlyoom[454]: sending SIGTERM to process 9994 uid 1000 "termshark": badness 1181, VmRSS 4568 MiB\n', "unknown", None),
        # Its own.
        ("", UNIT.format(unit="vllm.service", words=KERNEL), "failed", KILLED),
        ("", UNIT.format(unit="ollama.service", words="Failed with result 'oom-kill'."), "failed", KILLED),
        (CONTAINED, OOMD.format(word="Marked /system.slice/docker-85218894dbf3.scope for killing"), "failed", KILLED),
        ("", OOMD.format(word="Killed /system.slice/vllm.service"), "failed", KILLED),
        ("", KILL.format(clock="9.1", pid=2210, name="lmcache"), "failed", KILLED),
        # A container, as long as the kernel does not name what was killed in it.
        ("", LIMIT.format(group=GROUP), "failed", KILLED),
        ("", LIMIT.format(group=GROUP) + KILL.format(clock="9.1", pid=812, name="nginx"), "unknown", None),
        ("", LIMIT.format(group=GROUP) + KILL.format(clock="9.1", pid=812, name="python3"), "failed", KILLED),
    ],
)
def test_whose_memory_kill_it_was(log: str, kernel: str, state: str, cause: str | None) -> None:
    report = said(*([log] if log else []), kernel)
    assert (report.outcome.state.value, report.outcome.cause) == (state, cause)
    if state == "unknown":
        assert report.findings[0].evidence


@pytest.mark.parametrize(
    ("first", "then", "follows"),
    [("14328.198504", "14370.687545", False), ("14370.687545", "14371.198504", True)],
)
def test_what_the_kernel_printed_before_did_not_follow(first: str, then: str, *, follows: bool) -> None:
    """By the kernel's own clock, a fault of a program before a card's failure is no consequence of it."""
    codes = (62, 31) if follows else (31, 62)
    lines = [XID.format(clock=clock, code=code, pid=13332, name="python3") for clock, code in zip((first, then), codes, strict=True)]
    report = said("".join(lines))
    assert report.outcome.cause == "gpu.xid.62"
    fault = found(report, "gpu.xid.31")
    assert fault is not None
    assert fault.severity.value == ("error" if follows else "warning")


DEAD_ROW = "|ERR!  ERR! ERR!    ERR! / ERR! |      0MiB / 46068MiB |    ERR!      Default |\n"


@pytest.mark.parametrize(("log", "state", "cause"), [(SERVING, "healthy", "healthy"), ("", "failed", "gpu.lost")])
def test_a_card_that_does_not_answer_may_be_anothers(log: str, state: str, cause: str) -> None:
    """A server that serves is not failed by a dead card of the same machine."""
    outcome = said(*([log] if log else []), DEAD_ROW).outcome
    assert (outcome.state.value, outcome.cause) == (state, cause)


def test_a_card_that_never_initialised_is_why_none_is_listed() -> None:
    kernel = (
        "NVRM: _kgspBootGspRm: unexpected WPR2 already up, cannot proceed with booting GSP\nNVRM: RmInitAdapter: Cannot initialize GSP "
        "firmware RM\nNVRM: RmInitAdapter failed! (0x62:0x40:2028)\n"
    )
    report = said(kernel + "$ nvidia-smi\nNo devices were found\n")
    none = found(report, "device.none_visible")
    assert report.outcome.cause == "gpu.lost"
    assert none is not None
    assert none.consequence_of == "gpu.lost"


def test_the_xid_that_a_removed_channel_was_for() -> None:
    line = "kernel: NVRM: Xid (PCI:0000:dc:00): 45, pid=1818990, name=python3, Ch 00000001 caused by previous Xid 149\n"
    report = said(line)
    assert (report.outcome.state.value, report.outcome.cause) == ("failed", "gpu.xid.149")
    assert found(report, "gpu.xid.45") is not None


SHARED_ROWS = (
    "|   0  NVIDIA GB10                    Off |   0000000F:01:00.0 Off |                  N/A |\n"
    "| N/A   41C    P0             11W /  N/A  | Not Supported          |      0%      Default |\n"
)
EARLYOOM = 'earlyoom[1593]: sending SIGTERM to process 2806237 uid 1000 "VLLM::EngineCor": badness 994, VmRSS 4229 MiB\n'
TEGRA = "09-19-2026 10:00:00 RAM 7011/7620MB (lfb 4x4MB) SWAP 3210/3810MB (cached 0MB)\n"


@pytest.mark.parametrize(
    ("device", "kill", "cause"),
    [
        (SHARED_ROWS, EARLYOOM, "unified_memory.exhausted"),
        (TEGRA, KILL.format(clock="9.1", pid=5120, name="python3"), "unified_memory.exhausted"),
        (
            "NvMapMemAllocInternalTagged: 1075072515 error 12\n",
            KILL.format(clock="9.1", pid=5120, name="python3"),
            "unified_memory.exhausted",
        ),
        (TEGRA, "", None),
        ("", EARLYOOM, KILLED),
    ],
)
def test_a_kill_where_cpu_and_gpu_share_one_memory(device: str, kill: str, cause: str | None) -> None:
    report = said(device + kill)
    assert report.outcome.cause == cause
    if cause == "unified_memory.exhausted":
        assert "--gpu-memory-utilization" in report.findings[0].fixes[0].title.en
        assert not any("--gpu-memory-utilization" in advice.advice.en for advice in report.findings[0].not_this)


STATE = '        "State": {\n            "OOMKilled": false,\n            "Dead": false,\n            "ExitCode": 137,\n            "Error": ""\n        },\n'
ROWS = "$ docker compose ps -a\nNAME IMAGE STATUS\n{webui}\n{vllm}\n"
EXITED = 'open-webui ghcr.io/open-webui:main "bash" Exited (137) 2 hours ago'
UP, DOWN = (f'vllm vllm/vllm-openai:v0.11.2 "serve" {status}' for status in ("Up 3 hours", "Exited (137) 2 minutes ago"))


def test_a_state_that_was_cut_out_of_docker_inspect() -> None:
    inspected = "$ docker container inspect d8c84ff97103 | grep '\"State\":' -A 12\n" + STATE
    alone = said(inspected)
    assert [(fact.name, fact.value) for fact in alone.facts] == [("process.exit_code", 137)]
    assert alone.outcome.cause is None  # of whatever runs in it
    assert said(SERVING + inspected).outcome.cause == "engine.process_killed"
    assert said(SERVING + "$ docker stop vllm\nvllm\n" + inspected).outcome.cause == "healthy"
    assert said("$ docker stop vllm\nvllm\n" + SERVING + inspected).outcome.cause == "engine.process_killed"


@pytest.mark.parametrize(("webui", "vllm", "cause"), [(EXITED, UP, "healthy"), ("", DOWN, "engine.process_killed")])
def test_a_row_of_docker_is_about_its_own_container(webui: str, vllm: str, cause: str) -> None:
    assert said(ROWS.format(webui=webui, vllm=vllm) + "$ docker logs vllm\n" + SERVING).outcome.cause == cause


NO_MEMORY = (
    "[81055.061480] NVRM: nvCheckOkFailedNoLog: Check failed: Out of memory [NV_ERR_NO_MEMORY] (0x00000051) returned from "
    "_memdescAllocInternal(pMemDesc) @ mem_desc.c:1359\n"
)


@pytest.mark.parametrize(("log", "state"), [("", "unknown"), (SERVING, "healthy")])
def test_the_drivers_own_shortage_is_no_failure(log: str, state: str) -> None:
    assert said(log + NO_MEMORY).outcome.state.value == state


STEP_KILLED = "slurmstepd: error: Detected 1 oom_kill event in StepId=48100.batch. Some of the step tasks have been OOM Killed.\n"
RUNS_AGAIN = POD.replace("  vllm:\n", "  vllm:\n    State:          Running\n")
PODS = "embed-5d8f9c-aaaaa  0/1  OOMKilled  3 (41s ago)  12m\nvllm-qwen-0  1/1  Running  0  3h\n"


@pytest.mark.parametrize(
    ("before", "cause"),
    [
        (PODS, "healthy"),
        (PODS + "$ kubectl logs vllm-qwen-0\n", "healthy"),
        (PODS.replace("embed", "vllm") + "$ kubectl logs vllm-5d8f9c-aaaaa\n", KILLED),
        (PODS.splitlines()[0] + "\n", KILLED),
        (RUNS_AGAIN, "healthy"),
        (RUNS_AGAIN + "$ kubectl logs llm-0 --previous\n", KILLED),
        (STEP_KILLED + "[job 48211]\n", "healthy"),
        (STEP_KILLED + "[job 48100]\n", KILLED),
        (STEP_KILLED, KILLED),
    ],
)
def test_a_kill_of_something_else_is_not_the_servers(before: str, cause: str) -> None:
    assert said(before + SERVING).outcome.cause == cause


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize(
    ("log", "kernel", "state", "cause"),
    [
        # A server that serves: an Xid without a relation to it, or of another process, decides nothing.
        (SERVING, XID.format(clock="93410.112840", code=31, pid=20881, name="python3"), "healthy", "healthy"),
        (SERVING, XID.format(clock="93410.112840", code=43, pid="'<unknown>'", name="<unknown>"), "healthy", "healthy"),
        (SERVING, XID.format(clock="93410.112840", code=31, pid=4102, name="VLLM::Worker_TP"), "failed", "gpu.xid.31"),
        (SERVING, KILL.format(clock="93410.112840", pid=4102, name="VLLM::Worker_TP"), "failed", "host_oom.killed"),
        (SERVING, KILL.format(clock="93410.112840", pid=20881, name="python3"), "healthy", "healthy"),
        (SERVING, KILL.format(clock=DECEMBER, pid=20881, name="python3"), "healthy", "healthy"),
        # In a container the pids are others than the kernel's: a kill may be this server's, one of last month is not.
        (CONTAINED, KILL.format(clock="9.1", pid=20881, name="VLLM::Worker"), "failed", "host_oom.killed"),
        (CONTAINED, KILL.format(clock=DECEMBER, pid=20881, name="VLLM::Worker"), "healthy", "healthy"),
        # An engine that fails: the kernel's line of the same process is its consequence or its reason, an old one neither.
        (SERVING + STRAY, XID.format(clock="93410.1", code=31, pid=4102, name="VLLM::Worker_TP"), "failed", "cuda_error.illegal_access"),
        (SERVING + LAUNCH, LOST, "failed", "gpu.xid.79"),
        (SERVING + LAUNCH, XID.format(clock=EVENING, code=79, pid="'<unknown>'", name="<unknown>"), "failed", "gpu.xid.79"),
        (
            SERVING + LAUNCH,
            XID.format(clock=DAYS_LATER, code=79, pid="'<unknown>'", name="<unknown>"),
            "failed",
            "cuda_error.launch_failure",
        ),
        (SERVING + STRAY, XID.format(clock=DAYS_LATER, code=31, pid=4102, name="VLLM::Worker_TP"), "failed", "cuda_error.illegal_access"),
        (SERVING + STRAY, XID.format(clock=DECEMBER, code=48, pid=4102 + 9, name="python3"), "failed", "cuda_error.illegal_access"),
    ],
)
def test_the_kernels_log_beside_the_engines(log: str, kernel: str, state: str, cause: str, order: int) -> None:
    report = said(*(log, kernel)[::order])
    assert (report.outcome.state.value, report.outcome.cause) == (state, cause)
    if state == "failed":
        assert report.outcome.stage == "serving"
    else:
        assert not [finding for finding in report.findings if finding.severity.value == "error"]


def test_a_lost_card_is_one_thing() -> None:
    """Xid 79 and nvidia-smi's own words for it are no two causes."""
    xid = "[9.2] NVRM: Xid (PCI:0000:83:00): 79, pid=4102, name=VLLM::Worker_TP0, GPU has fallen off the bus.\n"
    report = said(SERVING + LAUNCH, "Unable to determine the device handle for GPU4: 0000:83:00.0: Unknown Error\n", xid)
    lost = found(report, "gpu.lost")
    assert report.outcome.cause == "gpu.xid.79"
    assert lost is not None
    assert lost.consequence_of == "gpu.xid.79"


PS = "$ ps -o pid,ppid,etime,cmd\n    PID    PPID     ELAPSED CMD\n   4477       {parent}    02:11:31 VLLM::EngineCore\n"
OCCUPIED = (
    "(EngineCore_DP0 pid=5120) ERROR 01-25 19:41:02 [core.py:708] ValueError: Free memory on device (0.80/23.5 "
    "GiB) on startup is less than desired "
    "GPU memory utilization (0.9, 21.15 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.\n"
)


@pytest.mark.parametrize(("parent", "container", "orphan"), [(1, False, True), (4410, False, False), (1, True, False)])
def test_a_worker_whose_parent_is_gone(parent: int, container: bool, orphan: bool) -> None:
    banner = BANNER.format(version="0.10.2")
    if container:
        banner = banner.replace("pid=4001", "pid=1")
    report = said(banner + OCCUPIED, PS.format(parent=parent))
    finding = found(report, "startup.orphan_process")
    assert (finding is not None) is orphan
    if finding is not None:
        assert finding.severity.value == "warning"
        assert any("VLLM::EngineCore" in source.text for source in finding.evidence)


DOCKER_PS = (
    "CONTAINER ID   IMAGE  COMMAND   CREATED       STATUS                       PORTS  NAMES\n"
    '0a1b2c3d4e5f   vllm/vllm-openai:v0.11.2   "python3"   2 hours ago   Exited ({code}) 3 minutes ago             vllm\n'
)


@pytest.mark.parametrize(
    ("code", "log", "state", "cause"),
    [
        (137, SERVING, "failed", "engine.process_killed"),
        (139, SERVING, "failed", "process.segfault"),
        (0, SERVING, "healthy", "healthy"),
        (143, SERVING, "healthy", "healthy"),
        (137, SERVING + "(APIServer pid=4001) INFO:     Shutting down\n", "healthy", "healthy"),
        (137, SERVING + STRAY, "failed", "cuda_error.illegal_access"),
    ],
)
def test_a_container_that_docker_saw_end(code: int, log: str, state: str, cause: str) -> None:
    outcome = said(log, DOCKER_PS.format(code=code)).outcome
    assert (outcome.state.value, outcome.cause) == (state, cause)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_kernels_line_goes_to_the_last_start(order: tuple[int, int]) -> None:
    """A log with two starts: the kill belongs to the one that asks, wherever the kernel log was put."""
    first = SERVING + STRAY
    second = SERVING.replace("pid=4001", "pid=5001").replace("pid=4102", "pid=5102").replace("01-25", "01-26")
    kill = KILL.format(clock="93410.112840", pid=5102, name="VLLM::Worker_TP")
    texts = (first + second, kill)
    report = said(*(texts[place] for place in order))
    assert [(attempt.index, attempt.cause) for attempt in report.attempts] == [(0, "cuda_error.illegal_access"), (1, "host_oom.killed")]
    assert report.outcome.cause == "host_oom.killed"


LOADING = BANNER.format(version="0.11.0") + NCCL
CRASH_LOOP = "vllm-7b-0       0/1     CrashLoopBackOff   5 (2m30s ago)   13m\n"
LAST_STATE = POD.replace("OOMKilled", "Error").replace(
    "    Last State", "    State:          Waiting\n      Reason:       CrashLoopBackOff\n    Last State"
)
PROBE = "  Normal   Killing    41s                  kubelet            Container vllm failed liveness probe, will be restarted\n"


@pytest.mark.parametrize(
    ("inputs", "cause"),
    [
        ((CRASH_LOOP,), None),
        (("  Warning  BackOff    2m (x373 over 1h)   kubelet  Back-off restarting failed container vllm in pod vllm-0\n",), None),
        ((LAST_STATE,), None),
        ((LOADING, LAST_STATE), None),
        ((LOADING, LAST_STATE + PROBE), "engine.process_killed"),
        ((LOADING + "RuntimeError: CUDA error: an illegal memory access was encountered\n", CRASH_LOOP), "cuda_error.illegal_access"),
    ],
)
def test_a_crash_loop_is_a_failure_whose_reason_is_elsewhere(inputs: tuple[str, ...], cause: str | None) -> None:
    report = said(*inputs)
    assert (report.outcome.state.value, report.outcome.cause) == ("failed", cause)
    needs = " ".join(need.en for finding in report.findings if finding.root for need in finding.needs)
    if cause is None:
        assert "--previous" in needs
        assert ("exit code and the OOMKilled flag" in needs) is ("Exit Code" not in "".join(inputs))


def test_a_pod_that_waits_for_a_gpu_is_read_and_proves_no_failure() -> None:
    event = "  Warning  FailedScheduling  2m   default-scheduler  0/3 nodes are available: 3 Insufficient nvidia.com/gpu.\n"
    assert said(event).outcome.state.value == "unknown"
    assert said(SERVING, event).outcome.state.value == "healthy"
