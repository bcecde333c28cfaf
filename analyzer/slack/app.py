"""The bot: what Slack sends → verified, taken once, acknowledged at once, worked on in the background. Knows nothing of how it came."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from slack_bolt import Ack, App, BoltContext, BoltResponse, Respond
from slack_bolt.request import BoltRequest
from slack_sdk.errors import SlackApiError
from slack_sdk.signature import SignatureVerifier

from analyzer.slack import blocks, words
from analyzer.slack.client import CLOSED, Slack, error_code, reason, web_client
from analyzer.slack.reading import language_of
from analyzer.slack.sources import PIECE_SECONDS, files, is_message, run
from analyzer.slack.unmangle import PIECE_CHARS, own_text
from analyzer.slack.work import ADDED, ASKED, DROPPED, WATCHED, Task, Work
from analyzer.store import slack
from analyzer.store.slack import Place
from analyzer.web.logs import log_mistake

if TYPE_CHECKING:
    from analyzer.settings import Settings
    from analyzer.store.database import Database

Body = dict[str, Any]
logger = logging.getLogger("vramledger.slack")

#: Analyses and answers at work at the same time, and how many may wait before Slack is asked to come again later.
WORKERS, WAITING = 8, 200
#: How long a long message waits for the rest of the paste that it may be a piece of, in seconds.
SETTLE = 2.0
_PRUNE_SECONDS = 3600.0


class Bot:
    """The Slack app over a migrated database. ``dispatch`` takes a request of Slack's, by whichever way it came."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        *,
        settle: float = SETTLE,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """``settings`` must have a bot token; without a signing secret every request over HTTP is refused."""
        assert settings.slack_bot_token is not None
        token = settings.slack_bot_token.get_secret_value()
        self._settings = settings
        self._database = database
        self._settle = settle
        self._sleep = sleep
        self.slack = Slack(web_client(token, settings.slack_api_url), settings.slack_api_url, settings.slack_max_file_bytes, sleep)
        self.work = Work(settings, database, self.slack)
        self._pool = ThreadPoolExecutor(WORKERS, "slack")
        self._pending = 0
        self._idle = threading.Condition()
        self._pruned = time.monotonic()
        secret = settings.slack_signing_secret
        self.app = App(
            client=self.slack.client,
            # Never empty: an empty secret would verify what anybody signs with it.
            signing_secret=secret.get_secret_value() if secret else token,
            process_before_response=True,  # every listener only hands its work on, so it is handed on when Slack is told so
            request_verification_enabled=True,
            token_verification_enabled=False,
            logger=_quiet(),
        )
        self._verifier = SignatureVerifier(secret.get_secret_value()) if secret else None
        self._listen()

    def believes(self, body: str, timestamp: str, signature: str) -> bool:
        """Whether Slack signed ``body``, within the last five minutes. Without a signing secret nothing is believed."""
        if self._verifier is None or not timestamp.isdecimal():
            return False
        return self._verifier.is_valid(body, timestamp, signature)

    def dispatch(self, request: BoltRequest) -> BoltResponse:
        """Answer one request of Slack's; what takes time goes on in the background."""
        return self.app.dispatch(request)

    def close(self) -> None:
        """Finish what is at work."""
        self._pool.shutdown(wait=True)

    def wait(self, seconds: float = 30) -> bool:
        """Until nothing is at work; False where that takes longer."""
        with self._idle:
            return self._idle.wait_for(lambda: self._pending == 0, seconds)

    # --- what Slack sends --------------------------------------------------------------------------------------------------------------

    def _listen(self) -> None:
        app = self.app
        app.middleware(self._once)
        app.event("app_mention")(self._on_mention)
        app.event("message")(self._on_message)
        app.shortcut("diagnose")(self._on_shortcut)
        app.command(re.compile(".*"))(self._on_command)
        app.view("paste")(self._on_paste)
        for action in ("report", "language", "helped", "wrong", "delete"):
            app.action(action)(self._on_button)

    def _once(self, body: Body, next: Callable[[], BoltResponse]) -> BoltResponse:  # noqa: A002 - bolt's name for it
        """Take a delivery once: Slack sends again what it believes lost, and a signed request that somebody recorded is no new one."""
        with self._idle:
            if self._pending >= WAITING:
                return BoltResponse(status=503, headers={"Retry-After": "30"})
        key = delivery_key(body)
        if key is not None and not slack.first_time(self._database, key, _now()):
            return BoltResponse(status=200, body="")
        return next()

    def _on_mention(self, body: Body, event: Body, context: BoltContext) -> None:
        if is_message(event) and event.get("channel"):
            self._ask(_team(body, context), event, context.bot_user_id)

    def _on_message(self, body: Body, event: Body, context: BoltContext) -> None:
        me = context.bot_user_id
        if not is_message(event) or not event.get("channel") or event.get("bot_id") or event.get("user") in (None, me):
            return
        if event.get("channel_type") == "im":
            self._ask(_team(body, context), event, me)
        elif not (me and f"<@{me}" in own_text(event)):  # a mention comes by itself
            self._background(self._overheard, _team(body, context), event, me)

    def _on_shortcut(self, ack: Ack, body: Body, context: BoltContext, respond: Respond) -> None:
        ack()
        message = body.get("message")
        channel = (body.get("channel") or {}).get("id")
        if not isinstance(message, dict) or not channel or not message.get("ts"):
            return
        user = str(context.user_id or "")
        language = self._settings.lang

        def closed() -> None:
            respond(text=words.NOT_HERE.get(language), response_type="ephemeral", replace_original=False)

        place = Place(_team(body, context), str(channel), str(message.get("thread_ts") or message["ts"]))
        me = context.bot_user_id
        task = Task(place, user, language, ASKED, lambda: self._paste(str(channel), message), me, str(message["ts"]), closed)
        self._background(self.work.diagnose, task)

    def _on_command(self, ack: Ack, body: Body, context: BoltContext, respond: Respond) -> None:
        said = str(body.get("text") or "").strip()
        team, channel, user = _team(body, context), str(body.get("channel_id") or ""), str(body.get("user_id") or "")
        language = language_of(said, self._settings.lang)
        word = said.lower()
        if not said:
            ack()
            self._background(self._open_form, str(body.get("trigger_id") or ""), channel, language, respond)
        elif word in ("watch on", "watch off"):
            slack.watch(self._database, team, channel, on=word == "watch on")
            text = words.WATCH_ON if word == "watch on" else words.WATCH_OFF
            ack(text=text.get(language), response_type="in_channel")
        elif word == "recent":
            ack(text=self._recent(team, channel, language), response_type="ephemeral")
        elif word in ("help", "?"):
            ack(text=words.USAGE.get(language).format(command=body.get("command") or "/vramledger"), response_type="ephemeral")
        else:
            ack()
            self._background(self._diagnose_text, team, channel, user, said, language, context.bot_user_id)

    def _on_paste(self, ack: Ack, body: Body, context: BoltContext) -> None:
        ack()
        view = body.get("view") or {}
        entered = (((view.get("state") or {}).get("values") or {}).get("log") or {}).get("log") or {}
        text, channel = str(entered.get("value") or ""), str(view.get("private_metadata") or "")
        if text.strip() and channel:
            # What was typed into a form is escaped by nobody.
            said = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
            user = str(context.user_id or "")
            self._background(self._diagnose_text, _team(body, context), channel, user, said, self._settings.lang, context.bot_user_id)

    def _on_button(self, ack: Ack, body: Body, action: Body, context: BoltContext, respond: Respond) -> None:
        ack()
        container = body.get("container") or {}
        where = (_team(body, context), str(container.get("channel_id") or ""), str(container.get("message_ts") or ""))
        self._background(self._pressed, action, where, str(context.user_id or ""), respond)

    # --- in the background -------------------------------------------------------------------------------------------------------------

    def _background(self, function: Callable[..., None], *arguments: Any) -> None:
        def run_it() -> None:
            try:
                function(*arguments)
            except SlackApiError as error:
                logger.warning("Slack does not do what was asked: %s", reason(error))
            except Exception as error:  # noqa: BLE001 - it is told, and the thread lives on
                log_mistake("an answer to Slack failed", error)
            finally:
                with self._idle:
                    self._pending -= 1
                    self._idle.notify_all()

        with self._idle:
            self._pending += 1
        self._pool.submit(run_it)
        if time.monotonic() - self._pruned > _PRUNE_SECONDS:
            self._pruned = time.monotonic()
            self._background(slack.prune, self._database, _now())

    def _ask(self, team: str, event: Body, me: str | None) -> None:
        """Somebody wants an answer to ``event``: a mention, or a direct message."""
        channel, ts = str(event["channel"]), str(event["ts"])
        thread, user = event.get("thread_ts"), str(event.get("user") or "")
        language = language_of(own_text(event), self._settings.lang)

        def in_thread() -> Sequence[Body]:
            return self._with(self.slack.thread(channel, str(thread)), event)

        if thread:
            self._background(self.work.diagnose, Task(Place(team, channel, str(thread)), user, language, ASKED, in_thread, me, ts))
        else:
            self._background(self._ask_on_top, team, event, user, language, me)

    def _ask_on_top(self, team: str, event: Body, user: str, language: str, me: str | None) -> None:
        """On a channel's top level a paste may have come as several messages. In a direct message each of them asks: the first one's
        thread is the place then; in a channel it is that of the message which mentions the bot."""
        channel, ts = str(event["channel"]), str(event["ts"])
        pasted: list[Body] | None = None
        first = ts
        if event.get("channel_type") == "im":
            pasted = self._paste(channel, event)
            first = str(pasted[0]["ts"])
        messages = (lambda: pasted) if pasted is not None else (lambda: self._paste(channel, event))
        self.work.diagnose(Task(Place(team, channel, first), user, language, ASKED, messages, me, ts))

    def _overheard(self, team: str, event: Body, me: str | None) -> None:
        """A message in a channel that does not speak to the bot."""
        channel, ts = str(event["channel"]), str(event["ts"])
        place = Place(team, channel, str(event.get("thread_ts") or ts))
        known = slack.find(self._database, place) if event.get("thread_ts") else None
        if known is not None and known.reply is not None:
            mode = ADDED
        elif files(event):
            mode = DROPPED
        elif self._watched(team, channel):
            mode = WATCHED
        else:
            return
        language = language_of(own_text(event), self._settings.lang)
        task = Task(place, str(event["user"]), language, mode, lambda: self._paste(channel, event), me, ts)
        self.work.diagnose(task)

    def _paste(self, channel: str, event: Body) -> list[Body]:
        """The message, with those before and after it that are pieces of the same paste."""
        if len(own_text(event)) >= PIECE_CHARS and self._settle:
            self._sleep(self._settle)
        if event.get("thread_ts") and event["thread_ts"] != event["ts"]:
            near = self.slack.thread(channel, str(event["thread_ts"]))
        else:
            near = self.slack.around(channel, str(event["ts"]), PIECE_SECONDS * 2)
        return run(self._with(near, event), str(event["ts"])) or [event]

    @staticmethod
    def _with(messages: list[Body], event: Body) -> list[Body]:
        """``messages`` with ``event`` among them: the history may not be readable, or not have it yet."""
        return messages if any(message.get("ts") == event["ts"] for message in messages) else [*messages, event]

    def _watched(self, team: str, channel: str) -> bool:
        switched = slack.is_watched(self._database, team, channel)
        return channel in self._settings.slack_watch_channels if switched is None else switched

    def _open_form(self, trigger: str, channel: str, language: str, respond: Respond) -> None:
        try:
            self.slack.client.views_open(trigger_id=trigger, view=blocks.form(channel, language))
        except SlackApiError as error:
            logger.info("the form was not opened: %s", reason(error))
            respond(text=words.NO_TRIGGER.get(language), response_type="ephemeral")

    def _diagnose_text(self, team: str, channel: str, user: str, said: str, language: str, me: str | None) -> None:
        """A text that is no message: one is made for it, in the channel or, where the bot may not speak, with the user alone."""
        opening = blocks.sentence(words.ASKED.get(language).format(user=user))
        try:
            channel, ts = self.slack.post(channel, None, opening)
        except SlackApiError as error:
            if error_code(error) not in CLOSED:
                raise
            channel, ts = self.slack.post(user, None, opening)
        message = {"ts": ts, "user": user, "text": said}
        self.work.diagnose(Task(Place(team, channel, ts), user, language, ASKED, lambda: [message], me, ts))

    def _recent(self, team: str, channel: str, language: str) -> str:
        found = slack.recent(self._database, team, channel)
        if not found:
            return words.RECENT_NONE.get(language)
        rows = []
        for identifier, when, cause, title in found:
            line = f"{when:%Y-%m-%d %H:%M} UTC  {blocks.escape(title or '')}" + (f" (`{blocks.escape(cause)}`)" if cause else "")
            url = self._settings.public_url
            rows.append(f"• {line}" + (f" <{url}/a/{identifier}>" if url else ""))
        return "\n".join(rows)

    def _pressed(self, action: Body, where: tuple[str, str, str], user: str, respond: Respond) -> None:
        thread = slack.find_by_reply(self._database, *where)
        language = thread.language if thread is not None else self._settings.lang

        def tell(text: str) -> None:
            respond(text=text, response_type="ephemeral", replace_original=False)

        def gone() -> None:
            tell(words.GONE.get(language))

        name = action.get("action_id")
        if name == "report" and action.get("url"):
            return  # the browser is already there
        if thread is None or thread.analysis_id is None:
            gone()
        elif name == "report":
            self.work.put_report(thread, gone)
        elif name == "language":
            self.work.in_language(thread, "zh" if action.get("value") == "zh" else "en", gone)
        elif name in ("helped", "wrong"):
            slack.give_feedback(self._database, thread.analysis_id, where[0], user, _now(), helped=name == "helped")
            tell((words.THANKS if name == "helped" else words.THANKS_WRONG).get(language))
        elif name == "delete" and user != thread.asker:
            tell(words.NOT_YOURS.get(language).format(user=thread.asker))
        elif name == "delete":
            self.work.delete(thread)
            tell(words.DELETED.get(language))


def delivery_key(body: Body) -> str | None:
    """What tells one delivery from another: an event's id, a click's or a command's trigger; None for what has neither."""
    team = str(body.get("team_id") or (body.get("team") or {}).get("id") or "")
    if body.get("event_id"):
        return f"event {team} {body['event_id']}"
    if body.get("trigger_id"):
        return f"trigger {team} {body['trigger_id']}"
    return None


def _team(body: Body, context: BoltContext) -> str:
    return str(body.get("team_id") or context.team_id or (body.get("team") or {}).get("id") or "")


def _quiet() -> logging.Logger:
    """Bolt's own words: warnings and worse. Below, it writes whole requests."""
    found = logging.getLogger("vramledger.slack.bolt")
    found.setLevel(logging.WARNING)
    return found


def _now() -> datetime:
    return datetime.now(UTC)
