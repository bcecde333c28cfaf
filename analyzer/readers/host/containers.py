"""``docker inspect``, ``docker ps`` and ``kubectl describe pod``: limits, exit codes, image and arguments of a container."""

from __future__ import annotations

import re

from analyzer.model import Fact, Setting
from analyzer.model.units import natural
from analyzer.readers.base import Page, Reading
from analyzer.readers.host.sizes import size_fact
from analyzer.readers.launch.arguments import Argument, arguments
from analyzer.readers.launch.invocation import image_engine, image_version
from analyzer.readers.launch.programs import program
from analyzer.readers.launch.shell import Word
from analyzer.readers.settings import is_secret

ANCHORS = (
    "ShmSize", "docker inspect", "container inspect", "OOMKilled", "Exit Code:", "Exited (", "Restart Count:", '"ExitCode"',
    "Container ID:",
)  # fmt: skip

_INSPECT = re.compile(r"\b(?:docker|podman|nerdctl)\s+(?:container\s+)?inspect\b")
_FIELD = re.compile(r"\{\{\s*(?:json\s+)?\.([\w.]+)\s*\}\}")
_JSON_FIELD = re.compile(r'^\s*"(ShmSize|Memory|ExitCode|OOMKilled|Image)":\s*("(?:[^"\\]|\\.)*"|-?\d+|true|false),?\s*$')
_EXITED = re.compile(r"\bExited \((\d+)\)")
_INDENTED = re.compile(r"(\s*)(\S.*?)\s*$")
_KEY = re.compile(r"([A-Z][\w ]*?):(?:\s+(.*))?$")


def read(page: Page) -> list[Reading]:
    """What docker and kubectl say about containers in ``page``."""
    found: list[Reading] = []
    index = 0
    while index < len(page.lines):
        line = page.lines[index]
        reading = None
        if _INSPECT.search(line):
            reading = _template(page, index) or _inspect(page, index + 1, index)
        elif _begins(page, index):
            reading = _inspect(page, index, index)
        elif re.match(r"(?:Name|Namespace):\s+\S", line) or line.rstrip() == "Containers:":
            reading = _describe(page, index)
        elif _EXITED.search(line):
            code = _EXITED.search(line)
            named = (image_engine(word.strip("\"'")) for word in line.split())
            reading = Reading("docker", index, index, row=True, engine=next((engine for engine in named if engine is not None), None))
            if code is not None and code[1] != "0":
                reading.facts.append(Fact("process.exit_code", int(code[1]), "", page.source(index)))
        if reading is not None:
            found.append(reading)
            index = reading.last
        index += 1
    return found


def _begins(page: Page, index: int) -> bool:
    """Whether the JSON of an inspected container begins here: whole, or its state cut out by grep or by hand."""
    stripped = page.lines[index].strip()
    return stripped == '"State": {' or (stripped == "[" and index + 1 < len(page.lines) and page.lines[index + 1].strip() == "{")


def _template(page: Page, index: int) -> Reading | None:
    """``docker inspect x --format '{{.A}} {{.B}}'`` and the one line that it prints."""
    fields = _FIELD.findall(page.lines[index])
    if not fields or index + 1 >= len(page.lines):
        return None
    cells = page.lines[index + 1].split()
    reading = Reading("docker", index, index + 1)
    if len(cells) == len(fields):
        for field, cell in zip(fields, cells, strict=True):
            _field(page, reading, field.rsplit(".", 1)[-1], cell.strip("\"'"), index + 1)
    return reading


def _inspect(page: Page, first: int, start: int) -> Reading | None:
    """The JSON of ``docker inspect``, read line by line, so that a cut one is read as far as it goes."""
    reading = Reading("docker", start, start)
    depth = 0
    for place in range(first, len(page.lines)):
        line = page.lines[place]
        stripped = line.strip()
        if not re.match(r'[{}\[\]"]|-?\d|true|false|null|$', stripped):
            break
        depth += line.count("{") + line.count("[") - line.count("}") - line.count("]")
        reading.last = place
        matched = _JSON_FIELD.match(line)
        if matched:
            _field(page, reading, matched[1], matched[2].strip('"'), place)
        if depth <= 0 and stripped:
            break
    return reading if reading.last > start else None


def _field(page: Page, reading: Reading, name: str, value: str, place: int) -> None:
    source = page.source(place)
    number = natural(value) or 0
    if name == "ShmSize" and number:
        reading.facts.append(Fact("shm.total", number, "B", source))
    elif name == "Memory" and number:  # 0 is "no limit"
        reading.facts.append(Fact("host.limit", number, "B", source))
    elif name == "ExitCode" and number:
        reading.facts.append(Fact("process.exit_code", number, "", source))
    elif name == "Image" and image_engine(value):
        reading.engine = image_engine(value)
        reading.engine_version = reading.engine_version or image_version(value, reading.engine)


def _describe(page: Page, start: int) -> Reading | None:
    """``kubectl describe pod``: blocks told by their indentation."""
    before = start > 0 and "kubectl" in page.lines[start - 1]
    reading = Reading("k8s", start - 1 if before else start, start)
    path: list[tuple[int, str]] = []
    collected: dict[str, list[Word]] = {"Command": [], "Args": []}
    lines_of: dict[int, int] = {}
    container: str | None = None
    offset = 0
    seen_container = False
    for place in range(start, len(page.lines)):
        line = page.lines[place]
        if re.match(r"\s*(?:\$ |[\w.-]+@[\w.-]+[:~ ].*[$#] |```)", line) or re.match(r"(?:INFO|ERROR|WARNING|\(\w)", line):
            break
        shaped = _INDENTED.match(line)
        if shaped is None:
            continue
        reading.last = place
        indent, body = len(shaped[1]), shaped[2]
        while path and path[-1][0] >= indent:
            path.pop()
        parents = [name for _, name in path]
        if parents and parents[-1] in collected:
            lines_of[offset] = place
            collected[parents[-1]].append(Word(body, offset, offset + 1))
            offset += 1
            continue
        key = _KEY.match(body) or re.match(r"([\w./-]+):(?:\s+(.*))?$", body)
        if key is None:
            continue
        name, value = key[1], (key[2] or "").strip()
        path.append((indent, name))
        if parents and parents[-1] in ("Containers", "Init Containers"):
            container, seen_container = parents[-1], True
        if container == "Init Containers":
            continue
        _describe_field(page, reading, parents, name, value, place)
    if not seen_container:
        return None
    _settle(page, reading, [*collected["Command"], *collected["Args"]], lines_of)
    return reading


def _describe_field(page: Page, reading: Reading, parents: list[str], name: str, value: str, place: int) -> None:
    source = page.source(place)
    if name == "Image" and image_engine(value) and reading.engine is None:
        reading.engine = image_engine(value)
        reading.engine_version = image_version(value, reading.engine)
    elif name == "Exit Code" and natural(value):
        reading.facts.append(Fact("process.exit_code", natural(value) or 0, "", source))
    elif name == "memory" and parents and parents[-1] == "Limits":
        size = size_fact(value)
        if size is not None:
            reading.facts.append(Fact("host.limit", size[0], size[1], source))
    elif parents and parents[-1] == "Environment" and not value.startswith("<"):
        kept = None if is_secret(name) else page.redact(value)
        reading.environment[name] = Setting(kept, source)


def _settle(page: Page, reading: Reading, words: list[Word], lines_of: dict[int, int]) -> None:
    """The arguments that the blocks Command and Args hold, as settings."""
    started = next((found for at in range(min(len(words), 8)) if (found := program(words, at)) is not None), None)
    takes_model = True
    if started is not None:
        reading.engine, skipped, takes_model = started
        words = words[skipped:]
    if reading.engine is None:
        return
    given: list[Argument] = arguments(words, reading.engine, takes_model=takes_model and reading.engine == "vllm")
    for argument in given:
        if argument.flag.startswith("--") and not is_secret(argument.flag):
            value = page.redact(argument.value) if isinstance(argument.value, str) else argument.value
            place = lines_of.get(argument.place[0], reading.first)
            reading.settings[argument.flag] = Setting(value, page.source(place))
