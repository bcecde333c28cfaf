"""Whole inputs with a known answer: what is told of each is right, and nothing else is told.

A case that does not hold yet stands in KNOWN_MISSES with the reason; one that has come to hold has to be taken out of it.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from analyzer.model.ledger import BUDGET_PARTS, DEVICE_PARTS, PROCESS_PARTS
from analyzer.model.units import BYTES_PER, GIB
from analyzer.model.versions import base
from tests.case_files import FIXTURES, FOLDERS, answer, as_json

NAMES = sorted(FOLDERS)
ROOT = FIXTURES.parent

BESIDE = "the line stands beside the failure and no pattern reads it"

#: Case -> (kinds of checks that miss, why).
KNOWN_MISSES: dict[str, tuple[set[str], str]] = {
    "chat-template-missing-base-model": ({"evidence"}, "an answered request is counted, not shown"),
    "vllm-v0-mllama-profiling-oom-256-images": ({"evidence"}, "a shape that somebody's own print shows: no engine prints it"),
    "vllm-v1-graph-estimate-too-low-nvfp4-kv-098": ({"evidence"}, "a remark of the user's is not read"),
    "llamacpp-fit-aborted-ngl-set-by-user": ({"sourced"}, "a figure below zero, printed without its sign, is told as what it means"),
    "ollama-deepseek-layer-estimate-too-small": ({"evidence"}, BESIDE),
}


def judge(name: str, kind: str, misses: list[str]) -> None:
    """No miss, or exactly a known one."""
    kinds, reason = KNOWN_MISSES.get(name, (set(), ""))
    if kind in kinds:
        assert misses, f"{name}: «{kind}» holds now: remove it from KNOWN_MISSES ({reason})"
        return
    assert not misses, f"{name}: {misses}"


def test_known_misses_name_cases_and_kinds_that_exist() -> None:
    assert KNOWN_MISSES.keys() <= FOLDERS.keys()
    assert {kind for kinds, _ in KNOWN_MISSES.values() for kind in kinds} <= KINDS
    assert all(reason for _, reason in KNOWN_MISSES.values())


# --- outcome -----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_state(name: str) -> None:
    want, got = answer(name)["outcome"]["state"], as_json(name)["outcome"]["state"]
    judge(name, "state", [] if got == want else [f"{got} instead of {want}"])


@pytest.mark.parametrize("name", [name for name in NAMES if answer(name)["outcome"].get("stage")])
def test_stage(name: str) -> None:
    want, got = answer(name)["outcome"]["stage"], as_json(name)["outcome"]["stage"]
    judge(name, "stage", [] if got == want else [f"{got} instead of {want}"])


@pytest.mark.parametrize("name", NAMES)
def test_cause(name: str) -> None:
    want, got = answer(name)["outcome"]["cause"], as_json(name)["outcome"]["cause"]
    judge(name, "cause", [] if got == want else [f"{got} instead of {want}"])


@pytest.mark.parametrize("name", NAMES)
def test_no_wrong_cause_is_stated(name: str) -> None:
    """A cause that is only missing, or coarser than could be told, is a lesser fault than another one that is stated as sure."""
    outcome, want = as_json(name)["outcome"], answer(name)["outcome"]["cause"] or ""
    got = outcome["cause"]
    fits = got is None or got == want or (want and (want.startswith(f"{got}.") or got.startswith(f"{want}.")))
    sure = outcome["confidence"] != "possible"
    judge(name, "wrong", [f"{got} ({outcome['confidence']}) instead of {want or None}"] if sure and not fits else [])


@pytest.mark.parametrize("name", [name for name in NAMES if answer(name)["outcome"]["state"] == "healthy"])
def test_healthy_means_no_error(name: str) -> None:
    judge(name, "quiet", [str(found["cause"]) for found in as_json(name)["findings"] if found["severity"] == "error"])


# --- facts -------------------------------------------------------------------------------------------------------------------------


def half_a_digit(value: float) -> float:
    """Half a unit of the last digit that ``value`` has."""
    _, _, decimals = repr(value).partition(".")
    return 0.5 * 10.0 ** -len(decimals) + 1e-9 * max(abs(value), 1.0)


def states(want: dict[str, Any], got: dict[str, Any]) -> bool:
    """Whether the fact ``got`` is the figure ``want``, in whatever unit."""
    if got["name"] != want["name"]:
        return False
    if any(None not in (want.get(scope), got[scope]) and str(want[scope]) != str(got[scope]) for scope in ("rank", "gpu", "pid")):
        return False
    value, found = want["value"], got["value"]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(found).strip().lower() == str(value).strip().lower()
    factor = BYTES_PER.get(want.get("unit") or "")
    if factor is not None and "bytes" in got:
        return bool(abs(got["bytes"] - value * factor) <= half_a_digit(value) * factor + 1)
    return isinstance(found, (int, float)) and abs(found - value) <= half_a_digit(value)


@pytest.mark.parametrize("name", [name for name in NAMES if answer(name).get("facts")])
def test_facts(name: str) -> None:
    facts = as_json(name)["facts"]
    judge(name, "facts", [json.dumps(want) for want in answer(name)["facts"] if not any(states(want, got) for got in facts)])


@pytest.mark.parametrize("name", NAMES)
def test_every_figure_stands_in_the_line_it_names(name: str) -> None:
    misses = []
    for fact in as_json(name)["facts"]:
        value, text = fact["value"], fact["source"]["text"].replace(",", "")
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            spellings = {f"{value:g}", str(value), str(int(value)), *(f"{value:.{places}f}" for places in (1, 2, 4))}
            if not any(spelling in text for spelling in spellings):
                misses.append(f"{fact['name']} = {value} in {text[:100]!r}")
        elif not text:
            misses.append(f"{fact['name']} without a line")
    judge(name, "sourced", misses)


@pytest.mark.parametrize("name", NAMES)
def test_every_line_that_is_named_is_in_the_input(name: str) -> None:
    """Lines are numbered as in the file, and shown as they stand there but for what was redacted, colours and a cut."""
    report = as_json(name)
    sizes = {given["name"]: given["lines"] for given in report["inputs"]}
    sources = [fact["source"] for fact in report["facts"]]
    sources += [source for finding in report["findings"] for source in finding["evidence"]]
    sources += [line["source"] for ledger in report["ledgers"] for line in ledger["lines"] if "source" in line]
    judge(name, "placed", [str(source) for source in sources if not 1 <= source["line"] <= sizes[source["input"]]])


# --- ledgers -----------------------------------------------------------------------------------------------------------------------


def ledger_of(want: dict[str, Any], ledgers: list[dict[str, Any]]) -> dict[str, int]:
    """The lines of the ledger of this GPU in the last attempt: by GPU, else by rank, else the one that names neither."""
    last = max((ledger["attempt"] for ledger in ledgers), default=0)
    own = [ledger for ledger in ledgers if ledger["attempt"] == last]
    index = want.get("gpu")
    for candidates in (
        [ledger for ledger in own if index is not None and ledger["gpu"] == index],
        [ledger for ledger in own if index is not None and ledger["rank"] == index],
        [ledger for ledger in own if index is None or (ledger["gpu"] is None and ledger["rank"] is None)],
    ):
        if candidates:
            return {line["name"]: line["bytes"] for line in candidates[0]["lines"]}
    return {}


@pytest.mark.parametrize("name", [name for name in NAMES if answer(name).get("ledger")])
def test_ledger(name: str) -> None:
    misses = []
    for want in answer(name)["ledger"]:
        have = ledger_of(want, as_json(name)["ledgers"])
        for line, gib in want.items():
            if line in ("gpu", "rank", "moment", "note", "attempt") or not isinstance(gib, (int, float)):
                continue
            if line not in have or abs(have[line] / GIB - gib) > 0.02 + 0.002 * abs(gib):
                misses.append(f"GPU {want.get('gpu')}: {line} is {have.get(line, 0) / GIB:.3f} GiB instead of {gib}")
    judge(name, "ledger", misses)


#: whole -> (parts that have to be known, all parts).
IDENTITIES = {
    "budget": (("weights", "kv_cache", "non_torch", "activation_peak"), BUDGET_PARTS),
    "total": (("process", "free"), DEVICE_PARTS),
    "process": (PROCESS_PARTS, PROCESS_PARTS),
}


@pytest.mark.parametrize("name", NAMES)
def test_ledgers_close(name: str) -> None:
    misses = []
    report = as_json(name)
    for ledger in [*report["ledgers"], *report["earlier"]]:
        have = {line["name"]: line["bytes"] / GIB for line in ledger["lines"]}
        for whole, (needed, parts) in IDENTITIES.items():
            if whole in have and all(part in have for part in needed):
                rest = have[whole] - sum(have.get(part, 0.0) for part in parts)
                if abs(rest) > 0.03:
                    misses.append(f"GPU {ledger['gpu']}: {whole} is off its parts by {rest:.3f} GiB")
    judge(name, "closes", misses)


@pytest.mark.parametrize("name", NAMES)
def test_every_ledger_line_has_a_line_or_a_formula(name: str) -> None:
    report = as_json(name)
    predicted = [{"lines": fix["predicted"]["lines"]} for found in report["findings"] for fix in found["fixes"] if fix["predicted"]]
    misses = [
        line["name"]
        for ledger in [*report["ledgers"], *predicted]
        for line in ledger["lines"]
        if ("source" if line["basis"] == "measured" else "formula") not in line
    ]
    judge(name, "basis", misses)


# --- findings ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in NAMES if answer(name)["outcome"]["state"] != "healthy" and answer(name).get("evidence")])
def test_evidence(name: str) -> None:
    shown = "\n".join(source["text"] for found in as_json(name)["findings"] if found["root"] for source in found["evidence"])
    judge(name, "evidence", [piece for piece in answer(name)["evidence"] if piece not in shown])


@pytest.mark.parametrize("name", [name for name in NAMES if answer(name)["outcome"]["state"] != "healthy" and answer(name).get("fixes")])
def test_something_to_do_is_said(name: str) -> None:
    roots = [found for found in as_json(name)["findings"] if found["root"]]
    judge(name, "fix", [] if any(found["fixes"] or found["needs"] for found in roots) else ["neither fix nor need"])


@cache
def flag_table() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / "analyzer/engines/vllm/flags.json").read_text(encoding="utf-8"))["flags"]
    return found


def exists(flag: str, version: str) -> bool:
    """Whether a release has the option, by the stretch of releases that were read."""
    known = flag_table().get(flag) or flag_table().get(flag.replace("--no-", "--", 1))
    return known is not None and not known.get("never") and base(known["first"]) <= base(version) <= base(known["last"])


@pytest.mark.parametrize("name", [name for name in NAMES if answer(name)["engine"] == "vllm"])
def test_flags_of_fixes_exist(name: str) -> None:
    report = as_json(name)
    version = answer(name).get("engine_version") or report["engine"]["version"]
    misses = []
    for found in report["findings"]:
        for fix in found["fixes"]:
            for flag in (change["flag"] for change in fix["changes"] if change.get("flag") and change.get("to") is not None):
                if version is not None and not exists(flag, version):
                    misses.append(f"{flag} is not in {version}")
                elif version is None and not any(exists(flag, release) for release in _possible(report, fix)):
                    misses.append(f"{flag} is in none of {fix['versions'] or report['engine']['version_range']}")
    judge(name, "flags", misses)


def _possible(report: dict[str, Any], fix: dict[str, Any]) -> list[str]:
    """The releases that are possible by the wordings and by the range that the fix states."""
    from analyzer.engines.vllm.flag_table import versions
    from analyzer.model.versions import Range

    possible = Range.parse(report["engine"]["version_range"] or "") & Range.parse(fix["versions"] or "")
    return [release for release in versions() if release in possible]


KINDS = {
    "state", "stage", "cause", "wrong", "quiet", "facts", "sourced", "placed", "ledger", "closes", "basis", "evidence", "fix", "flags",
}  # fmt: skip
