"""Every kind of mistake in a pattern file is told with its file, its entry and the reason, all of them at once."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from analyzer.patterns.check import Checker
from analyzer.patterns.load import LibraryError
from analyzer.patterns.model import Library

FACTS = [{"name": "kv_cache.available", "unit": "GiB", "scope": "rank"}, {"name": "weights", "unit": "GiB", "scope": "rank"}]
WORDS = {"en": "a word", "zh": "一个词"}
CAUSE = {"id": "cuda_oom.profiling", "severity": "error", "title": WORDS, "text": WORDS, "stages": ["profiling"]}
FIX = {"name": "lower_it", "kind": "fix", "title": WORDS, "why": WORDS, "changes": [{"flag": "--x", "to": 1}]}
NEED = {"name": "more_log", "kind": "need", "text": WORDS}
NOT = {"name": "not_fp8", "kind": "not_this", "advice": "--kv-cache-dtype fp8", "why": WORDS}
FAMILY = {"id": "cuda_oom", "severity": "error", "title": WORDS, "text": WORDS}
RULE = {
    "id": "token", "kind": "token", "match": r"tok_(?P<value>[a-z]{8})", "anchors": ["tok_"], "group": "value", "text": WORDS,
    "examples": [{"line": "tok_abcdefgh", "clean": "tok_<token-1>"}],
}  # fmt: skip
PATTERN = {
    "id": "vllm.kv",
    "topic": "kv",
    "engine": "vllm",
    "versions": ">=0.9.1,<0.34",
    "anchor": "Available KV cache memory: ",
    "match": r"Available KV cache memory: (?P<available>-?[\d.]+) (?P<unit>GiB)",
    "facts": {"kv_cache.available": {"unit": "GiB"}},
    "settings": {"--x": "available"},
    "examples": ["Available KV cache memory: 5.86 GiB"],
}
FAILS = {
    "id": "torch.oom",
    "topic": "oom",
    "anchor": ["CUDA out of memory", "out of memory on device"],
    "cause": "cuda_oom",
    "fixes": ["lower_it"],
    "needs": ["more_log"],
    "not_this": ["not_fp8"],
    "examples": [{"line": "CUDA out of memory."}],
    "not_examples": ["out of memory, says the host"],
}


def check(files: dict[str, Any]) -> Library:
    checker = Checker()
    for name, content in files.items():
        checker.add(name, content if isinstance(content, bytes) else yaml.safe_dump(content, allow_unicode=True).encode())
    return checker.library("test")


def files(**replaced: Any) -> dict[str, Any]:
    """A whole valid library of a few files, with some of them replaced."""
    valid = {
        "facts": ("facts.yaml", FACTS),
        "causes": ("causes/a.yaml", [CAUSE]),
        "families": ("families.yaml", [FAMILY]),
        "advice": ("advice/a.yaml", [FIX, NEED, NOT]),
        "redactions": ("redactions.yaml", [RULE]),
        "kv": ("vllm/kv.yaml", [PATTERN]),
        "oom": ("torch/oom.yaml", [FAILS]),
    }
    return {name: replaced.get(key, content) for key, (name, content) in valid.items()}


def without(entry: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if name != key}


def test_a_valid_library_is_taken_whole() -> None:
    library = check(files())
    assert [pattern.id for pattern in library.patterns] == ["vllm.kv", "torch.oom"]
    assert library.patterns[0].anchors == ("Available KV cache memory: ",)
    assert [(spec.name, spec.group, spec.unit) for spec in library.patterns[0].facts] == [("kv_cache.available", "available", "GiB")]
    assert library.patterns[1].anchors == ("CUDA out of memory", "out of memory on device")
    assert library.patterns[1].file == "torch/oom.yaml"
    assert (set(library.causes), set(library.advice)) == ({"cuda_oom.profiling"}, {"lower_it", "more_log", "not_fp8"})
    assert set(library.families) == {"cuda_oom"}
    assert [rule.id for rule in library.redactions] == ["token"]
    assert library.scopes == {"kv_cache.available": "rank", "weights": "rank"}
    assert library.version == "test"


@pytest.mark.parametrize(
    "advice",
    [
        "--enforce-eager",
        "-ngl 99",
        "--kv-cache-dtype fp8",
        "NCCL_P2P_DISABLE=1",
        "VLLM_HOST_IP",
        "expandable_segments:True",
        "num_ctx=4096",
    ],
)
def test_advice_that_is_a_setting_is_written_once(advice: str) -> None:
    library = check(files(advice=[FIX, NEED, NOT | {"advice": advice}]))
    assert library.advice["not_fp8"].words["advice"] == {"en": advice, "zh": advice}


def test_advice_in_words_is_written_in_both_languages() -> None:
    assert check(files(advice=[FIX, NEED, NOT | {"advice": WORDS}])).advice["not_fp8"].words["advice"] == WORDS


MISTAKES: list[tuple[str, dict[str, Any], str]] = [
    # whole files
    ("no YAML", {"kv": b"- id: [x\n"}, "vllm/kv.yaml: no valid YAML: "),
    ("no text", {"kv": b"- id: \xff\xff\n"}, "vllm/kv.yaml: no valid YAML: "),
    ("code in YAML", {"kv": b"- !!python/object/apply:os.getcwd []\n"}, "vllm/kv.yaml: no valid YAML: "),
    ("no list", {"kv": {"id": "x"}}, "vllm/kv.yaml: a list of entries is expected, this is a dict"),
    ("an empty file", {"kv": b""}, "vllm/kv.yaml: a list of entries is expected, this is a NoneType"),
    ("no mapping", {"kv": ["vllm.kv"]}, "vllm/kv.yaml: entry 1: a mapping is expected, this is a str"),
    # patterns
    ("id", {"kv": [without(PATTERN, "id")]}, "vllm/kv.yaml: entry 1: «id» is missing"),
    ("id of another kind", {"kv": [PATTERN | {"id": 7}]}, "vllm/kv.yaml: 7: «id» must be text, not 7"),
    ("id twice", {"oom": [FAILS, PATTERN]}, "torch/oom.yaml: vllm.kv: the id is taken by an entry of vllm/kv.yaml"),
    ("unknown key", {"kv": [PATTERN | {"mach": "x"}]}, "vllm/kv.yaml: vllm.kv: unknown key 'mach'; known are anchor, "),
    ("anchor", {"kv": [without(PATTERN, "anchor")]}, "vllm/kv.yaml: vllm.kv: «anchor» is missing"),
    ("short anchor", {"kv": [PATTERN | {"anchor": "GiB"}]}, "the anchor 'GiB' must be at least four characters on one line"),
    ("anchor of two lines", {"kv": [PATTERN | {"anchor": "two\nlines"}]}, "must be at least four characters on one line"),
    ("anchors of another kind", {"kv": [PATTERN | {"anchor": [4]}]}, "«anchor» must be text or a list of texts"),
    ("no expression", {"kv": [PATTERN | {"match": "(unclosed"}]}, "«match» is no regular expression: "),
    ("an expression of another kind", {"kv": [PATTERN | {"match": 5}]}, "«match» must be a regular expression"),
    ("window", {"kv": [PATTERN | {"window": 13}]}, "«window» is 13: a number of lines from 0 to 12"),
    ("window of another kind", {"kv": [PATTERN | {"window": "2"}]}, "«window» is '2': a number of lines from 0 to 12"),
    ("versions", {"kv": [PATTERN | {"versions": "~=0.9"}]}, "vllm.kv: «versions» is '~=0.9': clauses of"),
    ("no version", {"kv": [PATTERN | {"versions": ">=new"}]}, "'new' is no version"),
    ("marks", {"kv": [PATTERN | {"marks": "steady"}]}, "«marks» is 'steady'; known are "),
    ("stage", {"kv": [PATTERN | {"stage": "middle"}]}, "«stage» is 'middle'; known are launch, device_init, "),
    ("marks of another kind", {"kv": [PATTERN | {"marks": ["ready"]}]}, "«marks» is ['ready']; known are "),
    ("severity", {"kv": [PATTERN | {"severity": "fatal"}]}, "«severity» is 'fatal'; known are "),
    ("confidence", {"kv": [PATTERN | {"confidence": "sure"}]}, "«confidence» is 'sure'; known are "),
    ("generation", {"kv": [PATTERN | {"generation": "v2"}]}, "«generation» is 'v2'; known are v0, v1"),
    ("start", {"kv": [PATTERN | {"start": "first"}]}, "«start» is 'first': a number from 0 to 3"),
    ("facts of another kind", {"kv": [PATTERN | {"facts": ["weights"]}]}, "«facts» must be a mapping"),
    ("a fact of another kind", {"kv": [PATTERN | {"facts": {"weights": "available"}}]}, "the fact weights needs {group: …, unit: …}"),
    (
        "a fact's group",
        {"kv": [PATTERN | {"facts": {"weights": {"unit": "GiB"}}}]},
        "the fact weights takes the group 'weights', which «match» does not have",
    ),
    (
        "a fact's gpu",
        {"kv": [PATTERN | {"facts": {"weights": {"group": "available", "gpu": "card"}}}]},
        "the fact weights takes the group 'card', which",
    ),
    (
        "a fact's unit",
        {"kv": [PATTERN | {"facts": {"weights": {"group": "available", "unit": "Gb"}}}]},
        "the fact weights has the unit 'Gb'; known are ",
    ),
    ("a fact's key", {"kv": [PATTERN | {"facts": {"weights": {"group": "available", "gruop": "x"}}}]}, "vllm/kv.yaml: vllm.kv: "),
    (
        "a fact's name",
        {"kv": [PATTERN | {"facts": {"kv.avail": {"group": "available", "unit": "GiB"}}}]},
        "vllm/kv.yaml: vllm.kv: 'kv.avail' is no name of facts.yaml",
    ),
    ("settings of another kind", {"kv": [PATTERN | {"settings": ["--x"]}]}, "«settings» must be a mapping"),
    ("a setting's group", {"kv": [PATTERN | {"settings": {"--x": "value"}}]}, "the setting --x takes the group 'value', which"),
    ("reader without body", {"kv": [PATTERN | {"reader": "engine_config"}]}, "«reader» needs a group «body» in «match»"),
    ("frame of another kind", {"kv": [PATTERN | {"frame": {"step": "profiling"}}]}, "vllm/kv.yaml: vllm.kv: "),
    ("frame's cause", {"kv": [PATTERN | {"frame": {"refines": {"cuda_oom": "cuda_oom.x"}}}]}, "the cause 'cuda_oom.x' is in no file"),
    ("no example", {"kv": [without(PATTERN, "examples")]}, "vllm/kv.yaml: vllm.kv: «examples» is missing"),
    ("example of another kind", {"kv": [PATTERN | {"examples": [7]}]}, "an example is a line, or {line: …, facts: …}"),
    ("example's key", {"kv": [PATTERN | {"examples": [{"line": "x", "fact": {}}]}]}, "unknown key 'fact'; known are facts, line"),
    ("text in one language", {"kv": [PATTERN | {"text": {"en": "a word"}}]}, "«text» needs en and zh"),
    (
        "cause",
        {"oom": [FAILS | {"cause": "cuda_mom"}]},
        "torch/oom.yaml: torch.oom: the cause 'cuda_mom' is in no file of causes/, nor a family of families.yaml",
    ),
    ("no counter-example", {"oom": [without(FAILS, "not_examples")]}, "torch/oom.yaml: torch.oom: «not_examples» is missing"),
    ("fix", {"oom": [FAILS | {"fixes": ["raise_it"]}]}, "torch/oom.yaml: torch.oom: no fix 'raise_it' in advice/"),
    ("fix of another kind", {"oom": [FAILS | {"fixes": ["more_log"]}]}, "no fix 'more_log' in advice/"),
    ("need", {"oom": [FAILS | {"needs": ["lower_it"]}]}, "no need 'lower_it' in advice/"),
    ("not this", {"oom": [FAILS | {"not_this": ["more_log"]}]}, "no not_this 'more_log' in advice/"),
    # causes
    ("cause's severity", {"causes": [CAUSE | {"severity": "fatal"}]}, "causes/a.yaml: cuda_oom.profiling: «severity» is 'fatal'"),
    ("cause's title", {"causes": [without(CAUSE, "title")]}, "causes/a.yaml: cuda_oom.profiling: «title» needs en and zh"),
    ("cause's stage", {"causes": [CAUSE | {"stages": ["middle"]}]}, "causes/a.yaml: cuda_oom.profiling: 'middle' is no stage"),
    ("cause's key", {"causes": [CAUSE | {"fix": []}]}, "causes/a.yaml: cuda_oom.profiling: unknown key 'fix'"),
    ("cause twice", {"causes": [CAUSE, CAUSE]}, "causes/a.yaml: cuda_oom.profiling: the id is taken by an entry of causes/a.yaml"),
    ("consequence", {"causes": [CAUSE | {"consequences": ["echo.x"]}]}, "the consequence 'echo.x' is in no file of causes/"),
    ("family that is a cause", {"families": [CAUSE]}, "families.yaml: cuda_oom.profiling: the id is taken by an entry of causes/a.yaml"),
    ("cause's fix", {"causes": [CAUSE | {"fixes": ["raise_it"]}]}, "causes/a.yaml: cuda_oom.profiling: no fix 'raise_it' in advice/"),
    (
        "placeholders that differ",
        {"causes": [CAUSE | {"detail": [{"en": "{oom_tried} asked", "zh": "申请了 {oom_free}"}]}]},
        "«detail»: the placeholders differ between en ['oom_tried'] and zh ['oom_free']",
    ),
    ("a lone brace", {"causes": [CAUSE | {"text": {"en": "a {brace", "zh": "词"}}]}, "«text» in en: "),
    ("a brace that is no placeholder", {"causes": [CAUSE | {"text": {"en": 'pass {"a": 1}', "zh": "词"}}]}, "is no placeholder"),
    # advice
    ("kind", {"advice": [FIX | {"kind": "cure"}, NEED, NOT]}, "advice/a.yaml: lower_it: «kind» is 'cure': fix, need or not_this"),
    ("name twice", {"advice": [FIX, NEED, NOT, NOT]}, "advice/a.yaml: not_fp8: the name is taken"),
    ("why", {"advice": [without(FIX, "why"), NEED, NOT]}, "advice/a.yaml: lower_it: «why» is missing"),
    ("the advice", {"advice": [FIX, NEED, without(NOT, "advice")]}, "advice/a.yaml: not_fp8: «advice» is missing"),
    ("advice in one language", {"advice": [FIX, NEED, NOT | {"advice": "reboot"}]}, "not_fp8: «advice» needs en and zh: 'reboot' is more"),
    ("advice with a flag", {"advice": [FIX, NEED, NOT | {"advice": "lower --x"}]}, "«advice» needs en and zh: 'lower --x' is more"),
    ("advice between flags", {"advice": [FIX, NEED, NOT | {"advice": "--x or --y"}]}, "«advice» needs en and zh: '--x or --y' is more"),
    ("advice without zh", {"advice": [FIX, NEED, NOT | {"advice": {"en": "a word"}}]}, "advice/a.yaml: not_fp8: «advice» needs en and zh"),
    ("change", {"advice": [FIX | {"changes": [{"flag": "--x"}]}, NEED, NOT]}, "advice/a.yaml: lower_it: a change is {flag, to}, "),
    ("action's words", {"advice": [FIX | {"changes": [{"action": "do it"}]}, NEED, NOT]}, "lower_it: «action» needs en and zh"),
    # facts and redactions
    ("fact without scope", {"facts": [*FACTS, {"name": "x", "unit": ""}]}, "facts.yaml: x: «scope» is missing"),
    ("rule's group", {"redactions": [RULE | {"group": "secret"}]}, "token: «group» is 'secret', which «match» does not have"),
    ("rule without anchor", {"redactions": [without(RULE, "anchors")]}, "redactions.yaml: token: «anchors» or «gate» is missing"),
    ("rule over lines", {"redactions": [RULE | {"match": r"tok_(?P<value>\s)"}]}, "«match»: \\s matches a line break"),
    ("rule's expression", {"redactions": [RULE | {"match": "("}]}, "«match» is no regular expression"),
    ("rule's until", {"redactions": [RULE | {"until": "END"}]}, "«until» needs «each»"),
    ("rule without example", {"redactions": [without(RULE, "examples")]}, "«examples» must be a list of {line: …, clean: …}"),
    ("rule twice", {"redactions": [RULE, RULE]}, "redactions.yaml: token: the id is taken"),
]


@pytest.mark.parametrize(("replaced", "said"), [pytest.param(replaced, said, id=name) for name, replaced, said in MISTAKES])
def test_a_mistake_is_told_with_file_entry_and_reason(replaced: dict[str, Any], said: str) -> None:
    with pytest.raises(LibraryError) as caught:
        check(files(**replaced))
    assert any(said in problem for problem in caught.value.problems), caught.value.problems
    assert all(problem.split(": ")[0].endswith(".yaml") for problem in caught.value.problems)


def test_all_mistakes_are_told_at_once() -> None:
    broken = files(kv=[PATTERN | {"marks": "steady"}, "no mapping", PATTERN | {"id": "vllm.kv2", "window": -1}], redactions={"id": "x"})
    with pytest.raises(LibraryError) as caught:
        check(broken)
    assert len(caught.value.problems) == 4
    assert str(caught.value) == "\n".join(caught.value.problems)
