"""Fixes of what was typed: numbers and flags by version, and the user's own command with them."""

from __future__ import annotations

import pytest

from analyzer.model import Fix
from tests.diagnosis.texts import BANNER, said


def fixes(log: str, *others: str) -> list[Fix]:
    """The fixes of the root."""
    root = said(log, *others).root
    assert root is not None
    return list(root.fixes)


UNKNOWN = "vllm: error: unrecognized arguments: {flags}\n"


@pytest.mark.parametrize(
    ("version", "typed", "titles", "command"),
    [
        (
            "0.11.0",
            "--disable-prefix-caching --dry-run",
            ["Write --no-enable-prefix-caching instead of --disable-prefix-caching", "Remove --dry-run"],
            "vllm serve m --max-model-len 8192 --no-enable-prefix-caching",
        ),
        ("0.18.0", "--swap-space 4", ["Remove --swap-space"], "vllm serve m --max-model-len 8192"),
        (
            "0.13.0",
            "--cuda-graph-sizes 64",
            ["Write --cudagraph-capture-sizes instead of --cuda-graph-sizes"],
            "vllm serve m --max-model-len 8192 --cudagraph-capture-sizes 64",
        ),
        ("0.10.0", "--enable-reasoning", ["Write --reasoning-parser instead of --enable-reasoning"], "vllm serve m --max-model-len 8192"),
        (
            "0.11.0",
            "--tensor-paralel-size 2",
            ["Write --tensor-parallel-size instead of --tensor-paralel-size"],
            "vllm serve m --max-model-len 8192 --tensor-parallel-size 2",
        ),
    ],
)
def test_refused_flags(version: str, typed: str, titles: list[str], command: str) -> None:
    given = f"vllm serve m {typed} --max-model-len 8192\n"
    report = said(f"Name: vllm\nVersion: {version}\n" + UNKNOWN.format(flags=typed), given)
    assert report.outcome.cause == "args.unknown_flag"
    root = report.root
    assert root is not None
    assert [fix.title.en for fix in root.fixes] == titles
    assert report.command is not None
    assert report.command.strip() == command


def test_a_flag_that_the_version_has_is_not_called_wrong() -> None:
    """Another program may have refused it; the table then has nothing to say."""
    assert fixes("Name: vllm\nVersion: 0.11.0\n" + UNKNOWN.format(flags="--max-model-len 8192")) == []


HEADS = "(APIServer pid=4001) ValueError: Total number of attention heads ({heads}) must be divisible by tensor parallel size ({size}).\n"


@pytest.mark.parametrize(
    ("heads", "size", "to"),
    [(40, 6, 4), (28, 8, 4), (64, 6, 4), (32, 12, 8), (14, 4, 2), (40, 3, 2), (96, 7, 4), (8, 3, 2), (15, 2, None), (9, 4, 3)],
)
def test_a_tensor_parallel_size_that_divides(heads: int, size: int, to: int | None) -> None:
    found = [fix for fix in fixes(BANNER.format(version="0.11.0") + HEADS.format(heads=heads, size=size)) if "divides" in fix.why.en]
    if to is None:
        assert [fix.title.en for fix in found] in ([], ["Set --tensor-parallel-size: 2 → 1"])
        return
    assert [fix.title.en for fix in found] == [f"Set --tensor-parallel-size: {size} → {to}"]
    assert heads % to == 0


LENGTH = (
    "(APIServer pid=4001)   Value error, User-specified max_model_len ({asked}) is greater than the derived max_model_len "
    "(max_position_embeddings={derived} or model_max_length=None in model's config.json). To allow overriding this maximum, set the env "
    "var VLLM_ALLOW_LONG_MAX_MODEL_LEN=1.\n"
)


def test_the_length_of_the_model() -> None:
    report = said(BANNER.format(version="0.11.0") + LENGTH.format(asked=131072, derived=40960), "vllm serve m --max-model-len 131072\n")
    assert report.outcome.cause == "args.max_len_above_model"
    assert report.command == "vllm serve m --max-model-len 40960"


TOO_LONG = (
    "(APIServer pid=4001) ValueError: 'max_tokens' or 'max_completion_tokens' is too large: {asked}. This model's maximum context length "
    "is {length} tokens and your request has {prompt} input tokens ({asked} > {length} - {prompt}).\n"
)


@pytest.mark.parametrize(("length", "prompt", "to"), [(8192, 5121, 3071), (8192, 8191, 1)])
def test_tokens_that_fit(length: int, prompt: int, to: int) -> None:
    refused = TOO_LONG.format(asked=4096, length=length, prompt=prompt)
    log = BANNER.format(version="0.11.0") + "INFO:     Application startup complete.\n" + refused
    assert f"Ask for at most {to} max_tokens" in [fix.title.en for fix in fixes(log)]


@pytest.mark.parametrize(
    ("version", "flags", "confidence", "another"),
    [
        ("0.8.5", "--enable-reasoning --reasoning-parser deepseek_r1", "possible", True),
        ("0.8.5", "--enable-reasoning --dry-run", "certain", False),
        ("0.11.0", "--enable-reasoning", "certain", False),
    ],
)
def test_a_flag_that_the_stated_version_has_was_refused_by_another(version: str, flags: str, confidence: str, another: bool) -> None:
    report = said(BANNER.format(version=version) + UNKNOWN.format(flags=flags))
    assert report.root is not None
    assert (report.outcome.cause, report.outcome.confidence.value) == ("args.unknown_flag", confidence)
    assert ("which vllm" in report.root.explanation.en) is another


def test_an_option_of_vllm_omni_is_not_taken_away() -> None:
    titles = [fix.title.en for fix in fixes("vllm serve m --omni --port 8092\n" + UNKNOWN.format(flags="--omni"), "vllm 0.15.0\n")]
    assert titles == ["Install vllm-omni in the release that belongs to this vLLM"]
