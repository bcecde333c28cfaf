"""The settings that what-if knows, their spellings and ranges."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from analyzer.engines.what_if import WhatIfError
from analyzer.model import Value

UTILIZATION = "--gpu-memory-utilization"
LENGTH = "--max-model-len"
SEQS = "--max-num-seqs"
BATCHED = "--max-num-batched-tokens"
DTYPE = "--kv-cache-dtype"
TP = "--tensor-parallel-size"
PP = "--pipeline-parallel-size"
OVERRIDE = "--num-gpu-blocks-override"
PINNED = "--kv-cache-memory-bytes"
EAGER = "--enforce-eager"

#: A card of more tokens, sequences or ranks than this is a slip of the hand.
_MOST = {LENGTH: 100_000_000, SEQS: 1_000_000, BATCHED: 100_000_000, TP: 1024, PP: 1024, OVERRIDE: 10**9, PINNED: 2**50}
_ALIASES = {"--kv-cache-memory": PINNED, "-tp": TP, "-pp": PP, "--no-enforce-eager": EAGER}


def normal(settings: Mapping[str, Value | None]) -> dict[str, Value | None]:
    """``settings`` under their long flags, with values of the right type. Raises WhatIfError, which names what is known."""
    found: dict[str, Value | None] = {}
    for name, value in settings.items():
        flag = name if name.startswith("-") else "--" + name.replace("_", "-")
        if flag == "--no-enforce-eager":
            value = False
        flag = _ALIASES.get(flag, flag)
        if flag not in KNOWN:
            raise WhatIfError("what-if does not know {name}; it knows {known}", name=name, known=", ".join(KNOWN))
        if flag in found:
            raise WhatIfError("{flag} stands twice", flag=flag)
        found[flag] = KNOWN[flag](flag, value)
    return found


def _share(flag: str, value: Value | None) -> float:
    number = _float(flag, value)
    if not 0 < number <= 1:
        raise WhatIfError("{flag} is above 0 and at most 1, not {value}", flag=flag, value=value)
    return number


def _float(flag: str, value: Value | None) -> float:
    if isinstance(value, bool) or value is None:
        raise WhatIfError("{flag} is a number, not {value}", flag=flag, value=repr(value))
    try:
        return float(value)
    except ValueError:
        raise WhatIfError("{flag} is a number, not {value}", flag=flag, value=repr(value)) from None


def _count(flag: str, value: Value | None) -> int:
    number = _float(flag, value)
    if not 1 <= number <= _MOST[flag] or number != int(number):
        raise WhatIfError("{flag} is a whole number from 1 to {most}, not {value}", flag=flag, most=_MOST[flag], value=repr(value))
    return int(number)


def _count_or_none(flag: str, value: Value | None) -> int | None:
    return None if value is None else _count(flag, value)


def _dtype(flag: str, value: Value | None) -> str:
    if value is None:
        return "auto"
    if not isinstance(value, str) or not 0 < len(value) <= 40:
        raise WhatIfError("{flag} is the name of a format, not {value}", flag=flag, value=repr(value))
    return value.lower()


def _switch(flag: str, value: Value | None) -> bool:
    if value is None or isinstance(value, bool):
        return bool(value)
    if str(value).lower() in ("true", "1", "false", "0", ""):
        return str(value).lower() in ("true", "1")
    raise WhatIfError("{flag} is true or false, not {value}", flag=flag, value=repr(value))


KNOWN: dict[str, Callable[[str, Value | None], Value | None]] = {
    UTILIZATION: _share,
    LENGTH: _count,
    SEQS: _count,
    BATCHED: _count,
    DTYPE: _dtype,
    TP: _count,
    PP: _count,
    OVERRIDE: _count_or_none,
    PINNED: _count_or_none,
    EAGER: _switch,
}


def whole(value: Value | None) -> int:
    """A number of ranks: ``value``, 1 where it is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 1
