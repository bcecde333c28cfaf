"""No input breaks the intake, the patterns, the readers or the redaction: bounded runs over made and mutated inputs."""

from __future__ import annotations

import gzip
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.targets import TARGETS
from tests.intake.test_archives import tarred, zipped

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "fixtures"
#: Beginnings of what each kind of input looks like: mutations of them reach further than bytes from nowhere.
SEEDS = [
    path.read_bytes()[:6000]
    for path in sorted(FIXTURES.rglob("*"))
    if path.is_file() and path.suffix in (".log", ".txt", ".csv", ".xml", ".json", ".yaml", ".sh")
][::7][:80]
SECONDS = int(os.environ.get("FUZZ_SECONDS", "8"))


def _mutated(seed: bytes, edits: list[tuple[float, int, bytes]]) -> bytes:
    data = bytearray(seed)
    for share, remove, insert in edits:
        at = int(share * len(data))
        data[at : at + remove] = insert
    return bytes(data)


_EDITS = st.lists(
    st.tuples(
        st.floats(0, 1),
        st.integers(0, 40),
        st.one_of(
            st.binary(max_size=6),
            st.sampled_from(
                [b"\n", b"\r", b"\0", b"-", b"9" * 400, b"NaN", b"inf", b"\xff\xfe", b"\x1b[31m", b"{", b"<ip-1>", "％".encode()]
            ),
        ),
    ),
    max_size=8,
)
INPUTS = st.one_of(
    st.binary(max_size=400),
    st.builds(_mutated, st.sampled_from(SEEDS), _EDITS),
    st.builds(lambda seed, edits: _mutated(gzip.compress(seed[:2000], mtime=0), edits), st.sampled_from(SEEDS), _EDITS),
    st.builds(lambda seed, edits: _mutated(zstandard.compress(seed[:2000]), edits), st.sampled_from(SEEDS), _EDITS),
    st.builds(lambda seed, edits: _mutated(zipped([("a.log", seed[:2000])]), edits), st.sampled_from(SEEDS), _EDITS),
    st.builds(lambda seed, edits: _mutated(tarred([("a.log", seed[:2000])]), edits), st.sampled_from(SEEDS), _EDITS),
)


@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=INPUTS)
def test_any_input_ends_in_a_result_or_a_known_error(name: str, data: bytes) -> None:
    TARGETS[name](data)


@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="the coverage-guided fuzzer is not installed (extra: fuzz)")
@pytest.mark.parametrize("name", TARGETS)
def test_a_coverage_guided_run_finds_nothing(name: str, tmp_path: Path) -> None:
    seeds = tmp_path / "seeds"
    seeds.mkdir()
    for number, seed in enumerate(SEEDS[:30]):
        (seeds / str(number)).write_bytes(seed[:4000])
    command = [sys.executable, "-m", "tests.fuzz.run_atheris", name, str(SECONDS), str(seeds)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, errors="replace", timeout=SECONDS + 240, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert "stat::number_of_executed_units" in done.stderr
