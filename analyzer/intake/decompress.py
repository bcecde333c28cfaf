"""Compressed bytes → plain ones, bounded. What compressed an input is told by its first bytes, never by its name.

Archives are taken apart in analyzer/intake/archives.py; analyzer/intake/unpack.py puts both together.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from analyzer.intake.errors import IntakeError
from analyzer.intake.limits import DEFAULT, Limits
from analyzer.model.message import Message

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
#: Most bytes that one step may put out, so that a bomb is met by the check and not by the memory.
STEP = 1 << 20
#: zstd's machine expands all it is given at once, four bytes to 128 KiB at most: so many bytes keep a bomb's burst at 16 MiB.
_ZSTD_SLICE = 512


class Expander(Protocol):
    """Takes bytes as they come, gives what they expand to in pieces of at most 1 MiB."""

    def feed(self, data: bytes) -> Iterator[bytes]: ...

    def close(self) -> None:
        """Raises IntakeError where the input ends in mid-stream."""


class Plain:
    """Bytes that are not compressed."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        yield data

    def close(self) -> None:
        return


class Bounded:
    """Counts what goes in and comes out, and stops a bomb."""

    def __init__(self, what: str, limits: Limits) -> None:
        self.what = what
        self._limits = limits
        self._in = 0
        self._out = 0

    def _taken(self, size: int) -> None:
        self._in += size

    def _given(self, size: int) -> None:
        self._out += size
        limits = self._limits
        if self._out > limits.max_expanded_bytes:
            raise IntakeError(
                "expansion_too_large",
                "the {what} input expands to more than {limit} bytes; send the head and the tail of the log instead",
                what=self.what,
                limit=limits.max_expanded_bytes,
            )
        if self._out > limits.expansion_grace_bytes and self._out > limits.max_expansion_ratio * max(self._in, 1):
            raise IntakeError(
                "expansion_too_large",
                "the {what} input expands more than {ratio}-fold; send the log uncompressed",
                what=self.what,
                ratio=limits.max_expansion_ratio,
            )

    def _broken(self, reason: Message | Exception) -> IntakeError:
        said = reason if isinstance(reason, Message) else str(reason)
        return IntakeError(
            "malformed_input",
            "the {what} input is damaged after {count} bytes: {reason}",
            what=self.what,
            count=self._in,
            reason=said,
        )


class Deflated(Bounded):
    """gzip (several members too) and zlib."""

    def __init__(self, what: str, window: int, limits: Limits) -> None:
        super().__init__(what, limits)
        self._make: Callable[[], zlib._Decompress] = lambda: zlib.decompressobj(window)
        self._machine = self._make()
        self._fresh = True

    def feed(self, data: bytes) -> Iterator[bytes]:
        self._taken(len(data))
        while data:
            if self._machine.eof:
                if not data.strip(b"\0"):
                    return  # padding after the last member, as tape and block tools leave it
                self._machine = self._make()
            try:
                piece = self._machine.decompress(data, STEP)
            except zlib.error as error:
                raise self._broken(error) from error
            self._fresh = False
            data = self._machine.unused_data if self._machine.eof else self._machine.unconsumed_tail
            if piece:
                self._given(len(piece))
                yield piece

    def close(self) -> None:
        if not self._machine.eof:
            raise self._broken(Message("it ends in the middle"))


class Zstandard(Bounded):
    """zstd, several frames too."""

    def __init__(self, limits: Limits) -> None:
        import zstandard

        super().__init__("zstd", limits)
        self._error = zstandard.ZstdError
        self._make: Callable[[], Any] = zstandard.ZstdDecompressor(max_window_size=1 << 27).decompressobj
        self._machine = self._make()

    def feed(self, data: bytes) -> Iterator[bytes]:
        self._taken(len(data))
        for start in range(0, len(data), _ZSTD_SLICE):
            rest = data[start : start + _ZSTD_SLICE]
            while rest:
                if self._machine.eof:
                    self._machine = self._make()
                try:
                    piece = self._machine.decompress(rest)
                except self._error as error:
                    raise self._broken(error) from error
                rest = self._machine.unused_data if self._machine.eof else b""
                if piece:
                    self._given(len(piece))
                    yield from (piece[at : at + STEP] for at in range(0, len(piece), STEP))

    def close(self) -> None:
        if not self._machine.eof:
            raise self._broken(Message("it ends in the middle"))


class Total:
    """What has come out of everything packed in one analysis, however deep: bounded in all, beside the bound of each step."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.sent = 0  # bytes as they came
        self.out = 0  # bytes of text that were packed

    def given(self, size: int) -> None:
        """Count ``size`` more bytes of text. Raises IntakeError where it is too much."""
        self.out += size
        limits = self._limits
        if self.out > limits.max_expanded_bytes:
            raise IntakeError(
                "expansion_too_large",
                "the inputs expand to more than {limit} bytes in all; send fewer, or their ends",
                limit=limits.max_expanded_bytes,
            )
        if self.out > limits.expansion_grace_bytes and self.out > limits.max_expansion_ratio * max(self.sent, 1):
            raise IntakeError(
                "expansion_too_large",
                "the inputs expand more than {ratio}-fold in all; send the logs uncompressed",
                ratio=limits.max_expansion_ratio,
            )


def is_compressed(head: bytes) -> bool:
    """Whether an input that begins with ``head`` (four bytes) is compressed."""
    return head.startswith((_GZIP, _ZSTD))


def expander(head: bytes, limits: Limits = DEFAULT) -> Expander:
    """The expander for an input that begins with ``head`` (four bytes decide)."""
    if head.startswith(_GZIP):
        return Deflated("gzip", 16 + zlib.MAX_WBITS, limits)
    if head.startswith(_ZSTD):
        return Zstandard(limits)
    return Plain()
