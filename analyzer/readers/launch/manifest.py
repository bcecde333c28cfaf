"""Launches in YAML: docker compose services and Kubernetes containers, each word with its place in the text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from analyzer.readers.launch.arguments import arguments, is_flag
from analyzer.readers.launch.invocation import YAML, Invocation, Variable, image_engine
from analyzer.readers.launch.programs import SIGNS, Inner, program
from analyzer.readers.launch.shell import Word, read

if TYPE_CHECKING:
    Node = Any  # yaml's nodes: the stubs know neither the kinds' ids nor their styles

#: Longest document that is read, in characters, and how deep it may nest.
MAX_DOCUMENT, MAX_DEPTH = 256 * 1024, 40
#: Most characters before a key on its line.
DEEPEST = 200

_KEYS = ("image:", "command:", "args:", "entrypoint:")
_YAML_LINE = re.compile(r"\s*$|\s*#|---|\s*-(?:\s|$)|\s*[\"']?[\w./$-]+[\"']?\s*:(?:\s|$)|\s{2,}\S|[\]}],?\s*$")


def documents(text: str) -> Iterator[tuple[int, int]]:
    """Where YAML that may hold a launch begins and ends: runs of lines that look like it around an image, a command or its arguments."""
    done = 0
    for start, key_end in _places(text):
        if start < done:
            continue
        while start > done:
            above = text.rfind("\n", 0, start - 1) + 1
            if above < done or not _YAML_LINE.match(text[above : start - 1]):
                break
            start = above
        stop = key_end
        while stop < len(text):
            end = text.find("\n", stop)
            end = len(text) if end < 0 else end
            below = text.find("\n", end + 1)
            below = len(text) if below < 0 else below
            stop = end
            if end >= len(text) or not _YAML_LINE.match(text[end + 1 : below]):
                break
            stop = end + 1
            if below >= len(text):
                stop = len(text)
                break
        done = max(stop, key_end)
        if done - start <= MAX_DOCUMENT:
            yield start, done


def _places(text: str) -> list[tuple[int, int]]:
    """(beginning of its line, its end) of every key that a launch may stand under, in order."""
    found = []
    for key in _KEYS:
        at = text.find(key)
        while at >= 0:
            nearest = max(0, at - DEEPEST)
            start = text.rfind("\n", nearest, at) + 1 or nearest
            if (start == 0 or text[start - 1] == "\n") and text[start:at].strip(" \t") in ("", "-"):
                found.append((start, at + len(key)))
            at = text.find(key, at + len(key))
    return sorted(found)


def manifests(text: str, start: int, stop: int, inner: Inner) -> list[Invocation]:
    """The launches of the YAML between ``start`` and ``stop``; none where it is no valid YAML."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    body = text[start:stop]
    try:
        roots = [node for node in yaml.compose_all(body, Loader=loader) if node is not None]
    except (yaml.YAMLError, RecursionError, ValueError):
        return []
    found: list[Invocation] = []
    seen: set[int] = set()
    waiting: list[tuple[Node, int]] = [(node, 0) for node in reversed(roots)]
    while waiting:
        node, depth = waiting.pop()
        if id(node) in seen or depth > MAX_DEPTH:
            continue
        seen.add(id(node))
        if node.id == "mapping":
            keys = _keys(node)
            if keys.keys() & {"image", "command", "args", "entrypoint"}:
                invocation = _container(text, start, keys, inner)
                if invocation is not None:
                    invocation.node = node
                    invocation.start, invocation.end = start, start + len(body.rstrip())
                    found.append(invocation)
                    continue
            waiting += [(value, depth + 1) for _, value in reversed(node.value)]
        elif node.id == "sequence":
            waiting += [(value, depth + 1) for value in reversed(node.value)]
    return found


def _keys(node: Node) -> dict[str, Node]:
    return {str(key.value): value for key, value in node.value if key.id == "scalar"}


def _container(text: str, offset: int, keys: dict[str, Node], inner: Inner) -> Invocation | None:
    image = keys["image"].value if "image" in keys and keys["image"].id == "scalar" else None
    words: list[Word] = []
    for key in ("entrypoint", "command", "args"):
        if key in keys:
            script = _script(text, offset, keys[key], inner)
            if script is not None:
                script.form, script.image = YAML, image
                _environment(offset, keys, script)
                return script
            words += _words(text, offset, keys[key])
    invocation = Invocation(YAML, image_engine(image) if image else None, offset, offset, image=image)
    started = next((found for at in range(min(len(words), 8)) if (found := program(words, at)) is not None), None)
    takes_model = True
    if started is not None:
        invocation.engine, skipped, takes_model = started
        words = words[skipped:]
    elif words and words[0].value == "serve":
        words = words[1:]
    elif words and not is_flag(words[0].value) and not (len(words) > 1 and is_flag(words[1].value)):
        return None
    if invocation.engine is None:
        return None
    invocation.words = words
    invocation.arguments = arguments(words, invocation.engine, takes_model=takes_model and invocation.engine == "vllm")
    _environment(offset, keys, invocation)
    sink = next((keys[key] for key in ("args", "command", "entrypoint") if key in keys), None)
    if sink is not None and sink.id == "sequence":
        invocation.list_style = "flow" if sink.flow_style else "block"
        invocation.after = _span(offset, sink.value[-1])[1] if sink.value else _span(offset, sink)[1] - 1
    elif words:
        invocation.after = words[-1].end
    return invocation


def added_variable(text: str, launch: Invocation, name: str, content: str) -> list[tuple[int, int, str]]:
    """The edits (start, end, new text) that set one more variable of a container."""
    node, value = launch.node, '"' + content.replace("\\", "\\\\").replace('"', '\\"') + '"'
    compose = re.search(r"^services:", text[launch.start : launch.end], re.MULTILINE) is not None
    keys = {key.value: (key, entry) for key, entry in node.value if key.id == "scalar"}
    given = next(
        (keys[key][1] for key in ("environment", "env") if key in keys and keys[key][1].id != "scalar" and keys[key][1].value), None
    )
    if given is None:
        anchor, entry = keys.get("image") or keys.get("command") or next(iter(keys.values()))
        at = text.find("\n", launch.start + entry.end_mark.index - (1 if entry.id != "scalar" or entry.style in ("|", ">") else 0))
        at = len(text) if at < 0 else at
        pad = " " * anchor.start_mark.column
        added = (
            f"\n{pad}environment:\n{pad}  {name}: {value}" if compose else f"\n{pad}env:\n{pad}  - name: {name}\n{pad}    value: {value}"
        )
        return [(at, at, added)]
    mapping = given.id == "mapping"
    last = given.value[-1][1] if mapping else given.value[-1]
    at = launch.start + last.end_mark.index
    while at > 0 and text[at - 1].isspace():
        at -= 1
    if given.flow_style:
        item = f"{name}: {value}" if mapping else f"{{name: {name}, value: {value}}}" if last.id == "mapping" else f'"{name}={content}"'
        return [(at, at, ", " + item)]
    pad = " " * given.start_mark.column
    if mapping:
        return [(at, at, f"\n{pad}{name}: {value}")]
    if last.id == "mapping":
        return [(at, at, f"\n{pad}- name: {name}\n{pad}  value: {value}")]
    return [(at, at, f"\n{pad}- {name}={content}" if re.fullmatch(r"[\w./:,-]*", content) else f'\n{pad}- "{name}={content}"')]


def _span(offset: int, node: Node) -> tuple[int, int]:
    return offset + node.start_mark.index, offset + node.end_mark.index


def scalar_body(text: str, offset: int, node: Node) -> tuple[int, int, bool]:
    """Where a scalar's own text stands, and whether its line ends are blanks."""
    start, end = _span(offset, node)
    if node.style in ("'", '"'):
        return start + 1, end - 1, True
    if node.style in ("|", ">"):
        line = text.find("\n", start, end)
        return (line + 1 if line >= 0 else end), end, node.style == ">"
    return start, end, True


def _words(text: str, offset: int, node: Node) -> list[Word]:
    if node.id == "scalar":
        start, end, folded = scalar_body(text, offset, node)
        commands, at = read(text, start, end, folded=folded)
        while at < end and not folded:
            more, at = read(text, at + 1, end)
            commands += more
        return [word for command in commands for word in command.words]
    if node.id != "sequence":
        return []
    found = []
    for item in node.value:
        if item.id != "scalar":
            continue
        start, end, _ = scalar_body(text, offset, item)
        if item.value.startswith("-") and re.search(r"\s", item.value) and "{" not in item.value and "=" not in item.value.split()[0]:
            commands, _ = read(text, start, end, folded=True)  # "- --max-model-len 4096" as one item
            found += [word for command in commands for word in command.words]
        else:
            found.append(Word(item.value, *_span(offset, item)))
    return found


def _script(text: str, offset: int, node: Node, inner: Inner) -> Invocation | None:
    """A launch inside a shell script that the container runs (``sh -c "…"``)."""
    items = node.value if node.id == "sequence" else [node]
    for item in items:
        if item.id != "scalar" or not re.search(r"\s", item.value) or not any(sign in item.value for sign in SIGNS):
            continue
        if item is node and program(_words(text, offset, item) or [Word("", 0, 0)], 0) is not None:
            return None  # the command itself, as one string
        start, end, folded = scalar_body(text, offset, item)
        found = _inner_launches(text, start, end, folded, inner)
        if found:
            return found[-1]
    return None


def _inner_launches(text: str, start: int, end: int, folded: bool, inner: Inner) -> list[Invocation]:
    found: list[Invocation] = []
    while start < end:
        stop = end if folded else max(_logical_end(text, start, end), start)
        found += inner(start - 1, stop + 1)
        start = stop + 1
    return found


def _logical_end(text: str, start: int, end: int) -> int:
    _, at = read(text, start, end)
    return at


def _environment(offset: int, keys: dict[str, Node], invocation: Invocation) -> None:
    for key in ("env", "environment"):
        node = keys.get(key)
        if node is None or node.id == "scalar":
            continue
        for entry in node.value:
            if node.id == "mapping":
                name, value = entry
                if name.id == value.id == "scalar":
                    whole = (_span(offset, name)[0], _span(offset, value)[1])
                    invocation.environment.append(Variable(name.value, value.value, _span(offset, value), whole))
            elif entry.id == "scalar":
                name_text, equals, content = entry.value.partition("=")
                if equals:
                    whole = _span(offset, entry)
                    invocation.environment.append(Variable(name_text, content, whole, whole))
            elif entry.id == "mapping":
                inside = _keys(entry)
                if "name" in inside and "value" in inside and inside["value"].id == "scalar":
                    invocation.environment.append(
                        Variable(inside["name"].value, inside["value"].value, _span(offset, inside["value"]), _span(offset, entry))
                    )
    for name, option in (("shm_size", "--shm-size"), ("mem_limit", "--memory")):
        node = keys.get(name)
        if node is not None and node.id == "scalar":
            invocation.options[option] = (node.value, _span(offset, node))
    resources = keys.get("resources")
    if resources is not None and resources.id == "mapping":
        limits = _keys(resources).get("limits")
        memory = _keys(limits).get("memory") if limits is not None and limits.id == "mapping" else None
        if memory is not None and memory.id == "scalar":
            invocation.options["--memory"] = (memory.value, _span(offset, memory))
