"""The files that deploy the service say what the program means."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from analyzer.settings import PREFIX, Settings

ROOT = Path(__file__).parents[2]
#: Variables that are no settings of the service.
OTHER = {"VRAMLEDGER_CACHE_DIR"}


def _compose() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "docker-compose.yml").read_text())  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", ["Dockerfile", "docker-compose.yml"])
def test_every_variable_is_a_setting(name: str) -> None:
    known = {PREFIX + field.upper() for field in Settings.model_fields} | OTHER
    assert set(re.findall(r"\bVRAMLEDGER_[A-Z_]+\b", (ROOT / name).read_text())) <= known


def test_the_image_copies_what_the_program_needs() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    ignored = (ROOT / ".dockerignore").read_text().split()
    for folder in ("analyzer", "migrations", "patterns"):
        assert f"COPY {folder} {folder}\n" in dockerfile
        assert f"!{folder}" in ignored
    assert "--require-hashes -r requirements/run.lock" in dockerfile
    assert re.search(r"^USER (?!root)", dockerfile, re.MULTILINE)
    assert "HEALTHCHECK" in dockerfile


def test_compose_waits_for_a_healthy_database_and_publishes_to_this_machine_only() -> None:
    services = _compose()["services"]
    assert services["vramledger"]["depends_on"]["database"]["condition"] == "service_healthy"
    assert services["database"]["healthcheck"]
    assert services["database"]["volumes"]
    assert "ports" not in services["database"]
    assert all(port.startswith("127.0.0.1:") for port in services["vramledger"]["ports"])


def test_empty_variables_are_no_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TOKENS", "UPLOAD_TOKENS"):
        monkeypatch.setenv(PREFIX + name, "")
    assert Settings().tokens == ()


def test_analyse_and_store_do_not_need_each_other() -> None:
    """The command line's time is made of imports; a worker without a database still analyses."""
    program = """
import sys
import analyzer.{first}
unwanted = [name for name in sys.modules if name.split(".")[0] in {modules!r} or name.startswith({packages!r})]
assert not unwanted, unwanted[:5]
"""
    for first, modules, packages in (
        (
            "analysis",
            {"sqlalchemy", "alembic", "fastapi", "starlette", "pydantic", "pydantic_settings", "uvicorn"},
            ("analyzer.store", "analyzer.web"),
        ),
        (
            "store.repository",
            {"fastapi", "starlette", "uvicorn", "hyperscan", "alembic"},
            ("analyzer.web", "analyzer.intake", "analyzer.patterns"),
        ),
    ):
        code = program.format(first=first, modules=modules, packages=packages)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=ROOT)
        assert done.returncode == 0, done.stderr
