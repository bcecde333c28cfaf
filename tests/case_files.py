"""The cases of fixtures/cases: inputs with the right answer beside them, and reports on them, made once a process."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from analyzer import analyze
from analyzer.model import Report

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
FOLDERS = {folder.parent.name: folder.parent for folder in sorted((FIXTURES / "cases").rglob("case.yaml"))}


@cache
def answer(name: str) -> dict[str, Any]:
    """What is right: the case's ``case.yaml``."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found: dict[str, Any] = yaml.load((FOLDERS[name] / "case.yaml").read_text(encoding="utf-8"), Loader=loader)
    return found


@cache
def inputs(name: str) -> tuple[Path, ...]:
    """The files a user would send, in order."""
    return tuple(FOLDERS[name] / given["file"] for given in answer(name)["inputs"])


@cache
def report(name: str) -> Report:
    """The report on the case ``name``. Not to be changed by a test."""
    return analyze(inputs(name))


@cache
def as_json(name: str) -> dict[str, Any]:
    """The same in the contract's shape."""
    found: dict[str, Any] = json.loads(report(name).to_json())
    return found
