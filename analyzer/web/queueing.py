"""``?wait=0``: the input is stored, redacted, and analysed by whoever works on the queue; how it goes on is told as events.

What is larger than HOLD_BYTES, or too large to be stored whole, is analysed while it comes, as without ``wait=0``: to hold it would cost
more than to read it. The answer is 202 all the same, its state ``done``.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

import anyio
from fastapi import APIRouter, Request
from starlette.responses import Response, StreamingResponse

from analyzer.intake.errors import IntakeError
from analyzer.report.messages import tell
from analyzer.store import queued
from analyzer.store.receiving import FAILED
from analyzer.store.repository import DONE
from analyzer.store.secrets import is_id, new_id, new_token, token_hash
from analyzer.store.values import KeptInput, NewAnalysis
from analyzer.web import auth, multipart, receive
from analyzer.web.answers import base_url, json_response, page_url
from analyzer.web.body import Body
from analyzer.web.encodings import Encoding
from analyzer.web.problems import Problem, encoded
from analyzer.web.service import Service, service
from analyzer.web.upload import TextUpload

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from analyzer.store.queued import Progress

router = APIRouter()
#: Bytes of a body that are held in memory until it ends.
HOLD_BYTES = 8 << 20
#: Between two looks at an analysis whose events are followed, and between two signs of life, seconds.
LOOK_SECONDS, SIGN_SECONDS = 0.3, 15.0
#: With it the same request may be sent again: it makes one analysis.
KEY_HEADER = "Idempotency-Key"
_KEY_LENGTH = (16, 255)
#: States that are the last.
_ENDED = (DONE, FAILED)


class Held(Body):
    """A body of which the first part is held, so that it can be read twice."""

    def __init__(self, request: Request, here: Service) -> None:
        super().__init__(request, here.settings, here.pipes)
        self._held: list[bytes] = []
        self._rest: AsyncIterator[bytes] | None = None

    async def fill(self) -> bool:
        """Read up to HOLD_BYTES; whether that is all of it."""
        self._rest = super().pieces()
        size = 0
        async for piece in self._rest:
            self._held.append(piece)
            size += len(piece)
            if size > HOLD_BYTES:
                return False
        self._rest = None
        return True

    async def pieces(self, *, at_once: bool = False) -> AsyncIterator[bytes]:
        """What is held, then what is still to come. ``at_once`` changes nothing."""
        for piece in self._held:
            yield piece
        if self._rest is not None:
            self._held.clear()
            async for piece in self._rest:
                yield piece


async def receive_queued(request: Request, name: str) -> Response:
    """Store a request's body to be analysed later, and answer 202. Raises Problem."""
    here = service(request)
    body = Held(request, here)
    with receive.counted(request, here, body):
        whole = await body.fill()
    key = _key(request)
    identifier, created = new_id(), receive.now()
    token = new_token() if key is None else _derived(key)
    host = receive.host_name(request)
    inputs = await _texts(request, here, body, name) if whole else None
    if inputs is not None:
        again = None if key is None else token_hash(f"request {key}")
        new = (identifier, created, token_hash(token), inputs, host, again)
        identifier = await here.store(queued.enqueue, here.database, *new)
        await here.store(here.jobs.defer, [identifier])
        state = queued.QUEUED
    else:
        outcome, _ = await receive.read_body(request, here, name, forms=True, keep=True, body=body)
        made = NewAnalysis(identifier, created, token_hash(token), outcome.report, outcome.inputs, host)
        await here.store(here.keep, made)
        state = DONE
    place = f"/v1/analyses/{identifier}"
    answer = json_response(
        {"id": identifier, "state": state, "url": page_url(request, identifier), "events": f"{base_url(request)}{place}/events"}, 202
    )
    answer.headers["Location"] = place
    auth.hand_out(answer, identifier, token, secure=base_url(request).startswith("https:"))
    return answer


def _key(request: Request) -> str | None:
    """The sender's own name of a request, under which it may be sent again. Raises Problem for one that another sender may have, too."""
    key = request.headers.get(KEY_HEADER)
    if key is not None and not _KEY_LENGTH[0] <= len(key) <= _KEY_LENGTH[1]:
        raise Problem(
            "invalid_request",
            "an {header} is random and has {low} to {high} characters",
            header=KEY_HEADER,
            low=_KEY_LENGTH[0],
            high=_KEY_LENGTH[1],
        )
    return key


def _derived(key: str) -> str:
    """The delete token of a request with a key: the answer to the same request is the same."""
    return base64.urlsafe_b64encode(token_hash(f"delete {key}")[:24]).decode()


async def _texts(request: Request, here: Service, body: Body, name: str) -> tuple[KeptInput, ...] | None:
    """The redacted texts of a body, whole; None where one is too large for that."""
    mark = multipart.boundary(request.headers.get("content-type", ""))
    encoding = Encoding(request.headers.get("content-encoding", ""), here.settings.limits)
    upload = await here.work(TextUpload, here.settings, here.library, encoded=bool(encoding) or mark is not None)
    try:
        if mark is None:
            await receive.take_raw(here, body, encoding, upload, name)
        else:
            await receive.take_form(here, body, encoding, upload, mark)
        kept = await here.work(upload.texts)
    except IntakeError as error:
        raise receive.known(error) from error
    finally:
        upload.discard()
    return None if any(one.text.gap_lines or one.text.second_gap_lines for one in kept) else kept


@router.get(
    "/v1/analyses/{identifier}/events",
    summary="Follow",
    responses={200: {"description": "Server-sent events", "content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def events(request: Request, identifier: str) -> Response:
    """Follow an analysis: `progress` whenever something changes (`state`, `ahead`: queued before it, `tries`), then one `done`."""
    here = service(request)
    first = await _look(here, identifier)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(_follow(request, here, identifier, first), 200, headers, "text/event-stream")


async def _look(here: Service, identifier: str) -> Progress:
    found = await here.store(queued.progress, here.database, identifier) if is_id(identifier) else None
    if found is None:
        raise Problem("not_found", "there is no such analysis: it has been deleted, or the link is not whole")
    return found


async def _follow(request: Request, here: Service, identifier: str, first: Progress) -> AsyncIterator[bytes]:
    now, said, silent = first, None, 0.0
    while now.state not in _ENDED:
        if now != said:
            yield _event("progress", {"id": identifier, "state": now.state, "ahead": now.ahead, "tries": now.tries})
            said, silent = now, 0.0
        elif silent >= SIGN_SECONDS:
            yield b": still here\n\n"
            silent = 0.0
        if here.pipes.stopping:
            return  # the server ends; a client of events comes again by itself
        await anyio.sleep(LOOK_SECONDS)
        silent += LOOK_SECONDS
        try:
            now = await _look(here, identifier)
        except Problem:
            yield _event("done", {"id": identifier, "state": "deleted"})
            return
    outcome = {"state": now.outcome_state, "cause": now.cause} if now.has_report else None
    error = {"error": tell(now.error, here.language(request))} if now.error else {}
    yield _event("done", {"id": identifier, "state": now.state, "url": page_url(request, identifier), "outcome": outcome, **error})


def _event(name: str, values: object) -> bytes:
    return encoded(f"event: {name}\ndata: {json.dumps(values, ensure_ascii=False)}\n\n")
