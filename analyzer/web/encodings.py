"""``Content-Encoding`` → the bytes inside, bounded like any other expansion."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from analyzer.intake.decompress import Deflated, Expander, Zstandard
from analyzer.web.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from analyzer.intake.limits import Limits

SUPPORTED = ("gzip", "zstd", "deflate")


class Encoding:
    """Undoes the encodings of a header, the last one first. Without any, bytes pass."""

    def __init__(self, header: str, limits: Limits) -> None:
        """Raises Problem for an encoding that is not supported, and for more than two of them."""
        names = [name for part in header.lower().split(",") if (name := part.strip()) and name != "identity"]
        unknown = [name for name in names if name.removeprefix("x-") not in SUPPORTED]
        if unknown or len(names) > 2:
            raise Problem(
                "unsupported_encoding",
                "Content-Encoding is one of {names}",
                {"Accept-Encoding": ", ".join(SUPPORTED)},
                names=", ".join(SUPPORTED),
            )
        self._steps: list[Expander] = [_expander(name.removeprefix("x-"), limits) for name in reversed(names)]
        self._fed = False

    def __bool__(self) -> bool:
        return bool(self._steps)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """What ``data`` expands to. Raises IntakeError where it is damaged or too much."""
        self._fed = self._fed or bool(data)
        return self._through(data, 0)

    def _through(self, data: bytes, step: int) -> Iterator[bytes]:
        if step == len(self._steps):
            yield data
            return
        for piece in self._steps[step].feed(data):
            yield from self._through(piece, step + 1)

    def close(self) -> None:
        """Raises IntakeError where the encoded body ends in the middle. A body without a byte is just empty."""
        if self._fed:
            for step in self._steps:
                step.close()


def _expander(name: str, limits: Limits) -> Expander:
    if name == "gzip":
        return Deflated("gzip", 16 + zlib.MAX_WBITS, limits)
    return Zstandard(limits) if name == "zstd" else _Deflate(limits)


class _Deflate:
    """What HTTP calls deflate is zlib's format; some clients send the bare stream. The first bytes tell."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._head = b""
        self._inner: Deflated | None = None

    def feed(self, data: bytes) -> Iterator[bytes]:
        if self._inner is None:
            self._head += data
            if len(self._head) < 2:
                return
            data = self._head
            is_zlib = data[0] & 0x0F == 8 and (data[0] * 256 + data[1]) % 31 == 0
            self._inner = Deflated("deflate", zlib.MAX_WBITS if is_zlib else -zlib.MAX_WBITS, self._limits)
        yield from self._inner.feed(data)

    def close(self) -> None:
        (self._inner or Deflated("deflate", zlib.MAX_WBITS, self._limits)).close()
