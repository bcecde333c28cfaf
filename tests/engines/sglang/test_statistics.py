"""SGLang prints the pool's use as a fraction: half full is no idle pool."""

from __future__ import annotations

import pytest

from tests.engines.logs import told


@pytest.mark.parametrize(("usage", "cause"), [("0.05", "scheduler.max_num_seqs_cap"), ("0.97", "healthy")])
def test_a_queue_is_made_by_the_cap_only_beside_an_idle_pool(usage: str, cause: str) -> None:
    decode = (
        "[2025-06-10 08:01:30 TP0] Decode batch. #running-req: 8, #token: 9000, "
        f"token usage: {usage}, gen throughput (token/s): 310.10, #queue-req: 21\n"
    )
    log = (
        "[2025-06-10 08:00:21 TP0] max_total_num_tokens=9200, max_prefill_tokens=16384, max_running_requests=8, context_len=4096\n"
        "[2025-06-10 08:00:30] The server is fired up and ready to roll!\n"
    )
    assert told(log + 4 * decode)["outcome"]["cause"] == cause
