"""What is wrong with an input, in one exception whose code is also the API's error type (api-contract.md)."""

from __future__ import annotations

from analyzer.model.message import Message, MessageError


class IntakeError(MessageError, ValueError):
    """An input that cannot be read. ``code`` is stable, the message is for the person who sent it."""

    def __init__(self, code: str, message: str | Message, /, **values: object) -> None:
        super().__init__(message, **values)
        self.code = code
