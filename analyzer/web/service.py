"""What every request needs, made once: settings, database, library, worker threads, counters."""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import anyio
from anyio import CapacityLimiter, to_thread

from analyzer.intake.redact import Redactor
from analyzer.patterns.runner import runner
from analyzer.store import repository
from analyzer.web import negotiate
from analyzer.web.crew import Crew

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

    from analyzer.jobs.queue import Jobs
    from analyzer.model import Report
    from analyzer.patterns.model import Library
    from analyzer.settings import Settings
    from analyzer.store.database import Database
    from analyzer.store.values import NewAnalysis
    from analyzer.web.body import Pipes
    from analyzer.web.metrics import Metrics

_P = ParamSpec("_P")
_T = TypeVar("_T")

#: Threads that wait for the database at the same time.
DATABASE_THREADS = 32


@dataclass
class Service:
    """The service behind the routes. ``workers`` bounds analyses at work at the same time, not uploads that are open."""

    settings: Settings
    database: Database
    pipes: Pipes
    metrics: Metrics
    crew: Crew = field(default_factory=Crew, init=False)
    _workers: CapacityLimiter | None = field(default=None, init=False)
    _waiters: CapacityLimiter | None = field(default=None, init=False)

    @functools.cached_property
    def library(self) -> Library:
        """The pattern library in use. Raises LibraryError where a user's own patterns are wrong."""
        from analyzer.readers import anchors

        return runner(tuple(self.settings.patterns), anchors()).library

    @property
    def timeouts(self) -> int:
        """How often a pattern was given up on a line, in this process."""
        from analyzer.readers import anchors

        return sum(extractor.timeouts for extractor in runner(tuple(self.settings.patterns), anchors()).extractors)

    @functools.cached_property
    def jobs(self) -> Jobs:
        """The queue."""
        from analyzer.jobs.queue import Jobs

        return Jobs(self.settings, self.database)

    def keep(self, new: NewAnalysis) -> None:
        """Store an analysis; when this returns it survives a kill."""
        repository.create(self.database, new)
        self.noticed(new.report)

    def noticed(self, report: Report) -> None:
        """A report was stored: a failure that is seen for the first time is told to whoever asked for that."""
        from analyzer.jobs.notice import notice

        notice(self.settings, self.database, report)

    async def work(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run what needs the processor in a thread."""
        if self._workers is None:
            self._workers = CapacityLimiter(max(2, os.cpu_count() or 1))
        return await to_thread.run_sync(functools.partial(function, *args, **kwargs), limiter=self._workers)

    async def store(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run what waits for the database in a thread. Goes on when the request is gone: a commit is not torn."""
        if self._waiters is None:
            self._waiters = CapacityLimiter(DATABASE_THREADS)
        with anyio.CancelScope(shield=True):
            result = await to_thread.run_sync(functools.partial(function, *args, **kwargs), limiter=self._waiters)
        return result  # noqa: RET504 — a scope may swallow, says its type

    def clean(self, text: str) -> str:
        """``text`` redacted: what is said of an input (its name, a path) is said to whoever reads it, and may be logged."""
        return Redactor(self.library.redactions).clean(text)

    def language(self, request: Request) -> str:
        """The language of an answer."""
        return negotiate.language(request, self.settings.lang)


def service(request: Request) -> Service:
    """The service of the application that handles ``request``."""
    found: Service = request.app.state.service
    return found
