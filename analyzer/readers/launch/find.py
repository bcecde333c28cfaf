"""A text → the launches in it, in every form, in order."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable

from analyzer.readers.launch import manifest, python_call
from analyzer.readers.launch.arguments import arguments
from analyzer.readers.launch.invocation import SHELL, Invocation
from analyzer.readers.launch.programs import SIGNS, launches
from analyzer.readers.launch.shell import Word, heredoc, read

#: A line of an engine's or a system's log, of a traceback or of a process table: no command stands there.
LOG_LINE = re.compile(
    r"\s*(?:\[[^\]\n]{1,40}\]\s*)?(?:"
    r"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)(?::?\s+\d\d-\d\d \d\d:|:\s)|"
    r"\([A-Za-z][\w. -]{0,60}(?: rank=\d+)? pid=\d+|"
    r"\((?:raylet|autoscaler|pid=\d+)|"
    r"\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d|\[\d{4}-\d\d-\d\d|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d |time=\d{4}|Traceback \(most|File \"|"
    r"Loading safetensors|Capturing CUDA graph|torch\.\w*OutOfMemory|\w+Error:|Killed$)"
)
_LOG_SEARCH = re.compile(r"^(?:" + LOG_LINE.pattern + ")", re.MULTILINE)
_NO_COMMAND = re.compile(
    r"\s*(?:usage:|vllm: error|\||\d{1,7}\s+\S.*?\d:\d\d|[a-z_][\w.+-]*\s+\d{1,7}\s.*?\d:\d\d|Name:|Description:|Args:|\w+:\s+https?://)"
)
_PROMPT = re.compile(
    r"\s*(?:(?:>\s?)+(?=\S))?(?:\((?:[\w.-]+)\)\s*)*"
    r"(?:ExecStart=[-@+!:]*|(?:"
    r"[\w.-]+@[\w.-]+(?:[: ][^\s$#%>]*)?\s?[$#%>]|\[[^\]\n]{1,60}\]\s?[$#%]|[\w.-]+:[~/][^\s$#]*[$#]|(?:bash|sh)-[\d.]+[$#]"
    r"|(?:PS )?[A-Z]:\\[^>\n]{0,120}>|➜\s+\S+(?:\s+git:\(\S+\))?|[$%❯])\s+)"
)
_QUOTED = re.compile(r"\s*(?:>\s?)+(?=\S)")
_ROOT_PROMPT = re.compile(r"\s*#\s+(?=\S)")
#: Flags of vLLM that no other engine has, and at least three lines of options below each other; in a manifest they are indented.
OWN_FLAGS = ("--gpu-memory-utilization", "--max-model-len")
_OPTIONS = re.compile(r"(?:^--[a-z][\w-]*(?:[ \t=][^\n]*)?(?:\n|\Z)){3,}", re.MULTILINE)
PROGRAMS = (*SIGNS, "docker run", "podman run", "nerdctl run", "docker create")
_CONTINUES = re.compile(r"(?:\\|\s[\^`])[ \t]*\r?$")
#: Punctuation that stands right before a command in a sentence.
_CLINGS = "：，。、（「“；:(,"
#: A page that holds more is no log: the last ones count.
MAX_LAUNCHES = 500
#: Most lines of one command, and how many lines after one are looked at for a log.
MAX_LINES, AFTER = 200, 4


def prompt_end(text: str, start: int, end: int) -> tuple[int, bool]:
    """Where the command begins on the line from ``start`` to ``end``, and whether a prompt stands in front of it.

    ``# command`` is a comment, unless what follows it is a log: then it was typed by root.
    """
    prompt = _PROMPT.match(text, start, end)
    if prompt:
        return prompt.end(), True
    root = _ROOT_PROMPT.match(text, start, end)
    if root and log_follows(text, end) and text.startswith(PROGRAMS, root.end()):
        return root.end(), True
    quoted = _QUOTED.match(text, start, end)
    return (quoted.end(), False) if quoted else (start, False)


def log_follows(text: str, at: int) -> bool:
    """Whether one of the next few lines after ``at`` is a log's."""
    for _ in range(AFTER):
        start = text.find("\n", at) + 1
        if start == 0:
            return False
        if LOG_LINE.match(text, start):
            return True
        at = start
    return False


def invocations(text: str, held: Callable[[tuple[str, ...]], bool] | None = None) -> list[Invocation]:
    """The launches in ``text``, in order of their places; several of one YAML document share its span.

    ``held``: whether one of some literals stands in the text, where that is known.
    """
    found: list[Invocation] = []
    for start, stop in manifest.documents(text):
        found += manifest.manifests(text, start, stop, lambda first, last: _inner(text, first, last))
    claimed = [(invocation.start, invocation.end) for invocation in found]
    if any(sign in text for sign in python_call.SIGNS):
        claimed = sorted(set(claimed))
        calls = [call for call in python_call.calls(text) if not _inside(call.start, claimed)]
        found += calls
        claimed += [(call.start, call.end) for call in calls]
    claimed = sorted(set(claimed))
    in_log = _LOG_SEARCH.search(text) is not None
    done = 0
    for hit, hit_end in _hits(text, PROGRAMS if held is None else [program for program in PROGRAMS if held((program,))]):
        if hit < done or _inside(hit, claimed):
            continue
        start = _logical_start(text, hit, done)
        end = _line_end(text, start)
        if LOG_LINE.match(text, start) or _NO_COMMAND.match(text, start):
            done = end
            continue
        at, prompt = prompt_end(text, start, end)
        if hit > at and text[hit - 1] in _CLINGS:
            at = hit
        commands, done = read(text, at, len(text))
        done = max(done, end if done < start else done)
        for command in commands:
            started = launches(command, prompt=prompt, inner=lambda first, last: _inner(text, first, last))
            if in_log and not prompt:  # a log's sentences speak of commands, too: only a whole line is one
                started = [launch for launch in started if launch.start == at + len(text[at:end]) - len(text[at:end].lstrip())]
            found += started
        body = heredoc(text, at, done, len(text))
        if body is not None and any(invocation.form == SHELL and invocation.start >= at for invocation in found[-1:]):
            done = body[1]
        done = max(done, hit_end)
    if not found and any(flag in text for flag in OWN_FLAGS):
        found = _options_alone(text)
    return sorted(found, key=lambda invocation: invocation.start)[-MAX_LAUNCHES:]


def _options_alone(text: str) -> list[Invocation]:
    """Lines of options whose first line, which named the program, was left out: vLLM's, where a flag of its own has a number."""
    found = []
    for block in _OPTIONS.finditer(text):
        words: list[Word] = []
        at = block.start()
        while at < block.end():
            commands, at = read(text, at, block.end())
            words += [word for command in commands for word in command.words]
            at += 1
        given = arguments(words, "vllm")
        if any(argument.flag in OWN_FLAGS and isinstance(argument.value, (int, float)) for argument in given):
            end = words[-1].end
            found.append(Invocation(SHELL, "vllm", words[0].start, end, words, given, before=words[0].start, after=end))
    return found


def _hits(text: str, programs: Iterable[str]) -> list[tuple[int, int]]:
    """Where programs are named, in order: each looked for by itself costs a tenth of trying all of them at every place."""
    found = []
    for sign in programs:
        at = text.find(sign)
        while at >= 0:
            found.append((at, at + len(sign)))
            at = text.find(sign, at + len(sign))
    return sorted(found)


def _inner(text: str, start: int, end: int) -> list[Invocation]:
    """The launches of a script that is one quoted word from ``start`` to ``end``, quotes included."""
    found: list[Invocation] = []
    at, stop = start + 1, end - 1
    while at < stop:
        commands, at = read(text, at, stop)
        for command in commands:
            found += launches(command, prompt=True, inner=lambda first, last: [])
        at += 1
    return found


def _inside(place: int, spans: list[tuple[int, int]]) -> bool:
    """Whether one of the sorted, disjoint ``spans`` holds ``place``."""
    at = bisect_right(spans, (place, len(spans) and spans[-1][1] + 1)) - 1
    return at >= 0 and spans[at][0] <= place < spans[at][1]


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _logical_start(text: str, at: int, done: int) -> int:
    """The beginning of the logical line that ``at`` lies in: lines that a backslash continues belong to it."""
    start = text.rfind("\n", 0, at) + 1
    for _ in range(MAX_LINES):
        if start <= done or start == 0:
            break
        above = text.rfind("\n", 0, start - 1) + 1
        if above < done or not _CONTINUES.search(text[max(above, start - 8) : start - 1]):
            break
        start = above
    return start
