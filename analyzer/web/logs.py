"""What the service writes about its own mistakes: where they happened, and never what an input or a request held.

The message of an exception often quotes what it stumbled over, so it is left out of every log line.
"""

from __future__ import annotations

import logging
import traceback
from typing import TYPE_CHECKING

from analyzer.web import errors

if TYPE_CHECKING:
    from types import TracebackType

_log = logging.getLogger("vramledger")
#: Loggers of the server and its libraries, which would print a traceback with its message.
_FOREIGN = ("uvicorn.error", "uvicorn", "asyncio", "sqlalchemy", "concurrent.futures")


def where(error: BaseException) -> str:
    """The frames that ``error`` came through, the innermost last, and its type; chained ones too. Nothing that it says."""
    lines: list[str] = []
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen and len(lines) < 200:
        seen.add(id(current))
        found: TracebackType | None = current.__traceback__
        frames = [f"  {frame.filename}:{frame.lineno} in {frame.name}" for frame in traceback.extract_tb(found)]
        lines = [*frames, type(current).__qualname__, *(["raised while handling this:"] if lines else []), *lines]
        current = current.__cause__ or current.__context__
    return "\n".join(lines)


def log_mistake(what: str, error: BaseException) -> None:
    """Write that ``what`` happened, and where."""
    _log.error("%s\n%s", what, where(error))
    errors.tell(error)


class WithoutMessages(logging.Filter):
    """Takes the message out of an exception that somebody else logs."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info and isinstance(record.exc_info, tuple) and record.exc_info[1] is not None:
            record.msg, record.args = f"{record.getMessage().splitlines()[0]}\n{where(record.exc_info[1])}", ()
            record.exc_info = record.exc_text = None
        return True


def quiet() -> None:
    """From now on no log of the service or its libraries shows what an exception says. May be called again."""
    for name in _FOREIGN:
        logger = logging.getLogger(name)
        if not any(isinstance(known, WithoutMessages) for known in logger.filters):
            logger.addFilter(WithoutMessages())
