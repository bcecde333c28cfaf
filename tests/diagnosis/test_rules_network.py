"""Hangs at NCCL, Ray's placement, proxies: what it takes, and what is not enough."""

from __future__ import annotations

import pytest

from tests.diagnosis.texts import BANNER, NCCL, READY, WEIGHTS, found, said, smi, statistics, waits

START = BANNER.format(version="0.14.1") + NCCL
P2P = "ws:402:402 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n"
TRANSLATED = "[    0.772310] iommu: Default domain type: Translated\n"
ACS = "\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-\n"
SPINNING, IDLE = smi([(1144, 97887, 100), (1144, 97887, 100)]), smi([(1144, 97887, 0), (1144, 97887, 0)])
IOMMU, VGPU = "nccl.hang_p2p_iommu_acs", "nccl.hang_vgpu_interposer"
PRELOAD = "$ env | grep PRELOAD\nLD_PRELOAD=/usr/local/vgpu/libvgpu.so\n"


@pytest.mark.parametrize(
    ("inputs", "cause", "confidence"),
    [
        ((START + waits(5), SPINNING, TRANSLATED), IOMMU, "likely"),
        ((START + waits(3), SPINNING, ACS), IOMMU, "likely"),
        ((START + P2P + waits(5), SPINNING), IOMMU, "possible"),
        ((START + waits(5), TRANSLATED), IOMMU, "possible"),
        ((TRANSLATED, SPINNING, START + waits(5)), IOMMU, "likely"),  # whatever the order of the inputs
        ((START + waits(5), IDLE, PRELOAD), VGPU, "likely"),
        ((START + waits(5), PRELOAD), VGPU, "possible"),
        # A minute or two of silence, weights on the card, cards at work with their model, a server that serves: no hang at NCCL.
        ((START + waits(2), SPINNING, TRANSLATED), None, None),
        ((START + WEIGHTS + waits(5), SPINNING, TRANSLATED), None, None),
        ((START + waits(5), smi([(81000, 97887, 100), (81000, 97887, 100)])), None, None),
        ((START + waits(5), SPINNING), None, None),
        ((START + waits(5), "[    0.772310] iommu: Default domain type: Passthrough (set via kernel command line)\n"), None, None),
        (("NCCL_P2P_DISABLE=1 vllm serve m -tp 2\n" + START + P2P + waits(5), SPINNING, TRANSLATED), None, None),
        ((START + waits(5), SPINNING, PRELOAD), None, None),
        ((START, PRELOAD), None, None),  # a log that was cut, under a library that is always there
        ((START, IDLE, PRELOAD), VGPU, "likely"),
    ],
)
def test_silence_at_nccl(inputs: tuple[str, ...], cause: str | None, confidence: str | None) -> None:
    outcome = said(*inputs).outcome
    assert outcome.cause == cause
    if cause is not None:
        assert (outcome.state.value, outcome.stage, outcome.confidence.value) == ("failed", "device_init", confidence)


def test_a_host_with_iommu_does_not_trouble_a_healthy_server() -> None:
    report = said(START + waits(4) + WEIGHTS + READY + statistics([(1, 0, 3.0)]), TRANSLATED, ACS, SPINNING)
    assert report.outcome.state.value == "healthy"
    assert found(report, IOMMU) is None


WAITING = (
    "INFO 03-03 03:06:23 ray_utils.py:221] Waiting for creating a placement group of specs for 10 seconds. "
    "specs=[{'node:203.0.113.33': 0.001, 'GPU': 1.0}, {'GPU': 1.0}]. Check `ray status` and `ray list nodes` to "
    "see if you have enough resources.\n"
)
REFUSED = (
    "(autoscaler +41s) Error: No available node types can fulfill resource request {'node:203.0.113.33': 0.001, 'GPU': 1.0}. "
    "Add suitable node types to this cluster to resolve this issue.\n"
)
SHORT = "WARNING 03-03 03:06:13 ray_utils.py:315] The number of required GPUs exceeds the total number of available GPUs in the placement group.\n"
MISMATCH, TOO_FEW = "ray.placement_group_ip_mismatch", "ray.not_enough_gpus"


def status(gpus: str, address: str = "198.51.100.33") -> str:
    """What ``ray status`` prints."""
    return f"$ ray status\nNode status\nActive:\n 1 node_3a0f ({address})\nResources\nUsage:\n 0.0/384.0 CPU\n {gpus} GPU\n"


@pytest.mark.parametrize(
    ("inputs", "cause", "confidence"),
    [
        ((WAITING + REFUSED, status("0.0/16.0")), MISMATCH, "certain"),
        ((WAITING + REFUSED, " 0.0/16.0 GPU\n"), MISMATCH, "likely"),
        ((WAITING + REFUSED,), MISMATCH, "likely"),
        ((WAITING + REFUSED, status("0.0/1.0")), TOO_FEW, "certain"),
        ((WAITING + REFUSED, status("15.0/16.0")), TOO_FEW, "likely"),
        ((WAITING, status("0.0/1.0", "203.0.113.33")), TOO_FEW, "certain"),
        ((WAITING, status("0.0/16.0")), MISMATCH, "certain"),
        ((WAITING,), None, None),
        ((SHORT + WAITING,), TOO_FEW, "possible"),
        ((SHORT + WAITING, status("0.0/16.0")), MISMATCH, "certain"),  # nodes have joined since
    ],
)
def test_ray_has_no_place(inputs: tuple[str, ...], cause: str | None, confidence: str | None) -> None:
    outcome = said(*inputs).outcome
    assert outcome.cause == cause
    if cause is not None:
        assert (outcome.state.value, outcome.stage, outcome.confidence.value) == ("failed", "device_init", confidence)


SEGMENT = "Error while creating shared memory segment /dev/shm/nccl-g0wGsu (size 9637888)"
EXCEPTION = "RuntimeError: NCCL error: unhandled {kind} error (run with NCCL_DEBUG=INFO for details), NCCL version 2.20.5\n"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (EXCEPTION.format(kind="system") + f"ncclSystemError: System call failed.\nLast error:\n{SEGMENT}\n", "shm.too_small"),
        (f"h:1:1 [1] misc/shmutils.cc:87 NCCL WARN {SEGMENT}\n", "shm.too_small"),
        (EXCEPTION.format(kind="cuda") + f"Last error:\n{SEGMENT}, Traceback (most recent call last):\n", None),
        (f"ncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\n{SEGMENT}\n", None),
    ],
)
def test_a_segment_that_nccl_could_not_make(text: str, cause: str | None) -> None:
    outcome = said(text).outcome
    assert (outcome.state.value, outcome.cause) == ("failed", cause)
    assert cause is None or outcome.confidence.value == "likely"


MESH = "[rank0]: RuntimeError: Gloo connectFullMesh failed with [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:144] no error\n"
TO_LOOPBACK = "[W808 10:02:40.118 ProcessGroupGloo.cpp:516] Warning: Unable to resolve hostname to a (local) address. Using the loopback address as fallback.\n"


@pytest.mark.parametrize(("text", "cause"), [(MESH, None), (TO_LOOPBACK + MESH, "network.gloo_loopback")])
def test_gloo_is_on_the_loopback_only_where_it_says_so(text: str, cause: str | None) -> None:
    outcome = said(text).outcome
    assert (outcome.state.value, outcome.cause) == ("failed", cause)


@pytest.mark.parametrize(("line", "confidence"), [('    s.bind(("", 0))', "possible"), ('    s.bind(("", port))', "certain")])
def test_nobody_owns_the_port_where_any_free_one_was_asked_for(line: str, confidence: str) -> None:
    frame = '  File "/opt/venv/lib/python3.10/site-packages/vllm/utils.py", line 572, in get_open_port\n'
    outcome = said(f"Traceback (most recent call last):\n{frame}{line}\nOSError: [Errno 98] Address already in use\n").outcome
    assert (outcome.cause, outcome.confidence.value) == ("server.port_in_use", confidence)


NGINX = (
    "2026/01/25 20:05:11 [error] 29#29: *812 upstream timed out (110: Connection timed out) while reading response header from upstream, "
    'client: 192.0.2.9, request: "POST /v1/chat/completions HTTP/1.1"\n'
)
SERVING = START + WEIGHTS + READY + statistics([(3, 0, 12.0), (3, 0, 12.5), (2, 0, 9.0)])


@pytest.mark.parametrize(
    ("texts", "state", "cause", "confidence"),
    [
        ((SERVING, NGINX), "degraded", "network.proxy_or_firewall", "likely"),
        ((SERVING, "openai.InternalServerError: 502 Bad Gateway\n"), "degraded", "network.proxy_or_firewall", "possible"),
        ((SERVING, "http_proxy=http://proxy.example.com:3128\n"), "healthy", "healthy", "certain"),
    ],
)
def test_a_proxy_that_gives_up(texts: tuple[str, ...], state: str, cause: str, confidence: str) -> None:
    outcome = said(*texts).outcome
    assert (outcome.state.value, outcome.cause, outcome.confidence.value) == (state, cause, confidence)
