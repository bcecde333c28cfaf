"""Flags of the engines other than vLLM: a small table each, flag -> the versions that have it ("" where all that were looked at do)."""

from __future__ import annotations

from collections.abc import Mapping

from analyzer.facts.view import View
from analyzer.model import Change, EnvChange, FlagChange
from analyzer.model.versions import Range, base


def valid(table: Mapping[str, str], changes: tuple[Change, ...], view: View) -> bool:
    """Whether every flag that is set is in ``table`` and in a version that is possible. A removed flag need not be."""
    for change in changes:
        if not isinstance(change, FlagChange) or change.to is None:
            continue
        span = table.get(change.flag)
        if span is None or not (possible(view) & Range.parse(span)):
            return False
    return True


def versions(table: Mapping[str, str], changes: tuple[Change, ...]) -> str | None:
    """The versions that have all flags of ``changes``, as a range; None where the table knows no bound."""
    found = Range()
    for change in changes:
        if isinstance(change, FlagChange) and change.to is not None:
            found &= Range.parse(table.get(change.flag, ""))
    return str(found) or None


def possible(view: View) -> Range:
    """The stated version, else what the wordings leave. A build's number is no release."""
    if view.version is not None and "." in view.version:
        try:
            base(view.version)
        except ValueError:
            return view.versions
        return Range(view.version, view.version)
    return view.versions


def rewritten(changes: tuple[Change, ...], view: View) -> str | None:
    """The user's own command with ``changes``; None where no input holds one or nothing in it would change."""
    flags = {change.flag: change.to for change in changes if isinstance(change, FlagChange)}
    environment = {change.env: change.to for change in changes if isinstance(change, EnvChange)}
    if view.command is None or not (flags or environment):
        return None
    from analyzer.readers.launch.rewrite import corrected

    return corrected(view.command, flags, environment)
