"""Figures read back from vLLM's own lines: the real ones, and that nothing lies outside the bounds that rounding leaves."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from analyzer.engines.vllm import kv, printed
from analyzer.engines.vllm.kv import LayerKind, Layers, Pool, Run
from analyzer.model.versions import Range

GIB = 2**30
MIB = 2**20

# Lines that print both: length, needed, available, estimated maximum length, block size.
ESTIMATES = [
    (16_384, 0.44, 0.02, 784, 16),
    (16_384, 5.0, 3.4, 11_120, 16),
    (24_576, 7.5, 3.6, 11_808, 16),
    (131_072, 20.0, 10.02, 65_648, 16),
    (262_144, 24.0, 3.18, 34_736, 16),
    (32_768, 8.0, 1.0, 4096, 128),
    (32_768, 8.0, 0.97, 3968, 128),
]


@pytest.mark.parametrize(("length", "needed", "available", "estimated", "block_size"), ESTIMATES)
def test_the_printed_estimate_lies_within_the_bounds(length: int, needed: float, available: float, estimated: int, block_size: int) -> None:
    found = printed.length_that_fits(printed.as_printed(needed), length, printed.as_printed(available), block_size)
    assert estimated in found
    assert found.low % block_size == 0


# The same where the model's cost per token is known: bytes per token of the whole model, so the bisection has to give the estimate.
KNOWN = [
    (131_072, 20.0, 10.02, 65_648, 40 * 8 * 128 * 4, 16),
    (24_576, 7.5, 3.6, 11_808, 80 * 8 * 128 * 4, 16),
    (32_768, 8.0, 1.0, 4096, 262_144, 128),
    (32_768, 8.0, 0.97, 3968, 262_144, 128),
    (262_144, 24.0, 3.18, 34_736, 98_304, 16),
]


@pytest.mark.parametrize(("length", "needed", "available", "estimated", "per_token", "block_size"), KNOWN)
def test_the_bisection_gives_the_printed_estimate(
    length: int, needed: float, available: float, estimated: int, per_token: int, block_size: int
) -> None:
    pool = Pool((Layers(LayerKind.FULL, 1, per_token * block_size, block_size),), 1, per_token * block_size)
    need = kv.needed(pool, length, Run())
    assert need in printed.as_printed(needed)
    around = printed.as_printed(available)
    low, high = (kv.max_len_that_fits(size, pool, length, Run()) for size in (around.low, around.high))
    assert low is not None
    assert high is not None
    assert low <= estimated <= high


def test_a_hybrid_model_is_not_scaled_in_proportion() -> None:
    needed, available = round(3.05 * GIB), round(2.17 * GIB)
    proportion = printed.length_that_fits(printed.as_printed(3.05), 180_000, printed.as_printed(2.17), 16)
    assert 111_456 not in proportion
    line = printed.need_line(needed, 180_000, available, 111_456)
    assert line is not None
    assert line.fixed > 0.5 * GIB
    assert abs(line.at(180_000) - needed) <= 1
    assert abs(line.at(111_456) - available) <= 1
    assert abs(line.length(available) - 111_456) <= 1


def test_a_plain_model_has_no_fixed_share() -> None:
    line = printed.need_line(20 * GIB, 131_072, round(10.02 * GIB), 65_648)
    assert line is not None
    assert line.fixed < 0.02 * GIB
    assert printed.need_line(20 * GIB, 131_072, 21 * GIB, 131_072) is None
    assert printed.need_line(20 * GIB, 131_072, 21 * GIB, 65_000) is None


@pytest.mark.parametrize(("cpu_blocks", "block"), [(512, 8 * MIB), (2048, 2 * MIB), (4096, MIB), (4681, 16 * 57_344), (9362, 16 * 28_672)])
def test_swap_blocks_tell_the_size_of_a_block(cpu_blocks: int, block: int) -> None:
    found = printed.block_bytes_from_swap(cpu_blocks)
    assert found is not None
    assert block in found


def test_no_swap_tells_nothing() -> None:
    assert printed.block_bytes_from_swap(0) is None


def test_pool_of_the_jetson() -> None:
    cost = printed.block_bytes_from_swap(4681)
    assert cost is not None
    assert 11_836 * 16 * 57_344 in printed.pool_from_blocks(11_836, cost)


@pytest.mark.parametrize(
    ("tokens", "block_size", "version", "length", "blocks"),
    [
        (68_400, 16, "0.14.1", 32_768, 4275),
        (977_408, 64, "0.11.2", None, 15_272),
        (1_439_136, 16, "0.29.0", 16_384, 89_946),
        (116_128, 16, "0.33.0", 8192, 7258),
        (72_016, 16, "0.30.0", 262_144, 4501),
    ],
)
def test_blocks_out_of_the_tokens_line(tokens: int, block_size: int, version: str, length: int | None, blocks: int) -> None:
    found = printed.blocks_from_tokens(tokens, block_size, version, max_model_len=length)
    assert found is not None
    assert found.exact
    assert found.low == blocks


def test_what_the_tokens_line_cannot_tell() -> None:
    assert printed.blocks_from_tokens(150_745, 16, "0.29.0", groups=4, max_model_len=124_000) is None
    assert printed.blocks_from_tokens(150_745, 16, "0.29.0") is None
    assert printed.blocks_from_tokens(68_400, 16, Range.parse(">=0.19.0")) is None


def pool_of(block_size: int, groups: int) -> Pool:
    page = block_size * 2048
    layers = [Layers(LayerKind.FULL, 10, page, block_size)]
    if groups > 1:
        layers.append(Layers(LayerKind.SLIDING, 10 * (groups - 1), page, block_size, 512))
    found = kv.group_layers(tuple(layers))
    assert found is not None
    return found


@given(
    st.sampled_from([16, 64, 128]),
    st.integers(1, 6),
    st.integers(1, 200_000),
    st.integers(1, 262_144),
    st.sampled_from(["0.19.0", "0.30.0"]),
)
def test_blocks_come_back_out_of_the_line_that_they_make(block_size: int, groups: int, blocks: int, length: int, version: str) -> None:
    tokens = printed.tokens_line(pool_of(block_size, groups), blocks, length, Run(2048), version)
    assert tokens is not None
    found = printed.blocks_from_tokens(tokens, block_size, version, groups=groups, max_model_len=length)
    if found is None:
        assert version == "0.30.0"
        assert groups > 1
        return
    assert blocks in found or abs(found.low - blocks) <= 1  # the engine's own division is a float


def test_the_line_changes_its_meaning_in_0_20_1() -> None:
    pool = pool_of(16, 6)
    old = printed.tokens_line(pool, 60_000, 131_072, Run(2048), "0.20.0")
    new = printed.tokens_line(pool, 60_000, 131_072, Run(2048), "0.20.1")
    assert old == 160_000
    assert new is not None
    assert new > 4 * old
    assert printed.tokens_line(pool, 60_000, 131_072, Run(2048), Range.parse(">=0.20.0")) is None
    assert printed.tokens_line(pool, 60_000, 131_072, Run(2048), "0.20.0", context_parallel=2) == 320_000


@given(st.integers(1, 300 * GIB))
def test_what_is_printed_lies_within_what_it_stands_for(size: int) -> None:
    assert size in printed.as_printed(round(size / GIB, 2))


@given(st.integers(20_000, 300_000), st.integers(2**18, 40 * 2**20), st.sampled_from([16, 64, 128]))
def test_bounds_hold_the_cost_of_a_block(length: int, cost: int, block_size: int) -> None:
    needed = -(-length // block_size) * cost
    found = printed.block_bytes(printed.as_printed(round(needed / GIB, 2)), length, block_size)
    assert cost in found


@given(st.integers(64, 300_000), st.integers(1024, 40 * 2**20), st.sampled_from([16, 64, 128]), st.integers(1, 100))
def test_bounds_hold_the_longest_that_fits(length: int, cost: int, block_size: int, percent: int) -> None:
    needed = -(-length // block_size) * cost
    available = needed * percent // 101
    assume(available > GIB // 50)
    found = printed.length_that_fits(
        printed.as_printed(round(needed / GIB, 2)), length, printed.as_printed(round(available / GIB, 2)), block_size
    )
    assert available // cost * block_size in found


def test_nothing_fits_into_nothing() -> None:
    nothing = printed.length_that_fits(printed.as_printed(1.0), 1000, printed.as_printed(-0.4), 16)
    assert (nothing.low, nothing.high) == (0, 0)


def test_tokens_per_gib() -> None:
    assert printed.tokens_per_gib(20 * GIB, 131_072) == 6553
    assert printed.token_bytes(20 * GIB, 131_072) == 163_840
    assert printed.blocks_of_v0_tokens(23_648, 16) == 1478
