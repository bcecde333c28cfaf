"""Block Kit's documented limits, as Slack enforces them."""

from __future__ import annotations

from typing import Any

_STYLES = (None, "primary", "danger")


def problems(blocks: Any, *, modal: bool = False) -> list[str]:
    """What Slack would refuse in ``blocks``."""
    if not isinstance(blocks, list):
        return ["blocks is no list"]
    found = [] if len(blocks) <= (100 if modal else 50) else [f"{len(blocks)} blocks"]
    identifiers = [block["block_id"] for block in blocks if "block_id" in block]
    if len(identifiers) != len(set(identifiers)):
        found.append("block_id twice")
    for place, block in enumerate(blocks):
        found += [f"{place}: {problem}" for problem in _block(block)]
    return found


def _block(block: dict[str, Any]) -> list[str]:
    kind = block.get("type")
    found = _long(block.get("block_id", "x"), 255, "block_id")
    if kind == "section":
        return found + _text(block.get("text"), 3000, {"mrkdwn", "plain_text"})
    if kind == "context":
        elements = block.get("elements") or []
        found += [] if 0 < len(elements) <= 10 else ["elements of a context"]
        return found + [problem for element in elements for problem in _text(element, 3000, {"mrkdwn", "plain_text"})]
    if kind == "image":
        sources = [key for key in ("image_url", "slack_file") if key in block]
        found += [] if len(sources) == 1 else ["an image has one source"]
        return found + _long(block.get("alt_text"), 2000, "alt_text")
    if kind == "actions":
        elements = block.get("elements") or []
        names = [element.get("action_id") for element in elements]
        found += [] if 0 < len(elements) <= 25 and len(names) == len(set(names)) else ["elements of actions"]
        return found + [problem for element in elements for problem in _button(element)]
    if kind == "rich_text":
        return found + [problem for element in block["elements"] for problem in _rich(element)]
    if kind == "input":
        return (
            found
            + _text(block.get("label"), 2000, {"plain_text"})
            + _text(block.get("hint"), 2000, {"plain_text"})
            + _entry(block["element"])
        )
    return [*found, f"a block of type {kind}"]


def _entry(element: dict[str, Any]) -> list[str]:
    return [] if element["type"] == "plain_text_input" and 0 < element["max_length"] <= 3000 else ["an input's element"]


def _rich(element: dict[str, Any]) -> list[str]:
    if element.get("type") not in ("rich_text_preformatted", "rich_text_section"):
        return [f"rich text of type {element.get('type')}"]
    return ["empty rich text"] * (not all(item.get("text") for item in element["elements"]))


def _button(element: dict[str, Any]) -> list[str]:
    if element.get("type") != "button":
        return [f"an element of type {element.get('type')}"]
    found = _text(element.get("text"), 75, {"plain_text"}) + _long(element.get("action_id"), 255, "action_id")
    found += _long(element.get("value", "x"), 2000, "value") + _long(element.get("url", "x"), 3000, "url")
    found += [] if element.get("style") in _STYLES else ["style"]
    confirm = element.get("confirm")
    if confirm is not None:
        for key, limit in (("title", 100), ("text", 300), ("confirm", 30), ("deny", 30)):
            found += _text(confirm.get(key), limit, {"plain_text", "mrkdwn"})
    return found


def _text(text: Any, limit: int, kinds: set[str]) -> list[str]:
    if not isinstance(text, dict) or text.get("type") not in kinds:
        return ["a text object"]
    return _long(text.get("text"), limit, "text")


def _long(text: Any, limit: int, name: str) -> list[str]:
    return (
        [] if isinstance(text, str) and 0 < len(text) <= limit else [f"{name} of {len(text) if isinstance(text, str) else text} characters"]
    )


def view_problems(view: dict[str, Any]) -> list[str]:
    """What Slack would refuse in a modal."""
    found = problems(view["blocks"], modal=True)
    for key in ("title", "submit", "close"):
        found += _text(view.get(key), 24, {"plain_text"})
    return found + _long(view.get("callback_id"), 255, "callback_id") + _long(view.get("private_metadata"), 3000, "private_metadata")
