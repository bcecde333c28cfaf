"""The same failure has the same fingerprint, another one another; what is not known is said as such."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzer.diagnosis.fingerprint import VERSION, normal
from tests.diagnosis.texts import BANNER, NCCL, READY, said, statistics

FAILED = (
    "(EngineCore_DP0 pid={pid}) ERROR {time} [core.py:{line}] EngineCore failed to start.\n"
    "(EngineCore_DP0 pid={pid}) ERROR {time} [core.py:{line}] Traceback (most recent call last):\n"
    '(EngineCore_DP0 pid={pid}) ERROR {time} [core.py:{line}]   File "{path}/loader.py", line 12, in foo\n'
    "(EngineCore_DP0 pid={pid}) ERROR {time} [core.py:{line}] {message}\n"
    "(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {{}}\n"
)


def failed(message: str, pid: int = 271, time: str = "10-30 07:44:51", line: int = 718, path: str = "/opt/vllm") -> str:
    """A start that ends with an exception nobody has a cause for."""
    return BANNER.format(version="0.11.0") + FAILED.format(message=message, pid=pid, time=time, line=line, path=path)


ODD = "OddError: table of 4096 rows at 0x7f21a0 lacks '{name}' in /models/{path}/x.json (1.25 GiB)"


def test_run_to_run_differences_do_not_count() -> None:
    first = said(failed(ODD.format(name="w2", path="a")))
    changed = ODD.format(name="w2", path="b/c").replace("4096", "512").replace("0x7f21a0", "0x11ff")
    second = said(failed(changed, 9, "11-02 01:02:03", 731, "/usr/lib"))
    assert (first.outcome.state.value, first.outcome.cause) == ("failed", None)
    assert first.fingerprint is not None
    assert first.fingerprint == second.fingerprint


HAS = ODD.format(name="w3_scale", path="a").replace("lacks", "has")


@pytest.mark.parametrize("other", ["OddError: something else", "KeyError: 'lm_head'", HAS])
def test_another_failure_has_another(other: str) -> None:
    assert said(failed(ODD.format(name="w2", path="a"))).fingerprint != said(failed(other)).fingerprint


def test_it_is_the_first_error_and_not_its_messenger() -> None:
    root = said(failed("KeyError: 'lm_head'")).root
    assert root is not None
    assert "KeyError" in root.evidence[0].text
    assert any("failed to start" in source.text for source in root.evidence)


def test_a_healthy_server_has_none() -> None:
    assert said(BANNER.format(version="0.11.0") + NCCL + READY + statistics([(1, 0, 3.0)])).fingerprint is None


def test_a_paste_without_its_head_is_recognised() -> None:
    whole, cut = failed("OddError: so"), failed("OddError: so").partition("\n")[2]
    texts = [said(text).root for text in (whole, cut)]
    assert [root is not None and "begins in the middle" in root.explanation.en for root in texts] == [False, True]
    assert texts[1] is not None
    assert texts[1].needs


@given(st.text(max_size=300))
def test_normal_is_stable(text: str) -> None:
    assert normal(normal(text)) == normal(text)
    assert len(normal(text)) <= 600


@given(st.integers(0, 2**40), st.integers(0, 2**40))
def test_numbers_do_not_count(first: int, second: int) -> None:
    assert normal(f"needs {first} blocks of {second} B") == normal("needs 1 blocks of 2 B")


def test_a_known_failure_is_the_same_in_any_wording() -> None:
    old = said(
        failed(
            "ValueError: The model's max seq len (8192) is larger than the maximum number of tokens that can be stored in KV cache (96)."
        )
    )
    new = said(
        failed(
            "ValueError: To serve at least one request with the models's max seq len (65536), (8.00 GiB KV cache is needed, which is larger "
            "than the available KV cache memory (1.20 GiB). Try increasing `gpu_memory_utilization` or decreasing `max_model_len`."
        )
    )
    assert old.outcome.cause == new.outcome.cause == "kv_cache.too_small_for_max_len"
    assert old.likeness == new.likeness == "cause\nvllm\nkv_cache.too_small_for_max_len"
    assert old.fingerprint == new.fingerprint


@pytest.mark.parametrize(("first", "second", "same"), [("--dry-run", "--dry-run", True), ("--dry-run", "--disable-prefix-caching", False)])
def test_an_unknown_flag_is_known_by_its_name(first: str, second: str, same: bool) -> None:
    reports = [
        said(f"vllm serve m {flag} {place}\nvllm: error: unrecognized arguments: {flag}\n") for flag, place in ((first, ""), (second, " "))
    ]
    assert {report.outcome.cause for report in reports} == {"args.unknown_flag"}
    assert (reports[0].fingerprint == reports[1].fingerprint) is same


def test_its_rules_are_versioned_and_its_reason_is_kept() -> None:
    report = said(failed("OddError: table 7"))
    assert report.likeness == "message\nvllm\nOddError: table <n>"
    assert report.fingerprint is not None
    assert report.fingerprint.startswith(f"{VERSION}.")
