"""``?live=1``: the answer runs beside the upload. First the link, then a line for each thing learned, at the end the report.

The analysis is committed as ``receiving`` before the first byte goes out. What ends the pipe (its sender, silence, a limit, the server's
own end) leaves it analysed and marked ``truncated``; what cannot be read leaves nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import anyio
from starlette.responses import Response

from analyzer.intake.errors import IntakeError
from analyzer.model.message import Message
from analyzer.model.units import human
from analyzer.report.messages import CONFIDENCE, SEVERITY, tell, translator
from analyzer.store import receiving, repository
from analyzer.store.repository import StaleError
from analyzer.store.secrets import new_id, new_token, token_hash
from analyzer.web import auth, negotiate, problems
from analyzer.web.answers import Stored, base_url, page_url, report_text, terminal_safe
from analyzer.web.body import Body
from analyzer.web.encodings import Encoding
from analyzer.web.logs import log_mistake
from analyzer.web.problems import Problem, encoded
from analyzer.web.receive import counted, known, now
from analyzer.web.service import Service, service
from analyzer.web.upload import Upload, clean_name

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from analyzer.model import Report

#: Between two looks at what is known: so long at least, and so many times as long as the last look took.
LOOK_SECONDS = 0.5
_LOOK_SHARE = 20
#: A reader that takes nothing for so long gets nothing more until the end: the pipe never waits for it.
_SEND_SECONDS = 5.0
#: Figures told while the pipe runs; the report at the end has all.
_FIGURES = 200


class Live(Response):
    """The answer to one pipe. To be returned by a route instead of a report."""

    def __init__(self, request: Request, name: str) -> None:
        """Raises Problem for what can be refused before the first byte."""
        self._request = request
        self._here: Service = service(request)
        auth.require_uploader(request, self._here.settings)
        negotiate.form(request, "text")
        self._name = clean_name(name, "stdin")
        self._keep = not negotiate.no(request, "store")
        self._body = Body(request, self._here.settings, self._here.pipes)
        self._encoding = Encoding(request.headers.get("content-encoding", ""), self._here.settings.limits)
        self._stored = Stored(new_id(), now()) if self._keep else None
        self._token = new_token()
        super().__init__(status_code=201 if self._keep else 200, media_type="text/plain; charset=utf-8")
        self._learned = Learned(self._here.language(request))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with counted(self._request, self._here, self._body):
            upload = await self._here.work(Upload, self._here.settings, self._here.library, encoded=bool(self._encoding), keep=self._keep)
            try:
                await self._answer(send, upload)
            finally:
                upload.discard()

    async def _answer(self, send: Send, upload: Upload) -> None:
        here, stored = self._here, self._stored
        give, take = anyio.create_memory_object_stream[bytes](0)
        broken: list[Problem] = []
        if stored is not None:
            name = here.clean(self._name)
            await here.store(receiving.begin, here.database, stored.id, stored.created, token_hash(self._token), name)
        async with anyio.create_task_group() as tasks:
            # Reading begins first: only then does a client that asked whether to go on get its answer.
            tasks.start_soon(self._pump, give, broken)
            writer = _Writer(send, self.status_code)
            try:
                await writer.start(self._head())
                if stored is not None:
                    await writer.line(page_url(self._request, stored.id))
                await self._follow(take, upload, writer)
                if broken:
                    await self._refused(broken[0], writer)
                else:
                    await self._end(upload, writer)
            except Problem as problem:
                await self._refused(problem, writer)
            except Exception as error:  # noqa: BLE001 — a mistake of ours: it is logged and told, the answer has begun already
                log_mistake("a pipe could not be analysed", error)
                kind = type(error).__name__
                if stored is not None:
                    await here.store(receiving.fail, here.database, stored.id, Message("our mistake ({kind})", kind=kind), now())
                told = Problem("unavailable", "this cannot be analysed, which is our mistake ({kind})", kind=kind)
                await writer.finish(problems.line(told, tell(told, here.language(self._request))))
            tasks.cancel_scope.cancel()

    def _head(self) -> list[tuple[bytes, bytes]]:
        if self._stored is not None:
            self.headers["Location"] = f"/a/{self._stored.id}"
            auth.hand_out(self, self._stored.id, self._token, secure=base_url(self._request).startswith("https:"))
        self.headers["Cache-Control"] = "no-store"
        self.headers["X-Accel-Buffering"] = "no"
        del self.headers["Content-Length"]
        return self.raw_headers

    async def _pump(self, give: MemoryObjectSendStream[bytes], broken: list[Problem]) -> None:
        async with give:
            try:
                async for piece in self._body.pieces(at_once=True):
                    await give.send(piece)
            except Problem as problem:
                broken.append(problem)

    async def _follow(self, take: MemoryObjectReceiveStream[bytes], upload: Upload, writer: _Writer) -> None:
        """Everything of the pipe into the analysis; now and then a look at what is known."""
        here = self._here
        incoming = upload.open(self._name)
        touched = time.monotonic()
        due: float | None = None  # the next look; None while nothing new has come
        rest = LOOK_SECONDS

        def feed(data: bytes) -> None:
            for piece in self._encoding.feed(data):
                upload.feed(incoming, piece)

        while True:
            piece = None
            wait = receiving.TOUCH_SECONDS if due is None else max(0.0, due - time.monotonic())
            with anyio.move_on_after(wait):
                try:
                    piece = await take.receive()
                except anyio.EndOfStream:
                    break
            if piece is not None:
                here.metrics.upload_bytes.inc(len(piece))
                await self._guarded(feed, piece)
                due = due if due is not None else time.monotonic() + rest
            if due is not None and time.monotonic() >= due:
                start = time.monotonic()
                report = await here.work(upload.now)
                for line in self._learned.new(report) if report else ():
                    await writer.line(line)
                rest = max(LOOK_SECONDS, _LOOK_SHARE * (time.monotonic() - start))
                due = None
            if self._stored is not None and time.monotonic() - touched >= receiving.TOUCH_SECONDS:
                touched = time.monotonic()
                await here.store(receiving.touch, here.database, self._stored.id, now())
        if not self._body.truncated:
            self._encoding.close()

        def close() -> None:
            upload.close(incoming, truncated=self._body.truncated)

        await self._guarded(close)

    async def _guarded(self, function: object, *arguments: object) -> None:
        try:
            await self._here.work(function, *arguments)  # type: ignore[arg-type]
        except IntakeError as error:
            raise known(error) from error

    async def _end(self, upload: Upload, writer: _Writer) -> None:
        here, stored = self._here, self._stored
        try:
            start = time.monotonic()
            outcome = await here.work(upload.finish)
        except IntakeError as error:
            raise known(error) from error
        if stored is not None:
            try:
                await here.store(repository.replace, here.database, stored.id, 0, outcome.report, outcome.inputs, now())
            except StaleError:
                raise Problem("not_found", "this analysis has been deleted meanwhile") from None
            await here.store(here.noticed, outcome.report)
        here.metrics.analysed(outcome.report, time.monotonic() - start)
        for line in self._learned.new(outcome.report):
            await writer.line(line)
        text = report_text(self._request, outcome.report, "text", here.language(self._request), stored)
        await writer.finish("\n" + text)

    async def _refused(self, problem: Problem, writer: _Writer) -> None:
        """An error leaves nothing behind; what took too long is kept as failed, its link has been given away."""
        here, stored = self._here, self._stored
        if stored is not None:
            if problem.code == "unavailable":
                await here.store(receiving.fail, here.database, stored.id, problem.message, now())
            else:
                await here.store(repository.delete, here.database, stored.id)
        await writer.finish(problems.line(problem, here.clean(tell(problem, here.language(self._request)))))


class _Writer:
    """Sends lines, and never waits long for a reader that takes none."""

    def __init__(self, send: Send, status: int) -> None:
        self._send = send
        self._status = status
        self._stuck = False

    async def start(self, headers: list[tuple[bytes, bytes]]) -> None:
        await self._send({"type": "http.response.start", "status": self._status, "headers": headers})

    async def line(self, text: str) -> None:
        if self._stuck:
            return
        with anyio.move_on_after(_SEND_SECONDS) as scope:
            await self._send({"type": "http.response.body", "body": encoded(text + "\n"), "more_body": True})
        self._stuck = scope.cancelled_caught

    async def finish(self, text: str) -> None:
        with anyio.move_on_after(10 * _SEND_SECONDS):
            await self._send({"type": "http.response.body", "body": encoded(text), "more_body": False})


class Learned:
    """What a report says that the ones before it did not, a line each."""

    def __init__(self, language: str) -> None:
        self._language = language
        self._said: set[tuple[object, ...]] = set()
        self._figures = 0

    def new(self, report: Report) -> Iterator[str]:
        """The lines to be said of ``report``, without control characters."""
        for key, line in self._things(report):
            if key not in self._said:
                self._said.add(key)
                yield terminal_safe(line, color=False).replace("\n", " ")

    def _things(self, report: Report) -> Iterator[tuple[tuple[object, ...], str]]:
        _ = translator(self._language)
        engine = report.engine
        if engine.name:
            said = " ".join(part for part in (engine.name, engine.version or engine.version_range, engine.generation) if part)
            yield ("engine", said), said
        for attempt in report.attempts[-1:]:
            where = f"{attempt.input}:{attempt.first_line}"
            yield ("attempt", attempt.index), _("start {number}, from {place}").format(number=attempt.index + 1, place=where)
            if attempt.stage:
                yield ("stage", attempt.index, attempt.stage, attempt.state), f"{attempt.stage}, {attempt.state.value}"
        for fact in report.facts:
            if self._figures >= _FIGURES:
                break
            key = ("fact", fact.attempt, fact.name, fact.rank, fact.gpu, fact.pid, str(fact.value))
            if key in self._said:
                continue
            self._figures += 1
            size = fact.bytes
            value = human(size) if size is not None else f"{fact.value} {fact.unit}".strip()
            whose = "".join(f", {what} {number}" for what, number in (("rank", fact.rank), ("GPU", fact.gpu)) if number is not None)
            yield key, _("{figure}, line {number}").format(figure=f"{fact.name} {value}{whose}", number=fact.source.line)
        for finding in report.findings:
            title = finding.title.get(self._language)
            yield (
                ("finding", finding.cause, title),
                _("{severity}: {title} ({confidence})").format(
                    severity=_(SEVERITY[finding.severity.value]), title=title, confidence=_(CONFIDENCE[finding.confidence.value])
                ),
            )
