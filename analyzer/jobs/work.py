"""One queued analysis: read what is stored, analyse, store the report. The same whoever runs it."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal

from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from analyzer.intake.errors import IntakeError
from analyzer.jobs.notice import notice
from analyzer.model.message import Message
from analyzer.store import queued, repository
from analyzer.store.repository import StaleError
from analyzer.web import traces
from analyzer.web.logs import log_mistake
from analyzer.web.problems import Problem
from analyzer.web.upload import Upload

if TYPE_CHECKING:
    from analyzer.patterns.model import Library
    from analyzer.settings import Settings
    from analyzer.store.database import Database
    from analyzer.store.queued import Claim
    from analyzer.web.metrics import Metrics

_log = logging.getLogger("vramledger.job")
#: ``gone``: somebody else has it, or it is deleted. ``released``: to be begun again.
Ended = Literal["done", "failed", "released", "gone"]
#: What says that the database does not answer: no fault of the input.
DATABASE_ERRORS = (OperationalError, InterfaceError, PoolTimeoutError)
#: Seconds before the second try, doubled for each further one.
BACK_OFF_SECONDS = 5


@dataclass
class Workshop:
    """What is worked on with, and what is being worked on at the moment."""

    settings: Settings
    database: Database
    library: Library
    metrics: Metrics
    _mine: dict[str, Claim] = field(default_factory=dict, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def work_on(self, identifier: str) -> Ended:
        """Analyse it, if it waits. Raises what the database raises; the analysis is then given back, or found by the sweep."""
        claimed = queued.claim(self.database, identifier, _now())
        if claimed is None:
            return "gone"
        with self._lock:
            self._mine[identifier] = claimed
        start = time.monotonic()
        try:
            with traces.span("analyse", tries=claimed.tries) as seen:
                ended = self._analyse(claimed)
                seen["ended"] = ended
        finally:
            with self._lock:
                self._mine.pop(identifier, None)
        self.metrics.jobs.labels(ended).inc()
        took = round(1000 * (time.monotonic() - start))
        _log.info("job %s", ended, extra={"fields": {"ended": ended, "tries": claimed.tries, "ms": took}})
        return ended

    def keep_alive(self) -> None:
        """Say that what is worked on is not lost."""
        queued.keep_alive(self.database, list(self._mine), _now())

    def give_back(self) -> int:
        """Put what is being worked on back into the queue: this process ends. How many it were."""
        with self._lock:
            mine = list(self._mine.values())
        for claimed in mine:
            queued.release(self.database, claimed, None, _now())
        return len(mine)

    def _analyse(self, claimed: Claim) -> Ended:
        upload = Upload(self.settings, self.library, keep=False)
        try:
            start = time.monotonic()
            upload.replay(repository.inputs(self.database, claimed.id))
            outcome = upload.finish()
            self.metrics.analysed(outcome.report, time.monotonic() - start)
            start = time.monotonic()
            repository.replace(self.database, claimed.id, claimed.revision, outcome.report, (), _now())
            self.metrics.stage.labels("store").observe(time.monotonic() - start)
            notice(self.settings, self.database, outcome.report)
        except StaleError:
            return "gone"
        except IntakeError as error:
            return self._failed(claimed, error.message)
        except Problem as problem:
            return self._failed(claimed, problem.message)
        except DATABASE_ERRORS:
            queued.release(self.database, claimed, None, _now())
            raise
        except MemoryError:
            # It may be the others' memory: later, and not for ever.
            if claimed.tries >= queued.MOST_TRIES:
                return self._failed(claimed, Message("reading this takes more memory than there is; send the head and the tail of the log"))
            queued.release(self.database, claimed, _now() + timedelta(seconds=BACK_OFF_SECONDS * 2**claimed.tries), _now())
            return "released"
        except Exception as error:  # noqa: BLE001 — a mistake of ours: the same input makes it again, so it is not tried again
            log_mistake("a queued analysis failed", error)
            return self._failed(claimed, Message("this input cannot be analysed, which is our mistake ({kind})", kind=type(error).__name__))
        else:
            return "done"
        finally:
            upload.discard()

    def _failed(self, claimed: Claim, reason: Message) -> Ended:
        queued.fail(self.database, claimed, reason, _now())
        return "failed"


def _now() -> datetime:
    return datetime.now(UTC)
