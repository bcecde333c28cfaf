"""The validator: YAML in, a Library or a list of every mistake out. Only loaded when the cache misses."""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Mapping
from typing import Any

import regex
import yaml

from analyzer.model.finding import Confidence, Severity
from analyzer.model.report import STAGES
from analyzer.model.units import BYTES_PER
from analyzer.patterns.load import LibraryError, pattern_from
from analyzer.patterns.model import MAX_WINDOW, Advice, Cause, Library, Pattern, RedactionRule
from analyzer.patterns.scan import BY_LINE, Scanner

UNITS = frozenset({*BYTES_PER, "", "s", "tokens", "blocks", "%", "fraction", "tokens/s", "x", "as printed"})
MARKS = ("ready", "shutdown", "traceback", "suspect", "died", "request", "refused", "sign", "trial", "aside", "resumes", "interrupted")
SEVERITIES = tuple(Severity)
CONFIDENCES = tuple(Confidence)
GENERATIONS = ("v0", "v1")
STARTS = (0, 1, 2, 3)
LANGUAGES = ("en", "zh")

#: Keys of a pattern, with whether its value is taken as it is. What is not here does not exist.
PATTERN_KEYS = frozenset(
    {
        "id", "topic", "anchor", "match", "engine", "versions", "generation", "segment", "window", "whole", "facts", "settings",
        "reader", "series", "stage", "start", "marks", "frame", "cause", "severity", "confidence", "keeps_running", "text", "fixes",
        "needs", "not_this", "examples", "not_examples",
    }
)  # fmt: skip

REDACTION_KEYS = frozenset(
    {
        "id", "kind", "match", "anchors", "gate", "group", "each", "until", "text", "keep", "drop", "ignore_case", "examples",
        "not_examples",
    }
)  # fmt: skip


#: Advice that reads the same in every language: a flag, a variable or an option, with its value.
_SAME = re.compile(r"--?[a-z][\w-]*(?: [\w.]+)?|[A-Z][A-Z0-9_]+|[A-Za-z]\w*[=:]\S+")
#: What stands in a sentence's braces: the name of a figure.
_PLACEHOLDER = regex.compile(r"[a-z][a-z0-9_]*")


class _MistakeError(ValueError):
    """One thing wrong with one entry."""


class Checker:
    """Collects files, then gives a Library or raises LibraryError with every mistake in them."""

    def __init__(self) -> None:
        self._patterns: dict[str, Pattern] = {}
        self._causes: dict[str, Cause] = {}
        self._families: dict[str, Cause] = {}
        self._advice: dict[str, Advice] = {}
        self._redactions: dict[str, RedactionRule] = {}
        self._facts: dict[str, str] = {}
        self._problems: list[str] = []

    def add(self, name: str, content: bytes) -> None:
        """Read one file; ``name`` is its path inside the library and decides what it holds."""
        try:
            entries = yaml.load(content, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - a safe loader either way
        except yaml.YAMLError as error:
            self._problems.append(f"{name}: no valid YAML: {' '.join(str(error).split())}")
            return
        if not isinstance(entries, list):
            self._problems.append(f"{name}: a list of entries is expected, this is a {type(entries).__name__}")
            return
        top = name.split("/")[0]
        read = {
            "causes": self._cause,
            "families.yaml": self._family,
            "advice": self._advise,
            "redactions.yaml": self._redaction,
            "facts.yaml": self._fact,
        }
        for place, entry in enumerate(entries, 1):
            label = entry.get("id") or entry.get("name") or f"entry {place}" if isinstance(entry, dict) else f"entry {place}"
            try:
                read.get(top, self._pattern)(name, _entry(entry))
            except _MistakeError as mistake:
                self._problems.append(f"{name}: {label}: {mistake}")

    def library(self, version: str) -> Library:
        """All that was added. Raises LibraryError where anything is wrong."""
        self._cross_check()
        if self._problems:
            raise LibraryError(self._problems)
        return Library(
            version,
            tuple(self._patterns.values()),
            self._causes,
            self._advice,
            tuple(self._redactions.values()),
            self._facts,
            self._families,
        )

    # --- the kinds of entry ------------------------------------------------------------------------------------------------------

    def _fact(self, file: str, entry: dict[str, Any]) -> None:
        _text(entry, "unit", empty=True)
        self._facts[_text(entry, "name")] = _text(entry, "scope")

    def _pattern(self, file: str, entry: dict[str, Any]) -> None:
        _only(entry, PATTERN_KEYS)
        identifier = _text(entry, "id")
        if identifier in self._patterns:
            raise _MistakeError(f"the id is taken by an entry of {self._patterns[identifier].file}")
        anchors = _strings(entry, "anchor")
        if not anchors:
            raise _MistakeError("«anchor» is missing: the literal text that every hit holds")
        for anchor in anchors:
            if len(anchor) < 4 or "\n" in anchor:
                raise _MistakeError(f"the anchor {anchor!r} must be at least four characters on one line")
        match = entry.get("match")
        groups = _groups(match)
        window = entry.get("window", 0)
        if not isinstance(window, int) or not 0 <= window <= MAX_WINDOW:
            raise _MistakeError(f"«window» is {window!r}: a number of lines from 0 to {MAX_WINDOW}")
        _one_of(entry, "marks", MARKS)
        _one_of(entry, "severity", SEVERITIES)
        _one_of(entry, "confidence", CONFIDENCES)
        _one_of(entry, "stage", STAGES)
        _one_of(entry, "generation", GENERATIONS)
        start = entry.get("start")
        if start is not None and (isinstance(start, bool) or start not in STARTS):
            raise _MistakeError(f"«start» is {start!r}: a number from {STARTS[0]} to {STARTS[-1]}")
        examples = _examples(entry)
        fields: dict[str, Any] = {key: value for key, value in entry.items() if key not in ("anchor", "examples", "facts", "versions")}
        fields |= {
            "anchors": anchors,
            "file": file,
            "facts": list(self._fact_specs(_mapping(entry, "facts"), groups)),
            "examples": examples,
            "not_examples": _strings(entry, "not_examples"),
            "versions": _versions(entry),
        }
        for key in ("fixes", "needs", "not_this"):
            if key in entry:
                fields[key] = _strings(entry, key)
        for flag, group in _mapping(entry, "settings").items():
            if group not in groups:
                raise _MistakeError(f"the setting {flag} takes the group {group!r}, which «match» does not have")
        if entry.get("reader") and "body" not in groups:
            raise _MistakeError("«reader» needs a group «body» in «match»")
        if entry.get("text"):
            _words(entry["text"], "text")
        try:
            self._patterns[identifier] = pattern_from(fields)
        except TypeError as error:
            raise _MistakeError(str(error)) from error

    def _fact_specs(self, facts: Mapping[str, Any], groups: frozenset[str]) -> Iterable[dict[str, Any]]:
        for name, given in facts.items():
            for spec in given if isinstance(given, list) else [given]:
                if not isinstance(spec, dict):
                    raise _MistakeError(f"the fact {name} needs {{group: …, unit: …}}")
                fields = {"name": name, **spec}
                if "value" not in fields:
                    fields.setdefault("group", name.rsplit(".", 1)[-1])
                fields.setdefault("unit", "")
                if fields["unit"] not in UNITS:
                    raise _MistakeError(f"the fact {name} has the unit {fields['unit']!r}; known are {', '.join(sorted(UNITS))}")
                for key in ("group", "gpu", "pid", "rank", "unit_group"):
                    if fields.get(key) is not None and fields[key] not in groups:
                        raise _MistakeError(f"the fact {name} takes the group {fields[key]!r}, which «match» does not have")
                yield fields

    def _cause(self, file: str, entry: dict[str, Any]) -> None:
        self._add_cause(self._causes, file, entry)

    def _family(self, file: str, entry: dict[str, Any]) -> None:
        self._add_cause(self._families, file, entry)

    def _add_cause(self, known: dict[str, Cause], file: str, entry: dict[str, Any]) -> None:
        _only(
            entry,
            frozenset(
                {
                    "id",
                    "severity",
                    "stages",
                    "echo",
                    "consequences",
                    "signs",
                    "title",
                    "text",
                    "engines",
                    "detail",
                    "fixes",
                    "needs",
                    "not_this",
                }
            ),
        )
        identifier = _text(entry, "id")
        taken = self._causes.get(identifier) or self._families.get(identifier)
        if taken is not None:
            raise _MistakeError(f"the id is taken by an entry of {taken.file}")
        _one_of(entry, "severity", SEVERITIES)
        for stage in entry.get("stages") or ():
            if stage not in STAGES:
                raise _MistakeError(f"{stage!r} is no stage")
        known[identifier] = Cause(
            id=identifier,
            severity=_text(entry, "severity"),
            title=_words(entry.get("title"), "title"),
            text=_words(entry.get("text"), "text"),
            detail=tuple(_words(sentence, "detail") for sentence in entry.get("detail") or ()),
            stages=_strings(entry, "stages"),
            echo=bool(entry.get("echo")),
            consequences=_strings(entry, "consequences"),
            signs=_strings(entry, "signs"),
            fixes=_strings(entry, "fixes"),
            needs=_strings(entry, "needs"),
            not_this=_strings(entry, "not_this"),
            engines={engine: self._engine_words(_entry(said)) for engine, said in _mapping(entry, "engines").items()},
            file=file,
        )

    def _engine_words(self, entry: dict[str, Any]) -> dict[str, dict[str, str]]:
        _only(entry, frozenset({"title", "text"}))
        return {key: _words(entry[key], key) for key in entry}

    def _advise(self, file: str, entry: dict[str, Any]) -> None:
        _only(entry, frozenset({"name", "kind", "title", "why", "cost", "text", "advice", "changes", "versions", "engines", "unless"}))
        name = _text(entry, "name")
        kind = _text(entry, "kind")
        wanted = {"fix": ("title", "why"), "need": ("text",), "not_this": ("advice", "why")}.get(kind)
        if wanted is None:
            raise _MistakeError(f"«kind» is {kind!r}: fix, need or not_this")
        if name in self._advice:
            raise _MistakeError("the name is taken")
        words: dict[str, dict[str, str]] = {key: _words(entry[key], key) for key in ("title", "why", "cost", "text") if key in entry}
        if "advice" in entry:
            words["advice"] = _quoted(entry["advice"])
        for key in wanted:
            if key not in words:
                raise _MistakeError(f"«{key}» is missing")
        changes = tuple(_change(change) for change in entry.get("changes") or ())
        engines, unless = _strings(entry, "engines"), _strings(entry, "unless")
        self._advice[name] = Advice(name, kind, words, changes, _versions(entry), engines, unless)

    def _redaction(self, file: str, entry: dict[str, Any]) -> None:
        _only(entry, REDACTION_KEYS)
        identifier = _text(entry, "id")
        if identifier in self._redactions:
            raise _MistakeError("the id is taken")
        group = entry.get("group")
        if group is not None and group not in _line_expression(_text(entry, "match"), "match"):
            raise _MistakeError(f"«group» is {group!r}, which «match» does not have")
        for key in ("match", "each", "until"):
            if key in entry:
                _line_expression(_text(entry, key), key)
        gates = _strings(entry, "gate")
        keep = _strings(entry, "keep")
        for expression in keep:
            _line_expression(expression, "keep")
        for gate in gates:
            try:
                Scanner([gate], flags=[BY_LINE])
            except ValueError as error:
                raise _MistakeError(f"«gate» is no expression of hyperscan: {error}") from error
        anchors = _strings(entry, "anchors")
        if any(not anchor.strip("*") or "\n" in anchor for anchor in anchors):
            raise _MistakeError("an anchor is literal text on one line")
        if not anchors and not gates:
            raise _MistakeError("«anchors» or «gate» is missing: without them the rule would be tried on every line")
        if "until" in entry and "each" not in entry:
            raise _MistakeError("«until» needs «each»: what a line of the block holds of it")
        examples = tuple(entry.get("examples") or ())
        if not examples or not all(isinstance(example, dict) and set(example) == {"line", "clean"} for example in examples):
            raise _MistakeError("«examples» must be a list of {line: …, clean: …}")
        self._redactions[identifier] = RedactionRule(
            id=identifier,
            kind=_text(entry, "kind"),
            match=_text(entry, "match"),
            anchors=anchors,
            gates=gates,
            group=group,
            each=entry.get("each"),
            until=entry.get("until"),
            text=_words(entry.get("text"), "text"),
            keep=keep,
            drop=bool(entry.get("drop")),
            ignore_case=bool(entry.get("ignore_case")),
            examples=examples,
            not_examples=_strings(entry, "not_examples"),
        )

    # --- what one file alone cannot tell -------------------------------------------------------------------------------------------

    def _cross_check(self) -> None:
        for pattern in self._patterns.values():
            label = f"{pattern.file}: {pattern.id}"
            for spec in pattern.facts:
                if spec.name not in self._facts:
                    self._problems.append(f"{label}: {spec.name!r} is no name of facts.yaml")
            refined = [*pattern.frame.refines.values(), *pattern.frame.serving.values()] if pattern.frame else []
            for cause in [pattern.cause, *refined]:
                # A family (cuda_oom) is for patterns whose line alone does not tell which of its causes it is.
                if cause and cause not in self._causes and cause not in self._families:
                    self._problems.append(f"{label}: the cause {cause!r} is in no file of causes/, nor a family of families.yaml")
            self._named(label, pattern.fixes or (), "fix")
            self._named(label, pattern.needs or (), "need")
            self._named(label, pattern.not_this or (), "not_this")
            if not pattern.examples and pattern.frame is None:
                self._problems.append(f"{label}: «examples» is missing")
            if pattern.cause and not pattern.not_examples:
                self._problems.append(f"{label}: «not_examples» is missing: a line that looks like this one and is another")
        for advice in self._advice.values():
            self._named(advice.name, advice.unless, "need")
        for cause_entry in [*self._causes.values(), *self._families.values()]:
            label = f"{cause_entry.file}: {cause_entry.id}"
            for consequence in cause_entry.consequences:
                if consequence not in self._causes:
                    self._problems.append(f"{label}: the consequence {consequence!r} is in no file of causes/")
            for sign in cause_entry.signs:
                if sign not in self._patterns:
                    self._problems.append(f"{label}: the sign {sign!r} is no pattern's id")
            self._named(label, cause_entry.fixes, "fix")
            self._named(label, cause_entry.needs, "need")
            self._named(label, cause_entry.not_this, "not_this")

    def _named(self, label: str, names: Iterable[str], kind: str) -> None:
        for name in names:
            advice = self._advice.get(name)
            if advice is None or advice.kind != kind:
                self._problems.append(f"{label}: no {kind} {name!r} in advice/")


# --- small readers of a mapping ----------------------------------------------------------------------------------------------------


def _entry(entry: Any) -> dict[str, Any]:
    if not isinstance(entry, dict):
        raise _MistakeError(f"a mapping is expected, this is a {type(entry).__name__}")
    return entry


def _only(entry: Mapping[str, Any], allowed: frozenset[str]) -> None:
    unknown = sorted(set(entry) - allowed)
    if unknown:
        raise _MistakeError(f"unknown key {', '.join(map(repr, unknown))}; known are {', '.join(sorted(allowed))}")


def _text(entry: Mapping[str, Any], key: str, *, empty: bool = False) -> str:
    value = entry.get(key)
    if not isinstance(value, str) or not (value or empty):
        raise _MistakeError(f"«{key}» is missing" if value is None else f"«{key}» must be text, not {value!r}")
    return value


def _strings(entry: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = entry.get(key)
    if value is None:
        return ()
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise _MistakeError(f"«{key}» must be text or a list of texts")
    return tuple(value)


def _one_of(entry: Mapping[str, Any], key: str, allowed: Iterable[str]) -> None:
    value = entry.get(key)
    if value is not None and (not isinstance(value, str) or value not in allowed):
        raise _MistakeError(f"«{key}» is {value!r}; known are {', '.join(allowed)}")


def _mapping(entry: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = entry.get(key) or {}
    if not isinstance(value, dict):
        raise _MistakeError(f"«{key}» must be a mapping, not a {type(value).__name__}")
    return value


def _groups(match: Any) -> frozenset[str]:
    if match is None:
        return frozenset()
    if not isinstance(match, str):
        raise _MistakeError("«match» must be a regular expression")
    try:
        compiled = regex.compile(match)
    except regex.error as error:
        raise _MistakeError(f"«match» is no regular expression: {error}") from error
    return frozenset(compiled.groupindex)


def _line_expression(expression: str, key: str) -> frozenset[str]:
    """The groups of an expression of ``re`` that cannot match a line break: lines are redacted one by one."""
    try:
        compiled = re.compile(expression, re.ASCII)
    except re.error as error:
        raise _MistakeError(f"«{key}» is no regular expression: {error}") from error
    crossing = re.search(r"\\[sWD]", re.sub(r"\\\\", "", re.sub(r"\[\^(?:[^\]\\]|\\.)*\]", _negated, expression)))
    if crossing:
        raise _MistakeError(f"«{key}»: {crossing[0]} matches a line break; name the characters, and exclude \\n from a negated class")
    return frozenset(compiled.groupindex)


def _negated(found: re.Match[str]) -> str:
    """A negated class as seen by the search for what matches a line break: itself where it lets one through."""
    return "" if r"\n" in found[0] or r"\s" in found[0] else r"\W"


def _words(value: Any, key: str) -> dict[str, str]:
    if not isinstance(value, dict) or sorted(value) != sorted(LANGUAGES):
        raise _MistakeError(f"«{key}» needs en and zh")
    holes = []
    for language in LANGUAGES:
        try:
            parsed = [part for part in string.Formatter().parse(value[language]) if part[1] is not None]
            odd = [name for _, name, spec, conversion in parsed if spec or conversion or not _PLACEHOLDER.fullmatch(name or "")]
            if odd:
                raise _MistakeError(f"«{key}» in {language}: {{{odd[0]}}} is no placeholder; a brace meant as such is doubled: {{{{ }}}}")
            holes.append({name or "" for _, name, _, _ in parsed})
        except (ValueError, TypeError) as error:
            raise _MistakeError(f"«{key}» in {language}: {error}") from error
    if holes[0] != holes[1]:
        raise _MistakeError(f"«{key}»: the placeholders differ between en {sorted(holes[0])} and zh {sorted(holes[1])}")
    return {language: " ".join(value[language].split()) for language in LANGUAGES}


def _quoted(value: Any) -> dict[str, str]:
    """Advice as people quote it: words, or once for every language what is none."""
    if isinstance(value, str) and _SAME.fullmatch(value):
        return dict.fromkeys(LANGUAGES, value)
    if isinstance(value, str):
        raise _MistakeError(f"«advice» needs en and zh: {value!r} is more than a flag or a variable with its value")
    return _words(value, "advice")


def _change(change: Any) -> dict[str, Any]:
    """A change in the report's shape: a flag, an environment variable, another program's option, or an action in both languages."""
    shapes = ({"flag", "to"}, {"env", "to"}, {"option", "of", "to"}, {"action"})
    if not isinstance(change, dict) or set(change) not in shapes:
        raise _MistakeError(f"a change is {{flag, to}}, {{env, to}}, {{option, of, to}} or {{action: {{en, zh}}}}, not {change!r}")
    return {"action": _words(change["action"], "action")} if "action" in change else dict(change)


def _examples(entry: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
    examples = []
    for example in entry.get("examples") or ():
        if isinstance(example, str):
            example = {"line": example}
        if not isinstance(example, dict) or not isinstance(example.get("line"), str):
            raise _MistakeError("an example is a line, or {line: …, facts: …}")
        _only(example, frozenset({"line", "facts"}))
        examples.append(example)
    return tuple(examples)


def _versions(entry: Mapping[str, Any]) -> str | None:
    versions = entry.get("versions")
    if versions is None:
        return None
    from analyzer.model.versions import Range

    try:
        Range.parse(str(versions))
    except ValueError as error:
        raise _MistakeError(str(error)) from error
    return str(versions)
