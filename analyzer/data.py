"""Where the data folders are: beside the package in a checkout, inside it when installed from a wheel (see pyproject.toml)."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def folder(name: str) -> Path:
    """The data folder ``name`` (``patterns`` or ``migrations``). Raises FileNotFoundError where the installation lacks it."""
    for candidate in (_PACKAGE / "_data" / name, _PACKAGE.parent / name):
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError(f"the folder {name!r} is missing from this installation of vramledger: install it again")
