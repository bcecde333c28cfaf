"""A message of the interface on its way to a person: what goes wrong is told where it is met, and put into words where it is shown."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

#: Of a message as it is stored.
_KEYS = {"text", "values"}


class Message:
    """A message and the values of its ``{placeholders}``, which may be messages too.

    English is the message itself; other languages have it in analyzer/locale. What is in no catalogue, as the words of a library,
    is told as it is.
    """

    __slots__ = ("text", "values")

    def __init__(self, text: str, /, **values: object) -> None:
        self.text = text
        self.values = values

    def __str__(self) -> str:
        return self.told(str)

    def told(self, translate: Callable[[str], str]) -> str:
        """The message in the language of ``translate``."""
        text = translate(self.text) if self.text else ""
        if not self.values:
            return text  # its braces are meant as such
        return text.format(**{key: value.told(translate) if isinstance(value, Message) else value for key, value in self.values.items()})

    def pack(self) -> str:
        """The message as it is stored, to be told in any language later. Words that look like a packed one are packed as words."""
        return json.dumps(_plain(self), ensure_ascii=False) if self.values or self.text.startswith("{") else self.text

    @classmethod
    def unpack(cls, stored: str | None) -> Message | None:
        """What ``pack`` was given; any other text is a message without values. None where nothing is stored."""
        if stored is None:
            return None
        try:
            found = json.loads(stored)
        except ValueError:
            found = None
        return _message(found) if isinstance(found, dict) and found.keys() == _KEYS else cls(stored)


class MessageError(Exception):
    """An error that is told to a person; ``str`` of it is English."""

    def __init__(self, message: str | Message, /, **values: object) -> None:
        self.message = message if isinstance(message, Message) else Message(message, **values)
        super().__init__(str(self.message))


def _plain(value: object) -> Any:
    return (
        {"text": value.text, "values": {key: _plain(one) for key, one in value.values.items()}}
        if isinstance(value, Message)
        else str(value)
    )


def _message(found: dict[str, Any]) -> Message:
    values = {key: _message(value) if isinstance(value, dict) else value for key, value in found["values"].items()}
    return Message(found["text"], **values)
