"""Sleep mode: waking up maps the pool again, and finds the card taken."""

from tests.logs import told

RAY = "(ActorModelRayActor pid=348952) "
TRACE = [
    '  File "/opt/vllm/worker/worker.py", line 140, in wake_up',
    "    allocator.wake_up()",
    '  File "/opt/vllm/device_allocator/cumem.py", line 207, in wake_up',
    "    create_and_map(handle)",
    "RuntimeError: CUDA Error: out of memory at /workspace/csrc/cumem_allocator.cpp:62",
]


def test_a_card_that_was_taken_meanwhile_is_no_late_buffer() -> None:
    report = told([RAY + line for line in TRACE])
    assert (report.outcome.stage, report.outcome.cause) == ("serving", "cuda_oom.serving")
    assert "maps the weights and the KV cache again" in report.findings[0].explanation.en
    assert [finding.cause for finding in report.findings] == ["cuda_oom.serving"]  # and nothing of the profile
