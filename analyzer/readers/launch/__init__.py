"""Launch commands: shell, containers, YAML and Python, wherever they stand in an input.

Which command is the run's: commands with no log between them are one group. Its subject is the last one that no comment calls working
(a comment on the lines directly above it or behind it; "fails" outweighs "works"); where all are called working, the last. Only the
subject's Reading carries settings, environment and command, the others are segments.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping

from analyzer.model import Fact, Setting, Source, Value
from analyzer.readers.base import Page, Reading
from analyzer.readers.host.sizes import size_fact
from analyzer.readers.launch.arguments import typed
from analyzer.readers.launch.find import LOG_LINE, OWN_FLAGS, PROGRAMS, invocations, log_follows
from analyzer.readers.launch.invocation import PYTHON, YAML, Invocation, image_version
from analyzer.readers.launch.notes import Assigned, assignments, expand, stated_version
from analyzer.readers.settings import is_secret

KIND = "launch-command"

#: Literals one of which every launch, and every note of a version beside one, holds.
ANCHORS = (
    *PROGRAMS, *OWN_FLAGS, "LLM(", "EngineArgs(", "sgl.Engine(", "sglang.Engine(",
    "image:", "OLLAMA_", "VLLM_", "vLLM 0.", "vllm 0.", "vllm==", "sglang 0.", "sglang0.", "lmdeploy 0.", "llama.cpp",
)  # fmt: skip

#: Remarks that are kept.
MAX_REMARKS = 40
#: Environment variables that say something about an engine's run.
VARIABLES = re.compile(
    r"(?:VLLM|CUDA|PYTORCH|TORCH|NCCL|HF|HUGGING_?FACE|TRANSFORMERS|GLOO|RAY|SGLANG|SGL|OLLAMA|GGML|LLAMA|FLASHINFER|TRITON|HIP|ROCR|HSA|NVIDIA|"
    r"OMP|MASTER|LD_LIBRARY_PATH|LD_PRELOAD|GPTQ|TENSORRT|TRTLLM|UCX|LMCACHE|OMPI|MKL|TORCHINDUCTOR|ASCEND|GPU)(?:_|$)"
)
_WORKS = re.compile(
    r"\b(?:work(?:s|ed|ing)?|ok|fine|boots?|starts?|succeed(?:s|ed)?|success(?:ful)?|good|runs?)\b|成功|正常|可以(?!不)|能跑|没问题",
    re.IGNORECASE,
)
_FAILS = re.compile(
    r"\b(?:fail\w*|crash\w*|oom\w*|error\w*|broken|dies?|died|hangs?|stuck|bad|wrong|not|never|n't|cannot|doesn't|does not|won't|killed)\b|"
    r"失败|报错|崩溃|不行|不能|不可以|挂掉|卡住|爆显存|不正常|不成功",
    re.IGNORECASE,
)


def read(page: Page) -> list[Reading]:
    """The launches of ``page`` as Readings, one a command (module docstring); a note that only states a version is one, too."""
    text = page.text
    starts = [0]
    for line in page.lines:
        starts.append(starts[-1] + len(line) + 1)
    lines = _Lines(page, text, starts)
    found: list[Reading] = []
    launches = invocations(text, page.holds)
    group: list[tuple[Invocation, Reading]] = []
    previous = -1
    for place, launch in enumerate(launches):
        if place + 1 < len(launches) and launches[place + 1].start == launch.start and launch.form == YAML:
            continue  # services of one document: the last one speaks for it
        first, last = lines.index(launch.start), lines.index(max(launch.end - 1, launch.start))
        if first <= previous:
            continue
        if group and lines.log_between(previous + 1, first):
            _settle(group, lines)
            group = []
        reading = Reading(KIND, lines.preamble(first, previous), last, engine=launch.engine)
        reading.start = launch.form != YAML and log_follows(text, max(launch.end - 1, 0))
        reading.open = not page.whole and last >= len(page.lines) - 1
        group.append((launch, reading))
        found.append(reading)
        previous = last
    _settle(group, lines)
    if not found and page.whole:
        found = _remark(lines) if lines.log else _note(lines)
    if found:
        found[-1].notes = _remarks(lines)
    return found


def _remarks(lines: _Lines) -> list[Source]:
    """What the user wrote beside the commands: comments, and in a text without a log every line of prose."""
    page = lines.page
    commented = [index for index, line in enumerate(page.lines) if line.lstrip().startswith(("#", "//")) and len(line.strip()) > 3]
    prose = [] if lines.log or not page.whole else range(len(page.lines))
    chosen = sorted({*commented, *(index for index in prose if page.lines[index].strip())})
    return [page.source(index) for index in chosen[:MAX_REMARKS]]


def _settle(group: list[tuple[Invocation, Reading]], lines: _Lines) -> None:
    """Give the group's subject what its command says."""
    if not group:
        return
    called_working = [_called_working(launch, lines) for launch, _ in group]
    chosen = max((place for place, works in enumerate(called_working) if not works), default=len(group) - 1)
    launch, reading = group[chosen]
    _fill(launch, reading, lines)
    if len(group) > 1:
        for place, (_, other) in enumerate(group):
            if place != chosen:
                other.start = False


def _called_working(launch: Invocation, lines: _Lines) -> bool:
    comments = [launch.comment]
    index = lines.index(launch.start) - 1
    while index >= 0 and lines.page.lines[index].lstrip().startswith(("#", "//")):
        comments.append(lines.page.lines[index])
        index -= 1
    said = " ".join(comments)
    return bool(_WORKS.search(said)) and not _FAILS.search(said)


def _fill(launch: Invocation, reading: Reading, lines: _Lines) -> None:
    page = lines.page
    known = assignments(lines.text, launch.start)
    values = {name: assigned for name, assigned in known.items() if not is_secret(name)}
    for argument in launch.arguments:
        if argument.computed or not argument.flag.startswith("--") or is_secret(argument.flag):
            continue
        value, place = argument.value, argument.place[0]
        if isinstance(value, str) and "$" in value and launch.form != PYTHON:
            value, place = _expanded(argument.flag, value, place, values, launch)
        reading.settings[argument.flag] = Setting(page.redact(value) if isinstance(value, str) else value, lines.source(place))
    named = {name: (assigned.value, assigned.place) for name, assigned in known.items() if assigned.exported}
    named |= {variable.name: (variable.value, variable.place[0]) for variable in launch.environment}
    for name, (content, place) in named.items():
        if VARIABLES.match(name):
            kept = None if is_secret(name) else page.redact(expand(content, values)[0])
            reading.environment[name] = Setting(kept, lines.source(place))
    for option, fact in (("--shm-size", "shm.total"), ("--memory", "host.limit"), ("-m", "host.limit")):
        if option in launch.options:
            size, (place, _) = launch.options[option]
            measured = size_fact(size, docker=launch.docker or option == "--shm-size")
            if measured is not None:
                reading.facts.append(Fact(fact, measured[0], measured[1], lines.source(place)))
    if launch.image is not None:
        reading.engine_version = image_version(launch.image, launch.engine)
    if reading.engine_version is None:
        reading.engine_version = stated_version(launch.engine, lines.notes(reading))
    reading.command = page.redact(lines.text[launch.start : launch.end])


def _expanded(flag: str, value: str, place: int, values: Mapping[str, Assigned], launch: Invocation) -> tuple[Value, int]:
    text, used = expand(value, values)
    if used is not None and value == used.written:
        place = used.place
    return typed(flag, text, launch.engine), place


def _note(lines: _Lines) -> list[Reading]:
    """A file without a launch: settings of the environment, or a line that names the engine's version."""
    page = lines.page
    known = assignments(lines.text, len(lines.text))
    reading = Reading(KIND, 0, max(len(page.lines) - 1, 0))
    for name, assigned in known.items():
        if VARIABLES.match(name):
            kept = None if is_secret(name) else page.redact(assigned.value)
            reading.environment[name] = Setting(kept, lines.source(assigned.place))
    for engine in () if _PACKAGE_ROW.search(lines.text) else ("vllm", "sglang", "lmdeploy", "llama.cpp"):
        version = stated_version(engine, lines.text)
        if version is not None:
            reading.engine, reading.engine_version = engine, version
            break
    if reading.engine is None and any(name.startswith("OLLAMA_") for name in reading.environment):
        reading.engine = "ollama"
    return [reading] if reading.environment or reading.engine_version else []


def _remark(lines: _Lines) -> list[Reading]:
    """The line above a log in which somebody names the engine's version."""
    version = stated_version("vllm", "\n".join(lines.head))
    if version is None:
        return []
    index = next(index for index, line in enumerate(lines.head) if version in line)
    return [Reading(KIND, index, index, engine="vllm", engine_version=version)]


class _Lines:
    """Places in the page's text as lines."""

    def __init__(self, page: Page, text: str, starts: list[int]) -> None:
        self.page, self.text, self._starts = page, text, starts
        log = next((index for index, line in enumerate(page.lines) if LOG_LINE.match(line)), None)
        self.log = log is not None
        self.head = page.lines[:log]  # what stands above the first line of a log

    def index(self, place: int) -> int:
        """The line that ``place`` lies in."""
        return min(max(bisect_right(self._starts, place) - 1, 0), max(len(self.page.lines) - 1, 0))

    def source(self, place: int) -> Source:
        """The Source of the line at ``place``."""
        return self.page.source(self.index(place))

    def log_between(self, first: int, last: int) -> bool:
        """Whether a log's line stands among the lines from ``first`` to before ``last``."""
        return any(LOG_LINE.match(self.page.lines[index]) for index in range(first, last))

    def preamble(self, first: int, previous: int) -> int:
        """The first of the lines directly above ``first`` that prepare the command: exports, comments, a shebang."""
        index = first
        while index - 1 > previous and _PREPARES.match(self.page.lines[index - 1]):
            index -= 1
        return index

    def notes(self, reading: Reading) -> str:
        """The text that may name the engine's version: what stands above a log, and the command's own lines."""
        if not self.log:
            return self.text
        head = self.head if self.page.whole else []
        return "\n".join([*head, *(line for line in self.page.lines[reading.first : reading.last + 1] if "#" in line)])


_PACKAGE_ROW = re.compile(r"^[ \t]*[\w-]+[ \t]+\d[\w.+]*[ \t]*$", re.MULTILINE)  # of a package list, which has a reader of its own
_PREPARES = re.compile(r"\s*(?:#|//|$|(?:\$\s+)?(?:export|set|source|cd|conda|ulimit|module|unset)\s|[A-Za-z_]\w*=\S*\s*$)")
