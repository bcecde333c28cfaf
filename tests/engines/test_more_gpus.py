"""The number of GPUs in the advice to take more of them."""

from __future__ import annotations

import pytest

from tests.engines.logs import Report, of, told

RANKS = "".join(
    f"[2025-07-02 07:41:59 DP{rank} TP{rank}] max_total_tokens=131072 is larger than the profiled value -561981. Use the profiled value instead.\n"
    for rank in range(8)
)
ALONE = "[2025-07-02 07:41:59] max_total_tokens=131072 is larger than the profiled value -561981. Use the profiled value instead.\n"


def more(report: Report) -> str:
    """What to do of the advice to take more GPUs."""
    return next(fix["changes"][0]["action"] for fix in report["findings"][0]["fixes"] if fix["title"].startswith("More GPUs"))


@pytest.mark.parametrize(
    ("report", "said"),
    [
        (of("tgi-warmup-8-shards.log"), "--num-shard 16 in place of 8; "),
        (told(RANKS), "--tp-size 16 in place of 8; "),
        (told("python -m sglang.launch_server --model-path a/b\n" + ALONE), "--tp-size 2 in place of 1; "),
        (told(ALONE), "a higher --tp-size; "),
    ],
)
def test_it_follows_from_the_one_that_is_set_or_shows(report: Report, said: str) -> None:
    assert more(report).startswith(said)
