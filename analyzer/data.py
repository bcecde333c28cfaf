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
    """Where parsed forms are kept between runs: ``VRAMLEDGER_CACHE_DIR``, else the user's cache folder. It may be absent or read-only."""
    base = os.environ.get("VRAMLEDGER_CACHE_DIR")
    if base is not None:
        return Path(base)
    home = os.environ.get("XDG_CACHE_HOME")
    return Path(home or Path("~/.cache").expanduser()) / "vramledger"


#: Caches of one kind that are kept: this version's, and those of other installations and of a user's own folders.
CACHES_KEPT = 4


def write_cache(path: Path, content: bytes) -> None:
    """Write a cache file ``<kind>-<version>.<ending>``, whole or not at all whoever else writes, and take away old ones of its kind.

    A folder that cannot be written costs time, not the answer.
    """
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(content)
        temporary.replace(path)
        same_kind = path.parent.glob(f"{path.name.split('-')[0]}-*{path.suffix}")
        for old in sorted(same_kind, key=lambda file: file.stat().st_mtime)[:-CACHES_KEPT]:
            old.unlink(missing_ok=True)
    except OSError:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
