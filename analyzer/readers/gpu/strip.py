"""What stands around a dump's lines: quotes, time stamps of log collectors, Markdown, box characters. Off, one line at a time."""

from __future__ import annotations

import re

from analyzer.intake.lines import clean, parse

_PREFIX = re.compile(
    r"""
      (?:>|&gt;)(?:\s?(?:>|&gt;))*\ ?                                                         # mail and chat quoting
    | \[pod/[^\]\s]{1,200}\]\s
    | \d{4}-\d\d-\d\d[T\ ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?\s(?:std(?:out|err)\s[FP]\s)?
    | [A-Z][a-z]{2}\ [\ \d]\d\ \d\d:\d\d:\d\d\ [^\s:]{1,64}\ [^\s:\[]{1,64}(?:\[\d{1,9}\])?:\s     # journald, syslog
    | \([A-Za-z][^()]{0,60}pid=\d{1,9}[^()]{0,60}\)\ ?
    | (?:DEBUG|INFO|WARNING|ERROR)\ \d\d-\d\d\ \d\d:\d\d:\d\d(?:[.,]\d{1,9})?\ \[?[^\]\s]{1,80}:\d{1,6}\]\ ?
    | [A-Za-z0-9][\w.-]{0,60}\s{0,20}\|\ (?=[|+][\s\d=+-])                                         # docker compose
    | [*\#-]\s{1,4}(?=[|+][\s=+-])                                                             # lists
    """,
    re.VERBOSE,
)
_BOX = str.maketrans(
    {
        **dict.fromkeys("│┃║┆┊▏｜", "|"),
        **dict.fromkeys("├┤┼┬┴└┘┌┐╒╕╘╛╞╡╪╤╧╟╢╫╠╣╬╔╗╚╝╭╮╯╰", "+"),
        **dict.fromkeys("─━╌┄", "-"),
        **dict.fromkeys("═", "="),
        "\u00a0": " ",
        "\u2007": " ",
        "\u202f": " ",
        "\u3000": " ",
        "\u200b": None,
        "\ufeff": None,
    }
)
_ENTITIES = (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&#124;", "|"), ("&vert;", "|"), ("&nbsp;", " "), ("&amp;", "&"))
_MORE = frozenset(">&[(0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ*#-{abcdefghijklmnopqrstuvwxyz")


def bare(line: str) -> str:
    """``line`` without colours and without what platforms, mail and chat put before it; indentation stays."""
    text = clean(line)
    if text.startswith("{") and text.rstrip().endswith("}"):
        text = parse(text, 0).body
    for _ in range(4):  # they nest, but not deeper
        start = len(text) - len(text.lstrip(" \t"))
        if start >= len(text) or text[start] not in _MORE:
            break
        found = _PREFIX.match(text, start)
        if found is None:
            break
        text = text[found.end() :]
    return text.rstrip()


def bars(line: str) -> str:
    """``bare`` with box characters, escapes and HTML entities turned into the tool's own bars."""
    text = bare(line)
    if not text.isascii():
        text = text.translate(_BOX)
    if "\\|" in text:
        text = text.replace("\\|", "|")
    if "&" in text:
        for entity, character in _ENTITIES:
            text = text.replace(entity, character)
    return text.rstrip()
