"""Corrected commands: the change is there when read again, and nothing else has moved."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzer.readers.launch.find import invocations
from analyzer.readers.launch.rewrite import corrected

FIXTURES = Path(__file__).parents[3] / "fixtures" / "readers" / "launch"
FORMS = sorted(path.name for path in FIXTURES.iterdir())


def settings(text):
    return {argument.flag: argument.value for argument in invocations(text)[-1].arguments if not argument.computed}


def environment(text):
    return {variable.name: variable.value for variable in invocations(text)[-1].environment}


@pytest.mark.parametrize(
    ("command", "changes", "wanted"),
    [
        ("vllm serve a/b --gpu-memory-utilization 0.98", {"--gpu-memory-utilization": 0.9}, "vllm serve a/b --gpu-memory-utilization 0.9"),
        ("vllm serve a/b --gpu_memory_util=0.98 -tp 2", {"--gpu-memory-utilization": 0.9}, "vllm serve a/b --gpu_memory_util=0.9 -tp 2"),
        ("vllm serve a/b -tp 2  # x", {"--tensor-parallel-size": 4, "--max-num-seqs": 8}, "vllm serve a/b -tp 4 --max-num-seqs 8  # x"),
        (
            "vllm serve a/b -tp 2 --port 1 > l 2>&1 &",
            {"--port": None, "--enforce-eager": True},
            "vllm serve a/b -tp 2 --enforce-eager > l 2>&1 &",
        ),
        ("vllm serve a/b \\\n  -tp 2 \\\n  --port 1\n", {"--tensor-parallel-size": None}, "vllm serve a/b \\\n  --port 1\n"),
        (
            "vllm serve a/b \\\n  -tp 2 \\\n  --port 1\n",
            {"--max-num-seqs": 8},
            "vllm serve a/b \\\n  -tp 2 \\\n  --port 1 \\\n  --max-num-seqs 8\n",
        ),
        ("docker run x/vllm `\n>>   --model m `\n>>   --port 1", {"--port": 2}, "docker run x/vllm `\n  --model m `\n  --port 2"),
        ("vllm serve a/b \\\n> -tp 2 \\\n> --port 1", {"--port": 2}, "vllm serve a/b \\\n  -tp 2 \\\n  --port 2"),
        ("vllm serve a/b -tp 2 \\\n> l", {"--port": 2}, "vllm serve a/b -tp 2 --port 2 \\\n> l"),
        ("vllm serve a/b --enable-prefix-caching", {"--enable-prefix-caching": False}, "vllm serve a/b --no-enable-prefix-caching"),
        ("vllm serve a/b --no-enable-prefix-caching", {"--enable-prefix-caching": True}, "vllm serve a/b --enable-prefix-caching"),
        (
            "vllm serve a/b --disable-prefix-caching",
            {"--disable-prefix-caching": None, "--no-enable-prefix-caching": True},
            "vllm serve a/b --no-enable-prefix-caching",
        ),
        ("vllm serve a/b -tp $TP", {"--tensor-parallel-size": 2}, "vllm serve a/b -tp 2"),
        ("vllm serve a/b --dtype fp16", {"--dtype": "float16"}, "vllm serve a/b --dtype float16"),
        (
            "vllm serve a/b --x '{\"a\": 1}' --port 1",
            {"--hf-overrides": '{"a": 1}'},
            "vllm serve a/b --x '{\"a\": 1}' --port 1 --hf-overrides '{\"a\": 1}'",
        ),
        ("llm = LLM('m', max_model_len=n)", {"--max-model-len": 8}, "llm = LLM('m', max_model_len=8)"),
        ("llm = LLM('m', a=1, b=2)", {"--a": None, "--b": None, "--max-model-len": 8}, "llm = LLM('m', max_model_len=8)"),
        (
            "llm = LLM(\n    model='m',  # x, y\n    a=1  # z\n)",
            {"--max-model-len": 8},
            "llm = LLM(\n    model='m',  # x, y\n    a=1,  # z\n    max_model_len=8\n)",
        ),
        ("no launch here", {"--a": 1}, "no launch here"),
    ],
)
def test_flags(command, changes, wanted):
    assert corrected(command, changes) == wanted


@pytest.mark.parametrize(
    ("command", "variables", "wanted"),
    [
        ("vllm serve a/b --port 1", {"X": "a b"}, "X='a b' vllm serve a/b --port 1"),
        ("X=1 Y=2 vllm serve a/b --port 1", {"X": "3", "Y": None}, "X=3 vllm serve a/b --port 1"),
        ("sudo vllm serve a/b --port 1", {"X": "1"}, "sudo X=1 vllm serve a/b --port 1"),
        ("$ vllm serve a/b --port 1", {"X": "1"}, "$ X=1 vllm serve a/b --port 1"),
        ("export X=1\nvllm serve a/b --port 1", {"X": "2"}, "export X=2\nvllm serve a/b --port 1"),
        (
            "docker run -e X=1 -e Y=1 vllm/vllm-openai --model m",
            {"X": None, "Y": "2", "Z": "3"},
            "docker run -e Y=2 -e Z=3 vllm/vllm-openai --model m",
        ),
    ],
)
def test_environment(command, variables, wanted):
    assert corrected(command, {}, variables) == wanted


def test_docker_options():
    assert corrected("docker run --shm-size 64m vllm/vllm-openai --model m", {}, None, {"--shm-size": "8g"}) == (
        "docker run --shm-size 8g vllm/vllm-openai --model m"
    )
    assert corrected("docker run vllm/vllm-openai --model m", {}, None, {"--shm-size": "8g"}) == (
        "docker run --shm-size=8g vllm/vllm-openai --model m"
    )


@pytest.mark.parametrize("name", FORMS)
@given(
    changes=st.dictionaries(
        st.sampled_from(["--gpu-memory-utilization", "--max-model-len", "--tensor-parallel-size", "--max-num-seqs"]),
        st.one_of(st.none(), st.integers(1, 10**6), st.sampled_from([0.85, 0.9])),
        min_size=1,
    ),
    switches=st.dictionaries(st.sampled_from(["--enforce-eager", "--enable-prefix-caching"]), st.booleans()),
    variables=st.dictionaries(
        st.sampled_from(["VLLM_USE_V1", "CUDA_VISIBLE_DEVICES", "PYTORCH_CUDA_ALLOC_CONF"]), st.sampled_from(["1", "a:True"])
    ),
)
def test_every_form_reads_back_as_changed(name, changes, switches, variables):
    before = (FIXTURES / name).read_text()
    after = corrected(before, changes | switches, variables)
    wanted = {flag: value for flag, value in {**settings(before), **changes, **switches}.items() if value is not None}
    assert settings(after) == wanted
    if not name.endswith(".py.txt"):
        assert environment(after) == environment(before) | variables
    assert corrected(after, changes | switches, variables) == after  # a second time changes nothing
    assert corrected(before, {}) == before


@pytest.mark.parametrize("name", FORMS)
def test_a_change_leaves_every_other_line_alone(name):
    before = (FIXTURES / name).read_text()
    after = corrected(before, {"--max-num-seqs": 7})
    gone = [line for line in before.splitlines() if line not in after.splitlines()]
    assert len(gone) <= 1
    assert len(after) - len(before) < 60
