"""Pools of every kind on whole logs (fixtures/vllm-pools): by hand, by blocks, of states, of latents, on unequal ranks; with what-if."""

from __future__ import annotations

import io
from functools import cache

import pytest

import analyzer
from analyzer.engines.what_if import WhatIf
from analyzer.model import Ledger, Report, Value
from analyzer.model.units import GIB
from tests.case_files import FIXTURES


@cache
def report(name: str) -> Report:
    log = FIXTURES / "vllm-pools" / f"{name}.log"
    return analyzer.analyze([(log.name, io.BytesIO(log.read_bytes()))])


def gib(ledger: Ledger, line: str = "kv_cache") -> float | None:
    size = ledger.get(line)
    return None if size is None else round(size / GIB, 2)


def changed(name: str) -> dict[str, Value | None]:
    """Flag -> value of every change that the root's fixes make."""
    root = report(name).root
    assert root is not None
    return {change.flag: change.to for fix in root.fixes for change in fix.changes if hasattr(change, "flag")}


def said(name: str) -> str:
    root = report(name).root
    assert root is not None
    return root.explanation.en


def asked(name: str, **settings: Value | None) -> WhatIf:
    return analyzer.what_if(report(name), {"--" + flag.replace("_", "-"): value for flag, value in settings.items()})


def passed(answer: WhatIf) -> dict[str, bool | None]:
    return {check.name: check.passed for check in answer.checks}


@pytest.mark.parametrize(
    ("name", "pool"),
    [
        ("override-healthy", 3.5),  # 4096 of the 64857 blocks that 55.42 GiB would have made
        ("override-graph-oom", 22.22),  # 26000 of 22937 blocks, more than the profile found
        ("override-too-small", 0.44),
        ("override-v0-too-small", 0.44),  # V0 prints the blocks after the override, the bytes before it
        ("v2lite-v0-066-no-mla", 38.0),  # 0.6.6 expands the latent into 16 heads of 256
        ("v0-pp2-blocks-only", 5.0),  # the 40 layers of a stage
    ],
)
def test_the_pool_as_it_was_made(name: str, pool: float) -> None:
    assert gib(report(name).ledgers[0]) == pool
    assert report(name).ledgers[0].get("budget") is None


def test_a_number_of_blocks_is_what_to_change() -> None:
    assert changed("override-too-small")["--num-gpu-blocks-override"] == 2048
    assert changed("override-graph-oom")["--num-gpu-blocks-override"] == 22937
    assert changed("override-v0-too-small") == {"--max-model-len": 8192, "--num-gpu-blocks-override": 2048}
    for name in ("override-too-small", "override-graph-oom"):
        assert not {"--gpu-memory-utilization", "--kv-cache-memory-bytes", "--kv-cache-dtype"} & set(changed(name))


@pytest.mark.parametrize("name", ["override-healthy", "pinned-healthy-smi", "plan-applied-smi"])
def test_nothing_is_said_of_a_budget_that_sizes_nothing(name: str) -> None:
    assert "budget" not in said(name)
    assert "utilization" not in said(name)


@pytest.mark.parametrize(("name", "pool"), [("override-healthy", 3.5), ("pinned-smi", 4.0), ("plan-applied-smi", 18.11)])
def test_another_utilization_does_not_move_a_pool_set_by_hand(name: str, pool: float) -> None:
    assert gib(asked(name, gpu_memory_utilization=0.5).ledgers[0]) == pool


def test_the_start_check_still_asks_for_the_utilization() -> None:
    assert passed(asked("pinned-smi", gpu_memory_utilization=0.8))["start_free"] is True
    assert passed(asked("pinned-smi", gpu_memory_utilization=0.97))["start_free"] is False


def test_blocks_after_another_override() -> None:
    more, none = asked("override-healthy", num_gpu_blocks_override=8192), asked("override-healthy", num_gpu_blocks_override=None)
    assert (more.tokens, gib(more.ledgers[0])) == (131072, 7.0)
    assert gib(none.ledgers[0]) == 55.42
    assert asked("override-too-small", num_gpu_blocks_override=2048).longest == 32768


def test_a_pinned_pool_that_the_weights_leave_no_room_for() -> None:
    """14.99 + 27.94 GiB are more than the 38.96 that are free, whatever the rest takes."""
    assert asked("plan-applied-smi", kv_cache_memory_bytes=30_000_000_000).fits is False


def test_state_blocks_follow_the_pool() -> None:
    assert passed(asked("nemotronh-mamba-400-smi"))["state_blocks"] is False
    assert passed(asked("nemotronh-mamba-400-smi", gpu_memory_utilization=0.97))["state_blocks"] is True
    assert passed(asked("nemotronh-mamba-400-smi", tensor_parallel_size=2))["state_blocks"] is True


def test_more_of_the_card_gives_more_state_blocks() -> None:
    """3.93 GiB make 373 blocks: 400 need 0.29 GiB more of 24 GiB, from the default of 0.92 on."""
    assert changed("nemotronh-mamba-400-smi")["--gpu-memory-utilization"] == 0.94


def test_fp8_of_a_latent_with_an_index_cache_is_no_half() -> None:
    """656 + 132 bytes a token and layer against 1152 + 132: 1.63 times the tokens, not enough here."""
    assert "--kv-cache-dtype" not in changed("v32-bf16-too-small")
    assert asked("v32-bf16-too-small", kv_cache_dtype="fp8").fits is False
    assert asked("mla-v32-fp8dsmla-healthy", kv_cache_dtype="auto").tokens == pytest.approx(480_000, rel=0.001)


@pytest.mark.parametrize(
    ("name", "fixes"),
    [
        ("cpu-022-startup-below", {"--gpu-memory-utilization": 0.65}),  # 41.2 of 62.82 GiB, down
        ("cpu-033-worker-uses", {"--gpu-memory-utilization": 0.31}),  # 18.02 + 1.12 of 62.85 GiB, up
        ("cpu-028-auto-too-small", {"--max-model-len": 15104, "--gpu-memory-utilization": 0.36}),  # 18.02 + 4.5 of 62.82 GiB, up
        ("cpu-028-kvbytes-too-small", {"--max-model-len": 14464, "--kv-cache-memory-bytes": 5 * GIB}),
    ],
)
def test_host_memory_is_no_card(name: str, fixes: dict[str, Value]) -> None:
    made = report(name)
    assert not made.ledgers
    assert changed(name) == fixes
    assert not any("nvidia-smi" in need.en for finding in made.findings for need in finding.needs)


def test_the_pools_of_unequal_ranks_are_cut_to_the_smallest() -> None:
    """0.12.0+: 27.45 and 5.60 GiB were found, 5.60 are allocated on both; a hundredth counts on the small card alone."""
    first, second = report("unequal-ranks-0120-healthy-smi").ledgers
    assert (gib(first), gib(second)) == (5.6, 5.6)
    assert first.get("free") is not None
    assert "0.24 GiB, about 2620 tokens" in said("unequal-ranks-0120-healthy-smi")
    less = asked("unequal-ranks-0120-healthy-smi", gpu_memory_utilization=0.8)
    assert [gib(ledger) for ledger in less.ledgers] == [3.2, 3.2]


def test_windows_count_at_every_length() -> None:
    """12 layers keep all tokens, 12 the last 128: 65073 blocks over 128 + 129, 512 + 513 and 2048 + 521."""
    assert "253.2 of 2048, 63.5 of 8192, 25.3 of 32768 tokens" in said("gptoss-028-healthy")
    assert asked("gptoss-028-healthy", max_model_len=2048).concurrency == pytest.approx(253.2, abs=0.05)
    doubled = asked("gemma3-12b-028-healthy", max_model_len=131072)  # by windows 4.78 of 6.55 GiB, in proportion it would be 7.14
    assert (passed(doubled)["one_request"], doubled.concurrency) == (True, 1.37)


def test_each_data_parallel_engine_has_a_pool_of_its_own() -> None:
    assert "38.55 + 25.39 requests" in said("dp2-ep-healthy")
    assert "healthy.unequal_ranks" not in {finding.cause for finding in report("dp2-ep-healthy").findings}
    assert "healthy.unequal_ranks" in {finding.cause for finding in report("unequal-ranks-0120-healthy-smi").findings}
    assert "-3.20 GiB" in said("dp2-tp2-none-left")


@pytest.mark.parametrize(("name", "gpus"), [("pp2-uneven-too-small", "4"), ("dp2-tp2-none-left", "8")])
def test_the_gpus_of_all_stages_and_engines_are_counted(name: str, gpus: str) -> None:
    root = report(name).root
    assert root is not None
    assert any(f"Needs {gpus} GPUs" in fix.cost.en for fix in root.fixes if fix.cost is not None)


def test_no_partition_is_proposed_where_none_fits() -> None:
    root = report("pp2-uneven-too-small").root
    assert root is not None
    assert not any("VLLM_PP_LAYER_PARTITION" in fix.title.en for fix in root.fixes)


def titles(name: str) -> list[str]:
    root = report(name).root
    assert root is not None
    return [fix.title.en for fix in root.fixes]


def test_a_reservation_that_is_above_the_pool() -> None:
    """3.62 GiB are left and the front end reserves 4.0 of them: that is to be lowered, there is a pool."""
    assert changed("mm-ipc-reserve-fails")["--mm-ipc-gpu-memory-gb"] == 1.8
    assert "reserves 4.0 GiB" in said("mm-ipc-reserve-fails")


def test_weights_of_another_process_above_the_share() -> None:
    """(15.27 + 5.62) / 39.49 = 0.529, up; the ledger shows no budget below zero."""
    made = report("external-weights-exceed")
    assert made.outcome.stage == "device_init"
    assert gib(made.ledgers[0], "budget") == 11.85
    assert changed("external-weights-exceed") == {"--gpu-memory-utilization": 0.53}
    assert "0.39 is the least" in made.root.fixes[0].why.en if made.root is not None else False


def test_adapters_are_named_where_lora_is_on() -> None:
    assert "--max-loras (8) and --max-lora-rank (256)" in titles("lora-none-left")[0]
    assert not any("lora" in title for title in titles("dp2-tp2-none-left"))


def test_the_null_block_and_the_engines_own_estimate() -> None:
    """0.33.0: 4.56 GiB and a block of 2 MiB are more than 4.9 × 10⁹ bytes; 30496 tokens are what the engine itself says the pool holds."""
    name = "pinned-too-small-033"
    assert changed(name)["--kv-cache-memory-bytes"] == 5_000_000_000
    assert passed(asked(name, max_model_len=30496))["one_request"] is True
    assert passed(asked(name, max_model_len=30512))["one_request"] is False
    assert passed(asked(name, kv_cache_memory_bytes=4_900_000_000))["one_request"] is None
    assert passed(asked(name, kv_cache_memory_bytes=5_000_000_000))["one_request"] is True


def test_a_latent_keeps_its_width_where_no_kernel_takes_fp8() -> None:
    """TritonMLA, FlashMLA and CutlassMLA of 0.9.2 raise NotImplementedError for an fp8 cache."""
    assert set(changed("mla-092-too-small")) == {"--max-model-len", "--gpu-memory-utilization"}


def test_what_was_in_use_before_the_start_is_neither_free_nor_gone() -> None:
    """2.51 GiB were in use of 39.49: 33.57 + 0.58 + 2.51 at rest, 36.98 − 33.57 beside the budget."""
    assert "36.66 GiB (93 %; 2.51 GiB of it" in said("healthy-0102-neighbour")
    assert "Beside the budget the card has 3.41 GiB" in said("healthy-0102-neighbour")


@pytest.mark.parametrize("name", ["padded-hybrid-020", "unknown-hybrid-020"])
def test_later_releases_say_nothing_of_shorter_requests_of_an_unknown_model(name: str) -> None:
    """From 0.20.1 on the tokens are the concurrency times the length: states and windows do not show."""
    assert "2.36 requests of 262144 tokens" in said(name)
    assert "Shorter ones" not in said(name)


def test_a_pool_that_holds_no_request_is_no_start() -> None:
    """0.22 leaves 0.47 GiB, 0.30 leaves 6.84; one request is 2.25 by the shape, which no line of the log says."""
    assert asked("none-left-eager", gpu_memory_utilization=0.22).fits is False
    assert asked("none-left-eager", gpu_memory_utilization=0.3).fits is True


def test_weights_in_host_memory_are_spread_too() -> None:
    """8.99 GiB were measured beside 6 GiB in host memory: 14.96 by the shape, half of it each."""
    assert any(
        "7.48 GiB (less what --cpu-offload-gb" in fix.why.en for root in [report("offload-too-small").root] if root for fix in root.fixes
    )


def test_the_pool_is_that_of_the_rank_that_found_least() -> None:
    assert "The KV cache takes 13.81 GiB" in said("unequal-ranks-026-healthy")


@pytest.mark.parametrize("stamp", ["", "[2026-02-24T20:21:58Z] "])
def test_the_gpu_is_the_one_that_the_line_names(stamp: str) -> None:
    line = stamp + (
        "(EngineCore_DP0 pid=6940) ValueError: Free memory on device cuda:1 (19.77/22.05 GiB) on startup is less than desired GPU memory "
        "utilization (0.9, 19.84 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.\n"
    )
    made = analyzer.analyze([("engine.log", io.BytesIO(line.encode()))])
    assert [ledger.gpu for ledger in made.ledgers] == [1]


def test_no_share_is_the_whole_card() -> None:
    """(0.9 × 24 + 2.31) / 24 = 0.996, up: anything at all asks for 1.00."""
    root = report("none-left-encoder").root
    assert root is not None
    assert root.window is not None
    assert (root.window.low, root.window.feasible) == (1.0, False)


def test_a_small_share_that_leaves_nothing_is_raised() -> None:
    """(0.2 × 79.65 + 1.12 + 2.25) / 79.65 = 0.243, up: one request is 147456 × 16384 bytes by the shape. 0.8.5 prints no pool."""
    assert changed("none-left-share-02")["--gpu-memory-utilization"] == 0.25
    root = report("none-left-share-02").root
    assert root is not None
    assert "adds 3.98 GiB" in root.fixes[0].why.en  # 0.05 × 79.65: what the share gives, not only what is missing
    assert "more than 0.37" in titles("none-left-085-share-03")[0]  # (14.25 + 0.44) / 40 = 0.367, activations on top


def test_nothing_that_a_step_takes_less_opens_a_length_beyond_the_card() -> None:
    """18.14 of weights and 8.00 for one request on a card of 22.49."""
    assert changed("none-left-beyond-card") == {"--tensor-parallel-size": 2}
    against = {
        name: [item.advice.en for item in root.not_this]
        for name in ("none-left-beyond-card", "none-left-share-02")
        if (root := report(name).root)
    }
    assert "lower --max-model-len" not in against["none-left-beyond-card"]
    assert "lower --max-model-len" in against["none-left-share-02"]


def test_graphs_after_a_plan_or_without_their_estimate() -> None:
    assert titles("plan-applied-graph-oom")[0].startswith("VLLM_ENABLE_STARTUP_PLAN=0")
    assert "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=1" in titles("estimate-off-graph-oom")
    for name in ("plan-applied-graph-oom", "estimate-off-graph-oom"):
        root = report(name).root
        assert root is not None
        assert not any("as the message suggests" in no.advice.en for no in root.not_this)


def test_a_flag_of_the_users_own_command_is_there() -> None:
    """The version is only known as 0.8.5 or newer; the command has the flag of 0.10.2."""
    assert changed("pinned-4G-cmd-smi")["--kv-cache-memory-bytes"] == 6_100_000_000
