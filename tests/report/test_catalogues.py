"""The interface speaks both languages: every message has a translation, with the same placeholders, and what is shipped is what is written."""

from __future__ import annotations

import io
import string
import subprocess
import sys
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "analyzer" / "locale" / "zh" / "LC_MESSAGES"


@pytest.fixture(scope="module")
def messages(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Every message that the code marks."""
    target = tmp_path_factory.mktemp("catalogue") / "messages.pot"
    command = [
        sys.executable,
        "-m",
        "babel.messages.frontend",
        "-q",
        "extract",
        "-F",
        "babel.cfg",
        "-k",
        "N_",
        "-k",
        "_",
        "-o",
        str(target),
        "analyzer",
    ]
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


def test_no_translation_is_left_over(messages: set[str], catalogue: Catalog) -> None:
    assert sorted(message.id for message in catalogue if message.id and message.id not in messages) == []


def test_placeholders_are_the_same(catalogue: Catalog) -> None:
    differing = [message.id for message in catalogue if message.id and _placeholders(message.id) != _placeholders(message.string)]
    assert differing == []


def test_the_compiled_catalogue_is_up_to_date(catalogue: Catalog) -> None:
    compiled = io.BytesIO()
    write_mo(compiled, catalogue)
    assert (FOLDER / "vramledger.mo").read_bytes() == compiled.getvalue(), "run `make messages`"
