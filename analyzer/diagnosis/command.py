"""The command among the inputs against the version that the inputs state: what it would be refused for, beside what happened."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from analyzer.diagnosis import words
from analyzer.facts.record import ARGUMENTS
from analyzer.model import Confidence, Finding, Fix, FlagChange, Severity, Source, State, Text

if TYPE_CHECKING:
    from analyzer.diagnosis.verdict import Verdict
    from analyzer.engines.vllm.lint import Issue
    from analyzer.facts.view import View
    from analyzer.patterns.model import Library

FLAG, VALUE = "args.unknown_flag", "args.invalid_value"


def findings(view: View, verdict: Verdict, library: Library) -> list[Finding]:
    """One finding on flags and one on values that the stated version refuses; none where the root is about the command already.

    Never an error: the log tells what happened, and a command may be meant for another start. What the engine itself printed among its
    arguments it has accepted.
    """
    if view.command is None or view.version is None or view.engine not in (None, "vllm") or (verdict.cause or "").startswith("args."):
        return []
    from analyzer.engines.vllm import changes, flags, lint

    where = changes.where(view)
    options = lint.options_of(view.command)
    if not isinstance(where, str) or not options:
        return []
    # A variable's value is what the lines around the command say.
    options = [
        replace(option, value=view.setting(option.flag)) if "$" in str(option.value) and option.flag in view.settings else option
        for option in options
    ]
    given = {option.written: option.flag for option in options}
    accepted = {flag for flag, seen in view.attempt.settings.items() if seen.strength >= ARGUMENTS}
    fatal = [
        issue
        for issue in lint.check(options, {}, where)
        if issue.fatal and not {flags.canonical(issue.written), given.get(issue.written)} & accepted
    ]
    found = []
    for cause, about in ((FLAG, (lint.About.FLAG,)), (VALUE, (lint.About.VALUE, lint.About.COMBINATION))):
        issues = [issue for issue in fatal if issue.about in about]
        if issues and cause in library.causes:
            found.append(_finding(view, verdict, library, cause, issues))
    return found


def _finding(view: View, verdict: Verdict, library: Library, cause: str, issues: list[Issue]) -> Finding:
    text = Text(" ".join(issue.text.en for issue in issues), "".join(issue.text.zh for issue in issues))
    fixes = tuple(fix for issue in issues if (fix := _fix(issue)) is not None)
    return Finding(
        cause,
        Severity.INFO if verdict.state is State.HEALTHY else Severity.WARNING,
        Confidence.LIKELY,
        Text.of(library.causes[cause].title),
        text,
        tuple(_sources(view, issues)),
        not_this=words.not_this(library.causes[cause].not_this, library, {}),
        fixes=fixes,
        stage="launch",
    )


def _fix(issue: Issue) -> Fix | None:
    if issue.instead is None:
        return None
    title = Text(f"Write {issue.instead} instead of {issue.written}", f"把 {issue.written} 改为 {issue.instead}")
    return Fix(title, (FlagChange(issue.written, None, None),), issue.text, None, None, None, True)


def _sources(view: View, issues: list[Issue]) -> list[Source]:
    """The lines of the command that hold the options."""
    found: list[Source] = []
    for reading in view.readings:
        for setting in reading.settings.values():
            if any(issue.written in setting.source.text for issue in issues) and setting.source not in found:
                found.append(setting.source)
    return found[:8]
