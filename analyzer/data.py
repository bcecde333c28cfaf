"""Where the data folders are: beside the package in a checkout, inside it when installed from a wheel (see pyproject.toml)."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def folder(name: str) -> Path:
    """The data folder ``name`` (``patterns`` or ``migrations``). Raises FileNotFoundError where the installation lacks it."""
    for candidate in (_PACKAGE / "_data" / name, _PACKAGE.parent / name):
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError(f"the folder {name!r} is missing from this installation of vramledger: install it again")


def cache_folder() -> Path:
    """Where parsed forms are kept between runs: ``VRAMLEDGER_CACHE_DIR``, else the user's cache folder. It may not exist or be read-only."""
    base = os.environ.get("VRAMLEDGER_CACHE_DIR")
    if base is not None:
        return Path(base)
    home = os.environ.get("XDG_CACHE_HOME")
    return Path(home or Path("~/.cache").expanduser()) / "vramledger"


def write_cache(path: Path, text: str) -> None:
    """Write a cache file, whole or not at all whoever else writes; a folder that cannot be written costs time, not the answer."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
