"""Are the flags of a change there in this version, in which are they, and the user's own command with them."""

from __future__ import annotations

import re

from analyzer.engines.vllm import flags
from analyzer.engines.vllm.eras import Where
from analyzer.facts.view import View
from analyzer.model import Change, EnvChange, FlagChange
from analyzer.model.versions import Range, base


def where(view: View) -> Where:
    """The version that an input states, else the range that the wordings leave."""
    if view.version is not None:
        try:
            base(view.version)
        except ValueError:
            return view.versions
        return view.version
    return view.versions


#: ``model_type`` of models that are numerically unstable in float16, which vLLM therefore refuses (``vllm/config/model.py``).
_NO_FLOAT16 = frozenset({"gemma2", "gemma3", "gemma3_text", "plamo2", "glm4"})
#: How their names begin, where no config is there. gemma-2b is a Gemma 1, glm-4-9b-chat a chatglm, GLM-4.5 a glm4_moe.
_NO_FLOAT16_NAMES = re.compile(r"gemma-?2(?![b\d])|gemma-?3(?!n)|plamo-?2|glm-(?:4|z1)-\S*0414", re.IGNORECASE)


def _float16_is_refused(changes: tuple[Change, ...], view: View) -> bool:
    half = any(isinstance(change, FlagChange) and change.flag == "--dtype" and change.to in ("half", "float16") for change in changes)
    if not half:
        return False
    kind = (view.model or {}).get("model_type")
    if kind:
        return kind in _NO_FLOAT16
    name = str(view.setting("--model") or "").rstrip("/").rsplit("/", 1)[-1]
    return _NO_FLOAT16_NAMES.match(name) is not None


def valid(changes: tuple[Change, ...], view: View) -> bool:
    """Whether every flag that is set exists in the version, or in the newest of those that are possible, and takes the value there.

    One that is removed need not exist.
    """
    if _float16_is_refused(changes, view):
        return False
    span = where(view)
    newest = span if isinstance(span, str) else flags.resolve(span)[-1:]
    asked = newest if isinstance(newest, str) else newest[0] if newest else None
    return asked is not None and all(
        flags.exists(change.flag, asked) and flags.takes(change.flag, change.to, asked)
        for change in changes
        if isinstance(change, FlagChange) and change.to is not None
    )


def versions(changes: tuple[Change, ...], view: View) -> str | None:
    """The releases that have all flags of ``changes`` and take the values, as a range; None where no flag is set."""
    found = Range()
    named = [(change.flag, change.to) for change in changes if isinstance(change, FlagChange) and change.to is not None]
    if not named:
        return None
    asked = view.version if view.version is not None else flags.versions()[-1]
    for flag, value in named:
        fate = flags.fate(flag, asked)
        last = None if fate.until in (None, flags.versions()[-1]) else fate.until
        # A flag of the first release that was read may be older than that.
        found &= Range(None if fate.since == flags.versions()[0] else fate.since, last)
        found &= Range(flags.takes_since(flag, value, asked), None)
    return str(found) or None


def rewrite(changes: tuple[Change, ...], view: View) -> str | None:
    """The user's own command with ``changes``; None where no input holds one or nothing in it would change."""
    if view.command is None:
        return None
    from analyzer.readers.launch.rewrite import corrected

    flag_changes = {change.flag: change.to for change in changes if isinstance(change, FlagChange)}
    env_changes = {change.env: change.to for change in changes if isinstance(change, EnvChange)}
    if not flag_changes and not env_changes:
        return None
    return corrected(view.command, flag_changes, env_changes)
