"""A model's config.json: whole, inside a paste, cut, and what is none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzer.readers import model_config
from analyzer.readers.base import Page


def read(text):
    return model_config.read(Page("x", text.split("\n")))


def facts(reading):
    return {fact.name: (fact.value, fact.source.line) for fact in reading.facts}


def test_a_whole_file():
    lines = ["{", ' "architectures": ["A"],', ' "num_hidden_layers": 48,', ' "num_attention_heads": 32,']
    text = "\n".join([*lines, ' "max_position_embeddings": 262144,', ' "_name_or_path": "/home/a"', "}"])
    (reading,) = read(text)
    assert facts(reading) == {"model.layers": (48, 3), "model.attention_heads": (32, 4), "model.derived_max_len": (262144, 5)}
    assert (reading.first, reading.last) == (0, 6)
    assert reading.model is not None
    assert "_name_or_path" not in reading.model


def test_inside_a_paste():
    (reading,) = read('my config:\n$ cat config.json\n{"architectures": ["A"],\n "num_attention_heads": 40}\nand then it died')
    assert facts(reading) == {"model.attention_heads": (40, 4)}
    assert (reading.first, reading.last) == (2, 3)


def test_the_text_part_of_a_multimodal_model():
    (reading,) = read('{"architectures": ["V"], "vision_config": {"num_hidden_layers": 27}, "text_config": {"num_hidden_layers": 28}}')
    assert facts(reading) == {"model.layers": (28, 1)}


def test_a_cut_one_is_read_as_far_as_it_goes():
    (reading,) = read('{\n  "architectures": ["A"],\n  "hidden_size": 4096,\n  "num_hidden_layers": 32,\n  "rope_sca')
    assert reading.model == {"architectures": ["A"], "hidden_size": 4096, "num_hidden_layers": 32}
    assert facts(reading) == {"model.layers": (32, 4)}


@pytest.mark.parametrize(
    ("scaling", "length"),
    [
        ("null", 40960),
        ('{"rope_type": "llama3", "factor": 8.0}', 40960),
        ('{"type": "yarn", "factor": 4.0}', None),
        ('{"rope_type": "linear", "factor": 2}', None),
        ('{"rope_theta": 1000000}', 40960),
    ],
)
def test_the_length_is_stated_only_where_nothing_scales_it(scaling, length):
    (reading,) = read(f'{{"architectures": ["A"], "max_position_embeddings": 40960, "rope_scaling": {scaling}}}')
    assert facts(reading).get("model.derived_max_len", (None,))[0] == length


@pytest.mark.parametrize(
    "text",
    [
        '{"tokenizer_class": "T", "model_max_length": 4096, "model_type": "x"}',
        '{"prompt": "what is \\"architectures\\"?", "max_tokens": 4}',
        "INFO x {'architectures'}",
        '"model_type"',
        "",
    ],
)
def test_no_model(text):
    assert read(text) == []


@given(st.text(alphabet='{}[]":,\n architectures_num_hidden_layers0', max_size=200))
def test_any_text_ends(rest):
    for reading in read('{"architectures": ["A"], "num_hidden_layers": 4, ' + rest):
        assert reading.first <= reading.last
