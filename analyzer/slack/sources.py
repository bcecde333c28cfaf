"""Messages of a thread → what is to be analysed: texts (split ones whole again) and files, each with the ids that say what was read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from analyzer.slack.unmangle import PIECE_CHARS, join, own_text, plain

#: Pieces of one paste follow each other within so many seconds.
PIECE_SECONDS = 30.0
#: Files that hold no text to read.
_NO_TEXT = frozenset({"tombstone", "hidden_by_limit", "space", "quip", "list"})
#: What a person writes to: everything else (joins, topics, edits, deletions) is no message.
SUBTYPES = frozenset({None, "", "file_share", "thread_broadcast", "bot_message", "me_message"})


@dataclass(frozen=True, slots=True)
class SlackFile:
    """A file as a message names it."""

    id: str
    name: str
    url: str
    size: int
    mimetype: str
    check: bool = False  # its record must be asked for first (Slack Connect)


@dataclass(frozen=True, slots=True)
class Source:
    """One thing to analyse: a text, or a file that is to be downloaded. ``ids``: messages (ts) or the file that it is."""

    ids: tuple[str, ...]
    text: str = ""
    cut: bool = False  # Slack says that the message is not whole
    file: SlackFile | None = None


@dataclass(slots=True)
class _Paste:
    user: str
    last: float
    raw: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)


def sources(messages: Iterable[dict[str, Any]], me: str | None) -> list[Source]:
    """What the messages hold, in their order. Messages of ``me`` (the bot's user id) hold nothing."""
    found: list[Source] = []
    paste: _Paste | None = None

    def flush() -> None:
        if paste is not None:
            pieces = [plain(raw, me) for raw in paste.raw]
            text = join([piece for piece, _ in pieces])
            if text.strip():
                found.append(Source(tuple(paste.ids), text, any(cut for _, cut in pieces)))

    for message in messages:
        if not is_message(message) or (me is not None and message.get("user") == me):
            continue
        user, moment, raw = str(message.get("user") or message.get("bot_id") or ""), seconds(message), _all_text(message)
        goes_on = paste is not None and paste.user == user and 0 <= moment - paste.last <= PIECE_SECONDS
        if paste is not None and goes_on and len(paste.raw[-1]) >= PIECE_CHARS:
            paste.raw.append(raw)
            paste.ids.append(str(message["ts"]))
            paste.last = moment
        else:
            flush()
            paste = _Paste(user, moment, [raw], [str(message["ts"])])
        found += [Source((file.id,), file=file) for file in files(message)]
    flush()
    return found


def is_message(message: dict[str, Any]) -> bool:
    """Whether somebody wrote or dropped something."""
    return message.get("subtype") in SUBTYPES and isinstance(message.get("ts"), str) and not message.get("hidden")


def seconds(message: dict[str, Any]) -> float:
    """When a message was sent, seconds since 1970; 0 where its ts cannot be read."""
    try:
        return float(message.get("ts", 0))
    except (TypeError, ValueError):
        return 0.0


def run(messages: Sequence[dict[str, Any]], ts: str) -> list[dict[str, Any]]:
    """The message ``ts`` and those before and after it that are pieces of the same paste, oldest first."""
    ordered = sorted((message for message in messages if is_message(message)), key=seconds)
    place = next((index for index, message in enumerate(ordered) if message["ts"] == ts), None)
    if place is None:
        return []
    first = last = place
    while first > 0 and _continues(ordered[first - 1], ordered[first]):
        first -= 1
    while last + 1 < len(ordered) and _continues(ordered[last], ordered[last + 1]):
        last += 1
    return ordered[first : last + 1]


def _continues(before: dict[str, Any], after: dict[str, Any]) -> bool:
    close = 0 <= seconds(after) - seconds(before) <= PIECE_SECONDS
    return close and before.get("user") == after.get("user") and len(own_text(before)) >= PIECE_CHARS


def _all_text(message: dict[str, Any]) -> str:
    """A message's text with that of messages that were shared in it."""
    texts = [own_text(message)]
    attachments = message.get("attachments")
    shared = [item for item in attachments if isinstance(item, dict)] if isinstance(attachments, list) else []
    texts += [str(item.get("text") or item.get("fallback") or "") for item in shared]
    return "\n".join(filter(None, texts))


def files(message: dict[str, Any]) -> list[SlackFile]:
    """A message's files that may hold text, those of messages shared in it included."""
    listed = list(message.get("files") or [])
    for attachment in message.get("attachments") or []:
        if isinstance(attachment, dict):
            listed += attachment.get("files") or []
    return [made for item in listed if isinstance(item, dict) and (made := slack_file(item)) is not None]


def slack_file(item: dict[str, Any]) -> SlackFile | None:
    """A file's record; None where it has no content that could be read."""
    identifier = str(item.get("id") or "")
    check = item.get("file_access") == "check_file_info"
    if not identifier or item.get("mode") in _NO_TEXT or item.get("is_external"):
        return None
    url = str(item.get("url_private_download") or item.get("url_private") or "")
    if not url and not check:
        return None
    size = item.get("size")
    name = str(item.get("name") or item.get("title") or "file")
    return SlackFile(identifier, name, url, size if isinstance(size, int) else 0, str(item.get("mimetype") or ""), check)
