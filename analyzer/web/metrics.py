"""What Prometheus is told: all of it is declared here. No label holds anything that a client chose."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from analyzer.model import Report

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"})


class Metrics:
    """The counters of one application."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter("vramledger_requests", "Answered requests", ["method", "status"], registry=self.registry)
        self.analyses = Counter("vramledger_analyses", "Analyses by what the input shows", ["state"], registry=self.registry)
        self.upload_bytes = Counter("vramledger_upload_bytes", "Bytes of bodies that were read", registry=self.registry)
        self.uploads = Gauge("vramledger_uploads_open", "Uploads that are being read", registry=self.registry)
        self.seconds = Histogram(
            "vramledger_analysis_seconds",
            "From the end of a body to the stored report",
            buckets=(0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30),
            registry=self.registry,
        )

        self.causes = Counter(
            "vramledger_outcomes", "Analyses by what the input shows and its cause", ["state", "cause"], registry=self.registry
        )
        self.stage = Histogram(
            "vramledger_stage_seconds",
            "Time of an analysis's steps",
            ["stage"],
            buckets=(0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30),
            registry=self.registry,
        )
        self.jobs = Counter("vramledger_jobs", "Queued analyses that were worked on, by how it ended", ["ended"], registry=self.registry)
        self.timeouts = Gauge("vramledger_pattern_timeouts", "Patterns that were given up on a line", registry=self.registry)
        self.queue = Gauge("vramledger_queue", "Analyses that wait, and that are worked on", ["state"], registry=self.registry)

    def analysed(self, report: Report, seconds: float) -> None:
        """An analysis is done. Causes come from the library, so there are only so many."""
        outcome = report.outcome
        self.seconds.observe(seconds)
        self.stage.labels("analyse").observe(seconds)
        self.analyses.labels(outcome.state.value).inc()
        self.causes.labels(outcome.state.value, outcome.cause or "").inc()

    def text(self, waiting: Mapping[str, int] | None = None, timeouts: int = 0) -> bytes:
        """All of them in Prometheus's text format. ``waiting``: analyses in the queue by state, ``timeouts``: of patterns."""
        for state, count in (waiting or {}).items():
            self.queue.labels(state).set(count)
        self.timeouts.set(timeouts)
        return generate_latest(self.registry)


class Counting:
    """Counts answers by method and status."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def counting(message: Message) -> None:
            if message["type"] == "http.response.start":
                method = scope["method"] if scope["method"] in _METHODS else "other"
                self._metrics.requests.labels(method, str(message["status"])).inc()
            await send(message)

        await self._app(scope, receive, counting if scope["type"] == "http" else send)
