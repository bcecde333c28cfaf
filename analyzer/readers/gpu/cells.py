"""Single cells of a dump → numbers, or None and the word that stands in their place."""

from __future__ import annotations

import re
from functools import lru_cache

from analyzer.model.units import Number, number

#: Words that stand where a value is not available (nvidia-smi.md, rule 1). Compared without brackets and in lower case.
UNAVAILABLE = frozenset(
    {
        "n/a", "not supported", "err!", "unknown error", "gpu is lost", "gpu requires reset", "insufficient permissions", "not found",
        "-", "--", "??", "", "not available in wddm driver model", "requested functionality has been deprecated", "none", "unknown",
        "null", "not available", "insufficient power", "no permission", "gpu access blocked",
    }
)  # fmt: skip

#: Words that say that the card itself is in trouble, not merely that a figure does not exist.
TROUBLE = frozenset({"err!", "unknown error", "gpu is lost", "gpu requires reset"})

_SIZE = re.compile(r"\[?\s*(\d{1,15}(?:\.\d{1,6})?)\s*([KMGT][iIlL1]?B|B|bytes)?\s*\]?$")
_PLAIN = re.compile(r"[+-]?\d{1,15}(?:\.\d{1,6})?")
_FACTOR = {"B": 2**-20, "K": 2**-10, "M": 1, "G": 2**10, "T": 2**20}


@lru_cache(maxsize=4096)  # a loop prints the same few cells again and again
def word(text: str) -> str | None:
    """The status word that ``text`` holds instead of a value (without brackets), or None where it is no such word."""
    plain = text.strip().strip("[]").strip()
    return plain if plain.lower() in UNAVAILABLE else None


@lru_cache(maxsize=4096)
def trouble(text: str) -> str | None:
    """The word, where it says that the card is in trouble."""
    plain = text.strip().strip("[]").strip().rstrip(".")
    return plain if plain.lower() in TROUBLE else None


@lru_cache(maxsize=4096)
def mebibytes(text: str, default: str | None = None) -> Number | None:
    """A size such as ``21006 MiB`` in MiB; None where no figure stands there. ``default`` is the unit of a number without one.

    The tools' MB, KB and GB are binary (nvidia-smi.md, sections 6, 7 and 11).
    """
    found = _SIZE.match(text.strip())
    if found is None:
        return None
    unit = found[2] or default
    if unit is None:
        return None
    value = number(found[1])
    factor = _FACTOR["B" if unit in ("B", "bytes") else unit[0].upper()]
    return value if factor == 1 else value * factor


@lru_cache(maxsize=4096)
def amount(text: str, unit: str) -> Number | None:
    """A number with (or without) ``unit``, such as ``41 %`` or ``31.20 W``; None where there is none."""
    plain = text.strip()
    if unit and plain.endswith(unit):
        plain = plain[: -len(unit)].rstrip()
    return number(plain) if _PLAIN.fullmatch(plain) else None


def whole(text: str) -> int | None:
    """A count or an index; None for anything else."""
    plain = text.strip()
    return int(plain) if plain.isascii() and plain.isdigit() and len(plain) < 16 else None


def text_or_none(text: str | None) -> str | None:
    """The words of a cell; None where they say that there is nothing."""
    if text is None or word(text) is not None:
        return None
    return text.strip() or None


def on_off(text: str | None) -> bool | None:
    """Enabled/On/Yes/Active and their opposites; a pending change (``Enabled*``) counts as what it is now."""
    plain = (text or "").strip().rstrip("*").lower()
    if plain in ("enabled", "on", "yes", "active"):
        return True
    return False if plain in ("disabled", "off", "no", "not active") else None


def name_of(text: str) -> tuple[str | None, str | None]:
    """(name, status word) of a process name cell: ``[Not Found]`` is no name."""
    plain = text.strip()
    if plain.startswith("[") and plain.endswith("]") and plain[1:-1].strip().lower() in UNAVAILABLE:
        return None, plain[1:-1].strip()
    if plain in ("-", "", "N/A"):
        return None, plain or None
    return plain, None


def is_cut(name: str | None) -> bool:
    """Whether the tool shortened the name: GPUs lose the end, processes the beginning."""
    return name is not None and (name.endswith("...") or name.startswith("..."))
