"""A report ⇄ bytes, both languages inside, so that every rendering can be made from what is stored, years later.

A field that the model has gained since takes its default; one that it has lost is passed over.
"""

from __future__ import annotations

import json
from functools import cache

import zstandard
from pydantic import TypeAdapter, ValidationError

from analyzer.model import Report

#: First byte of a stored report; bumped when older ones can no longer be read as they are.
FORMAT = b"\x01"
_LEVEL = 6
#: A report is bounded (report-contract.md); this is far beyond any, and keeps a damaged row from taking all memory.
_MAX_BYTES = 1 << 30


class CodecError(ValueError):
    """Bytes that are no stored report."""


@cache
def _adapter() -> TypeAdapter[Report]:
    return TypeAdapter(Report)


def pack(report: Report) -> bytes:
    """The report as it is stored."""
    # Python's own writer keeps infinities and numbers of any length, which a log may print.
    plain = json.dumps(_adapter().dump_python(report), ensure_ascii=False, separators=(",", ":"))
    # Half a surrogate pair, which a log's own JSON may hold, is no character: "?" here as in every answer.
    return FORMAT + zstandard.ZstdCompressor(level=_LEVEL).compress(plain.encode("utf-8", "replace"))


def unpack(stored: bytes) -> Report:
    """What ``pack`` was given: equal to it, and so is every rendering. Raises CodecError for anything else."""
    if stored[:1] != FORMAT:
        raise CodecError("a stored report of another format")
    try:
        return _adapter().validate_json(zstandard.ZstdDecompressor().decompress(stored[1:], max_output_size=_MAX_BYTES))
    except (zstandard.ZstdError, ValidationError) as error:
        raise CodecError(f"a stored report is damaged: {type(error).__name__}") from error
