"""How a command says that it cannot do what it was asked: in a line on standard error, in the user's language."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from analyzer.model.message import Message
    from analyzer.patterns.load import LibraryError

MISUSE = 64
LANGUAGES = ("en", "zh")


def default_language() -> str:
    """``VRAMLEDGER_LANG`` where it is one that the product speaks, else English."""
    language = os.environ.get("VRAMLEDGER_LANG", "en")[:2].lower()
    return language if language in LANGUAGES else "en"


def fail(message: str | Message, language: str | None = None, /, **values: object) -> int:
    """Say why; the exit status. ``language`` None: that of the environment."""
    from analyzer.model.message import Message
    from analyzer.report.messages import tell

    said = message if isinstance(message, Message) else Message(message, **values)
    print(f"vramledger: {tell(said, language or default_language())}", file=sys.stderr)
    return MISUSE


def unusable(error: LibraryError, language: str | None = None) -> int:
    """The patterns are wrong. The problems are for whoever writes patterns, in the words of ``patterns check``."""
    return fail("the patterns cannot be used:\n{problems}", language, problems=error)
