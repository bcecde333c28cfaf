"""A fix names values that the release takes, and counts the GPUs that swap space was asked for."""

from __future__ import annotations

import pytest

from analyzer.engines.vllm import flags
from tests.logs import told

SMALL = [
    "INFO 02-11 10:00:30 llm_engine.py:322] # GPU blocks: 1400, # CPU blocks: 512",
    "ValueError: The model's max seq len (32768) is larger than the maximum number of tokens that can be stored in KV cache (22400). Try increasing `gpu_memory_utilization`",
]
SWAP = "ValueError: Too large swap space. {} GiB out of the 31.27 GiB total CPU memory is allocated for the swap space."


@pytest.mark.parametrize(("version", "name"), [("0.3.0", "fp8_e5m2"), ("0.4.1", "fp8"), ("0.10.2", "fp8")])
def test_the_eight_bit_cache_is_called_as_the_release_calls_it(version: str, name: str) -> None:
    fixes = told([*SMALL, "", f"vllm                          {version}", "torch                         2.1.2"]).findings[0].fixes
    assert f"--kv-cache-dtype {name}" in [fix.title.en for fix in fixes]


def test_the_releases_of_a_value_are_told() -> None:
    assert flags.takes_since("--kv-cache-dtype", "fp8", "0.10.2") == "0.4.1"
    assert flags.takes_since("--kv-cache-dtype", "auto", "0.10.2") is None
    assert not flags.takes("--kv-cache-dtype", "fp8", "0.3.0")
    fix = next(fix for fix in told(SMALL).findings[0].fixes if fix.title.en == "--kv-cache-dtype fp8")
    assert fix.versions is not None
    assert fix.versions.startswith(">=0.4.1")


@pytest.mark.parametrize(
    ("asked", "lines", "most"), [("32.00", [], 2), ("32.00", ["vllm serve m -tp 2 --swap-space 16"], 10), ("24.10", [], 21)]
)
def test_swap_space_is_for_so_many_gpus(asked: str, lines: list[str], most: int) -> None:
    window = told([*lines, SWAP.format(asked)]).findings[0].window
    assert window is not None
    assert window.high == most
