"""From ids and names to sentences: causes, needs, "not this" and fixes, with the figures of this input."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from analyzer.model import Fact, NotThis, Text
from analyzer.model.units import human
from analyzer.patterns.model import Cause, Library

#: Words for what no cause of the library explains.
UNKNOWN_TITLE = Text("the cause does not show in this text", "这段文本里看不出原因")
UNKNOWN_FAILED = Text(
    "It failed, but no line here says why. The evidence is the first error of the first process that failed.",
    "它失败了，但这里没有一行说明为什么。下面列出的证据是最先失败的进程的第一个错误。",
)
UNKNOWN_HEADLESS = Text(
    "It failed, and the text begins in the middle: the start of the server with its version and arguments is missing, and with it perhaps "
    "the first error. The evidence is the first error of the first process that failed, as far as the text reaches back.",
    "它失败了，但文本是从中间开始的：缺少服务启动部分（版本、启动参数），最早的错误可能也在其中。下面列出的是现有文本中最先失败的进程的第一个错误。",
)
UNKNOWN_CUT = Text(
    "It failed: the text holds a traceback, but not its last line, which names the exception. That line would settle it.",
    "它失败了：文本里有 traceback，却没有最后写明异常的那一行。有了那一行就能判断。",
)
UNKNOWN_NOTHING = Text(
    "Nothing in it was recognised as the output of an LLM server, a GPU tool or the kernel.",
    "其中没有识别出任何大模型服务、GPU 工具或内核的输出。",
)
UNKNOWN_BESIDE = Text(
    "The host ran short of memory, and no line shows that an LLM server was killed for it: what was killed is another program, or is not "
    "named. Whether a server failed does not show.",
    "主机内存不足，但没有一行表明被杀的是大模型服务：被杀的是别的程序，或者没有写明是谁。服务本身是否失败看不出来。",
)
UNKNOWN_STOPPED = Text(
    "The server was asked to stop and took itself down; no line shows an error. Whether it had served before does not show.",
    "服务收到停止请求后自行关闭，没有任何一行显示出错。此前是否提供过服务看不出来。",
)
UNKNOWN_OPEN = Text(
    "The text ends before anything is decided: it may still be starting, have been stopped from outside, or be cut.",
    "文本在得出结论之前就结束了：可能仍在启动，可能被外部终止，也可能是日志被截断。",
)


#: Figures by placeholder: most read the same in every language, some are words.
Known = Mapping[str, str | Text]


def figures(facts: Iterable[Fact]) -> dict[str, str]:
    """``{placeholder: figure}``: a fact's name with dots as underscores, its latest value rendered for a person."""
    return {fact.name.replace(".", "_").replace("-", "_"): shown(fact) for fact in facts}


def shown(fact: Fact) -> str:
    """A fact's value with its unit: ``3.05 GiB``, ``29000``, ``43 %``."""
    if fact.bytes is not None:
        if fact.unit in ("B", "KiB"):
            return human(fact.bytes)
        return f"{fact.value:,g} {fact.unit}" if abs(float(fact.value)) >= 1e4 else f"{fact.value} {fact.unit}"
    if isinstance(fact.value, int) and not isinstance(fact.value, bool):
        return str(fact.value)
    return f"{fact.value} {fact.unit}" if fact.unit in ("%", "s", "tokens/s") else str(fact.value)


def fill(words: Mapping[str, str], known: Known) -> Text | None:
    """The sentence with its placeholders filled in, or None where a figure is missing."""
    try:
        return Text(
            words["en"].format_map({name: _in(value, "en") for name, value in known.items()}).strip(),
            words["zh"].format_map({name: _in(value, "zh") for name, value in known.items()}).strip(),
        )
    except (KeyError, IndexError):
        return None


def _in(value: str | Text, language: str) -> str:
    return value.get(language) if isinstance(value, Text) else value


def explanation(cause: Cause, override: Mapping[str, str] | None, known: Known) -> Text:
    """What a cause means here: its explanation (or the pattern's own), then every sentence whose figures are known."""
    first = fill(override, known) if override else None
    sentences = [first or Text.of(cause.text), *(text for words in cause.detail if (text := fill(words, known)) is not None)]
    return Text(" ".join(text.en for text in sentences), "".join(text.zh for text in sentences))


def needs(names: Sequence[str], library: Library, known: Known) -> tuple[Text, ...]:
    """The inputs that would settle what is open."""
    found = (fill(library.advice[name].words["text"], known) for name in names if name in library.advice)
    return tuple(text for text in found if text is not None)


def not_this(names: Sequence[str], library: Library, known: Known) -> tuple[NotThis, ...]:
    """Popular advice that would not help."""
    found = []
    for name in names:
        item = library.advice.get(name)
        if item is not None:
            advice, why = fill(item.words["advice"], known), fill(item.words["why"], known)
            if advice is not None and why is not None:
                found.append(NotThis(advice, why))
    return tuple(found)
