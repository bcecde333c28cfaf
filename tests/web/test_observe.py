"""What is written and told of requests and errors: enough to find them, and nothing of what an input held."""

from __future__ import annotations

import io
import json
import logging
import time
from typing import TYPE_CHECKING, Any

import pytest
import sentry_sdk
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from sentry_sdk.transport import Transport

from analyzer import settings
from analyzer.web import errors, observe, traces
from analyzer.web.logs import log_mistake
from tests.web.conftest import CAUSE, LOG, Running, running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SECRET = "hf_secretsecretsecretsecretsecretsecre"


class Told(Transport):
    """Takes what would be sent."""

    events: list[Any]

    def __init__(self, options: Any = None) -> None:
        super().__init__(options)
        self.events = []

    def capture_envelope(self, envelope: Any) -> None:
        self.events += [item.payload.json for item in envelope.items if item.payload.json]


def until(look: Callable[[], str], enough: Callable[[str], bool]) -> str:
    """What ``look`` gives once it is ``enough``: a line is written after its answer."""
    end = time.monotonic() + 10
    while not enough(found := look()) and time.monotonic() < end:
        time.sleep(0.02)
    return found


@pytest.fixture
def sentry() -> Iterator[list[Any]]:
    told = Told()
    errors.start(settings.load(sentry_dsn="https://key@example.invalid/1"), told)
    yield told.events
    sentry_sdk.get_global_scope().set_client(None)  # never init() without its integrations off: they patch the server for good


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(observe.JsonLines())
    logger = logging.getLogger("vramledger")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield stream
    logger.removeHandler(handler)
    logger.setLevel(level)


def test_a_request_has_a_line_with_its_route_and_no_path(one: Running, lines: io.StringIO) -> None:
    with one.client() as client:
        made = client.post("/v1/analyses", content=LOG, params={"name": f"{SECRET}.log"})
        given = client.get(made.headers["location"], headers={"X-Request-ID": "from-the-proxy-1"})
        client.get(f"/{SECRET}/{SECRET}", headers={"X-Request-ID": SECRET + " " + SECRET})
    text = until(lines.getvalue, lambda text: text.count("vramledger.request") == 3)
    written = [json.loads(line) for line in text.splitlines()]
    first, second, third = [line for line in written if line["logger"] == "vramledger.request"]
    assert (first["method"], first["route"], first["status"]) == ("POST", "/v1/analyses", 201)
    assert first["request_id"] == made.headers["x-request-id"]
    assert (second["route"], second["request_id"]) == ("/v1/analyses/{identifier}", "from-the-proxy-1")
    assert given.headers["x-request-id"] == "from-the-proxy-1"
    assert (third["route"], third["status"]) == ("other", 404)
    assert made.json()["id"] not in text
    assert SECRET not in text


def test_an_error_of_ours_is_told_without_what_it_says(sentry: list[Any]) -> None:
    def broken(text: str) -> None:
        raise ValueError(f"cannot read {text}")

    try:
        broken(SECRET)
    except ValueError as error:
        log_mistake("an input could not be analysed", error)
    (event,) = sentry
    (told,) = event["exception"]["values"]
    assert (told["type"], told["value"]) == ("ValueError", "")
    assert told["stacktrace"]["frames"][-1]["function"] == "broken"
    assert SECRET not in json.dumps(event)
    assert not {"request", "user", "extra", "breadcrumbs", "modules", "contexts", "server_name"} & set(event)


def test_nothing_is_told_unless_it_is_set() -> None:
    assert not sentry_sdk.is_initialized()
    assert settings.load().sentry_dsn is None
    errors.start(settings.load())
    log_mistake("x", ValueError("y"))
    assert not sentry_sdk.is_initialized()


def test_a_failure_is_told_the_first_time(tmp_path: Path, sentry: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "start", lambda _: None)
    with (
        running(f"sqlite:///{tmp_path}/store.db", sentry_dsn="https://key@example.invalid/1", sentry_groups=True) as server,
        server.client() as client,
    ):
        other = b"vllm serve m --dry-run\nvllm: error: unrecognized arguments: --dry-run\n"
        for text in (other, other, LOG, LOG):
            client.post("/v1/analyses", content=text).raise_for_status()
    assert [event["tags"]["cause"] for event in sentry] == ["args.unknown_flag", CAUSE]
    assert sentry[0]["fingerprint"] == [sentry[0]["tags"]["fingerprint"]]
    assert "dry-run" not in json.dumps(sentry[0])


def test_traces_hold_routes_and_no_ids(one: Running) -> None:
    exporter = InMemorySpanExporter()
    traces.start(settings.load(), "test", exporter)
    try:
        with one.client() as client:
            identifier = client.post("/v1/analyses", content=LOG).json()["id"]
            parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
            client.get(f"/v1/analyses/{identifier}", headers={"traceparent": parent})
        time.sleep(0.5)  # the span ends after its answer
    finally:
        traces.stop()
    spans = exporter.get_finished_spans()
    assert [span.name for span in spans] == ["POST /v1/analyses", "GET /v1/analyses/{identifier}"]
    assert spans[1].parent is not None
    assert f"{spans[1].parent.trace_id:032x}" == "0af7651916cd43dd8448eb211c80319c"
    assert identifier not in "".join(span.to_json() for span in spans)


def test_a_span_tells_an_errors_type_only() -> None:
    exporter = InMemorySpanExporter()
    traces.start(settings.load(), "test", exporter)
    with pytest.raises(ValueError), traces.span("x", size=3):
        raise ValueError(SECRET)
    traces.stop()
    (span,) = exporter.get_finished_spans()
    assert dict(span.attributes or {}) == {"size": 3, "error.type": "ValueError"}
    assert SECRET not in span.to_json()


def test_metrics_tell_causes_and_the_queue(one: Running) -> None:
    with one.client() as client:
        client.post("/v1/analyses", content=LOG).raise_for_status()
        text = client.get("/metrics").text
    assert f'vramledger_outcomes_total{{cause="{CAUSE}",state="failed"}}' in text
    for line in ('vramledger_queue{state="queued"} 0.0', 'vramledger_queue{state="running"} 0.0', "vramledger_pattern_timeouts 0.0"):
        assert line in text
    assert 'vramledger_stage_seconds_count{stage="analyse"}' in text
