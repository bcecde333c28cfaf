"""The check of a command's options against a version, as a function, as a command, and inside a report."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzer.cli import main
from analyzer.engines.vllm import flags
from analyzer.engines.vllm.lint import About, check, corrected, options_of, variables_of
from tests.diagnosis.texts import BANNER, NCCL, READY, found, said, statistics


def issues(command: str, version: str) -> list[tuple[str, str, str | None, bool]]:
    """(about, option, instead, fatal) of everything that is said of ``command``."""
    options = options_of(command)
    assert options is not None
    return [(str(i.about), i.written, i.instead, i.fatal) for i in check(options, variables_of(command), version)]


@pytest.mark.parametrize(
    ("arguments", "version", "expected"),
    [
        ("--max-model-len 8k --enforce-eager -tp 2 --no-enable-prefix-caching -O3", "0.11.0", []),
        ("--max_model_len=8192 --gpu_memory_utilization 1.0", "0.10.2", []),
        ("--swap-space 4", "0.17.1", []),
        ("--swap-space 4", "0.18.0", [("flag", "--swap-space", None, True)]),
        ("--cuda-graph-sizes 64", "0.13.0", [("flag", "--cuda-graph-sizes", "--cudagraph-capture-sizes", True)]),
        ("--disable-prefix-caching", "0.11.0", [("flag", "--disable-prefix-caching", "--no-enable-prefix-caching", True)]),
        ("--dry-run", "0.33.0", [("flag", "--dry-run", None, True)]),
        ("--kv-cache-memory-bytes 1000000000", "0.9.0", [("flag", "--kv-cache-memory-bytes", None, True)]),
        ("--enable-reasoning", "0.10.0", [("flag", "--enable-reasoning", "--reasoning-parser", True)]),
        ("--enable-reasoning --reasoning-parser qwen3", "0.10.0", [("flag", "--enable-reasoning", None, True)]),
        ("--tensor-paralel-size 2", "0.11.0", [("flag", "--tensor-paralel-size", "--tensor-parallel-size", True)]),
        ("--quite-another-thing 2", "0.11.0", [("flag", "--quite-another-thing", None, True)]),
        ("-max-num-seqs 8", "0.11.0", [("flag", "-max-num-seqs", "--max-num-seqs", True)]),
        ("--max 8", "0.11.0", [("flag", "--max", None, True)]),
        ("--max-mode 8192", "0.11.0", [("note", "--max-mode", "--max-model-len", False)]),
        ("--guided-decoding-backend xgrammar", "0.11.0", [("note", "--guided-decoding-backend", None, False)]),
        ("--gpu-memory-utilization 90", "0.11.0", [("value", "--gpu-memory-utilization", None, True)]),
        ("--dtype fp16", "0.11.0", [("value", "--dtype", None, True)]),
        ("--tensor-parallel-size 0", "0.11.0", [("value", "--tensor-parallel-size", None, True)]),
        ("--tensor-parallel-size $GPUS --dtype ${DTYPE}", "0.11.0", []),
        ("--max-model-len", "0.11.0", [("value", "--max-model-len", None, True)]),
        ("--max-num-seqs 512 --max-num-batched-tokens 256", "0.11.0", [("combination", "--max-num-batched-tokens", None, True)]),
        (
            "--no-enable-chunked-prefill --max-num-batched-tokens 2048 --max-model-len 8192",
            "0.11.0",
            [("combination", "--max-num-batched-tokens", None, True)],
        ),
        ("--max-num-seqs 8 --max-num-seqs 16", "0.11.0", [("note", "--max-num-seqs", None, False)]),
    ],
)
def test_options(arguments: str, version: str, expected: list[tuple[str, str, str | None, bool]]) -> None:
    assert issues(f"vllm serve m {arguments}", version) == expected


@pytest.mark.parametrize(
    ("variable", "version", "said_of_it"),
    [
        ("VLLM_USE_V1=1", "0.9.0", False),
        ("VLLM_USE_V1=1", "0.20.0", True),
        ("VLLM_NO_SUCH_THING=1", "0.11.0", True),
        ("NCCL_DEBUG=INFO", "0.11.0", False),
    ],
)
def test_variables_are_never_fatal(variable: str, version: str, said_of_it: bool) -> None:
    name = variable.partition("=")[0]
    assert issues(f"{variable} vllm serve m", version) == ([(str(About.VARIABLE), name, None, False)] if said_of_it else [])


@pytest.mark.parametrize(
    ("command", "version", "expected"),
    [
        ("vllm serve m --disable-prefix-caching --dry-run", "0.11.0", "vllm serve m --no-enable-prefix-caching"),
        ("vllm serve m --cuda-graph-sizes 64 128", "0.13.0", "vllm serve m --cudagraph-capture-sizes 64 128"),
        ("vllm serve m \\\n  --swap-space 4 \\\n  --max-model-len 8192", "0.18.0", "vllm serve m \\\n  --max-model-len 8192"),
        ("vllm serve m -max-num-seqs 8", "0.11.0", "vllm serve m --max-num-seqs 8"),
        ("vllm serve m --max-model-len 8192", "0.11.0", None),
    ],
)
def test_the_command_for_this_version(command: str, version: str, expected: str | None) -> None:
    options = options_of(command)
    assert options is not None
    assert corrected(command, check(options, {}, version), options, version) == expected


@given(st.sampled_from(flags.versions()), st.data())
def test_what_the_table_accepts_is_accepted(version: str, data: st.DataObject) -> None:
    """Each option that a release has, as its own table writes it, is no unknown flag there."""
    from analyzer.engines.vllm.flag_table import accepted_by

    flag = data.draw(st.sampled_from(accepted_by(version).long))
    assert not [issue for issue in issues(f"vllm serve m {flag} x", version) if issue[0] == "flag"]


@given(st.text(max_size=200), st.sampled_from(["0.2.0", "0.8.5", "0.33.0", "0.40.0"]))
def test_any_text_is_answered(text: str, version: str) -> None:
    options = options_of(f"vllm serve m {text}")
    for issue in check(options or [], variables_of(text), version):
        assert issue.text.en
        assert issue.text.zh


# --- the command ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["--version", "0.18.0", "vllm serve m --swap-space 4"], 1),
        (["--version", "0.17.0", "vllm serve m --swap-space 4"], 0),
        (["--version", "0.17.0", "no command at all"], 64),
        (["--version", "latest", "vllm serve m"], 64),
    ],
)
def test_exit_status(arguments: list[str], status: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint-command", *arguments]) == status
    printed = capsys.readouterr()
    assert bool(printed.err) is (status == 64)


def test_json_and_both_languages(capsys: pytest.CaptureFixture[str]) -> None:
    command = "vllm serve m --swap-space 4"
    assert main(["lint-command", "--version", "0.18.0", "--format", "json", command]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert (answer["version"], answer["ok"], answer["command"]) == ("0.18.0", False, "vllm serve m")
    assert answer["issues"][0]["option"] == "--swap-space"
    assert main(["lint-command", "--version", "0.18.0", "--lang", "zh", command]) == 1
    assert "已移除" in capsys.readouterr().out


# --- inside a report --------------------------------------------------------------------------------------------------------------------

HEALTHY = BANNER + NCCL + READY + statistics([(1, 0, 3.0)]).replace("{", "{{").replace("}", "}}")
ARGUMENTS = "(APIServer pid=4001) INFO 01-25 19:40:12 [utils.py:261] non-default args: {'model_tag': 'm', 'swap_space': 4.0}\n"


@pytest.mark.parametrize(
    ("version", "command", "expected"),
    [
        ("0.18.0", "vllm serve m --swap-space 4\n", True),
        ("0.17.1", "vllm serve m --swap-space 4\n", False),
        ("0.18.0", "vllm serve m --max-model-len 8192\n", False),
    ],
)
def test_a_report_with_a_command_checks_it(version: str, command: str, expected: bool) -> None:
    report = said(HEALTHY.format(version=version), command)
    finding = found(report, "args.unknown_flag")
    assert report.outcome.state.value == "healthy"
    assert (finding is not None) is expected
    if finding is not None:
        assert finding.severity.value == "info"
        assert "--swap-space" in finding.explanation.en
        assert finding.evidence


def test_what_the_engine_printed_it_has_accepted() -> None:
    report = said(HEALTHY.format(version="0.18.0").replace(NCCL, ARGUMENTS + NCCL), "vllm serve m --swap-space 4\n")
    assert found(report, "args.unknown_flag") is None
