"""Sizes and their units. GiB is 2**30 bytes and GB is 10**9: what a log prints as "GB" and means as GiB is written GiB here."""

from __future__ import annotations

from contextlib import suppress
from math import isfinite

KIB, MIB, GIB, TIB = 2**10, 2**20, 2**30, 2**40

BYTES_PER: dict[str, int] = {
    "B": 1,
    "KiB": KIB,
    "MiB": MIB,
    "GiB": GIB,
    "TiB": TIB,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
}

Number = int | float


def to_bytes(value: Number, unit: str) -> int | None:
    """Whole bytes of ``value`` in ``unit``; None where the unit is no size (tokens, s, %, …)."""
    factor = BYTES_PER.get(unit)
    return None if factor is None else round(value * factor)


def gib(size: Number) -> float:
    """``size`` bytes in GiB."""
    return size / GIB


def human(size: Number) -> str:
    """A size in bytes for a person, in the binary unit that keeps it readable: ``4.55 GiB``, ``13.56 MiB``, ``512 B``."""
    magnitude = abs(size)
    if magnitude >= 0.1 * GIB:
        return f"{size / GIB:.2f} GiB"
    if magnitude >= MIB:
        return f"{size / MIB:.2f} MiB"
    if magnitude >= KIB:
        return f"{size / KIB:.2f} KiB"
    return f"{size:.0f} B"


#: Characters of the longest number that is read as one. More is no figure, and costs the square of its length to convert.
NUMBER_LENGTH = 40


def number(text: str) -> Number:
    """The number that ``text`` prints: grouping commas dropped, an integer where no point or exponent stands.

    A single comma before one or two last digits is a decimal one, as a localized C library prints it: ``1900,00``.
    Raises ValueError for anything else, infinity and what is longer than NUMBER_LENGTH among it.
    """
    if len(text) > NUMBER_LENGTH:
        raise ValueError(f"{text[:NUMBER_LENGTH]}… is no figure")
    if text.isdecimal():
        return int(text)
    plain = text
    if "," in text:
        whole, _, decimals = text.partition(",")
        if len(decimals) in (1, 2) and decimals.isdigit() and "." not in whole:
            return float(f"{whole}.{decimals}")
        plain = text.replace(",", "")
    if "." not in plain:
        with suppress(ValueError):
            return int(plain)
    value = float(plain)
    if not isfinite(value):
        raise ValueError(f"{text} is no figure")
    return value


def natural(text: str) -> int | None:
    """The count or index that ``text`` is, in decimal digits with or without grouping commas; None for anything else."""
    digits = text.strip().replace(",", "")
    return int(digits) if digits.isdecimal() and len(digits) <= NUMBER_LENGTH else None
