"""Our own errors, told to Sentry where ``VRAMLEDGER_SENTRY_DSN`` is set.

Where they happened is told, and nothing of what an input or a request held.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from analyzer.model import Report
    from analyzer.settings import Settings

#: What is left of an event; a request, a user, the process's arguments, breadcrumbs and packages are not.
_KEPT = frozenset(
    {
        "event_id",
        "timestamp",
        "platform",
        "level",
        "release",
        "environment",
        "exception",
        "message",
        "logentry",
        "fingerprint",
        "tags",
        "sdk",
    }
)
_FRAME = ("filename", "abs_path", "function", "module", "lineno", "in_app")


def start(settings: Settings, transport: Any = None) -> None:
    """Tell errors from now on, if that is set."""
    if not settings.sentry_dsn:
        return
    import sentry_sdk

    from analyzer import __version__

    sentry_sdk.init(
        dsn=settings.sentry_dsn.get_secret_value(),
        release=f"vramledger@{__version__}",
        transport=transport,
        before_send=scrubbed,
        include_local_variables=False,
        include_source_context=False,
        max_request_body_size="never",
        max_breadcrumbs=0,
        server_name="",
        # No integration reads requests, logs or arguments by itself: what is told is told by this program.
        default_integrations=False,
        auto_enabling_integrations=False,
    )


def scrubbed(event: Any, hint: Any) -> Any:
    """``event`` without anything that an input or a request held: of an exception only its type and its frames stay."""
    kept = {name: event[name] for name in event if name in _KEPT}
    for error in (kept.get("exception") or {}).get("values", ()):
        error["value"] = ""
        frames = (error.get("stacktrace") or {}).get("frames", ())
        error["stacktrace"] = {"frames": [{name: frame[name] for name in _FRAME if name in frame} for frame in frames]}
        error.pop("mechanism", None)
    return kept


def tell(error: BaseException) -> None:
    """Tell of an error of ours."""
    if _is_on():
        import sentry_sdk

        sentry_sdk.capture_exception(error)


def tell_group(report: Report) -> None:
    """Tell of a failure that is seen for the first time: its cause, and nothing of its text."""
    if _is_on():
        import sentry_sdk

        root = report.root
        known = report.outcome.cause is not None and root is not None
        sentry_sdk.capture_event(
            {
                "level": "warning",
                "message": root.title.en if known and root is not None else "A failure that no pattern explains",
                "fingerprint": [report.fingerprint or ""],
                "tags": {
                    "cause": report.outcome.cause or "unknown",
                    "engine": report.engine.name or "unknown",
                    "engine_version": report.engine.version or "unknown",
                    "stage": report.outcome.stage or "unknown",
                    "fingerprint": report.fingerprint or "",
                },
            }
        )


def _is_on() -> bool:
    module = sys.modules.get("sentry_sdk")
    return module is not None and bool(module.is_initialized())
