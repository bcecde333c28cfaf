"""The interface speaks both languages: every message has a translation, with the same placeholders, and what is shipped is what is written."""

from __future__ import annotations

import ast
import io
import re
import string
import subprocess
import sys
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po

ROOT = Path(__file__).resolve().parents[2]
#: What marks a message, as ``make messages`` has it: a function, or an error whose first (or, ``:2``, second) argument is one.
MARKS = re.findall(r"-k (\S+)", next(line for line in (ROOT / "Makefile").read_text().splitlines() if line.startswith("MARKS")))
FOLDER = ROOT / "analyzer" / "locale" / "zh" / "LC_MESSAGES"


@pytest.fixture(scope="module")
def messages(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Every message that the code marks."""
    target = tmp_path_factory.mktemp("catalogue") / "messages.pot"
    command = [sys.executable, "-m", "babel.messages.frontend", "-q", "extract", "-F", "babel.cfg"]
    command += [*(part for mark in MARKS for part in ("-k", mark)), "-o", str(target), "analyzer"]
    subprocess.run(command, cwd=ROOT, check=True, timeout=60)
    with target.open("rb") as file:
        return {message.id for message in read_po(file) if message.id}


@pytest.fixture(scope="module")
def catalogue() -> Catalog:
    with (FOLDER / "vramledger.po").open("rb") as file:
        return read_po(file)


def _placeholders(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


def test_every_message_has_a_translation(messages: set[str], catalogue: Catalog) -> None:
    assert len(messages) > 50
    assert sorted(text for text in messages if not (catalogue.get(text) and catalogue.get(text).string)) == []


def test_no_message_is_put_together_outside_of_the_catalogue(messages: set[str]) -> None:
    """Of an error that people read, the words are one literal with placeholders, or come from another one."""
    place = {name: int(at or 1) - 1 for name, _, at in (mark.partition(":") for mark in MARKS)}
    wrong = []
    for path in sorted((ROOT / "analyzer").rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(call, ast.Call):
                continue
            name = getattr(call.func, "id", getattr(call.func, "attr", ""))
            said = call.args[place[name]] if name in place and len(call.args) > place[name] else None
            if isinstance(said, ast.JoinedStr | ast.BinOp) or (isinstance(said, ast.Constant) and said.value not in messages):
                wrong.append(f"{path.relative_to(ROOT)}:{call.lineno}")
    assert wrong == []


def test_no_translation_is_left_over(messages: set[str], catalogue: Catalog) -> None:
    assert sorted(message.id for message in catalogue if message.id and message.id not in messages) == []


def test_placeholders_are_the_same(catalogue: Catalog) -> None:
    differing = [message.id for message in catalogue if message.id and _placeholders(message.id) != _placeholders(message.string)]
    assert differing == []


def test_the_compiled_catalogue_is_up_to_date(catalogue: Catalog) -> None:
    compiled = io.BytesIO()
    write_mo(compiled, catalogue)
    assert (FOLDER / "vramledger.mo").read_bytes() == compiled.getvalue(), "run `make messages`"
