"""YAML files → Library, through a cache of the parsed form.

Every mistake is reported with file, pattern and reason, all of them at once: see ``vramledger patterns check``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, asdict, fields, replace
from pathlib import Path
from typing import Any

from analyzer.data import cache_folder, folder, write_cache
from analyzer.patterns.model import Advice, Cause, FactSpec, Frame, Library, Pattern, RedactionRule, StoredPatterns

#: Bumped when what patterns mean changes; part of the version, and so of the cache's name. A cache of another layout is made anew.
FORMAT = 4


class LibraryError(ValueError):
    """The library cannot be used; ``problems`` are lines of «file: pattern: reason»."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = list(problems)


def load(extra: Sequence[Path] = (), *, cache: bool = True, base: Path | None = None) -> Library:
    """The library of this installation (or of the folder ``base``), and the folders of a user's own patterns after it.

    Raises LibraryError where a file cannot be read or is no valid pattern file.
    """
    roots = [base or folder("patterns"), *extra]
    files = [(root, path) for root in roots for path in sorted(_files(root))]
    contents = [(root, path, path.read_bytes()) for root, path in files]
    digest = hashlib.sha256(str(FORMAT).encode())
    for root, path, content in contents:
        digest.update(f"{path.relative_to(root)}\0{len(content)}\0".encode())
        digest.update(content)
    version = digest.hexdigest()[:16]
    store = _cache_file(version) if cache else None
    if store is not None:
        cached = _read_cache(store)
        if cached is not None:
            return cached
    library = _parse(version, contents)
    if store is not None:
        write_cache(store, _stored(library))
    return library


def _files(root: Path) -> Iterator[Path]:
    if not root.is_dir():
        raise LibraryError([f"{root}: no such folder of patterns"])
    yield from root.rglob("*.yaml")


def _parse(version: str, contents: Sequence[tuple[Path, Path, bytes]]) -> Library:
    from analyzer.patterns.check import Checker

    checker = Checker()
    for root, path, content in contents:
        checker.add(str(path.relative_to(root)), content)
    return checker.library(version)


# --- cache -----------------------------------------------------------------------------------------------------------------------


def _cache_file(version: str) -> Path:
    return cache_folder() / f"library-{version}.json"


def _read_cache(path: Path) -> Library | None:
    try:
        head, *patterns, end = path.read_bytes().split(b"\n")
        values = json.loads(head)
        if end or len(patterns) != len(values["heads"]):
            return None
        library = from_dict(values)
        return replace(library, patterns=StoredPatterns(values["heads"], patterns, lambda stored: pattern_from(json.loads(stored))))
    except (OSError, ValueError, KeyError, TypeError):
        return None  # absent or damaged: it is parsed anew


def _stored(library: Library) -> bytes:
    """A line with all but the patterns, and a line for every pattern."""
    values = to_dict(library)
    patterns = values["patterns"]
    head = {**values, "patterns": [], "heads": library.anchors()}
    return b"".join(json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in (head, *patterns))


def to_dict(library: Library) -> dict[str, Any]:
    """The library as plain JSON values, defaults left out to keep the cache small."""
    return {
        "version": library.version,
        "patterns": [_slim(pattern) for pattern in library.patterns],
        "causes": [_slim(cause) for cause in library.causes.values()],
        "families": [_slim(family) for family in library.families.values()],
        "advice": [_slim(advice) for advice in library.advice.values()],
        "redactions": [_slim(rule) for rule in library.redactions],
        "scopes": library.scopes,
    }


def _slim(entry: Pattern | Cause | Advice | RedactionRule) -> dict[str, Any]:
    """What is not the field's default: an empty list of fixes or a start of 0 says something where nothing is the default."""
    defaults = {spec.name: spec.default_factory() if spec.default_factory is not MISSING else spec.default for spec in fields(entry)}
    return {key: value for key, value in asdict(entry).items() if value != defaults[key]}


def from_dict(values: dict[str, Any]) -> Library:
    """The other way round. Raises KeyError or TypeError for anything but to_dict's result."""
    return Library(
        version=values["version"],
        patterns=tuple(pattern_from(entry) for entry in values["patterns"]),
        causes={entry["id"]: Cause(**_tuples(entry)) for entry in values["causes"]},
        advice={entry["name"]: Advice(**_tuples(entry)) for entry in values["advice"]},
        redactions=tuple(RedactionRule(**_tuples(entry)) for entry in values["redactions"]),
        scopes=values["scopes"],
        families={entry["id"]: Cause(**_tuples(entry)) for entry in values["families"]},
    )


def pattern_from(entry: dict[str, Any]) -> Pattern:
    """A Pattern from plain values."""
    entry = _tuples(entry)
    entry.setdefault("match", None)
    entry["facts"] = tuple(FactSpec(**spec) for spec in entry.get("facts", ()))
    if entry.get("frame"):
        entry["frame"] = Frame(**entry["frame"])
    return Pattern(**entry)


def _tuples(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}
