"""A message's text → what its author pasted: Slack's escapes, auto-links, quotes, fences and splitting undone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from analyzer.intake.lines import BEGINS

#: A long paste is sent as several messages of at most 4,000 characters; Slack cuts at a line's end where one is near.
SPLIT_CHARS = 4000
#: So long is every piece but the last one.
PIECE_CHARS = 3000

#: ``<target|label>``: in a text as Slack sends it, a "<" of the author's own is always ``&lt;``.
_MARKUP = re.compile(r"<([^<>|\n]*)(?:\|([^<>\n]*))?>")
_FENCE = re.compile(r"^[ \t]*```[ \t]*$\n?|```", re.MULTILINE)
_CODE_LINE = re.compile(r"^`([^`\n]+)`$", re.MULTILINE)
#: Two hyphens before a flag's name become one dash while they are typed.
_DASHES = re.compile(r"(?<![^\s'\"(=\[])[–—](?=[a-z])", re.MULTILINE)
_CUT = re.compile(r"\n?[ \t]*(?:…|\.\.\.)?[ \t]*(?:\(?message \(?truncated\)?\)?|\(truncated\)|\[truncated\])[ \t]*$", re.IGNORECASE)
_TYPOGRAPHY = str.maketrans(
    {
        "\u2018": "'", "\u2019": "'", "\u201a": "'", "\u201b": "'",
        "\u201c": '"', "\u201d": '"', "\u201e": '"', "\u201f": '"',
        "\u2026": "...", "\u00a0": " ", "\u202f": " ", "\u2007": " ",
        "\u200b": None, "\u200c": None, "\u200d": None, "\u2060": None, "\ufeff": None,
    }
)  # fmt: skip


def plain(text: str, me: str | None = None) -> tuple[str, bool]:
    """The author's text, and whether Slack says that it cut it. ``me``: the bot's user id, whose mentions are taken out."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = _MARKUP.sub(lambda found: _target(found[1], found[2], me), text)
    text = _unescape(text)
    text = _FENCE.sub("", text)
    text = _CODE_LINE.sub(r"\1", text)
    text, cut = _CUT.subn("", text.rstrip())
    text = _DASHES.sub("--", text.translate(_TYPOGRAPHY))
    return text.strip("\n"), bool(cut)


def _unescape(text: str) -> str:
    """The three characters that Slack escapes; & last, so that what the author wrote as ``&lt;`` stays it."""
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def _target(target: str, label: str | None, me: str | None) -> str:
    """What stood there before Slack made a link, a mention or a date of it."""
    if target.startswith("@"):
        return "" if target[1:] == me else f"@{label or target[1:]}"
    if target.startswith("#"):
        return f"#{label or target[1:]}"
    if target.startswith("!"):
        return label or f"@{target[1:].split('^', 1)[0]}"
    if label:
        return label
    for scheme in ("mailto:", "tel:"):
        if target.startswith(scheme):
            return target.removeprefix(scheme)
    return target


def of_blocks(blocks: Iterable[Any]) -> str:
    """The text of a message's rich text, in Slack's escapes like the message's own ``text``; code, quotes and lists included."""
    return "\n".join(filter(None, (_block(block) for block in blocks if isinstance(block, dict))))


def _block(block: dict[str, Any]) -> str:
    kind = block.get("type", "")
    if kind == "section" and isinstance(block.get("text"), dict):
        return str(block["text"].get("text", ""))
    if kind in ("rich_text", "rich_text_list"):
        return "\n".join(_block(element) for element in _elements(block))
    if kind in ("rich_text_section", "rich_text_preformatted", "rich_text_quote"):
        return "".join(_element(element) for element in _elements(block))
    return ""


def _elements(block: dict[str, Any]) -> list[dict[str, Any]]:
    found = block.get("elements")
    return [element for element in found if isinstance(element, dict)] if isinstance(found, list) else []


def _element(element: dict[str, Any]) -> str:
    kind = element.get("type")
    if kind == "text":
        return _escape(str(element.get("text", "")))
    if kind == "link":
        return _escape(str(element.get("text") or element.get("url", "")))
    if kind == "emoji":
        return f":{element.get('name', '')}:"
    if kind == "user":
        return f"<@{element.get('user_id', '')}>"
    if kind == "channel":
        return f"<#{element.get('channel_id', '')}>"
    if kind == "broadcast":
        return f"<!{element.get('range', '')}>"
    return ""


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def own_text(message: dict[str, Any]) -> str:
    """A message's text as Slack escapes it: ``text``, or what its rich text holds where that is more (``text`` may be cut or empty)."""
    text = str(message.get("text") or "")
    blocks = message.get("blocks")
    rich = of_blocks(blocks) if isinstance(blocks, list) else ""
    if len("".join(rich.split())) > 1.05 * len("".join(text.split())):
        text = rich
    return text


def join(pieces: Sequence[str]) -> str:
    """One text of the pieces that Slack made of it: a line that was cut in its middle is whole again."""
    joined = ""
    for piece in pieces:
        if not joined:
            joined = piece
            continue
        mid_line = len(joined.rsplit("\n", 1)[-1]) > 0 and len(piece) > 0 and not BEGINS.match(piece) and not piece[0].isspace()
        joined += piece if mid_line and _full(joined, pieces) else "\n" + piece
    return joined


def _full(joined: str, pieces: Sequence[str]) -> bool:
    """Whether the last piece reached the limit itself: then it was cut where it was, else at a line's end."""
    last = next((piece for piece in reversed(pieces) if joined.endswith(piece)), "")
    return len(_escape(last)) >= SPLIT_CHARS - 12
