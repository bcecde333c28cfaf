"""VRAM Ledger: the text of an LLM server in, the cause, the memory ledger and computed fixes out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from analyzer.analysis import Analysis, analyze

__version__ = "0.1.0"
__all__ = ["Analysis", "__version__", "analyze"]


def __getattr__(name: str) -> Any:
    """The two ways in, loaded when they are used: the command line's time is made of imports."""
    if name in ("Analysis", "analyze"):
        from analyzer import analysis

        return getattr(analysis, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
