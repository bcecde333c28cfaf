"""Options and variables by version: the table itself, and what is said of it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzer.engines.vllm import flag_table, flags
from analyzer.engines.vllm.flags import Kind
from analyzer.model.versions import Range, base


@pytest.mark.parametrize(
    ("flag", "version", "kind", "instead"),
    [
        ("--gpu-memory-utilization", "0.2.0", Kind.OK, None),
        ("--gpu_memory_utilization=0.9", "0.33.0", Kind.OK, None),
        ("-tp", "0.2.0", Kind.OK, None),
        ("-O3", "0.6.6", Kind.OK, None),
        ("-O3", "0.20.0", Kind.OK, None),
        ("-dp", "0.8.2", Kind.NOT_YET, None),
        ("--compilation-config.mode=3", "0.11.0", Kind.OK, None),
        ("--no-enable-prefix-caching", "0.6.5", Kind.OK, None),
        ("--no-enable-prefix-caching", "0.6.4", Kind.NOT_YET, None),
        ("--disable-prefix-caching", "0.11.0", Kind.NOT_YET, "--no-enable-prefix-caching"),
        ("--disable-prefix-caching", "0.6.4", Kind.NOT_YET, None),
        ("--disable-prefix-caching", "0.33.0", Kind.OK, None),
        ("--disable-prefix-cache", "0.11.0", Kind.NEVER, "--no-enable-prefix-caching"),
        ("--dry-run", "0.11.0", Kind.NEVER, None),
        ("--profile-run", "0.9.0", Kind.NEVER, None),
        ("--sliding-window", "0.6.3", Kind.NEVER, None),
        ("--ray-address", "0.9.0", Kind.NEVER, None),
        ("--device", "0.3.0", Kind.NOT_YET, None),
        ("--device", "0.9.2", Kind.OK, None),
        ("--device", "0.10.0", Kind.REMOVED, None),
        ("--device", "0.24.0", Kind.ABBREVIATION, "--device-ids"),
        ("--device", "0.30.0", Kind.ABBREVIATION, "--device-ids"),
        ("--device", "0.31.0", Kind.AMBIGUOUS, None),
        ("--disable-log-requests", "0.16.0", Kind.OK, None),
        ("--disable-log-requests", "0.17.0", Kind.REMOVED, "--no-enable-log-requests"),
        ("--disable-log-requests", "0.33.0", Kind.OK, None),
        ("--rope-scaling", "0.11.0", Kind.OK, None),
        ("--rope-scaling", "0.11.1", Kind.REMOVED, "--hf-overrides"),
        ("--swap-space", "0.17.1", Kind.OK, None),
        ("--swap-space", "0.18.0", Kind.REMOVED, None),
        ("--cuda-graph-sizes", "0.13.0", Kind.RENAMED, "--cudagraph-capture-sizes"),
        ("--cudagraph-capture-sizes", "0.9.0", Kind.NOT_YET, "--cuda-graph-sizes"),
        ("--max-context-len-to-capture", "0.9.0", Kind.RENAMED, "--max-seq-len-to-capture"),
        ("--kv-cache-memory-bytes", "0.10.1", Kind.NOT_YET, None),
        ("--kv-cache-memory", "0.11.0", Kind.ABBREVIATION, "--kv-cache-memory-bytes"),
        ("--max-num", "0.5.0", Kind.AMBIGUOUS, None),
        ("--num-lookahead-slots", "0.12.0", Kind.REMOVED, None),
        ("--max-num-queued-reqs", "0.28.0", Kind.NOT_YET, None),
        ("--scheduling-policy", "0.6.1", Kind.NOT_YET, None),
        ("--tensor-parallel", "0.6.1", Kind.ABBREVIATION, "--tensor-parallel-size"),
        ("--totally-made-up", "0.11.0", Kind.UNKNOWN, None),
        ("--", "0.11.0", Kind.UNKNOWN, None),
    ],
)
def test_fate(flag: str, version: str, kind: Kind, instead: str | None) -> None:
    found = flags.fate(flag, version)
    assert (found.kind, found.instead, found.sure) == (kind, instead, True)


def test_fate_tells_when() -> None:
    found = flags.fate("--device", "0.12.0")
    assert (found.since, found.until, found.deprecated) == ("0.3.1", "0.9.2", "0.9.0")
    assert found.note is not None
    assert found.note.zh
    assert flags.fate("--device", "0.8.5").deprecated is None
    assert flags.fate("--device", "0.32.0").candidates == ("--device-ids", "--device-memory-utilization")


def test_a_range_that_spans_a_change_is_not_sure() -> None:
    spanning = Range.parse(">=0.9.0,<0.11.0")
    found = flags.fate("--device", spanning)
    assert (found.kind, found.sure) == (Kind.REMOVED, False)
    assert not flags.exists("--device", spanning)
    assert flags.exists_somewhere("--device", spanning)
    assert flags.fate("--max-model-len", None).sure
    assert flags.exists("--max-model-len", None)
    assert not flags.exists_somewhere("--dry-run", None)


@pytest.mark.parametrize(
    ("where", "answering"),
    [
        ("0.11.0", ("0.11.0",)),
        ("v0.11.0", ("0.11.0",)),
        ("0.11.0rc2", ("0.11.0",)),
        ("0.15.1", ("0.14.1", "0.16.0")),
        ("0.29.1rc1.dev339+gda9888462", ("0.29.0", "0.30.0")),
        ("0.99.0", ("0.33.0",)),
        ("0.1.0", ("0.2.0",)),
        (Range.parse(">=0.15.0,<0.17.0"), ("0.14.1", "0.16.0")),
        (Range.parse(">=0.15.0,<=0.15.1"), ("0.14.1", "0.16.0")),
        (Range.parse("==0.9.1"), ("0.9.1",)),
        (Range.parse(">=0.32.0"), ("0.32.0", "0.33.0")),
        (Range.parse(">=0.40.0"), ("0.33.0",)),
    ],
)
def test_which_releases_answer(where: Any, answering: tuple[str, ...]) -> None:
    assert flags.resolve(where) == answering


@pytest.mark.parametrize(
    ("flag", "where", "value"),
    [
        ("--gpu-memory-utilization", "0.19.1", 0.9),
        ("--gpu-memory-utilization", "0.20.0", 0.92),
        ("--device-memory-utilization", "0.33.0", None),
        ("--max-num-seqs", "0.6.4", 256),
        ("--swap-space", "0.6.0", 4),
        ("--block-size", "0.5.0", 16),
        ("-tp", "0.9.0", 1),
    ],
)
def test_default(flag: str, where: str, value: Any) -> None:
    found = flags.default(flag, where)
    if flag == "--device-memory-utilization":
        found = flags.default("--gpu-memory-utilization", where)
        assert flags.option_of(flag, where) == ("--gpu-memory-utilization", False)
        value = 0.92
    assert found is not None
    assert found.value == value


def test_defaults_that_are_open_are_none() -> None:
    assert flags.default("--gpu-memory-utilization", None) is None
    assert flags.default("--swap-space", "0.18.0") is None
    computed = flags.default("--block-size", "0.6.4")
    assert computed is not None
    assert computed.computed
    engine = flags.default("--max-num-seqs", "0.9.0")
    assert engine is not None
    assert engine.value is None


def test_choices() -> None:
    assert flags.choices("--kv-cache-dtype", "0.10.2") == ("auto", "fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc")
    assert "fp16" not in (flags.known_values("--kv-cache-dtype", "0.33.0") or ())
    assert flags.choices("--kv-cache-dtype", "0.33.0") is None
    assert flags.choices("--block-size", "0.18.0") is None
    assert flags.choices("--block-size", "0.17.1") == (1, 8, 16, 32, 64, 128, 256)
    assert flags.choices("--max-model-len", "0.9.0") is None


def test_values_and_switches() -> None:
    assert flags.takes_value("--enable-prefix-caching", "0.9.0") is False
    assert flags.takes_value("--enable-chunked-prefill", "0.6.0") is True
    assert flags.takes_value("--max-model-len", None) is True
    assert flags.takes_value("--dry-run", None) is None
    assert flags.switched_off("--enable-prefix-caching", "0.9.0") == "--no-enable-prefix-caching"
    assert flags.switched_off("--enable-prefix-caching", "0.33.0") == "--no-enable-prefix-caching"
    assert flags.switched_off("--enable-prefix-caching", "0.5.0") is None
    assert flags.option_of("--no-enable-prefix-caching", "0.9.0") == ("--enable-prefix-caching", True)
    assert flags.option_of("--disable-prefix-caching", "0.33.0") == ("--enable-prefix-caching", True)


@pytest.mark.parametrize(
    ("flag", "where", "spelling"),
    [
        ("-tp", "0.9.0", "--tensor-parallel-size"),
        ("--device-memory-utilization", "0.33.0", "--gpu-memory-utilization"),
        ("--max_model_len", "0.9.0", "--max-model-len"),
        ("--cuda-graph-sizes", "0.14.0", "--cudagraph-capture-sizes"),
        ("--cudagraph-capture-sizes", "0.10.0", "--cuda-graph-sizes"),
        ("--no-enable-prefix-caching", "0.9.0", "--no-enable-prefix-caching"),
        ("--swap-space", "0.18.0", None),
        ("--swap-space", Range.parse(">=0.17.0,<=0.18.0"), None),
    ],
)
def test_spelled(flag: str, where: Any, spelling: str | None) -> None:
    assert flags.spelled(flag, where) == spelling


def test_environment_variables() -> None:
    assert flags.known("VLLM_USE_V1", "0.9.0") is True
    assert flags.known("VLLM_USE_V1", "0.12.0") is False
    assert flags.known("VLLM_USE_V1", Range.parse(">=0.10.0")) is None
    assert flags.known("VLLM_MADE_UP", "0.9.0") is False
    assert flags.known("VLLM_MADE_UP", "0.3.0") is None
    assert flags.known("VLLM_ROCM_USE_AITER_FP4_ASM_GEMM", "0.29.0") is None
    name = "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS"
    off, on = flags.variable_default(name, "0.19.1"), flags.variable_default(name, "0.20.0")
    assert off is not None
    assert on is not None
    assert (off.value, on.value) == (False, True)
    assert flags.variable_default(name, Range.parse(">=0.18.0")) is None
    gone = flags.variable_fate("VLLM_ATTENTION_BACKEND", "0.17.0")
    assert (gone.kind, gone.instead, gone.until) == (Kind.REMOVED, "--attention-backend", "0.14.1")
    assert flags.variable_fate("VLLM_MADE_UP", "0.17.0").kind is Kind.UNKNOWN
    assert flags.variable_fate(name, "0.9.0").kind is Kind.NOT_YET


TABLE = flag_table.data()
NAMES = sorted(TABLE["flags"])


@pytest.mark.parametrize("name", NAMES)
def test_every_option_is_accepted_from_first_to_last_and_says_so(name: str) -> None:
    facts = TABLE["flags"][name]
    if facts.get("never"):
        assert flags.fate(name, "0.33.0").kind is Kind.NEVER
        return
    for version in (facts["first"], facts["last"]):
        assert flags.fate(name, version).kind is Kind.OK, version
    if "removed_in" in facts:
        assert flags.fate(name, facts["removed_in"]).kind is not Kind.OK
    assert base(facts["first"]) <= base(facts["last"])
    for changes in (facts.get(key, {}) for key in ("default", "choices", "aliases", "no_value")):
        assert list(changes) == sorted(changes, key=base)


@given(st.sampled_from(NAMES), st.sampled_from(flags.versions()), st.integers(min_value=3, max_value=40))
def test_an_abbreviation_is_what_argparse_would_make_of_it(name: str, version: str, length: int) -> None:
    short = name[:length]
    found = flags.fate(short, version)
    accepted = flag_table.accepted_by(version)
    begun = [long for long in accepted.long if long.startswith(short)]
    if short in accepted.spellings:
        assert found.kind is Kind.OK
    elif len(begun) == 1:
        assert (found.kind, found.instead) == (Kind.ABBREVIATION, begun[0])
    elif begun:
        assert found.kind is Kind.AMBIGUOUS
        assert list(found.candidates) == begun
    else:
        assert not found.kind.accepted


@given(st.text(max_size=30), st.sampled_from(flags.versions()))
def test_any_text_has_a_fate(text: str, version: str) -> None:
    found = flags.fate(text, version)
    assert found.flag == flags.canonical(text)
    assert flags.exists(text, version) is (found.kind is Kind.OK)


@given(st.sampled_from(NAMES), st.sampled_from(flags.versions()), st.sampled_from(flags.versions()))
def test_what_all_versions_accept_some_do(name: str, one: str, other: str) -> None:
    low, high = sorted((one, other), key=base)
    span = Range(low, high)
    if flags.exists(name, span):
        assert flags.exists_somewhere(name, span)
        assert flags.fate(name, span).kind is Kind.OK
        assert flags.spelled(name, span) is not None
