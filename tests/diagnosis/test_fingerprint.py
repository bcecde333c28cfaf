"""The same failure has the same fingerprint, another one another; what is not known is said as such."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzer.diagnosis.fingerprint import normal
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
