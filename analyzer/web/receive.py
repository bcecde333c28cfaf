"""The whole of an upload: read the body, analyse, store, answer. Nothing is left behind where a step fails."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from analyzer.intake.errors import IntakeError
from analyzer.store import repository
from analyzer.store.receiving import RECEIVING
from analyzer.store.repository import StaleError
from analyzer.store.secrets import new_id, new_token, token_hash
from analyzer.store.values import KeptInput, NewAnalysis, StoredAnalysis
from analyzer.web import multipart
from analyzer.web.answers import Stored
from analyzer.web.body import Body
from analyzer.web.crew import SMALL_BYTES
from analyzer.web.encodings import Encoding
from analyzer.web.guard import address
from analyzer.web.logs import log_mistake
from analyzer.web.problems import CODES, Problem
from analyzer.web.service import Service, service
from analyzer.web.upload import Outcome, Upload, clean_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.requests import Request

_HOST_LENGTH = 128
#: How often an addition is tried again when another one was faster.
_TRIES = 5


@dataclass(frozen=True, slots=True)
class Received:
    """An analysed upload. ``stored`` and ``token`` are None where it was not to be kept; ``fields``: of a form."""

    outcome: Outcome
    stored: Stored | None
    token: str | None
    fields: dict[str, str]


def known(error: IntakeError) -> Problem:
    """An input's error as an answer."""
    code = error.code if error.code in CODES else "malformed_input"
    return Problem(code, error.message)


async def receive_new(request: Request, name: str, *, forms: bool, keep: bool = True) -> Received:
    """Analyse a request's body as a new analysis. ``forms``: multipart/form-data is taken apart. Raises Problem."""
    here = service(request)
    outcome, fields = await read_body(request, here, name, forms=forms, keep=keep)
    if not keep:
        return Received(outcome, None, None, fields)
    identifier, token, created = new_id(), new_token(), now()
    new = NewAnalysis(identifier, created, token_hash(token), outcome.report, outcome.inputs, host_name(request), outcome.rows)
    await here.store(here.keep, new)
    return Received(outcome, Stored(identifier, created), token, fields)


async def receive_more(request: Request, analysis: StoredAnalysis, name: str) -> Received:
    """Add a request's body to an analysis, and analyse everything again. Raises Problem."""
    here = service(request)
    if analysis.state == RECEIVING:
        raise Problem("unavailable", "the pipe of this analysis is still open; add to it when it has ended", {"Retry-After": "60"})
    earlier = await here.store(repository.inputs, here.database, analysis.id)
    outcome, fields = await read_body(request, here, name, forms=True, keep=True, earlier=earlier)
    added = outcome.inputs
    for _ in range(_TRIES):
        try:
            await here.store(repository.replace, here.database, analysis.id, analysis.revision, outcome.report, added, now())
        except StaleError:
            again = await here.store(repository.get, here.database, analysis.id)
            if again is None:
                raise Problem("not_found", "this analysis has been deleted meanwhile") from None
            analysis = again
            earlier = await here.store(repository.inputs, here.database, analysis.id)
            outcome = await here.work(_anew, here, [*earlier, *added])
        else:
            return Received(outcome, Stored(analysis.id, analysis.created), None, fields)
    raise Problem("unavailable", "too many additions to this analysis at once; try again", {"Retry-After": "1"})


def _anew(here: Service, inputs: list[KeptInput]) -> Outcome:
    upload = Upload(here.settings, here.library)
    try:
        upload.replay(inputs)
        return upload.finish()
    except IntakeError as error:
        raise known(error) from error


def now() -> datetime:
    return datetime.now(UTC)


async def read_body(
    request: Request,
    here: Service,
    name: str,
    *,
    forms: bool,
    keep: bool,
    earlier: list[KeptInput] | None = None,
    body: Body | None = None,
) -> tuple[Outcome, dict[str, str]]:
    """Analyse a request's body, after the inputs ``earlier``: (outcome, a form's fields). Raises Problem."""
    body = body or Body(request, here.settings, here.pipes)
    mark = multipart.boundary(request.headers.get("content-type", "")) if forms else None
    encoding = Encoding(request.headers.get("content-encoding", ""), here.settings.limits)
    if mark is None and not earlier and body.length is not None and body.length <= SMALL_BYTES:
        return await _read_whole(request, here, body, name, keep=keep), {}
    with counted(request, here, body):
        upload = await here.work(Upload, here.settings, here.library, encoded=bool(encoding) or mark is not None, keep=keep)
        try:
            if earlier:
                await here.work(upload.replay, earlier)
            if mark is None:
                fields = await take_raw(here, body, encoding, upload, name)
            else:
                fields = await take_form(here, body, encoding, upload, mark)
            start = time.monotonic()
            outcome = await here.work(upload.finish)
        except IntakeError as error:
            raise known(error) from error
        except Problem:
            raise
        except Exception as error:
            raise _mistake(here, error) from error
        finally:
            upload.discard()
        here.metrics.analysed(outcome.report, time.monotonic() - start)
    return outcome, fields


async def _read_whole(request: Request, here: Service, body: Body, name: str, *, keep: bool) -> Outcome:
    """A small raw body of known length: taken whole, then analysed at once, beside others in a process of its own."""
    with counted(request, here, body):
        data = b"".join([piece async for piece in body.pieces()])
        here.metrics.upload_bytes.inc(len(data))
        start = time.monotonic()
        try:
            outcome = await here.crew.run(here, data, request.headers.get("content-encoding", ""), name, keep=keep)
        except IntakeError as error:
            raise known(error) from error
        except Problem:
            raise
        except Exception as error:
            raise _mistake(here, error) from error
        here.metrics.analysed(outcome.report, time.monotonic() - start)
    return outcome


def _mistake(here: Service, error: Exception) -> Problem:
    """A mistake of ours in reading one input: it is logged, the service goes on, nothing is stored."""
    log_mistake("an input could not be analysed", error)
    here.metrics.analyses.labels("error").inc()
    return Problem("unavailable", "this input cannot be analysed, which is our mistake ({kind})", kind=type(error).__name__)


@contextlib.contextmanager
def counted(request: Request, here: Service, body: Body) -> Iterator[None]:
    """While a body is read: it counts among the open uploads, and as a pipe of its address. Raises Problem where it is one too many."""
    who = address(request.scope)
    if body.is_pipe:
        here.pipes.enter(who)
    here.metrics.uploads.inc()
    try:
        yield
    finally:
        here.metrics.uploads.dec()
        if body.is_pipe:
            here.pipes.leave(who)


async def take_raw(here: Service, body: Body, encoding: Encoding, upload: Upload, name: str) -> dict[str, str]:
    """A raw body into an upload. Raises IntakeError, Problem."""
    incoming = upload.open(clean_name(name, "input"))

    def feed(data: bytes) -> None:
        for piece in encoding.feed(data):
            upload.feed(incoming, piece)

    async for piece in body.pieces():
        here.metrics.upload_bytes.inc(len(piece))
        await here.work(feed, piece)
    if not body.truncated:
        encoding.close()
    await here.work(upload.close, incoming, truncated=body.truncated)
    return {}


async def take_form(here: Service, body: Body, encoding: Encoding, upload: Upload, mark: bytes) -> dict[str, str]:
    """A form's inputs into an upload; its other fields. Raises IntakeError, Problem."""
    form = multipart.Form(mark, upload)

    def feed(data: bytes) -> None:
        for piece in encoding.feed(data):
            form.feed(piece)

    async for piece in body.pieces():
        here.metrics.upload_bytes.inc(len(piece))
        await here.work(feed, piece)
    if body.truncated:
        raise Problem("malformed_multipart", "the form ends in the middle; send it again")
    encoding.close()
    form.close()
    return form.fields


def host_name(request: Request) -> str | None:
    """The machine that the inputs are of, where its sender says so: ``?host=``."""
    given = clean_name(request.query_params.get("host", ""), "")
    return service(request).clean(given)[:_HOST_LENGTH] if given else None


def default_name(request: Request, otherwise: str) -> str:
    """The name of a raw body: ``?name=``, else ``otherwise``."""
    return request.query_params.get("name") or otherwise
