"""Where CUDA graphs lie, by version, runner, variable and platform."""

from __future__ import annotations

import pytest

from analyzer.engines.vllm import graphs
from analyzer.engines.vllm.graphs import Place
from analyzer.model.versions import Range

MIB = 2**20
ON, OFF = {graphs.ESTIMATE: "1"}, {graphs.ESTIMATE: "0"}


@pytest.mark.parametrize(
    ("where", "options", "expected"),
    [
        ("0.6.6", {"generation": "v0"}, Place.OUTSIDE),
        ("0.17.1", {}, Place.OUTSIDE),
        ("0.17.1", {"env": ON}, Place.OUTSIDE),
        ("0.18.0", {}, Place.OUTSIDE),
        ("0.19.1", {"env": ON}, Place.INSIDE),
        ("0.19.1", {"env": ON, "runner": "v2"}, Place.OUTSIDE),
        ("0.20.0", {}, Place.INSIDE),
        ("0.21.0", {"env": OFF}, Place.OUTSIDE),
        ("0.21.0", {"env": {graphs.V2_RUNNER: "1"}}, Place.OUTSIDE),
        ("0.20.0", {"eager": True}, Place.NONE),
        ("0.20.0", {"platform": "rocm"}, Place.OUTSIDE),
        ("0.26.0", {"platform": "rocm", "runner": "v1"}, Place.INSIDE),
        (Range.parse(">=0.25.0,<0.27.0"), {"platform": "rocm", "runner": "v1"}, None),
        ("0.26.0", {"platform": "xpu"}, Place.OUTSIDE),
        ("0.22.0", {}, None),  # which runner it was decides
        ("0.22.0", {"runner": "v1"}, Place.INSIDE),
        ("0.22.0", {"runner": "v2"}, Place.OUTSIDE),
        ("0.22.1", {"architecture": "Qwen3ForCausalLM"}, Place.OUTSIDE),
        ("0.22.1", {"architecture": "LlamaForCausalLM"}, Place.INSIDE),
        ("0.23.0", {"architecture": "LlamaForCausalLM"}, Place.OUTSIDE),
        ("0.23.0", {"architecture": "LlamaForCausalLM", "env": {graphs.V2_RUNNER: "0"}}, Place.INSIDE),
        ("0.28.0", {"architecture": "Qwen3_5ForConditionalGeneration"}, None),
        ("0.28.0", {"runner": "v2"}, Place.OUTSIDE),
        ("0.28.0", {"env": OFF}, Place.OUTSIDE),
        ("0.29.0", {}, Place.INSIDE),
        ("0.29.0", {"runner": "v2"}, Place.INSIDE),
        ("0.29.1rc1.dev339+gda9888462", {}, Place.INSIDE),
        ("0.33.0", {"env": OFF}, Place.OUTSIDE),
        (Range.parse(">=0.9.1,<0.18.0"), {}, Place.OUTSIDE),
        (Range.parse(">=0.9.1,<0.20.0"), {}, Place.OUTSIDE),
        (Range.parse(">=0.9.1,<0.20.0"), {"env": ON}, None),
        (Range.parse(">=0.18.0,<0.22.0"), {}, None),
        (Range.parse(">=0.18.0,<0.22.0"), {"env": ON}, Place.INSIDE),
        (Range.parse(">=0.18.0"), {"env": OFF}, Place.OUTSIDE),
        (Range.parse(">=0.28.0"), {"runner": "v2"}, None),
        (None, {}, None),
    ],
)
def test_place(where: str | Range | None, options: dict[str, object], expected: Place | None) -> None:
    found = graphs.place(where, **options)  # type: ignore[arg-type]
    assert found is expected
    assert graphs.graphs_inside(found) is (None if expected is None else expected is Place.INSIDE)


@pytest.mark.parametrize(
    ("where", "architecture", "env", "expected"),
    [
        ("0.21.0", "Qwen3ForCausalLM", {}, "v1"),
        ("0.21.0", None, {graphs.V2_RUNNER: "1"}, "v2"),
        ("0.22.0", "Qwen3ForCausalLM", {}, "v2"),
        ("0.22.0", "LlamaForCausalLM", {}, "v1"),
        ("0.24.0", "GraniteMoeForCausalLM", {}, "v2"),
        ("0.25.0", "LlamaForCausalLM", {}, "v2"),
        ("0.25.0", "MixtralForCausalLM", {}, None),
        ("0.30.0", "LlamaForCausalLM", {}, None),
        ("0.30.0", "LlamaForCausalLM", {graphs.V2_RUNNER: "0"}, "v1"),
        (Range.parse(">=0.22.0,<0.24.0"), "LlamaForCausalLM", {}, None),
        (Range.parse(">=0.22.0,<0.24.0"), "Qwen3ForCausalLM", {}, "v2"),
    ],
)
def test_runner(where: str | Range, architecture: str | None, env: dict[str, str], expected: str | None) -> None:
    assert graphs.runner_of(where, architecture, env) == expected


def test_estimate_of_the_modes() -> None:
    assert graphs.mode_estimate(round(261.65 * MIB), 42, round(9.27 * MIB)) == round(261.65 * MIB) + 41 * round(9.27 * MIB)
    assert graphs.mode_estimate(MIB, 0, MIB) == MIB
    assert graphs.estimate([(100, 10, 5), (300, 3, 7)], encoder=50) == 300 + 9 * 5 + 2 * 7 + 50
    assert graphs.estimate([]) == 0


def test_what_lies_outside() -> None:
    assert graphs.outside_the_budget(Place.NONE, None, None) == 0
    assert graphs.outside_the_budget(Place.OUTSIDE, 500, 400) == 500
    assert graphs.outside_the_budget(Place.INSIDE, 500, 400) == 100
    assert graphs.outside_the_budget(Place.INSIDE, 300, 400) == 0
    assert graphs.outside_the_budget(Place.INSIDE, 300, None) is None
    assert graphs.outside_the_budget(None, 300, 200) is None
    assert graphs.outside_the_budget(Place.OUTSIDE, None, None) is None
    assert graphs.short_for_capture(100, 300) == 200
    assert graphs.short_for_capture(300, 100) == 0
    assert graphs.took([1, 2]) == 2
    assert graphs.took([]) is None
