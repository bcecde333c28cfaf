"""What each engine does with memory: its identities by version, its flags, and the solver. Pure arithmetic, no input or output.

An engine is a folder here, named after it, whose module ``engine`` holds ``ENGINE``, a subclass of
``base.Engine`` that says what is different about it. ``engine(name)`` finds it by that name; the rest of the product knows no names.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from analyzer.engines.base import Engine

BASE = "analyzer.engines.base"


def engine(name: str | None) -> Engine:
    """The arithmetic of the engine ``name``; for one without a folder the part that holds for all (the card, PyTorch's sentence)."""
    return cast("Engine", import_module(_module(name or "")).ENGINE)


@cache
def _module(name: str) -> str:
    folder = "".join(letter if letter.isalnum() else "_" for letter in name.lower())
    if not folder.isidentifier():
        return BASE
    package = f"{__name__}.{folder}"
    known = find_spec(package) is not None and find_spec(f"{package}.engine") is not None
    return f"{package}.engine" if known else BASE
