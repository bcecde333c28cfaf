"""Settings that vLLM prints: values, places, and what a cut or hostile text does."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzer.readers.settings import SETTING_FACTS, engine_config, is_secret, namespace, non_default_args, python_value, setting_fact

BANNER_06 = (
    "model='m/x', speculative_config=None, dtype=torch.bfloat16, max_seq_len=29000, load_format=LoadFormat.AUTO, tensor_parallel_size=1, "
    "quantization=None, kv_cache_dtype=auto,  device_config=cuda, seed=0, served_model_name=/x's/a, num_scheduler_steps=1, "
    "chunked_prefill_enabled=False multi_step_stream_outputs=True, enable_prefix_caching=False, mm_processor_kwargs=None)"
)

NAMESPACE = (
    "args: Namespace(subparser='serve', model_tag='a', host=None, allowed_origins=['*'], middleware=[], max_model_len=4096, swap_space=4, "
    "dispatch_function=<function serve at 0x7f>, gpu_memory_utilization=0.9)"
)


@pytest.mark.parametrize(
    ("reader", "body", "wanted"),
    [
        (
            non_default_args,
            "{'model_tag': 'a/b', 'model': 'a/b', 'max_model_len': 4096, 'gpu_memory_utilization': 0.65, 'enforce_eager': True}",
            {"--model": "a/b", "--max-model-len": 4096, "--gpu-memory-utilization": 0.65, "--enforce-eager": True},
        ),
        (
            non_default_args,
            "non-default args: {'config_format': <C.AUTO: 'auto'>, 'served_model_name': ['x'], 'compilation_config': {'mode': None}}",
            {"--config-format": "auto", "--served-model-name": "x", "--compilation-config": "{'mode': None}"},
        ),
        # A value that the text breaks off is left out: 131 may have been 131072.
        (non_default_args, "{'max_num_seqs': 16, 'max_model_len': 131", {"--max-num-seqs": 16}),
        (non_default_args, "{'max_num_seqs': 16, 'model': '/models/ll", {"--max-num-seqs": 16}),
        (non_default_args, "{'api_key': ['sk-1'], 'hf_token': 'hf_1', 'max_num_batched_tokens': 8192}", {"--max-num-batched-tokens": 8192}),
        (
            non_default_args,
            "{'model': \"it's\", 'chat_template': '{{ a }}, \\'b\\'', 'seed': 1}",
            {"--model": "it's", "--chat-template": "{{ a }}, 'b'", "--seed": 1},
        ),
        (
            namespace,
            NAMESPACE,
            {"--model": "a", "--allowed-origins": "*", "--max-model-len": 4096, "--swap-space": 4, "--gpu-memory-utilization": 0.9},
        ),
        (
            namespace,
            "ServerArgs(model_path='q', mem_fraction_static=0.6, tp_size=2)",
            {"--model-path": "q", "--mem-fraction-static": 0.6, "--tp-size": 2},
        ),
        (
            engine_config,
            BANNER_06,
            {
                "--model": "m/x",
                "--dtype": "bfloat16",
                "--max-model-len": 29000,
                "--load-format": "auto",
                "--tensor-parallel-size": 1,
                "--kv-cache-dtype": "auto",
                "--seed": 0,
                "--served-model-name": "/x's/a",
                "--num-scheduler-steps": 1,
                "--enable-chunked-prefill": False,
                "--enable-prefix-caching": False,
            },
        ),
        (
            engine_config,
            "Initializing a V1 LLM engine (v0.9.2) with config: model='m', max_seq_len=40960",
            {"--model": "m", "--max-model-len": 40960},
        ),
        (
            engine_config,
            "model='m', speculative_config=SpeculativeConfig(draft_model='d', num_spec_tokens=5), seed=0",
            {"--model": "m", "--speculative-config": "SpeculativeConfig(draft_model='d', num_spec_tokens=5)", "--seed": 0},
        ),
        (engine_config, "max_seq_len=4096, tokenizer='cut of", {"--max-model-len": 4096}),
        (engine_config, "", {}),
    ],
)
def test_values(reader, body, wanted):
    assert {flag: value for flag, (value, _) in reader(body).items()} == wanted


@pytest.mark.parametrize("reader", [non_default_args, namespace, engine_config])
@given(body=st.text(alphabet="{}[]()'\",:= \\abc_1.\n", max_size=300))
def test_any_text_ends_and_its_places_lie_in_it(reader, body):
    for value, (start, end) in reader(body).values():
        assert 0 <= start <= end <= len(body)
        assert value is None or isinstance(value, (bool, int, float, str))


@given(
    st.dictionaries(
        st.from_regex(r"[a-z][a-z_]{0,8}[a-z]", fullmatch=True).filter(
            lambda key: not is_secret(key) and key not in ("model_tag", "command", "func")
        ),
        st.one_of(st.integers(), st.booleans(), st.text(max_size=12), st.lists(st.integers(), min_size=2, max_size=3)),
        max_size=6,
    )
)
def test_a_printed_dict_comes_back_with_its_places(arguments):
    body = repr(arguments)
    found = non_default_args(body)
    assert len(found) == len(arguments)
    for key, value in arguments.items():
        got, (start, end) = found["--" + key.replace("_", "-")]
        assert body[start:end] == repr(value)
        if isinstance(value, (bool, int)) and len(repr(value)) <= 40:
            assert got == value
            assert type(got) is type(value)


@pytest.mark.parametrize(
    "body", ["{'a': " + "(" * 200_000, "a=" + " " * 200_000, "model='" + "\\" * 200_000, "{" + "'" * 200_001, "a = " * 50_000]
)
@pytest.mark.parametrize("reader", [non_default_args, namespace, engine_config])
def test_hostile_text_is_read_in_linear_time(reader, body):
    begin = time.perf_counter()
    reader(body)
    assert time.perf_counter() - begin < 2.0


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("None", None),
        ("True", True),
        ("-1", -1),
        ("1e999", "1e999"),
        ("0.95", 0.95),
        ("'0.95'", "0.95"),
        ("torch.float16", "float16"),
        ("8_192", 8192),
    ],
)
def test_python_value(text, value):
    got = python_value(text)
    assert got == value
    assert type(got) is type(value)


@pytest.mark.parametrize(
    ("name", "value", "fact"),
    [
        ("--gpu-memory-utilization", 0.9, ("budget.utilization", 0.9, "fraction")),
        ("--max-model-len", -1, None),
        ("--max-model-len", "auto", None),
        ("--kv-cache-memory-bytes", 1024, ("kv_cache.requested", 1024, "B")),
        ("VLLM_CPU_KVCACHE_SPACE", "40", ("kv_cache.requested", 40, "GiB")),
        ("--swap-space", 4, None),
        ("--enforce-eager", True, None),
    ],
)
def test_setting_fact(name, value, fact):
    assert setting_fact(name, value) == fact


def test_facts_are_known_names():
    import yaml

    from analyzer.data import folder

    names = {entry["name"] for entry in yaml.safe_load((folder("patterns") / "facts.yaml").read_text())}
    assert {name for name, _ in SETTING_FACTS.values()} <= names
