"""Bytes per token, blocks, needs: against figures that logs printed, and as properties."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzer.engines.vllm import kv, shapes
from analyzer.engines.vllm.kv import LayerKind, Layers, Pool, Run
from analyzer.model.versions import Range

GIB = 2**30
MIB = 2**20


def shape_of(name: str) -> shapes.Shape:
    found = shapes.lookup(name)
    assert found is not None
    return found.shape


def plain(name: str, tensor_parallel: int = 1, block_size: int = 16) -> Pool:
    layers = kv.layers_of(shape_of(name), tensor_parallel=tensor_parallel, block_size=block_size, hybrid=False)
    assert layers is not None
    pool = kv.group_layers(layers)
    assert pool is not None
    return pool


@pytest.mark.parametrize(
    ("name", "tensor_parallel", "dtype", "expected"),
    [
        ("Qwen/Qwen2.5-7B-Instruct", 1, None, 57_344),
        ("Qwen/Qwen2.5-7B-Instruct", 1, "fp8", 28_672),
        ("Qwen/Qwen2.5-7B-Instruct", 2, "auto", 28_672),
        ("Qwen/Qwen2.5-7B-Instruct", 4, None, 14_336),
        ("Qwen/Qwen2.5-7B-Instruct", 8, None, 14_336),  # four heads on eight ranks: replicated
        ("Qwen/Qwen2.5-7B-Instruct", 1, "fp8_per_token_head", 28 * (2 * 4 * 128 + 8 * 4)),
        ("Qwen/Qwen2.5-32B-Instruct", 2, None, 131_072),
        ("meta-llama/Llama-3.1-8B-Instruct", 1, None, 131_072),
        ("deepseek-ai/DeepSeek-V3", 1, None, 61 * 576 * 2),
        ("deepseek-ai/DeepSeek-V3", 8, None, 61 * 576 * 2),
        ("deepseek-ai/DeepSeek-V3", 8, "fp8", 61 * 576),
        ("deepseek-ai/DeepSeek-V3", 8, "fp8_ds_mla", 61 * 656),
        ("Qwen/Qwen2.5-7B-Instruct", 1, "nvfp4", None),
        ("Qwen/Qwen2.5-7B-Instruct", 1, "turboquant_4bit_nc", None),
        ("Qwen/Qwen2.5-7B-Instruct", 1, "bfloat16", 57_344),
    ],
)
def test_bytes_per_token(name: str, tensor_parallel: int, dtype: str | None, expected: int | None) -> None:
    assert kv.bytes_per_token(shape_of(name), tensor_parallel=tensor_parallel, kv_cache_dtype=dtype) == expected


def test_the_models_dtype_counts_where_the_cache_is_auto() -> None:
    assert kv.bytes_per_token(shape_of("Qwen/Qwen2.5-7B-Instruct"), model_dtype="float32") == 2 * 57_344
    assert kv.bytes_per_token(shape_of("Qwen/Qwen2.5-7B-Instruct"), layers=14) == 57_344 // 2


# V0: bytes of a block, the pool as printed in GiB, the blocks printed.
V0 = [
    ("Qwen/Qwen2.5-32B-Instruct", 2, 7.71, 3947, 2048),
    ("Qwen/Qwen2.5-32B-Instruct", 2, 14.26, 7299, 2048),
    ("meta-llama/Llama-3.1-8B-Instruct", 2, 4.55, 4659, 4096),
    ("meta-llama/Llama-3.1-8B-Instruct", 1, 2.89, 1478, 2048),
    ("Qwen/Qwen2.5-7B-Instruct", 1, 10.11, 11836, 4681),
]


@pytest.mark.parametrize(("name", "tensor_parallel", "pool", "gpu_blocks", "cpu_blocks"), V0)
def test_blocks_of_v0_are_those_printed(name: str, tensor_parallel: int, pool: float, gpu_blocks: int, cpu_blocks: int) -> None:
    shape = shape_of(name)
    one = kv.token_bytes_of_layer(shape, tensor_parallel=tensor_parallel)
    assert one is not None
    cost = kv.v0_block_bytes(16 * one, shape.layers)
    assert kv.v0_blocks(4 * GIB, cost) == cpu_blocks
    low, high = (kv.v0_blocks(round((pool + half) * GIB), cost) for half in (-0.005, 0.005))
    assert low <= gpu_blocks <= high


# V1: pool in GiB, tokens printed, concurrency printed for the length.
V1 = [
    ("Qwen/Qwen2.5-32B-Instruct", 2, 8.35, 68_400, 32_768, 2.09),
    ("Qwen/Qwen3-8B", 1, 52.61, 383_088, 8192, 46.76),
]


@pytest.mark.parametrize(("name", "tensor_parallel", "pool_gib", "tokens", "length", "concurrency"), V1)
def test_tokens_and_concurrency_of_v1(
    name: str, tensor_parallel: int, pool_gib: float, tokens: int, length: int, concurrency: float
) -> None:
    pool = plain(name, tensor_parallel)
    low, high = (kv.num_blocks(round((pool_gib + half) * GIB), pool) for half in (-0.005, 0.005))
    assert low <= tokens // 16 <= high
    found = kv.max_concurrency(pool, tokens // 16, length, Run())
    assert found is not None
    assert f"{found:.2f}" == f"{concurrency:.2f}"


def test_old_concurrency_is_tokens_over_length() -> None:
    assert f"{kv.concurrency_from_tokens(28_704, 2048):.2f}" == "14.02"
    assert f"{kv.concurrency_from_tokens(63_808, 32_768):.2f}" == "1.95"
    assert f"{kv.concurrency_from_tokens(1478 * 16, 29_000):.2f}" == "0.82"


@pytest.mark.parametrize(
    ("name", "length", "gib"),
    [("Qwen/Qwen2.5-7B-Instruct", 32_768, 1.75), ("Qwen/Qwen3-32B", 131_072, 32.0), ("Qwen/Qwen2.5-14B-Instruct", 32_768, 6.0)],
)
def test_need_of_one_full_request(name: str, length: int, gib: float) -> None:
    assert kv.needed(plain(name), length, Run()) == gib * GIB


def test_a_hybrid_model_of_four_kinds_of_groups_holds_what_was_printed() -> None:
    """Qwen3.6-27B: 16 layers of attention, 48 with a state, blocks of 1,056 tokens: 614 blocks were 4.80 requests of 131,072."""
    page = 1056 * 2 * 4 * 256 * 2
    pool = kv.group_layers((Layers(LayerKind.FULL, 16, page, 1056), Layers(LayerKind.STATE, 48, page, 1056)))
    assert pool is not None
    assert (pool.group_size, pool.groups, pool.padding) == (16, 4, 0)
    assert kv.request_blocks(pool, 131_072, Run()) == 128
    assert f"{kv.max_concurrency(pool, 614, 131_072, Run()):.2f}" == "4.80"


def test_windows() -> None:
    layers = kv.layers_of(shape_of("google/gemma-3-27b-it"))
    assert layers is not None
    pool = kv.group_layers(layers)
    assert pool is not None
    assert (pool.group_size, pool.groups, pool.padding) == (10, 1 + 6, 8)
    full, window = -(-131_072 // 16), -(-(1023 + 2048) // 16) + 1
    assert kv.request_blocks(pool, 131_072, Run(2048)) == full + 6 * window
    assert kv.request_blocks(pool, 131_072, Run()) is None
    assert kv.needed(pool, 131_072, Run(2048), "0.14.0") == (full + 6 * window) * 10 * pool.page
    assert kv.needed(pool, 131_072, Run(2048), "0.13.0") == (10 * full + 52 * window) * pool.page
    assert kv.needed(pool, 131_072, Run(2048), Range.parse(">=0.12.0")) is None
    oss = kv.layers_of(shape_of("openai/gpt-oss-20b"))
    assert oss is not None
    groups = kv.group_layers(oss)
    assert groups is not None
    assert (groups.group_size, groups.groups, groups.block_bytes) == (12, 2, 12 * 16 * 2048)
    chunked = kv.layers_of(shape_of("meta-llama/Llama-4-Scout-17B-16E-Instruct"))
    assert chunked is not None
    assert [(one.kind, one.count) for one in chunked] == [(LayerKind.FULL, 12), (LayerKind.CHUNKED, 36)]
    assert kv.blocks_of_request(chunked[1], 131_072, Run(8192)) == 1024
    off = kv.layers_of(shape_of("google/gemma-3-27b-it"), hybrid=False)
    assert off is not None
    assert [(one.kind, one.count) for one in off] == [(LayerKind.FULL, 62)]
    every = kv.layers_of(shape_of("mistralai/Mistral-7B-v0.1"))
    assert every is not None
    assert [(one.kind, one.count) for one in every] == [(LayerKind.SLIDING, 32)]


def test_what_is_open_is_none() -> None:
    assert kv.layers_of(shape_of("Qwen/Qwen3-Next-80B-A3B-Instruct")) is None  # how many blocks a state takes is not known
    page = 16 * 2048
    assert kv.group_layers((Layers(LayerKind.FULL, 13, page, 16), Layers(LayerKind.SLIDING, 12, page, 16, 128))) is None
    assert kv.group_layers((Layers(LayerKind.FULL, 12, page, 16), Layers(LayerKind.SLIDING, 12, 2 * page, 16, 128))) is None
    assert kv.group_layers(()) is None


def test_context_parallel_splits_full_attention() -> None:
    pool = plain("Qwen/Qwen3-8B")
    assert kv.needed(pool, 32_768, Run(context_parallel=4)) == (kv.needed(pool, 32_768, Run()) or 0) // 4


@pytest.mark.parametrize(
    ("layers", "stages", "partition", "expected"),
    [(48, 2, None, (24, 24)), (61, 2, None, None), (61, 2, "30,31", (30, 31)), (48, 2, "16,32", (16, 32))],
)
def test_stages(layers: int, stages: int, partition: str | None, expected: tuple[int, ...] | None) -> None:
    assert kv.stage_layers(layers, stages, partition) == expected


def test_a_partition_of_other_layers_is_an_error() -> None:
    with pytest.raises(ValueError, match="does not split"):
        kv.stage_layers(48, 2, "20,20")


@pytest.mark.parametrize(
    ("version", "asynchronous", "stages", "runner", "expected"),
    [
        ("0.25.1", None, 1, None, 2048),
        ("0.26.0", None, 1, None, None),
        ("0.26.0", True, 1, None, 4096),
        ("0.26.0", False, 1, None, 2048),
        ("0.27.0", False, 2, None, 4096),
        ("0.27.0", True, 2, None, None),
        ("0.27.0", True, 2, True, 3 * 2048),
        ("0.27.0", True, 2, False, 2 * 2048),
    ],
)
def test_tokens_in_flight(version: str, asynchronous: bool | None, stages: int, runner: bool | None, expected: int | None) -> None:
    found = kv.in_flight_tokens(version, 2048, async_scheduling=asynchronous, pipeline_parallel=stages, v2_runner=runner)
    assert found == expected
    assert kv.in_flight_tokens(version, None) is None


def test_which_versions_make_use_of_windows() -> None:
    assert kv.generation_sizes_windows("0.9.1", "v1") is True
    assert kv.generation_sizes_windows("0.9.0", "v1") is False
    assert kv.generation_sizes_windows("0.9.2", "v0") is False
    assert kv.generation_sizes_windows("0.9.2", None) is None
    assert kv.generation_sizes_windows("0.11.0", None) is True


@st.composite
def pools(draw: st.DrawFn) -> Pool:
    block = draw(st.sampled_from([16, 32, 64, 128, 528]))
    page = block * draw(st.integers(min_value=64, max_value=8192))
    unit = draw(st.integers(min_value=1, max_value=32))
    layers = [Layers(LayerKind.FULL, unit, page, block)]
    if draw(st.booleans()):
        kind = draw(st.sampled_from([LayerKind.SLIDING, LayerKind.CHUNKED]))
        layers.append(Layers(kind, unit * draw(st.sampled_from([1, 2, 3, 5])), page, block, draw(st.integers(1, 8192))))
    if draw(st.booleans()):
        layers.append(Layers(LayerKind.STATE, unit * draw(st.sampled_from([1, 3])), page, block, state_blocks=draw(st.integers(1, 2))))
    pool = kv.group_layers(tuple(layers))
    assert pool is not None
    return pool


RUNS = st.builds(Run, st.integers(min_value=1, max_value=16_384), st.sampled_from([1, 2, 4]))
LENGTHS = st.integers(min_value=1, max_value=1_000_000)


@given(pools(), RUNS, LENGTHS, LENGTHS, st.sampled_from(["0.9.1", "0.13.0", "0.14.0", "0.33.0"]))
def test_need_grows_with_length(pool: Pool, run: Run, one: int, other: int, version: str) -> None:
    low, high = sorted((one, other))
    short, long = kv.needed(pool, low, run, version), kv.needed(pool, high, run, version)
    assert short is not None
    assert long is not None
    assert 0 < short <= long
    assert long % pool.page == 0


@given(pools(), RUNS, LENGTHS, st.integers(min_value=0, max_value=200 * GIB), st.sampled_from(["0.9.1", "0.14.0", "0.33.0"]))
def test_the_longest_that_fits_fits_and_one_more_does_not(pool: Pool, run: Run, most: int, available: int, version: str) -> None:
    found = kv.max_len_that_fits(available, pool, most, run, version)
    assert found is not None
    assert 0 <= found <= most
    if found:
        assert (kv.needed(pool, found, run, version) or 0) <= available
    if found < most:
        assert (kv.needed(pool, found + 1, run, version) or 0) > available


@given(pools(), st.integers(min_value=0, max_value=300 * GIB), st.integers(min_value=0, max_value=300 * GIB))
def test_more_memory_never_makes_fewer_blocks(pool: Pool, one: int, other: int) -> None:
    low, high = sorted((one, other))
    assert kv.num_blocks(low, pool) <= kv.num_blocks(high, pool)
    assert kv.num_blocks(low, pool) * pool.block_bytes <= low
    assert (kv.num_blocks(low, pool) + 1) * pool.block_bytes > low


@given(pools(), RUNS, LENGTHS)
def test_memory_for_one_request_holds_exactly_one(pool: Pool, run: Run, length: int) -> None:
    need = kv.needed(pool, length, run, "0.14.0")
    assert need is not None
    assert kv.max_concurrency(pool, kv.num_blocks(need, pool), length, run) == 1.0


@given(st.integers(1, 64), st.integers(1, 64))
def test_heads_of_a_rank(heads: int, ranks: int) -> None:
    found = kv.kv_heads_per_rank(heads, ranks)
    assert 1 <= found <= heads
    assert found * ranks <= heads or found == 1


def test_no_heads_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        kv.kv_heads_per_rank(0, 1)


@given(st.integers(0, 2000), st.integers(1, 2000))
def test_bisection_finds_the_edge(edge: int, most: int) -> None:
    assert kv.longest(lambda length: length <= edge, most) == min(edge, most)
