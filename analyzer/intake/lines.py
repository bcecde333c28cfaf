"""One raw line → what the engine said: colour codes and platform wrappers off, the engine's own prefix read.

Only done for the few lines that matter, so it may take its time: some 5 µs a line. Prefix shapes by version:
reference/vllm-memory-model.md, section 8.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

_ANSI = re.compile(
    r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Z0-9]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\^\[\[[0-9;]*m|\\u001b\[[0-9;]*m|\\x1b\[[0-9;]*m"
)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_CONTROL_BYTES = bytes(code for code in range(128) if _CONTROL.match(chr(code)))

# What platforms put before a line. Each is tried at most once, in this order, as they nest (compose around k8s time stamps …).
_WRAPPERS = (
    re.compile(r"\[pod/(?P<pod>[^\]\s]+)\]\s"),  # kubectl logs --prefix
    re.compile(r"(?P<service>[A-Za-z0-9][\w.-]{0,60})\s*\|\s(?!\s*\d+%)"),  # docker compose logs
    re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,200})-[a-z0-9]{8,10}-[a-z0-9]{5} (?:› )?[a-z0-9][a-z0-9-]{0,62} (?:› )?"),  # stern: pod, container
    re.compile(
        r"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?)\s"
        r"(?:(?:stdout|stderr)\s[FP]\s"  # kubelet, CRI; nothing more in CI
        r"|(?P<iso_host>\S+) [^\s:\[]+\[\d+\]: "  # journald -o short-iso
        r"|[\w.-]+(?:/[\w.$-]+)*/[0-9a-f]{12,40} )?"  # a log group's streams: service/container/task
    ),
    re.compile(
        r"(?P<time>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d) (?P<host>\S+) (?P<unit>[^\s:\[]+)(?:\[(?P<unit_pid>\d+)\])?: "
    ),  # journald, syslog
    re.compile(r"(?:[>▌▍▎▏]\s?)+"),  # mail and chat quoting
    re.compile(r"\d{1,7}(?:\t|:(?!\d\d?\b))(?=.{4})"),  # cat -n, grep -n
)
_RAY = re.compile(
    r"\((?P<name>RayWorker\w*|\w*EngineCore\w*Actor|raylet|\w+Actor\w*|pid)(?:=| pid=)(?P<pid>\d{1,10})(?:, ip=(?P<ip>[^)\s]+))?\)\s?"
)
_TAG = re.compile(r"\((?P<name>[A-Za-z][\w. -]*?)(?: rank=(?P<rank>\d{1,6}))? pid=(?P<pid>\d{1,10})\)\s?")
_RECORD = re.compile(
    r"(?:(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL):?\s)(?P<time>\d\d-\d\d \d\d:\d\d:\d\d)(?:[.,]\d+)? "
    r"\[?(?P<file>[^\]:\s]+):(?P<number>\d+)\] ?"
)
# SGLang: time (without a date in some releases) and the ranks that its parallelism has, e.g. "[2025-03-20 11:20:07 DP1 TP3] ".
_BRACKET = re.compile(r"\[(?P<time>(?:\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d)(?:[.,]\d+)?(?P<name>(?: [A-Z][A-Z_]{0,10}\d+)*)\] ?")
#: Markdown's bold in a quoted line: words and figures only, so that neither ``**kwargs`` nor ``2**30`` is taken for it.
_BOLD = re.compile(r"(?<![\w*])\*\*(\w(?:[\w.,:% -]{0,120}[\w.%])?)\*\*(?![\w*])")
# llama.cpp of 2026: time since the start (minutes.seconds.milliseconds.microseconds) and level, behind the port of a router's child.
_LLAMA = re.compile(r"(?:\[\d{2,5}\] )?\d{1,6}\.\d\d\.\d{3}\.\d{3} (?P<level>[DIWE]) ")
_LLAMA_LEVELS = {"D": "DEBUG", "I": "INFO", "W": "WARNING", "E": "ERROR"}
_REPEATED = re.compile(r"\s*\[repeated (\d{1,9})x across cluster\](?:\s*\(Ray deduplicates logs.*)?\s*$")
_GROUPS = re.compile(r"(DP|PP|PCP|TP|DCP|EP)(\d{1,6})")
_FILE_RANK = re.compile(r"\s{0,8}\[rank(\d{1,6})\]:?\s?")

#: Most characters that VLLM_LOGGING_PREFIX (0.6.4+) puts between the process's tag and the level; farther in, a record is a quoted one.
OWN_PREFIX = 64

#: A line that begins a record of its own: it is never the rest of a wrapped one.
BEGINS = re.compile(
    r"(?:\x1b\[[0-9;]*m|\^\[\[[0-9;]*m)*(?:\([A-Za-z][\w. -]*(?: rank=\d+)? pid=\d+|"
    r"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)[ :]|Traceback \(most|[|+#$%]|\[(?!\d\d:\d\d[<,])|\{|<|\d{4}-\d\d-\d\d)"
)


@dataclass(frozen=True, slots=True)
class Process:
    """The process that printed a line, as the engine tags it. ``rank`` only where the tag itself states one."""

    name: str
    pid: int | None = None
    rank: int | None = None
    ip: str | None = None
    groups: tuple[tuple[str, int], ...] = ()  # (("PP", 0), ("TP", 1)), as far as the tag says

    def group(self, name: str) -> int | None:
        """The index within the group ``name`` (TP, PP, DP, …), or None."""
        return next((index for key, index in self.groups if key == name), None)


@dataclass(slots=True)  # not frozen: see Figure in patterns/extract.py
class Line:
    """A line that matters. ``text`` is the whole line without colours, ``body`` the message after every prefix."""

    number: int
    text: str
    body: str
    process: Process | None = None
    level: str | None = None
    time: str | None = None
    file: str | None = None
    repeated: int = 1
    wrapped: bool = False  # a platform or a log collector stood around it
    unit: str | None = None  # the service that printed it, as journald or compose name it


def clean(text: str) -> str:
    """``text`` without colour codes and control characters; a tab stays."""
    if "\x1b" in text or "^[[" in text or "\\u001b" in text or "\\x1b" in text:
        text = _ANSI.sub("", text)
    return _CONTROL.sub("", text) if not text.isprintable() else text


def clean_lines(data: bytes) -> list[str]:
    """``clean`` of every line of ``data``: all at once where no colour codes are in it."""
    if any(sign in data for sign in (b"\x1b", b"^[[", b"\\u001b", b"\\x1b")):
        return [clean(line) for line in data.decode("utf-8", "replace").split("\n")]
    return data.translate(None, _CONTROL_BYTES).decode("utf-8", "replace").split("\n")


def bare(text: str) -> str:
    """``text`` without the platform's wrappers, a JSON line's message; without colours and line end. The engine's own prefix stays."""
    text = clean(text.rstrip("\r\n"))
    if text.startswith("{") and text.rstrip().endswith("}"):
        message = _message(text)
        text = text if message is None else clean(message.rstrip("\r\n"))
    for wrapper in _WRAPPERS:
        matched = wrapper.match(text)
        if matched:
            text = text[matched.end() :]
    return text


def decode(raw: bytes) -> str:
    """A raw line as text; what is no UTF-8 becomes U+FFFD."""
    return raw.decode("utf-8", "replace").rstrip("\r\n")


def parse(raw: str, number: int, anchor: str | None = None) -> Line:
    """``raw`` (no line end) as a Line. Of a progress line's states the last one that holds ``anchor`` is taken."""
    if "\r" in raw:
        states = [state for state in raw.split("\r") if state and (anchor is None or anchor in state)]
        raw = states[-1] if states else raw.replace("\r", "")
    text = clean(raw)
    if text.startswith("{") and text.rstrip().endswith("}"):
        inner = _json_line(text, number)
        if inner is not None:
            return inner
    return _prefixed(text, text, number, None, wrapped=False)


def _record(text: str) -> dict[str, object] | None:
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _message_of(record: dict[str, object] | None) -> str | None:
    """The message that a collector's record carries."""
    if record is None:
        return None
    for key in ("log", "message", "msg", "textPayload", "MESSAGE"):
        value = record.get(key)
        if isinstance(value, str):
            return value
    payload = record.get("jsonPayload")
    value = payload.get("message") if isinstance(payload, dict) else None
    return value if isinstance(value, str) else None


def _message(text: str) -> str | None:
    """The message of a JSON line; None where it is none, or vLLM's own record, whose other fields are its prefix."""
    record = _record(text)
    return None if record is not None and ("levelname" in record or "processName" in record) else _message_of(record)


def _json_line(text: str, number: int) -> Line | None:
    """docker's json-file, CloudWatch/Stackdriver exports and vLLM's own JSON formatter (0.32.0+)."""
    record = _record(text)
    message = _message_of(record)
    if record is None or message is None:
        return None
    stamps = (record.get(key) for key in ("time", "asctime", "timestamp", "@timestamp"))
    time = next((stamp for stamp in stamps if isinstance(stamp, str)), None)
    body = clean(message.rstrip("\r\n"))
    if "levelname" in record or "processName" in record:
        pid = record.get("process")
        process = Process(str(record.get("processName") or ""), pid if isinstance(pid, int) else None)
        process = _with_groups(process)
        level = str(record.get("levelname") or "") or None
        return Line(number, body, body, process if process.name else None, level, time, wrapped=True)
    return _prefixed(text=body, rest=body, number=number, time=time, wrapped=True)


def _prefixed(text: str, rest: str, number: int, time: str | None, *, wrapped: bool) -> Line:
    if "**" in rest:
        rest = _BOLD.sub(r"\1", rest)
    unit: str | None = None
    for wrapper in _WRAPPERS:
        matched = wrapper.match(rest)
        if matched:
            rest = rest[matched.end() :]
            time = time or matched.groupdict().get("time")
            wrapped = True
            named = matched.groupdict()
            unit = unit or named.get("unit") or named.get("service")
    process: Process | None = None
    ip = None
    ray = _RAY.match(rest)
    if ray:
        rest = rest[ray.end() :]
        ip = ray["ip"]
        process = Process(ray["name"], int(ray["pid"]), ip=ip)
    tag = _TAG.match(rest)
    if tag:
        rest = rest[tag.end() :]
        rank = int(tag["rank"]) if tag["rank"] else None
        process = _with_groups(Process(tag["name"], int(tag["pid"]), rank, ip))
    record = _RECORD.match(rest) or _RECORD.search(rest[:200])
    level = file = None
    if record and (record.start() <= OWN_PREFIX or tag is None):
        head = rest[: record.start()]
        rest = rest[record.end() :]
        level, time, file = record["level"], record["time"], record["file"]
        if tag is None and head:  # VLLM_LOGGING_PREFIX, or a tag behind it
            tag = _TAG.search(head)
            if tag:
                process = _with_groups(Process(tag["name"], int(tag["pid"]), int(tag["rank"]) if tag["rank"] else None, ip))
    bracket = _BRACKET.match(rest) if record is None else None
    if bracket:
        rest, time = rest[bracket.end() :], bracket["time"]
        if bracket["name"]:
            process = _with_groups(Process(bracket["name"].strip()))
    llama = _LLAMA.match(rest) if record is None else None
    if llama:
        rest, level = rest[llama.end() :], _LLAMA_LEVELS[llama["level"]]
    file_rank = _FILE_RANK.match(rest)
    if file_rank:
        rest = rest[file_rank.end() :]
        if process is None:
            process = Process("rank", None, int(file_rank[1]))
    repeated = 1
    if rest.endswith(("cluster]", "cluster] ", ")")) and "across cluster]" in rest:
        again = _REPEATED.search(rest)
        if again:
            repeated, rest = int(again[1]), rest[: again.start()]
    return Line(number, text, rest, process, level, time, file, repeated, wrapped, unit)


def _with_groups(process: Process) -> Process:
    groups = tuple((name, int(index)) for name, index in _GROUPS.findall(process.name))
    return Process(process.name, process.pid, process.rank, process.ip, groups) if groups else process
