"""OpenTelemetry traces, where ``VRAMLEDGER_OTLP_ENDPOINT`` is set. Spans hold a route, never a path: an id is a capability."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from analyzer.settings import Settings

#: The tracer in use; None: nothing is traced.
_tracers: list[Any] = []


class TracesError(RuntimeError):
    """Why nothing can be traced."""


def start(settings: Settings, service: str, exporter: Any = None) -> None:
    """Trace from now on, as ``service``, if that is set. Raises TracesError where the packages for it are not installed."""
    if exporter is None and not settings.otlp_endpoint:
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise TracesError("VRAMLEDGER_OTLP_ENDPOINT needs the packages of vramledger[telemetry]") from error
    from analyzer import __version__

    # A provider of our own, not the process's: no library adds spans with paths or arguments in them.
    provider = TracerProvider(resource=Resource.create({"service.name": service, "service.version": __version__}))
    provider.add_span_processor(BatchSpanProcessor(exporter or OTLPSpanExporter(f"{(settings.otlp_endpoint or '').rstrip('/')}/v1/traces")))
    _tracers[:] = [(provider, provider.get_tracer("vramledger"))]


def stop() -> None:
    """Send what waits, and trace no more."""
    for provider, _ in _tracers:
        provider.shutdown()
    _tracers.clear()


@contextmanager
def span(name: str, parent: Mapping[str, str] | None = None, **attributes: Any) -> Iterator[dict[str, Any]]:
    """A span around something; what is put into the dict becomes its attributes. ``parent``: headers of whoever asks (W3C)."""
    added: dict[str, Any] = {}
    if not _tracers:
        yield added
        return
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    context = TraceContextTextMapPropagator().extract(parent) if parent else None
    # What an exception says may quote an input: only its type is told.
    with _tracers[0][1].start_as_current_span(name, context, record_exception=False, set_status_on_exception=False) as current:
        try:
            yield added
        except BaseException as error:
            added["error.type"] = type(error).__name__
            raise
        finally:
            current.update_name(added.pop("name", name))
            current.set_attributes({**attributes, **added})
