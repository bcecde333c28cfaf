"""What is used where an option is not given, and the CPU backend's pool."""

from __future__ import annotations

import pytest

from analyzer.engines.vllm import cpu, defaults
from analyzer.model.versions import Range

GIB = 2**30
A100, H100, RTX = "NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3", "NVIDIA GeForce RTX 4090"


@pytest.mark.parametrize(
    ("where", "generation", "total", "name", "expected"),
    [
        ("0.5.0", None, None, None, 256),
        ("0.7.3", "v0", None, None, 256),
        ("0.7.3", "v1", None, None, 1024),
        ("0.7.3", None, None, None, None),
        ("0.8.0", "v1", 24, RTX, 1024),
        ("0.8.5", "v1", 24, RTX, 256),
        ("0.8.5", "v1", 79, A100, 1024),
        ("0.8.5", "v0", 79, A100, 256),
        ("0.9.0", "v1", 79, A100, 256),
        ("0.9.0", "v1", 79, None, None),
        ("0.9.0", "v1", 24, None, 256),
        ("0.11.0", "v1", 79, H100, 1024),
        ("0.33.0", "v1", 79, H100, 1024),
        ("0.33.0", "v1", None, H100, None),
        (Range.parse(">=0.8.0"), "v1", 24, RTX, None),
        (Range.parse(">=0.9.0"), "v1", 24, RTX, 256),
    ],
)
def test_max_num_seqs(where: str | Range, generation: str | None, total: int | None, name: str | None, expected: int | None) -> None:
    size = None if total is None else total * GIB
    assert defaults.max_num_seqs(where, generation, total=size, device_name=name) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("where", "generation", "length", "total", "name", "expected"),
    [
        ("0.6.0", None, 29_000, None, None, 29_000),
        ("0.6.0", None, 1024, None, None, 2048),
        ("0.6.0", None, 40_000, None, None, None),  # cut into steps by itself
        ("0.5.0", None, 40_000, None, None, 40_000),
        ("0.6.0", None, None, None, None, None),
        ("0.8.0", "v1", None, 79, H100, 8192),
        ("0.8.0", "v1", None, 79, A100, 2048),
        ("0.8.0", "v1", None, 79, None, None),
        ("0.8.4", "v1", None, 79, A100, 8192),
        ("0.9.0", "v1", None, 79, A100, 2048),
        ("0.10.0", "v1", None, 79, H100, 8192),
        ("0.27.0", "v1", None, 180, "NVIDIA B200", 8192),
        ("0.28.0", "v1", None, 180, "NVIDIA B200", 16_384),
        ("0.28.0", "v1", None, 24, RTX, 2048),
        (Range.parse(">=0.27.0"), "v1", None, 180, "NVIDIA B200", None),
        ("0.7.3", "v1", None, 79, H100, None),
    ],
)
def test_max_num_batched_tokens(
    where: str | Range, generation: str | None, length: int | None, total: int | None, name: str | None, expected: int | None
) -> None:
    size = None if total is None else total * GIB
    found = defaults.max_num_batched_tokens(
        where,
        generation,  # type: ignore[arg-type]
        max_model_len=length,
        total=size,
        device_name=name,
    )
    assert found == expected


def test_chunked_prefill_and_prefix_caching() -> None:
    assert defaults.chunked_prefill("0.6.6", "v0", 32_768) is False
    assert defaults.chunked_prefill("0.6.6", "v0", 32_769) is True
    assert defaults.chunked_prefill("0.5.0", None, 100_000) is False
    assert defaults.chunked_prefill("0.9.0", "v1", None) is True
    assert defaults.chunked_prefill("0.9.0", None, None) is None
    assert defaults.chunked_prefill("0.11.0", None, None) is True
    assert defaults.prefix_caching("0.9.0", "v0") is False
    assert defaults.prefix_caching("0.9.0", "v1") is True
    assert defaults.prefix_caching("0.9.0", None) is None
    assert defaults.prefix_caching("0.5.0", None) is False
    assert defaults.prefix_caching("0.12.0", None) is True


def test_block_size_and_swap() -> None:
    assert defaults.block_size() == 16
    assert defaults.block_size("FLASHMLA") == 64
    assert defaults.block_size("CUTLASS_MLA_VLLM_V1") == 128
    assert defaults.block_size(state_layers=True) is None
    assert defaults.swap_space("0.8.5") == 4 * GIB
    assert defaults.swap_space("0.18.0") == 0
    assert defaults.swap_space(Range.parse(">=0.16.0")) is None


@pytest.mark.parametrize(
    ("where", "asked", "node", "expected"),
    [
        ("0.8.5", None, None, 4 * GIB),
        ("0.8.5", 40, None, 40 * GIB),
        ("0.13.0", None, 64 * GIB, 32 * GIB),
        ("0.13.0", None, None, None),
        ("0.20.0", None, 64 * GIB, None),
        ("0.32.0", 1, None, GIB),
        (Range.parse(">=0.12.0,<0.14.0"), None, 64 * GIB, None),
    ],
)
def test_pool_of_the_cpu_backend(where: str | Range, asked: int | None, node: int | None, expected: int | None) -> None:
    assert cpu.kv_space(where, asked, node_total=node) == expected


def test_pool_that_the_cpu_backend_takes_by_itself() -> None:
    assert cpu.kv_auto(100 * GIB, 0.92, 12 * GIB) == 80 * GIB
    assert cpu.kv_auto(10 * GIB, 0.5, 6 * GIB) == -GIB
    assert cpu.space_fits(GIB, 2 * GIB)
    assert not cpu.space_fits(3 * GIB, 2 * GIB)
