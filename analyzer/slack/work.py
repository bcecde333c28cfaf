"""The work behind an answer: one thread is one analysis, whatever is added to it later, and one reply that is edited in place."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from slack_sdk.errors import SlackApiError

from analyzer.model.message import Message
from analyzer.patterns.runner import runner
from analyzer.readers import anchors
from analyzer.report.messages import tell
from analyzer.slack import blocks, words
from analyzer.slack.client import CLOSED, Slack, error_code, reason, told
from analyzer.slack.files import FileError
from analyzer.slack.picture import ledger_png
from analyzer.slack.reading import MIN_CHARS, Item, Read, alone, certain_failure, read, telling
from analyzer.slack.sources import Source, is_message, sources
from analyzer.store import repository, slack
from analyzer.store.repository import StaleError
from analyzer.store.secrets import new_id, new_token, token_hash
from analyzer.store.values import NewAnalysis
from analyzer.web.logs import log_mistake
from analyzer.web.problems import Problem

if TYPE_CHECKING:
    from analyzer.model import Report
    from analyzer.patterns.model import Library
    from analyzer.settings import Settings
    from analyzer.slack.blocks import Answer
    from analyzer.store.database import Database
    from analyzer.store.slack import Place, Thread

logger = logging.getLogger("vramledger.slack")
#: How often an addition is tried again when another process was faster.
_TRIES = 5

#: Why a thread is read. asked: somebody wants an answer and sees that it is worked on. dropped: a file, without a word. added: to a thread
#: that has a report. watched: nobody asked, so only what is certain is answered.
ASKED, DROPPED, ADDED, WATCHED = "asked", "dropped", "added", "watched"


@dataclass(frozen=True, slots=True)
class Task:
    """What is to be read and answered. ``messages`` gives them when it is their turn; ``message`` is the one (ts) that asks.

    ``closed`` tells whoever asked that we may not speak there.
    """

    place: Place
    user: str
    language: str
    mode: str
    messages: Callable[[], Sequence[dict[str, Any]]]
    me: str | None = None
    message: str | None = None
    closed: Callable[[], None] | None = None


class Work:
    """Reads threads and answers in them. Every method runs in a thread of its own and may take its time."""

    def __init__(self, settings: Settings, database: Database, to_slack: Slack) -> None:
        self.settings = settings
        self.database = database
        self.slack = to_slack
        self._locks: dict[Place, tuple[threading.Lock, int]] = {}
        self._guard = threading.Lock()

    @property
    def library(self) -> Library:
        """The pattern library in use. Raises LibraryError where a user's own patterns are wrong."""
        return runner(tuple(self.settings.patterns), anchors()).library

    # --- one thread ------------------------------------------------------------------------------------------------------------------

    def diagnose(self, task: Task) -> None:
        """Read what is new in a thread, analyse it with what was read before, answer."""
        with self._alone(task.place):
            try:
                self._diagnose(task)
            except SlackApiError as error:
                if error_code(error) in CLOSED and task.closed is not None:
                    task.closed()
                else:
                    logger.warning("a thread was not answered: %s", reason(error))

    def _diagnose(self, task: Task) -> None:
        asked = task.mode == ASKED
        thread = self._placeholder(task) if asked else slack.find(self.database, task.place)
        try:
            found = self._new_sources(task, thread)
            items, notes = self._items(found, thread)
            items = self._worth_reading(task, items, known=thread is not None and thread.analysis_id is not None)
            if items:
                self._read_and_answer(task, items, notes)
            elif asked:
                self._nothing(task, notes)
        except SlackApiError:
            raise
        except Problem as error:
            self._fail(task, tell(error, task.language))
        except Exception as error:  # noqa: BLE001 - it is told, to the one who asked too
            # A mistake of ours in reading one input: where it happened is logged, nothing is stored, and whoever asked is told.
            log_mistake("a thread could not be analysed", error)
            self._fail(task, words.OUR_MISTAKE.get(task.language).format(kind=type(error).__name__))

    def _placeholder(self, task: Task) -> Thread:
        """The thread with its reply: ours, or one put there now that says that it is being read."""
        thread = slack.begin(self.database, task.place, task.user, task.language, _now())
        if thread.reply is not None:
            return thread
        place = task.place
        _, reply = self.slack.post(place.channel, place.thread, blocks.said(words.READING, thread.language))
        if not slack.claim_reply(self.database, place, reply):
            self.slack.remove(place.channel, reply)  # another process was faster
        return slack.find(self.database, place) or replace(thread, reply=reply)

    def _new_sources(self, task: Task, thread: Thread | None) -> list[Source]:
        taken = thread.taken if thread is not None else frozenset()
        messages = [message for message in task.messages() if is_message(message)]
        fresh = [message for message in messages if message["ts"] not in taken]
        # A message's files may have been refused where its text was read, so they count by themselves.
        read_before = [{**message, "text": "", "blocks": []} for message in messages if message["ts"] in taken]
        files = [source for source in sources(read_before, task.me) if source.file is not None]
        return [source for source in (*files, *sources(fresh, task.me)) if not taken.issuperset(source.ids)]

    def _items(self, found: Sequence[Source], thread: Thread | None) -> tuple[list[Item], list[str]]:
        """The inputs with their bytes, and what to say of those that there are none of."""
        count = len(thread.taken) if thread is not None else 0
        language = thread.language if thread is not None else self.settings.lang
        items, notes = [], []
        room = self.settings.slack_max_file_bytes * 2
        for source in found:
            if source.file is None:
                count += 1
                items.append(Item(f"message-{count}", source.text.encode("utf-8", "replace"), source.ids, source.cut))
                if source.cut:
                    notes.append(words.CUT_MESSAGE.get(language))
                continue
            try:
                data = self.slack.download(source.file)
            except FileError as error:
                notes.append(tell(error, language))
                continue
            room -= len(data)
            if room < 0:
                notes.append(tell(Message("{name}: too much for one analysis", name=source.file.name), language))
                continue
            items.append(Item(source.file.name, data, source.ids, file=True))
        return items, notes

    def _worth_reading(self, task: Task, items: list[Item], *, known: bool) -> list[Item]:
        """Of what people say, what a server or a tool printed; all of it where nothing was recognised and somebody asked first."""
        asked = task.mode == ASKED
        reports = [None if asked and item.file else alone(self.settings, self.library, item) for item in items]
        if task.mode == WATCHED:
            return [item for item, report in zip(items, reports, strict=True) if certain_failure(report)]
        chosen = [item for item, report in zip(items, reports, strict=True) if (asked and item.file) or telling(report, asked=asked)]
        if chosen or not asked or known:
            return chosen
        return [item for item in items if len(item.data) >= MIN_CHARS]

    def _read_and_answer(self, task: Task, items: list[Item], notes: list[str]) -> None:
        thread = slack.begin(self.database, task.place, task.user, task.language, _now())
        identifier, result = self._analyse(thread, items)
        notes += [tell(note, thread.language) for note in result.notes]
        if result.outcome is None or identifier is None:
            if task.mode == ASKED:
                self._nothing(task, notes)
            return
        slack.take(self.database, task.place, result.ids)
        self.show(task.place, identifier, result.outcome.report, told(notes))

    def _analyse(self, thread: Thread, items: list[Item]) -> tuple[str | None, Read]:
        """Analyse with what is stored for the thread, and store: (id, what came of it)."""
        for _ in range(_TRIES):
            known = slack.find(self.database, thread.place)
            stored = repository.get(self.database, known.analysis_id) if known is not None and known.analysis_id else None
            earlier = repository.inputs(self.database, stored.id) if stored is not None else []
            result = read(self.settings, self.library, earlier, items)
            if result.outcome is None:
                return None, result
            if stored is None:
                identifier = new_id()
                outcome = result.outcome
                new = NewAnalysis(identifier, _now(), token_hash(new_token()), outcome.report, outcome.inputs)
                repository.create(self.database, new)
                slack.begin(self.database, thread.place, thread.asker, thread.language, _now())  # deleted meanwhile, it begins anew
                if slack.attach(self.database, thread.place, identifier):
                    return identifier, result
                repository.delete(self.database, identifier)
                continue
            try:
                repository.replace(self.database, stored.id, stored.revision, result.outcome.report, result.outcome.inputs, _now())
            except StaleError:
                continue
            return stored.id, result
        raise Problem("unavailable", "too many additions to this thread at once; try again")

    def _nothing(self, task: Task, notes: Sequence[str]) -> None:
        """Somebody asked, and there is nothing (new) to read."""
        thread = slack.find(self.database, task.place)
        if thread is None or task.message in thread.taken:  # it was read already, as the rest of a paste
            return
        said = " ".join(told(notes))
        if thread.analysis_id is not None:
            text = f"{words.NOT_READ.get(thread.language)} {blocks.escape(said)}" if said else words.NOTHING_NEW.get(thread.language)
            self.slack.whisper(task.place.channel, task.user, blocks.sentence(text), task.place.thread)
            return
        text = words.NOTHING_TO_READ.get(thread.language)
        self._put(thread, blocks.sentence(f"{text}\n{words.NOT_READ.get(thread.language)} {blocks.escape(said)}" if said else text))

    def _fail(self, task: Task, text: str) -> None:
        if task.mode != ASKED:
            return
        thread = slack.find(self.database, task.place)
        if thread is None or thread.reply is None:
            return
        said = blocks.sentence(":warning: " + blocks.escape(text))
        if thread.analysis_id is None:
            self._put(thread, said)
        else:  # the report that stands there stays
            self.slack.whisper(task.place.channel, task.user, said, task.place.thread)

    # --- the reply -------------------------------------------------------------------------------------------------------------------

    def show(self, place: Place, identifier: str, report: Report, notes: Sequence[str] = ()) -> None:
        """Make ``report`` the thread's reply: edited in place, or posted where there is none."""
        thread = slack.find(self.database, place)
        if thread is None:
            return
        language, url = thread.language, self._url(identifier)
        otherwise = blocks.answer(report, language, url=url, notes=notes)
        picture = self._picture(report, language)
        if thread.reply is None:
            # What is posted is complete from the start: notifications show it.
            _, reply = self.slack.post(place.channel, place.thread, otherwise)
            if not slack.claim_reply(self.database, place, reply):
                self.slack.remove(place.channel, reply)
            thread = slack.find(self.database, place) or replace(thread, reply=reply)
        shown = None
        if picture is not None and thread.reply is not None:
            pictured = blocks.answer(report, language, url=url, picture=picture, notes=notes)
            edited, with_picture = self.slack.edit_with_picture(place.channel, thread.reply, pictured, otherwise)
            shown = picture if with_picture and edited else None
            if not with_picture:
                self.slack.remove_file(picture)
            if not edited:
                self._post_again(thread, pictured if with_picture else otherwise)
                shown = picture if with_picture else None
        else:
            self._put(thread, otherwise)
        if thread.picture is not None and thread.picture != shown:
            self.slack.remove_file(thread.picture)
        slack.change(self.database, place, picture=shown)

    def _put(self, thread: Thread, said: Answer) -> None:
        if thread.reply is None or not self.slack.edit(thread.place.channel, thread.reply, said):
            self._post_again(thread, said)

    def _post_again(self, thread: Thread, said: Answer) -> None:
        _, reply = self.slack.post(thread.place.channel, thread.place.thread, said)
        slack.change(self.database, thread.place, reply=reply)

    def _picture(self, report: Report, language: str) -> str | None:
        data = ledger_png(report, language)
        return None if data is None else self.slack.upload("ledger.png", data, words.PICTURE_ALT.get(language))

    def _url(self, identifier: str) -> str | None:
        return f"{self.settings.public_url}/a/{identifier}" if self.settings.public_url else None

    # --- buttons ---------------------------------------------------------------------------------------------------------------------

    def in_language(self, thread: Thread, language: str, gone: Callable[[], None]) -> None:
        """Say the reply in another language from now on."""
        with self._alone(thread.place):
            report = self._report(thread)
            if report is None or thread.analysis_id is None:
                gone()
                return
            slack.change(self.database, thread.place, language=language)
            self.show(thread.place, thread.analysis_id, report)

    def put_report(self, thread: Thread, gone: Callable[[], None]) -> None:
        """Put the whole report into the thread as a file: for a service without an address of its own."""
        from analyzer.report import render

        report = self._report(thread)
        if report is None:
            gone()
            return
        text = render(report, "text", thread.language, width=100)
        title = words.FULL_REPORT.get(thread.language)
        self.slack.upload("report.txt", text.encode("utf-8", "replace"), title, thread.place.channel, thread.place.thread)

    def delete(self, thread: Thread) -> None:
        """Delete the thread's analysis, its inputs, its reply and its picture."""
        with self._alone(thread.place):
            if thread.analysis_id is not None:
                repository.delete(self.database, thread.analysis_id)
            slack.forget(self.database, thread.place)
            if thread.reply is not None:
                self.slack.remove(thread.place.channel, thread.reply)
            if thread.picture is not None:
                self.slack.remove_file(thread.picture)

    def _report(self, thread: Thread) -> Report | None:
        stored = repository.get(self.database, thread.analysis_id) if thread.analysis_id else None
        return stored.report if stored is not None else None

    @contextmanager
    def _alone(self, place: Place) -> Iterator[None]:
        """One thread is worked on once at a time in this process; between processes the store decides."""
        with self._guard:
            lock, waiting = self._locks.get(place, (threading.Lock(), 0))
            self._locks[place] = (lock, waiting + 1)
        try:
            with lock:
                yield
        finally:
            with self._guard:
                lock, waiting = self._locks[place]
                if waiting == 1:
                    del self._locks[place]
                else:
                    self._locks[place] = (lock, waiting - 1)


def _now() -> datetime:
    return datetime.now(UTC)
