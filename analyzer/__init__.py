"""VRAM Ledger: the text of an LLM server in, the cause, the memory ledger and computed fixes out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from analyzer.analysis import Analysis, analyze
    from analyzer.engines.what_if import WhatIf, what_if

__version__ = "0.1.0"
__all__ = ["Analysis", "WhatIf", "__version__", "analyze", "what_if"]


def __getattr__(name: str) -> Any:
    """The ways in, loaded when they are used: the command line's time is made of imports."""
    if name in ("Analysis", "analyze"):
        from analyzer import analysis

        return getattr(analysis, name)
    if name in ("WhatIf", "what_if"):
        # The package's submodule of this name is loaded by the import and would shadow the function.
        from analyzer.engines import what_if as module

        return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
