"""Versions and ranges of them, in the small part of PEP 440 that releases and patterns use."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

_VERSION = re.compile(r"v?(\d{1,9}(?:\.\d{1,9}){0,9})(?:\.?post(\d{1,9}))?(?:\.?(a|b|rc)(\d{1,9}))?(?:\.?dev(\d{1,9}))?(?:\+\S*)?$")
_CLAUSE = re.compile(r"(<=|>=|==|!=|<|>)\s*(\S+)$")

#: (release numbers, post, pre): sorts as PEP 440 does for the versions that engines use.
Key = tuple[tuple[int, ...], tuple[int, int, int]]


@lru_cache(maxsize=1024)
def key(version: str) -> Key:
    """A sort key: ``0.10.2 < 0.11.0rc1 < 0.11.0 < 0.11.0.post1``; a development build counts by its number. ValueError for no version."""
    matched = _VERSION.match(version.strip())
    if not matched:
        raise ValueError(f"{version!r} is no version")
    release = [int(part) for part in matched[1].split(".")]
    while len(release) < 3:
        release.append(0)
    pre = -1 if matched[3] or (matched[5] and not matched[2]) else 0
    return tuple(release), (pre, int(matched[2] or 0), int(matched[4] or 0))


def is_version(text: str) -> bool:
    """Whether ``text`` can be read as a version."""
    return _VERSION.match(text.strip()) is not None


def base(version: str) -> Key:
    """The key of the release that ``version`` is built on or towards, its pre-release and development marks dropped."""
    release, (_, post, _) = key(version)
    return release, (0, post, 0)


@dataclass(frozen=True, slots=True)
class Range:
    """An interval of versions, as text and as bounds; None is open."""

    low: str | None = None
    high: str | None = None
    high_included: bool = True

    @classmethod
    def parse(cls, text: str) -> Range:
        """From ``>=0.9.1,<0.11``, ``<=0.10.2``, ``==0.6.4``. ValueError for anything else."""
        low = high = None
        included = True
        for clause in filter(None, (part.strip() for part in text.split(","))):
            matched = _CLAUSE.match(clause)
            if not matched or matched[1] in ("!=", ">"):
                raise ValueError(f"«versions» is {text!r}: clauses of >=, <, <= and == with a version are understood")
            key(matched[2])
            if matched[1] == ">=":
                low = matched[2]
            elif matched[1] == "==":
                low = high = matched[2]
            else:
                high, included = matched[2], matched[1] == "<="
        return cls(low, high, included)

    def __contains__(self, version: str) -> bool:
        found = base(version)
        if self.low is not None and found < base(self.low):
            return False
        if self.high is None:
            return True
        return found <= base(self.high) if self.high_included else found < base(self.high)

    def __and__(self, other: Range) -> Range:
        low = max((bound for bound in (self.low, other.low) if bound is not None), key=base, default=None)
        highs = [r for r in (self, other) if r.high is not None]
        if not highs:
            return Range(low, None)
        tightest = min(highs, key=lambda r: (base(r.high or "0"), r.high_included))
        return Range(low, tightest.high, tightest.high_included)

    def __bool__(self) -> bool:
        """Whether any version is left."""
        if self.low is None or self.high is None:
            return True
        low, high = base(self.low), base(self.high)
        return low <= high if self.high_included else low < high

    def __str__(self) -> str:
        parts = []
        if self.low is not None and self.low == self.high and self.high_included:
            return f"=={self.low}"
        if self.low is not None:
            parts.append(f">={self.low}")
        if self.high is not None:
            parts.append(f"{'<=' if self.high_included else '<'}{self.high}")
        return ",".join(parts)


def latest(versions: Sequence[str]) -> str:
    """The newest of ``versions``."""
    return max(versions, key=key)
