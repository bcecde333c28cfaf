"""What stands around every line of a text: platforms' prefixes, JSON of log collectors, quoting, indentation; and the lines without it."""

from __future__ import annotations

from collections.abc import Sequence

from analyzer.intake.lines import bare

#: Lines that are looked at to tell whether a text is wrapped.
SAMPLE = 400
#: Part of them that must be: a table or a prompt between the lines of a log is not.
MOST = 0.8


def stripped(lines: Sequence[str]) -> list[str] | None:
    """``lines`` without what stands around them, or None where (nearly) nothing does. As many lines as before."""
    sample = [line for line in lines[:SAMPLE] if line.strip()]
    wrapped = len(sample)
    for line in sample:
        wrapped -= bare(line) == line
        if wrapped < MOST * len(sample):
            return None
    if not sample:
        return None
    return [bare(line) for line in lines]


def dedented(lines: Sequence[str]) -> list[str] | None:
    """``lines`` without carriage returns and the indentation that all of them share; None where they have none of it."""
    plain = [line.rstrip("\r") for line in lines]
    shared = 0
    if not any(line and not line[0].isspace() for line in plain):
        shared = min((len(line) - len(line.lstrip(" ")) for line in plain if line.strip()), default=0)
    found = [line[shared:] for line in plain] if shared else plain
    return found if found != list(lines) else None
