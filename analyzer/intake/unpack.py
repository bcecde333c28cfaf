"""Whatever an input is packed in → the texts inside: compressed, an archive, an archive of compressed files, an archive in an archive.

What something is tell its first bytes, never its name. Inside an archive another one is opened once; deeper ones are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from analyzer.intake.archives import Tar, Target, Zip, is_tar, is_zip, may_be_tar
from analyzer.intake.decompress import Expander, Total, expander, is_compressed
from analyzer.intake.errors import IntakeError
from analyzer.intake.limits import Limits

_MAGIC_BYTES = 4
_TAR_BYTES = 512
#: An archive, and one inside it.
ARCHIVES = 2


@dataclass(frozen=True, slots=True)
class _Way:
    """What all layers of one input share. ``open_text`` gets a member's name, or None for an input that is no archive."""

    open_text: Callable[[str | None], Target]
    limits: Limits
    total: Total


class Layer:
    """Bytes of an input or of a member, until their beginning tells what they are."""

    def __init__(self, way: _Way, member: str | None, archives: int, *, packed: bool, compressed: bool) -> None:
        """``archives``: how many may still be opened inside each other. ``packed``, ``compressed``: what has been undone so far."""
        self._way = way
        self._name = member
        self._archives = archives
        self._packed = packed
        self._compressed = compressed
        self._head = bytearray()
        self._target: Target | None = None

    @property
    def undecided(self) -> bytes:
        """What has come and is not known to be anything yet."""
        return bytes(self._head)

    def feed(self, data: bytes) -> None:
        """The next bytes. Raises IntakeError for what cannot be read."""
        if self._target is None:
            self._head += data
            self._target = self._decide(final=False)
            if self._target is None:
                return
            data = bytes(self._head)
            self._head.clear()
        self._target.feed(data)

    def close(self, *, truncated: bool = False) -> None:
        """The end. Raises IntakeError where something inside ends in the middle, unless it was ``truncated``."""
        if self._target is None:
            self._target = self._decide(final=True)
            assert self._target is not None
            self._target.feed(bytes(self._head))
            self._head.clear()
        self._target.close(truncated=truncated)

    def _decide(self, *, final: bool) -> Target | None:
        head = self._head
        if not final and len(head) < _MAGIC_BYTES:
            return None
        way, first = self._way, bytes(head[:_TAR_BYTES])
        if is_compressed(first) and not self._compressed:
            inner = Layer(way, self._name, self._archives, packed=True, compressed=True)
            return _Expanding(expander(first, way.limits), inner)
        if is_zip(first):
            return Zip(way.limits, self._opening("zip"))
        if len(head) < _TAR_BYTES and not final and may_be_tar(first):
            return None
        if len(head) >= _TAR_BYTES and is_tar(first):
            return Tar(way.limits, self._opening("tar"))
        target = way.open_text(self._name)
        return _Counted(target, way.total) if self._packed else target

    def _opening(self, what: str) -> Callable[[str], Target]:
        if not self._archives:
            raise IntakeError(
                "expansion_too_large",
                "{name} is a {what} in an archive in an archive; send what is inside",
                name=repr(self._name),
                what=what,
            )
        archives = self._archives - 1
        return lambda name: Layer(self._way, name, archives, packed=True, compressed=False)


def unpacker(open_text: Callable[[str | None], Target], limits: Limits, total: Total) -> Layer:
    """Where the bytes of one input go. ``open_text`` is called for every text inside, one after the other."""
    return Layer(_Way(open_text, limits, total), None, ARCHIVES, packed=False, compressed=False)


class _Expanding:
    """Compressed bytes, and what becomes of what is inside."""

    def __init__(self, machine: Expander, inner: Target) -> None:
        self._machine = machine
        self._inner = inner

    def feed(self, data: bytes) -> None:
        for piece in self._machine.feed(data):
            self._inner.feed(piece)

    def close(self, *, truncated: bool = False) -> None:
        if not truncated:
            self._machine.close()
        self._inner.close(truncated=truncated)


class _Counted:
    """A text that was packed: its bytes count for the bound of everything."""

    def __init__(self, inner: Target, total: Total) -> None:
        self._inner = inner
        self._total = total

    def feed(self, data: bytes) -> None:
        self._total.given(len(data))
        self._inner.feed(data)

    def close(self, *, truncated: bool = False) -> None:
        self._inner.close(truncated=truncated)
