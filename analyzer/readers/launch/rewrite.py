"""The user's own command, corrected: flags and variables changed, added or removed, everything else byte for byte.

A launch keeps the form it was sent in: shell, docker run, compose, Kubernetes, a Python call.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

from analyzer.model import Value
from analyzer.readers.launch import vllm_flags
from analyzer.readers.launch.arguments import Argument
from analyzer.readers.launch.find import invocations
from analyzer.readers.launch.invocation import PYTHON, YAML, Invocation
from analyzer.readers.launch.manifest import added_variable
from analyzer.readers.launch.python_call import without_comments
from analyzer.readers.launch.shell import Word, without_prompts

#: A change of the text: what stands from start to end becomes this.
Edit = tuple[int, int, str]

_YAML_PLAIN = re.compile(r"[A-Za-z/.-][\w/.,+-]*(?:=[\w/.,+-]+)?$")
_YAML_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "null", "none", "~", "-", "--"})


def corrected(
    command: str,
    changes: Mapping[str, Value | None],
    environment: Mapping[str, str | None] | None = None,
    docker: Mapping[str, str] | None = None,
) -> str:
    """``command`` with each long flag of ``changes`` set to its value (True: the switch alone, False: its ``--no-`` form, None: removed),
    each variable of ``environment`` set (None: unset), and the options ``docker`` of ``docker run`` (``--shm-size``) where it is one.

    Of several launches in the text the last is changed. A text without a launch comes back as it is.
    """
    # One change at a time, each on a fresh reading: so no place is stale and no two edits meet.
    for flag, value in sorted(changes.items(), key=lambda change: change[1] is not None):
        command = _with_flag(command, flag, value)
    for name, content in (environment or {}).items():
        command = _with_variable(command, name, content)
    for option, size in (docker or {}).items():
        command = _with_option(command, option, size)
    return without_prompts(command)


def _launch(text: str) -> Invocation | None:
    launches = invocations(text)
    return launches[-1] if launches else None


def _with_flag(text: str, flag: str, value: Value | None) -> str:
    if value is True and flag.startswith("--no-"):
        flag, value = "--" + flag[5:], False
    while (launch := _launch(text)) is not None:
        given = [argument for argument in launch.arguments if argument.flag == flag and not argument.positional]
        if value is None:
            if not given:
                break
            shorter = _apply(text, [_removal(text, launch, given[-1])])
            if len(shorter) >= len(text):
                break
            text = shorter
            continue
        given = given or [argument for argument in launch.arguments if argument.flag == flag]
        return _apply(text, _replacement(text, launch, given[-1], value) if given else _addition(text, launch, flag, value))
    return text


def _with_variable(text: str, name: str, content: str | None) -> str:
    launch = _launch(text)
    return text if launch is None else _apply(text, _variable(text, launch, name, content))


def _with_option(text: str, option: str, size: str) -> str:
    launch = _launch(text)
    if launch is None or not launch.docker:
        return text
    if option not in launch.options:
        return _apply(text, [(launch.before, launch.before, f"{option}={shlex.quote(size)} ")])
    start, end = launch.options[option][1]
    raw = text[start:end]
    return _apply(text, [(start, end, f"{option}={shlex.quote(size)}" if raw.startswith(option) else shlex.quote(size))])


def _apply(text: str, edits: list[Edit]) -> str:
    for start, end, new in sorted(edits, key=lambda edit: (edit[0], edit[1]), reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _written(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _quoted(launch: Invocation, text: str) -> str:
    """``text`` as one word of the launch's form."""
    if launch.form == PYTHON:
        return repr(text)
    if launch.form == YAML and launch.list_style:
        plain = _YAML_PLAIN.match(text) and text.lower() not in _YAML_WORDS
        return text if plain and launch.list_style == "block" else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return shlex.quote(text)


# --- one argument ----------------------------------------------------------------------------------------------------------------------


def _removal(text: str, launch: Invocation, argument: Argument) -> Edit:
    start, end = argument.words[0].start, argument.words[-1].end
    if launch.form == PYTHON:
        return _removed_keyword(text, argument)
    if launch.form == YAML and launch.list_style == "block":
        start = text.rfind("\n", 0, start) + 1
        end = text.find("\n", end)
        return (start, len(text), "") if end < 0 else (start, end + 1, "")
    if launch.form == YAML and launch.list_style == "flow":
        after = re.compile(r"\s*,[ \t]*").match(text, end)
        if after:
            return start, after.end(), ""
        return text.rfind(",", 0, start), end, ""
    gap = start
    while gap > launch.start and text[gap - 1] in " \t":
        gap -= 1
    continued = re.search(r"[ \t]*[\\^`][ \t]*\r?\n[ \t]*$", text[max(0, start - 200) : start])
    if continued:
        gap = start - len(continued[0])
    return gap, end, ""


def _removed_keyword(text: str, argument: Argument) -> Edit:
    word = argument.words[0]
    start = word.start
    if not argument.positional:
        start = text.rfind(word.value, 0, argument.place[0])
    end = argument.place[1]
    after = re.compile(r"\s*,[ \t]*(?:\n[ \t]*)?").match(text, end)
    if after:
        return start, after.end(), ""
    comma = re.search(r",\s*$", text[:start])
    return (comma.start() if comma else start), end, ""


def _replacement(text: str, launch: Invocation, argument: Argument, value: Value) -> list[Edit]:
    if argument.value == value and isinstance(argument.value, bool) == isinstance(value, bool) and not argument.computed:
        return []
    if launch.form == PYTHON:
        return [(argument.place[0], argument.place[1], repr(value))]
    name, last = argument.words[0], argument.words[-1]
    if isinstance(value, bool) and (argument.switch or isinstance(argument.value, bool)):
        flag = argument.flag if value else "--no-" + argument.flag[2:]
        return [(name.start, last.end, _quoted(launch, flag))]
    if argument.positional:
        return [(last.start, last.end, _quoted(launch, _written(value)))]
    if argument.joined:
        written = name.value.partition("=")[0]
        return [(name.start, name.end, _joined(text, launch, name, written, _written(value)))]
    if argument.switch:
        return [(name.end, name.end, _separator(text, launch, name) + _quoted(launch, _written(value)))]
    first = argument.words[1]
    part = launch.list_style == "block" and not re.search(r"-[ \t]+$", text[text.rfind("\n", 0, first.start) + 1 : first.start])
    return [(first.start, last.end, shlex.quote(_written(value)) if part else _quoted(launch, _written(value)))]


def _joined(text: str, launch: Invocation, word: Word, written: str, value: str) -> str:
    raw = text[word.start : word.end]
    if raw[:1] in "'\"":
        inner = f"{written}={value}"
        return raw[0] + inner + raw[0] if raw[0] not in inner and "\\" not in inner else _quoted(launch, inner)
    if launch.form == YAML and launch.list_style:
        return _quoted(launch, f"{written}={value}")
    return f"{written}={shlex.quote(value)}"


def _separator(text: str, launch: Invocation, word: Word) -> str:
    if launch.form == YAML and launch.list_style == "block":
        line = text.rfind("\n", 0, word.start) + 1
        return "\n" + text[line : text.index("-", line)] + "- "
    return ", " if launch.form == YAML and launch.list_style == "flow" else " "


# --- further arguments -----------------------------------------------------------------------------------------------------------------


def _addition(text: str, launch: Invocation, flag: str, value: Value) -> list[Edit]:
    if launch.form == PYTHON:
        return _added_keyword(text, launch, f"{flag[2:].replace('-', '_')}={value!r}")
    several = launch.engine in (None, "vllm") and flag[2:] in vllm_flags.SEVERAL
    values = _written(value).split() if several else [_written(value)]
    words = [flag if value else "--no-" + flag[2:]] if isinstance(value, bool) else [flag, *values]
    at = launch.after
    if launch.form == YAML and launch.list_style:
        return [(at, at, _added_items(text, launch, words))]
    return [(at, at, _between(text, launch) + " ".join([words[0], *(shlex.quote(part) for part in words[1:])]))]


def _between(text: str, launch: Invocation) -> str:
    """What stands before the last option: a blank, or a continued line and its indent."""
    starts = [argument.words[0].start for argument in launch.arguments if not argument.positional]
    if not starts:
        return " "
    gap = re.search(r"(?:[ \t]*[\\^`][ \t]*)?\r?\n[ \t]*$", text[max(launch.start, starts[-1] - 200) : starts[-1]])
    return gap[0] if gap else " "


def _added_items(text: str, launch: Invocation, words: list[str]) -> str:
    joined = any(argument.joined for argument in launch.arguments) and not any(len(argument.words) > 1 for argument in launch.arguments)
    items = [_quoted(launch, item) for item in (["=".join(words)] if joined and len(words) == 2 else words)]
    if launch.list_style == "flow":
        return "".join((", " if launch.words or place else "") + item for place, item in enumerate(items))
    line = text.rfind("\n", 0, launch.after) + 1
    indent = re.match(r"[ \t]*", text[line:])
    lead = "\n" + (indent[0] if indent else "") + "- "
    return "".join(lead + item for item in items)


def _added_keyword(text: str, launch: Invocation, written: str) -> list[Edit]:
    inner = without_comments(text[launch.start : launch.after])
    shown = inner.rstrip()
    end = launch.start + len(shown)
    comma = shown.endswith(",")
    line = inner.rfind("\n", len(shown))
    if line < 0:  # the bracket stands on the last argument's line
        return [(end, end, (" " if comma else ", ") + written)]
    indents = re.findall(r"\n([ \t]+)\S", shown)
    at = launch.start + inner.index("\n", len(shown))
    added = "\n" + (indents[-1] if indents else "    ") + written
    return [(at, at, added + ",")] if comma else [(end, end, ","), (at, at, added)]


# --- variables -------------------------------------------------------------------------------------------------------------------------


def _variable(text: str, launch: Invocation, name: str, content: str | None) -> list[Edit]:
    given = [variable for variable in launch.environment if variable.name == name]
    exported = list(re.finditer(rf"^([ \t]*export[ \t]+){re.escape(name)}=(\S*)[^\n]*\n?", text, re.MULTILINE))
    if content is None:
        edits = [_unset(text, launch, variable.whole) for variable in given]
        return edits + [(matched.start(), matched.end(), "") for matched in exported]
    if given and given[-1].value == content:
        return []
    if given:
        return [_set_again(launch, name, content, given[-1].place, given[-1].whole)]
    if exported:
        return [(exported[-1].start(2), exported[-1].end(2), shlex.quote(content))]
    if launch.form == PYTHON:
        set_before = re.search(rf"os\.environ\[(['\"]){re.escape(name)}\1\]\s*=\s*([^\n;#]*[^\s;#])", text[: launch.start])
        if set_before:
            return [(*set_before.span(2), repr(content))]
        indent = text[text.rfind("\n", 0, launch.start) + 1 : launch.start]
        return [(launch.start, launch.start, f"import os; os.environ[{name!r}] = {content!r}\n{indent}")]
    if launch.form == YAML:
        return added_variable(text, launch, name, content)
    assignment = f"{name}={shlex.quote(content)} "
    return [(launch.before, launch.before, f"-e {assignment}" if launch.docker else assignment)]


def _set_again(launch: Invocation, name: str, content: str, place: tuple[int, int], whole: tuple[int, int]) -> Edit:
    if launch.form == YAML:
        text = content if place != whole else f"{name}={content}"
        return place[0], place[1], '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return place[0], place[1], shlex.quote(content)


def _unset(text: str, launch: Invocation, whole: tuple[int, int]) -> Edit:
    start, end = whole
    if launch.form == YAML:
        start = text.rfind("\n", 0, start) + 1
        line = text.find("\n", end - 1)
        return (start, len(text), "") if line < 0 else (start, line + 1, "")
    if launch.docker:
        option = re.search(r"(?:-e|--env)[ =]?[ \t]*$", text[:start])
        start = option.start() if option else start
    blank = re.compile(r"[ \t]+").match(text, end)
    return start, blank.end() if blank else end, ""
