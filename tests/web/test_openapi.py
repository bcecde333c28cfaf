"""Whatever the OpenAPI description allows, and much that it does not, is sent: nothing is answered with a 500."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error

if TYPE_CHECKING:
    from tests.web.conftest import Running

CALLS = [
    ("PUT", "/"),
    ("POST", "/"),
    ("PUT", "/{name}"),
    ("PUT", "/a/{identifier}"),
    ("POST", "/a/{identifier}"),
    ("POST", "/v1/analyses"),
    ("GET", "/v1/analyses"),
    ("GET", "/v1/analyses/{identifier}"),
    ("DELETE", "/v1/analyses/{identifier}"),
    ("POST", "/v1/analyses/{identifier}/inputs"),
    ("GET", "/v1/analyses/{identifier}/log"),
    ("GET", "/v1/compare"),
    ("GET", "/v1/analyses/{identifier}/events"),
    ("POST", "/v1/analyses/{identifier}/feedback"),
    ("GET", "/v1/feedback"),
    ("GET", "/v1/groups"),
    ("POST", "/v1/what-if"),
    ("GET", "/v1/limits"),
    ("GET", "/v1/redactions"),
    ("GET", "/v1/patterns"),
]


@pytest.mark.parametrize(("method", "path"), CALLS)
def test_nothing_that_a_client_sends_is_a_500(live: Running, method: str, path: str) -> None:
    schema = schemathesis.openapi.from_url(f"{live.url}/openapi.json")

    @settings(
        max_examples=12, deadline=None, derandomize=True, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
    )
    @given(schema[path][method].as_strategy())
    def send(case: schemathesis.Case) -> None:
        case.call_and_validate(checks=[not_a_server_error])

    send()


def test_the_calls_above_are_all_that_are_described(one: Running) -> None:
    with one.client() as client:
        described = client.get("/openapi.json").json()["paths"]
    calls = {(method.upper(), path) for path, operations in described.items() for method in operations}
    assert calls - {("GET", "/healthz"), ("GET", "/readyz"), ("GET", "/metrics")} == set(CALLS)
