"""Shapes by name and out of config.json, and what weights take."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzer.engines.vllm import kv, shapes

GIB = 2**30


@pytest.mark.parametrize(
    ("name", "found", "exact", "quantization"),
    [
        ("Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-7B-Instruct", True, None),
        ("qwen2.5-7b-instruct", "Qwen/Qwen2.5-7B-Instruct", True, None),
        ("Qwen/Qwen2.5-7B-Instruct-AWQ", "Qwen/Qwen2.5-7B-Instruct", True, "awq"),
        ("/models/Qwen2.5-32B-Instruct-GPTQ-Int4", "Qwen/Qwen2.5-32B-Instruct", True, "gptq"),
        ("Qwen/Qwen2.5-72B-Instruct-GPTQ-Int8/", "Qwen/Qwen2.5-72B-Instruct", True, "gptq-int8"),
        ("RedHatAI/Meta-Llama-3.1-70B-Instruct-quantized.w4a16", "meta-llama/Llama-3.1-70B-Instruct", True, "int4"),
        ("hugging-quants/Meta-Llama-3.1-8B-Instruct-AWQ-INT4", "meta-llama/Llama-3.1-8B-Instruct", True, "awq"),
        ("neuralmagic/Meta-Llama-3.1-8B-Instruct-FP8-dynamic", "meta-llama/Llama-3.1-8B-Instruct", True, "fp8"),
        ("nvidia/Llama-3.3-70B-Instruct-NVFP4", "meta-llama/Llama-3.3-70B-Instruct", True, "nvfp4"),
        ("unsloth/Llama-3.2-3B-Instruct-unsloth-bnb-4bit", "meta-llama/Llama-3.2-3B-Instruct", True, "int4"),
        ("Qwen3-8B-Q4_K_M", "Qwen/Qwen3-8B", True, "int4"),
        ("/root/.cache/huggingface/hub/models--Qwen--Qwen3-32B/snapshots/0abc12/", "Qwen/Qwen3-32B", True, None),
        ("C:\\models\\Qwen3-14B-FP8", "Qwen/Qwen3-14B", True, "fp8"),
        ("meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-8B-Instruct", False, None),
        ("meta-llama/Llama-2-7b-chat-hf", "meta-llama/Llama-2-7b-hf", False, None),
        ("openai/gpt-oss-20b", "openai/gpt-oss-20b", True, None),
    ],
)
def test_lookup(name: str, found: str, exact: bool, quantization: str | None) -> None:
    match = shapes.lookup(name)
    assert match is not None
    assert (match.name, match.exact, match.quantization) == (found, exact, quantization)


def test_a_siblings_context_length_is_not_taken_over() -> None:
    match = shapes.lookup("meta-llama/Llama-3.1-8B")
    assert match is not None
    assert match.shape.max_position_embeddings is None
    assert match.shape.layers == 32


@pytest.mark.parametrize(
    "name",
    [
        "deepseek-ai/DeepSeek-R1-Distill-Qwen-32B",
        "Qwen/Qwen2.5-VL-7B-Instruct",
        "Qwen/Qwen2-14B",
        "mistralai/Mistral-7B-Instruct-v0.1",
        "my-company/my-finetune",
        "Qwen2.5-7B-Instruct-abliterated-merged",
        "",
        "/",
        "AWQ",
    ],
)
def test_a_name_that_says_more_finds_nothing(name: str) -> None:
    assert shapes.lookup(name) is None


@pytest.mark.parametrize("name", sorted(shapes._table()))
def test_every_row_is_found_by_its_own_name_and_has_a_cost(name: str) -> None:
    match = shapes.lookup(name)
    assert match is not None
    assert (match.name, match.exact, match.quantization) == (name, True, None)
    shape = match.shape
    assert shape.layers >= shape.kv_layers >= 1
    assert 0 <= shape.window_layers <= shape.kv_layers
    assert (kv.bytes_per_token(shape) or 0) > 0
    if shape.params_total is not None:
        sixteen = shapes.weights_bytes(shape, "fp8") if shape.tied_embeddings is not None else None
        whole = 2 * shape.params_total
        assert sixteen is None or sixteen <= whole


@pytest.mark.parametrize(
    ("name", "quantization", "gib"),
    [
        ("Qwen/Qwen2.5-7B-Instruct", None, 14.19),
        ("Qwen/Qwen2.5-7B-Instruct", "awq", 5.19),
        ("Qwen/Qwen2.5-14B-Instruct", None, 27.51),
        ("openai/gpt-oss-120b", None, 60.8),
        ("meta-llama/Llama-3.1-70B-Instruct", None, 131.4),
    ],
)
def test_weights(name: str, quantization: str | None, gib: float) -> None:
    match = shapes.lookup(name)
    assert match is not None
    found = shapes.weights_bytes(match.shape, quantization)
    assert found is not None
    assert abs(found / GIB - gib) < 0.02
    half = shapes.weights_bytes(match.shape, quantization, tensor_parallel=2)
    assert half == found // 2


def test_weights_that_cannot_be_told() -> None:
    bare = shapes.Shape(layers=32, kv_layers=32, kv_heads=8, head_dim=128)
    assert shapes.weights_bytes(bare) is None
    match = shapes.lookup("Qwen/Qwen2.5-7B-Instruct")
    assert match is not None
    assert shapes.weights_bytes(match.shape, "some-new-method") is None
    assert shapes.weights_bytes(match.shape, dtype="float32") == 4 * 7_615_616_512
    with pytest.raises(ValueError, match="at least 1"):
        shapes.weights_bytes(match.shape, tensor_parallel=0)


QWEN3_MOE = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "num_hidden_layers": 48,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "max_position_embeddings": 262144,
}


def test_config_of_a_plain_model() -> None:
    shape = shapes.from_config(QWEN3_MOE | {"torch_dtype": "bfloat16"})
    assert shape is not None
    assert kv.bytes_per_token(shape) == 98_304  # the 24 GiB for 262,144 tokens that the log printed
    assert shape.windows_known
    assert shape.max_position_embeddings == 262_144
    assert shapes.from_config({"num_hidden_layers": 42, "vocab_size": 256000}) is None


@pytest.mark.parametrize(
    ("extra", "window", "window_layers", "kv_layers", "known"),
    [
        ({"sliding_window": 4096, "model_type": "mistral"}, 4096, 48, 48, True),
        ({"sliding_window": 131072, "use_sliding_window": False}, None, 0, 48, True),
        ({"sliding_window": 4096, "model_type": "gemma2"}, 4096, 24, 48, True),
        ({"sliding_window": 1024, "sliding_window_pattern": 6}, 1024, 40, 48, True),
        ({"sliding_window": 128, "layer_types": ["sliding_attention", "full_attention"] * 24}, 128, 24, 48, True),
        ({"layer_types": ["linear_attention"] * 3 * 12 + ["full_attention"] * 12}, None, 0, 12, True),
        ({"full_attention_interval": 4}, None, 0, 12, True),
        ({"sliding_window": 4096, "model_type": "brand-new"}, 4096, 0, 48, False),
        ({"attention_chunk_size": 8192}, 8192, 0, 48, False),
        ({"attention_chunk_size": 8192, "layer_types": ["chunked_attention"] * 36 + ["full_attention"] * 12}, 8192, 36, 48, True),
        ({"mamba_d_state": 128}, None, 0, 48, False),
        ({"index_head_dim": 128}, None, 0, 48, False),
    ],
)
def test_config_of_windows_and_states(
    extra: dict[str, object], window: int | None, window_layers: int, kv_layers: int, known: bool
) -> None:
    shape = shapes.from_config(QWEN3_MOE | extra)
    assert shape is not None
    assert (shape.window, shape.window_layers, shape.kv_layers, shape.windows_known) == (window, window_layers, kv_layers, known)


def test_config_of_a_multimodal_and_a_latent_model() -> None:
    nested = shapes.from_config({"text_config": QWEN3_MOE, "dtype": "bfloat16", "quantization_config": {"quant_method": "gptq", "bits": 8}})
    assert nested is not None
    assert (nested.layers, nested.dtype, nested.native) == (48, "bfloat16", "gptq-int8")
    latent = shapes.from_config(
        {"num_hidden_layers": 61, "num_attention_heads": 128, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "torch_dtype": "bfloat16"}
    )
    assert latent is not None
    assert kv.bytes_per_token(latent, tensor_parallel=8) == 61 * 576 * 2


@given(
    st.dictionaries(
        st.sampled_from([*QWEN3_MOE, "text_config", "layer_types", "sliding_window"]), st.none() | st.text() | st.integers(-5, 99)
    )
)
def test_any_config_is_read_or_refused(config: dict[str, object]) -> None:
    shape = shapes.from_config(config)
    assert shape is None or shape.layers > 0


@given(st.text(max_size=40))
def test_any_name_is_looked_up(name: str) -> None:
    match = shapes.lookup(name)
    assert match is None or match.name in shapes._table()
