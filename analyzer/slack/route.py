"""``POST /slack/events``: everything that Slack sends over HTTP comes here, signed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
from anyio import CapacityLimiter, to_thread
from slack_bolt.request import BoltRequest
from starlette.responses import Response

from analyzer.slack.app import Bot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastapi import FastAPI
    from starlette.requests import Request

PATH = "/slack/events"
#: Slack's largest requests (a message of 40,000 characters with its blocks) stay far below this.
MAX_BYTES = 4 << 20
#: Seconds in which a request must have come, and requests that are acknowledged at the same time.
_BODY_SECONDS, _THREADS = 10.0, 32


def mount(app: FastAPI, bot: Bot) -> None:
    """Let ``bot`` answer at PATH."""
    limiter: list[CapacityLimiter] = []

    async def events(request: Request) -> Response:
        body = await _body(request)
        if body is None:
            return Response(status_code=413)
        try:
            text = body.decode()
        except UnicodeDecodeError:
            return Response(status_code=400)
        # Before anything of it is read: what is not Slack's is not even parsed.
        given = request.headers
        if not bot.believes(text, given.get("x-slack-request-timestamp", ""), given.get("x-slack-signature", "")):
            return Response(status_code=401)
        headers: dict[str, str | Sequence[str]] = {name: given.getlist(name) for name in given}
        try:
            asked = BoltRequest(body=text, query=request.url.query, headers=headers)
        except (ValueError, TypeError, AttributeError, KeyError):  # no JSON, or JSON that is no request of Slack's
            return Response(status_code=400)
        if not limiter:
            limiter.append(CapacityLimiter(_THREADS))
        with anyio.CancelScope(shield=True):
            answer = await to_thread.run_sync(bot.dispatch, asked, limiter=limiter[0])
        kept = {name: values[0] for name, values in answer.headers.items() if name.lower() not in ("content-length", "set-cookie")}
        return Response(answer.body, answer.status, kept)

    app.add_route(PATH, events, methods=["POST"], include_in_schema=False)


async def _body(request: Request) -> bytes | None:
    """The request's body; None where it is too large or too slow to be Slack's."""
    data = bytearray()
    with anyio.move_on_after(_BODY_SECONDS):
        async for piece in request.stream():
            data += piece
            if len(data) > MAX_BYTES:
                return None
        return bytes(data)
    return None
