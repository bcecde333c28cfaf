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


FILES = [
    "Dockerfile",
    "docker-compose.yml",
    *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "deploy").rglob("*")) if path.is_file()),
]
MANIFESTS = sorted((ROOT / "deploy" / "kubernetes").glob("*.yaml"))


@pytest.mark.parametrize("name", [*FILES, "docs/operations.md"])
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


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_the_manifests_are_what_kubernetes_takes(path: Path) -> None:
    import kubernetes_validate

    documents = list(yaml.safe_load_all(path.read_text()))
    assert documents
    for document in documents:
        kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)


def test_the_manifests_fit_together() -> None:
    documents = [document for path in MANIFESTS for document in yaml.safe_load_all(path.read_text())]
    by_kind = {(document["kind"], document["metadata"]["name"]): document for document in documents}
    web = by_kind["Deployment", "vramledger-web"]["spec"]["template"]
    service = by_kind["Service", "vramledger"]["spec"]
    assert service["selector"].items() <= web["metadata"]["labels"].items()
    assert service["ports"][0]["targetPort"] in {port["name"] for port in web["spec"]["containers"][0]["ports"]}
    backend = by_kind["Ingress", "vramledger"]["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]
    assert (backend["name"], backend["port"]["name"]) == ("vramledger", service["ports"][0]["name"])
    for _, document in filter(lambda item: item[0][0] == "Deployment", by_kind.items()):
        pod = document["spec"]["template"]["spec"]
        assert {source[kind]["name"] for source in pod["containers"][0]["envFrom"] for kind in source} == {"vramledger"}
        assert pod["terminationGracePeriodSeconds"] > 20  # what the program takes for itself


def commands() -> list[str]:
    """Every call of the program in the files that deploy it."""
    found = [" ".join(one["command"]) for one in _compose()["services"].values() if "command" in one]
    documents = [document for path in MANIFESTS for document in yaml.safe_load_all(path.read_text())]
    pods = [document["spec"]["template"]["spec"] for document in documents if document["kind"] == "Deployment"]
    found += [" ".join(pod["containers"][0]["command"]) for pod in pods]
    for unit in (ROOT / "deploy" / "systemd").iterdir():
        found += re.findall(r"^ExecStart=\S*/(vramledger .*)$", unit.read_text(), re.MULTILINE)
    return found


@pytest.mark.parametrize("command", commands())
def test_every_command_is_one(command: str) -> None:
    from analyzer.cli import _parser

    name, *words = command.split()
    assert name == "vramledger"
    assert callable(_parser().parse_args(words).run)


def test_the_worker_of_compose_is_watched_and_shares_the_database() -> None:
    services = _compose()["services"]
    assert services["worker"]["healthcheck"]
    assert services["worker"]["environment"]["VRAMLEDGER_DATABASE_URL"] == services["vramledger"]["environment"]["VRAMLEDGER_DATABASE_URL"]
    assert services["proxy"]["profiles"] == ["tls"]
