"""Launches from Python: ``LLM(model=…, gpu_memory_utilization=…)`` and the engine arguments of servers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from analyzer.readers.launch.arguments import Argument
from analyzer.readers.launch.invocation import PYTHON, Invocation
from analyzer.readers.launch.shell import Word
from analyzer.readers.settings import End, keyword_items, long_flag, python_value

#: Longest call that is read, in characters.
MAX_CALL = 20_000
#: So many places of a page are tried.
MAX_CALLS = 200
#: Literals one of which every call holds.
SIGNS = ("LLM(", "EngineArgs(", ".Engine(")
_NAMES = ("LLM", "EngineArgs", ".Engine")

_CALL = re.compile(r"(?<![\w.\"'`])(?:(?:vllm|v)\.)?(LLM|AsyncEngineArgs|EngineArgs|(?:sgl|sglang)\.Engine)\s*\(")
_LITERAL = re.compile(r"['\"\[{(]|[-+]?\.?\d|True\b|False\b|None\b")
_STRING = re.compile(r"\s*([rb]?)(['\"])((?:\\.|(?!\2)[^\\\n]){1,500})\2\s*(?=[,)])")
_COMMENT = re.compile(r"'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\"|#[^\n]*")


def calls(text: str) -> Iterator[Invocation]:
    """The calls in ``text`` that give at least one argument, whatever stands around them."""
    first = min((at for at in map(text.find, _NAMES) if at >= 0), default=len(text))
    for matched in islice(_CALL.finditer(text, text.rfind("\n", 0, first) + 1), MAX_CALLS):
        line = text.rfind("\n", 0, matched.start()) + 1
        head = text[line : matched.start()]
        if "#" in head or head.lstrip().startswith(("def ", "class ", "import ", "from ")):
            continue
        above = text[text.rfind("\n", 0, max(line - 1, 0)) + 1 : line]
        if re.match(r"\s*(?:\[rank\d+\]:\s*)?File \"", above):  # a traceback's own line of source, cut to its first
            continue
        found = _call(text, matched.end(), line + len(head) - len(head.lstrip()), "sglang" if matched[1].endswith(".Engine") else "vllm")
        if found is not None:
            yield found


def _call(text: str, inside: int, start: int, engine: str) -> Invocation | None:
    body = text[inside : inside + MAX_CALL]
    body = without_comments(body)
    found = Invocation(PYTHON, engine, start, inside)
    positional = _STRING.match(body)
    if positional:
        place = (inside + positional.start(2), inside + positional.end(2))
        end = inside + positional.end(3) + 1
        word = Word(positional[3], place[0], end)
        found.arguments.append(Argument("--model", positional[3], (word,), (place[0], end), positional=True))
    close = _end(body)
    if close is None:
        return None
    for key, (first, last), how in keyword_items(body[: close + 1], 0):
        value = body[first:last]
        if how is not End.CLOSED:
            continue
        place = (inside + first, inside + last)
        word = Word(key, *place)
        computed = _LITERAL.match(value) is None
        found.words.append(word)
        known = None if computed else python_value(value)
        found.arguments.append(Argument(long_flag(key), known, (word,), place, joined=True, computed=computed))
    if all(argument.computed for argument in found.arguments):
        return None
    found.end = inside + close + 1
    while found.end < len(text) and text[found.end] == ")":  # of the call around it
        found.end += 1
    found.after = inside + close
    found.before = start
    found.arguments.sort(key=lambda argument: argument.place)
    return found


def without_comments(code: str) -> str:
    """``code`` with blanks in place of its comments, every character at its place."""
    return _COMMENT.sub(lambda matched: " " * len(matched[0]) if matched[0][0] == "#" else matched[0], code)


def _end(body: str) -> int | None:
    """The place of the bracket that closes the call; None where the text breaks it off."""
    depth, at = 0, 0
    while at < len(body):
        char = body[at]
        if char in "'\"":
            close = at + 1
            while close < len(body) and body[close] != char:
                close += 2 if body[close] == "\\" else 1
            at = close
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            if depth == 0:
                return at
            depth -= 1
        at += 1
    return None
