"""Findings as they are told: whole sentences in both languages, fixes that exist and fit, proof that is bounded and in the input."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator

import pytest

from analyzer import analyze
from analyzer.diagnosis.findings import EVIDENCE, FINDINGS, FIXES
from analyzer.model import LANGUAGES, Action, FlagChange, Report, Severity, Text
from analyzer.patterns.load import load
from analyzer.report import render
from tests.case_files import FOLDERS, report
from tests.logs import WEIGHTS, finding, oom, raised, served, start, told

NAMES = sorted(FOLDERS)
_HOLE = re.compile(r"\{[a-z_0-9]*\}")
LIBRARY = load()


def sentences(told_: Report) -> Iterator[Text]:
    """Every sentence for a person."""
    for found in told_.findings:
        yield from (found.title, found.explanation, *found.needs, *(text for item in found.not_this for text in (item.advice, item.why)))
        for fix in found.fixes:
            yield from (fix.title, fix.why, *([fix.cost] if fix.cost is not None else []))
            yield from (change.action for change in fix.changes if isinstance(change, Action))


@pytest.mark.parametrize("name", NAMES)
def test_every_figure_of_every_sentence_is_filled_in(name: str) -> None:
    for text in sentences(report(name)):
        for language in LANGUAGES:
            said = text.get(language)
            assert said.strip() == said != ""
            assert not _HOLE.search(said), said
            assert "None" not in said.split(), said
            assert "  " not in said, said


@pytest.mark.parametrize("form", ["text", "markdown", "html", "json"])
def test_what_does_not_help_is_named_in_the_reports_language(form: str) -> None:
    made = told([*start("0.11.0"), *GRAPHS_FAILED])
    root = made.root
    assert root is not None
    advice = {item.advice for item in root.not_this if item.advice.en != item.advice.zh}
    assert advice
    for language in LANGUAGES:
        shown = render(made, form, language, width=200)
        assert all((text.get(language) in shown) and (text.en in shown) == (language == "en") for text in advice), language


@pytest.mark.parametrize("name", NAMES)
def test_both_languages_hold_the_same_figures(name: str) -> None:
    """Words are translated, sizes are not."""
    for text in sentences(report(name)):
        sizes = [sorted(re.findall(r"-?\d+\.\d\d (?:[KMGT]iB)", said)) for said in (text.en, text.zh)]
        assert sizes[0] == sizes[1], text


@pytest.mark.parametrize("name", NAMES)
def test_the_root_comes_first_and_causes_come_once(name: str) -> None:
    found = report(name).findings
    assert found[0].root
    assert sum(one.root for one in found) == 1
    assert len({one.cause for one in found}) == len(found) <= FINDINGS + 4
    assert found[0].cause == report(name).outcome.cause
    for one in found[1:]:
        assert one.consequence_of in (None, found[0].cause)


@pytest.mark.parametrize("name", NAMES)
def test_proof_is_bounded_and_no_line_stands_twice(name: str) -> None:
    for found in report(name).findings:
        assert len(found.evidence) <= EVIDENCE
        assert len({(source.input, source.line) for source in found.evidence}) == len(found.evidence)
        assert all(len(source.text) <= 4096 for source in found.evidence)
    root = report(name).root
    assert root is not None
    assert root.evidence or report(name).outcome.state.value in ("healthy", "unknown")


@pytest.mark.parametrize("name", NAMES)
def test_fixes_are_few_and_change_something(name: str) -> None:
    for found in report(name).findings:
        assert len(found.fixes) <= FIXES
        assert len({fix.title.en for fix in found.fixes}) == len(found.fixes)
        for fix in found.fixes:
            for change in fix.changes:
                if isinstance(change, FlagChange):
                    assert change.before is None or change.before != change.to, change


@pytest.mark.parametrize("name", NAMES)
def test_a_predicted_ledger_fits(name: str) -> None:
    for found in report(name).findings:
        for fix in found.fixes:
            if fix.predicted is None:
                continue
            budget, total, pool = (fix.predicted.get(line) for line in ("budget", "total", "kv_cache"))
            assert budget is None or total is None or budget <= total
            assert pool is None or pool > 0
            parts = [fix.predicted.get(line) or 0 for line in ("weights", "draft_weights", "state_cache", "non_torch", "activation_peak")]
            if budget is not None and pool is not None:
                assert sum(parts) + pool <= budget + 2**25


@pytest.mark.parametrize("name", NAMES)
def test_a_flags_present_value_is_the_one_the_inputs_state(name: str) -> None:
    told_ = report(name)
    for found in told_.findings:
        for fix in found.fixes:
            for change in fix.changes:
                if isinstance(change, FlagChange) and change.before is not None and change.flag in told_.settings:
                    stated = told_.settings[change.flag].value
                    if isinstance(stated, (int, float)) and isinstance(change.before, (int, float)):
                        assert change.before == pytest.approx(stated), change


# --- what exists --------------------------------------------------------------------------------------------------------------------------


def flags(told_: Report) -> set[str]:
    root = told_.root
    assert root is not None
    return {change.flag for fix in root.fixes for change in fix.changes if isinstance(change, FlagChange)}


GRAPHS_FAILED = [WEIGHTS.format(weights="14.99"), *raised(oom(), "graph_capture")]


@pytest.mark.parametrize(
    ("version", "has", "lacks"),
    [
        ("0.9.1", {"--enforce-eager"}, {"--kv-cache-memory-bytes", "--max-cudagraph-capture-size"}),
        ("0.11.0", {"--enforce-eager"}, {"--max-cudagraph-capture-size"}),
        ("0.12.0", {"--enforce-eager"}, {"--cuda-graph-sizes"}),
    ],
)
def test_a_flag_that_this_version_does_not_have_is_not_advised(version: str, has: set[str], lacks: set[str]) -> None:
    advised = flags(told([*start(version), *GRAPHS_FAILED]))
    assert has <= advised
    assert not lacks & advised


def test_another_engines_advice_stays_its_own() -> None:
    sglang = report("sglang-gemma3-12b-weight-load-oom-16gb")
    assert sglang.engine.name == "sglang"
    vllms = {"--gpu-memory-utilization", "--max-model-len", "--enforce-eager", "--kv-cache-memory-bytes"}
    for text in sentences(sglang):
        assert not [flag for flag in vllms if flag in text.en], text.en


def test_a_setting_that_is_on_already_is_not_advised_again() -> None:
    eager = "INFO 05-01 10:00:01 [utils.py:100] non-default args: {'model': 'org/model', 'enforce_eager': True}"
    head = start("0.11.0")
    assert "--enforce-eager" in flags(told([*head, *GRAPHS_FAILED]))
    assert "--enforce-eager" not in flags(told([head[0], eager, head[1], *GRAPHS_FAILED]))


# --- what was recovered from, and what is only noted --------------------------------------------------------------------------------------


def test_an_error_in_a_healthy_log_is_a_note() -> None:
    lines = served()
    report_ = told([*lines[:3], *raised(oom(), "profiling"), *lines[3:]])
    assert report_.outcome.state.value in ("healthy", "degraded")
    assert finding(report_, "cuda_oom.profiling").severity is not Severity.ERROR


def test_many_errors_make_bounded_findings() -> None:
    lines = [line for pattern in LIBRARY.patterns if pattern.cause for line in pattern.examples[0]["line"].split("\n")]
    assert len(lines) > 200
    report_ = told([*start(), *lines])
    assert 10 < len(report_.findings) <= FINDINGS + 4
    assert all(len(found.evidence) <= EVIDENCE for found in report_.findings)


def test_needs_ask_for_what_is_not_there() -> None:
    """A log with its head is not asked for its head."""
    headless = told(raised(oom(), "profiling")).root
    whole = told([*start(), WEIGHTS.format(weights="14.99"), *raised(oom(), "profiling")]).root
    assert headless is not None
    assert whole is not None
    assert any("first line" in need.en for need in headless.needs)
    assert not any("first line" in need.en for need in whole.needs)


def test_what_an_ordered_stop_says_of_its_own_parts_is_no_finding() -> None:
    """A server that is stopped while it starts says that its engine is gone: true, and no explanation of anything."""
    log = (
        "(APIServer pid=1) INFO 01-01 10:00:00 [api_server.py:1] vLLM API server version 0.32.0\n"
        "(APIServer pid=1) INFO:     Application startup complete.\n"
        "(EngineCore pid=7) INFO 01-01 10:00:05 [core.py:1] [shutdown] EngineCore: trigger received signal=SIGINT\n"
        "(APIServer pid=1) ERROR 01-01 10:00:06 [async_llm.py:1] AsyncLLM output_handler failed.\n"
    )
    report = analyze([("engine.log", io.BytesIO(log.encode()))])
    assert report.outcome.state.value == "healthy"
    assert [finding.cause for finding in report.findings if (finding.cause or "").startswith("echo.")] == []


MISMATCH = (
    "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 803: system has unsupported display driver / cuda driver combination\n"
)
BANNER_OF_SMI = (
    "+-----------------------------------------------------------------------------------------+\n"
    "| NVIDIA-SMI 580.105.08             Driver Version: 580.105.08     CUDA Version: 13.0     |\n"
    "+-----------------------------------------+------------------------+----------------------+\n"
)


def test_no_reboot_is_advised_where_the_driver_answers() -> None:
    def titles(text: str) -> str:
        report = analyze([("log", io.BytesIO(text.encode()))])
        assert (report.outcome.cause, report.outcome.confidence) == ("driver.library_mismatch", "likely")
        return " ".join(fix.title.en for found in report.findings for fix in found.fixes)

    assert "reboot" in titles(MISMATCH)
    assert "reboot" not in titles(BANNER_OF_SMI + MISMATCH)
    assert "compatibility" in titles(BANNER_OF_SMI + MISMATCH)


ASSERTS = {
    "masked_scatter": "IndexKernel.cu:402: masked_scatter_size_check: block: [0,0,0], thread: [0,0,0] Assertion `totalElements <= srcSize` failed.",
    "index": "Indexing.cu:1284: indexSelectLargeIndex: block: [0,0,0], thread: [24,0,0] Assertion `srcIndex < srcSelectDimSize` failed.",
}


@pytest.mark.parametrize(("assertion", "says"), [("masked_scatter", "placeholders"), ("index", "token id above"), (None, "token id above")])
def test_what_the_assertion_says_is_told_wherever_it_stands(assertion: str | None, says: str) -> None:
    error = "ERROR 08-30 01:28:29 [multiproc_executor.py:611] RuntimeError: CUDA error: device-side assert triggered"
    shown = [f"/pytorch/aten/src/ATen/native/cuda/{ASSERTS[assertion]}"] if assertion is not None else []
    for lines in ([*shown, error], [error, *shown]):
        found = finding(told([*served(), *lines]), "cuda_error.device_assert")
        assert found.root
        assert says in found.explanation.en
        assert any("Assertion" in need.en for need in found.needs) is (assertion is None)


def test_a_wait_is_asked_about_only_where_it_lasts_and_where_there_are_gpus() -> None:
    wait = "(EngineCore pid=9) INFO 05-01 10:02:25 [shm_broadcast.py:681] No available shared memory broadcast block found in 60 seconds."
    warm = "(Worker pid=8) INFO 05-01 10:01:24 [cpu_model_runner.py:116] Warming up model for the compilation..."
    done = "(Worker pid=8) INFO 05-01 10:03:42 [monitor.py:76] Initial profiling/warmup run took 107.62 s"

    def asked(*lines: str) -> bool:
        root = told([*start(), WEIGHTS.format(weights="14.99"), *lines]).root
        assert root is not None
        return any("nvidia-smi" in need.en for need in root.needs)

    assert asked(wait)
    assert not asked(wait, done)
    assert not asked(warm, wait)
