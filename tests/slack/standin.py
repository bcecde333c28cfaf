"""Slack on loopback, as far as its documentation goes: Web API, file hosting, uploads in three steps, response URLs, Socket Mode."""

from __future__ import annotations

import hashlib
import hmac
import itertools
import json
import queue
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from websockets.exceptions import ConnectionClosed
from websockets.sync.server import Server as SocketServer
from websockets.sync.server import ServerConnection, serve

from tests.slack.blockkit import problems, view_problems

BOT_TOKEN = "xoxb-1111-2222-neverlogthis"
APP_TOKEN = "xapp-1-A111-neverlogthis"
SECRET = "8f742231b10e8888abcd99yyyzzz85a5"
BOT, TEAM, USER, CHANNEL, DIRECT = "UBOT", "T0001", "U0001", "C0001", "D0001"
Body = dict[str, Any]


def signed(body: str, *, secret: str = SECRET, at: float | None = None) -> dict[str, str]:
    """The headers with which Slack signs ``body``."""
    stamp = str(int(time.time() if at is None else at))
    digest = hmac.new(secret.encode(), f"v0:{stamp}:{body}".encode(), hashlib.sha256).hexdigest()
    return {"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": f"v0={digest}"}


@dataclass
class Stored:
    """A file that lies with Slack."""

    id: str
    name: str
    data: bytes = b""
    complete: bool = False
    ready: float = 0.0
    channel: str | None = None
    thread: str | None = None
    deleted: bool = False
    length: int = 0


@dataclass
class Standin:
    """A workspace with one bot. ``calls``: what the bot asked for, in order."""

    ready_after: float = 0.0
    calls: list[tuple[str, Body]] = field(default_factory=list)
    messages: dict[str, list[Body]] = field(default_factory=dict)
    files: dict[str, Stored] = field(default_factory=dict)
    responses: list[tuple[str, Body]] = field(default_factory=list)
    members: set[str] = field(default_factory=lambda: {CHANNEL, "C0002", DIRECT})
    limited: dict[str, int] = field(default_factory=dict)
    scopes: set[str] = field(default_factory=lambda: {"files:read", "files:write", "history"})
    broken: dict[str, str] = field(default_factory=dict)
    triggers: dict[str, float] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)
    slow: float = 0.0

    def __post_init__(self) -> None:
        self._numbers = itertools.count(1)
        self._clock = itertools.count(1_700_000_000)
        standin = self

        class Handler(_Handler):
            slack = standin

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        self.socket: Socket | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    @property
    def api(self) -> str:
        return self.url + "/api/"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        if self.socket is not None:
            self.socket.close()

    # --- people ----------------------------------------------------------------------------------------------------------------------

    def number(self) -> int:
        return next(self._numbers)

    def moment(self, gap: float = 100.0) -> str:
        """The ts of a new message, ``gap`` seconds after the last one."""
        with self.lock:
            newest = max((float(message["ts"]) for found in self.messages.values() for message in found), default=1_700_000_000.0)
            return f"{newest + gap:.6f}"

    def say(self, text: str, channel: str = CHANNEL, user: str = USER, thread: str | None = None, gap: float = 100.0, **more: Any) -> Body:
        """A person's message, as Slack keeps it."""
        message: Body = {"type": "message", "user": user, "text": text, "ts": self.moment(gap), "team": TEAM, **more}
        if thread:
            message["thread_ts"] = thread
        with self.lock:
            self.messages.setdefault(channel, []).append(message)
        return message

    def file(self, name: str, data: bytes, **more: Any) -> Body:
        """A file's record in a message; its bytes lie here, for who has the token."""
        identifier = f"F{self.number():04}"
        self.files[identifier] = Stored(identifier, name, data, complete=True)
        kind = "image/png" if name.endswith(".png") else "text/plain"
        url = f"{self.url}/files/{identifier}/{name}"
        return {"id": identifier, "name": name, "mimetype": kind, "size": len(data), "mode": "hosted", "url_private_download": url, **more}

    def trigger(self) -> str:
        """A trigger, good for three seconds and once."""
        name = f"{self.number()}.{self.number()}.trigger"
        self.triggers[name] = time.monotonic() + 3.0
        return name

    # --- what can be looked at ---------------------------------------------------------------------------------------------------------

    def called(self, method: str) -> list[Body]:
        return [given for name, given in self.calls if name == method]

    def replies(self, channel: str = CHANNEL, thread: str | None = None) -> list[Body]:
        """The bot's messages that are there now."""
        with self.lock:
            found = [message for message in self.messages.get(channel, []) if message.get("user") == BOT]
        return [message for message in found if thread is None or message.get("thread_ts") == thread]

    # --- Web API ---------------------------------------------------------------------------------------------------------------------

    def call(self, method: str, token: str | None, given: Body) -> tuple[int, dict[str, str], Body]:
        with self.lock:
            if self.limited.get(method, 0) > 0:
                self.limited[method] -= 1
                self.calls.append((f"429 {method}", given))
                return 429, {"Retry-After": "0"}, {"ok": False, "error": "ratelimited"}
            self.calls.append((method, given))
            expected = APP_TOKEN if method == "apps.connections.open" else BOT_TOKEN
            if token != expected:
                return 200, {}, {"ok": False, "error": "invalid_auth" if token else "not_authed"}
            if method in self.broken:
                return 200, {}, {"ok": False, "error": self.broken[method]}
            handler = getattr(self, "_" + method.replace(".", "_"), None)
            if handler is None:
                return 200, {}, {"ok": False, "error": "unknown_method"}
            answer = handler(given)
            return 200, {}, {"ok": "error" not in answer, **answer}

    def _auth_test(self, given: Body) -> Body:
        return {"url": self.url, "team": "Team", "user": "vram", "team_id": TEAM, "user_id": BOT, "bot_id": "B0001"}

    def _chat_postMessage(self, given: Body) -> Body:
        channel = DIRECT if given["channel"].startswith("U") else given["channel"]
        wrong = self._refused(channel, given)
        if wrong:
            return {"error": wrong}
        message = self.say(given["text"], channel, BOT, given.get("thread_ts"), blocks=given.get("blocks"), bot_id="B0001")
        return {"channel": channel, "ts": message["ts"], "message": message}

    def _chat_update(self, given: Body) -> Body:
        found = next((m for m in self.messages.get(given["channel"], []) if m["ts"] == given["ts"] and m["user"] == BOT), None)
        if found is None:
            return {"error": "message_not_found"}
        wrong = self._refused(given["channel"], given)
        if wrong:
            return {"error": wrong}
        found.update(text=given["text"], blocks=given.get("blocks"), edited=True)
        return {"channel": given["channel"], "ts": given["ts"], "text": given["text"]}

    def _refused(self, channel: str, given: Body) -> str | None:
        if channel not in self.members:
            return "not_in_channel" if channel.startswith("C") else "channel_not_found"
        if len(given.get("text") or "") > 40_000:
            return "msg_too_long"
        blocks = given.get("blocks") or []
        if problems(blocks):
            return "invalid_blocks"
        for block in blocks:
            if "slack_file" in block:
                shown = self.files.get(block["slack_file"]["id"])
                if shown is None or not shown.complete or shown.deleted or time.monotonic() < shown.ready:
                    return "invalid_blocks"
        return None

    def _chat_delete(self, given: Body) -> Body:
        before = self.messages.get(given["channel"], [])
        after = [m for m in before if not (m["ts"] == given["ts"] and m["user"] == BOT)]
        self.messages[given["channel"]] = after
        return {} if len(after) < len(before) else {"error": "message_not_found"}

    def _chat_postEphemeral(self, given: Body) -> Body:
        return {"message_ts": self.moment()} if given["channel"] in self.members else {"error": "not_in_channel"}

    def _conversations_replies(self, given: Body) -> Body:
        if "history" not in self.scopes:
            return {"error": "missing_scope"}
        thread = given["ts"]
        found = [m for m in self.messages.get(given["channel"], []) if m["ts"] == thread or m.get("thread_ts") == thread]
        return self._page(found, given) if found else {"error": "thread_not_found"}

    def _conversations_history(self, given: Body) -> Body:
        if "history" not in self.scopes:
            return {"error": "missing_scope"}
        low, high = float(given.get("oldest", 0)), float(given.get("latest", 1e12))
        top = [m for m in self.messages.get(given["channel"], []) if m.get("thread_ts") in (None, m["ts"])]
        return self._page([m for m in reversed(top) if low <= float(m["ts"]) <= high], given)

    def _page(self, found: list[Body], given: Body) -> Body:
        start, limit = int(given.get("cursor") or 0), int(given.get("limit", 100))
        end = start + limit
        more = {"next_cursor": str(end)} if end < len(found) else {"next_cursor": ""}
        return {"messages": found[start:end], "has_more": end < len(found), "response_metadata": more}

    def _files_info(self, given: Body) -> Body:
        found = self.files.get(given["file"])
        if found is None:
            return {"error": "file_not_found"}
        url = f"{self.url}/files/{found.id}/{found.name}"
        return {"file": {"id": found.id, "name": found.name, "mode": "hosted", "mimetype": "text/plain", "url_private_download": url}}

    def _files_getUploadURLExternal(self, given: Body) -> Body:
        if "files:write" not in self.scopes:
            return {"error": "missing_scope"}
        found = Stored(f"F{self.number():04}", given["filename"], length=int(given["length"]))
        self.files[found.id] = found
        return {"upload_url": f"{self.url}/upload/{found.id}", "file_id": found.id}

    def _files_completeUploadExternal(self, given: Body) -> Body:
        named = json.loads(given["files"]) if isinstance(given["files"], str) else given["files"]
        for entry in named:
            found = self.files.get(entry["id"])
            if found is None or len(found.data) != found.length:
                return {"error": "file_not_found"}
            found.complete, found.ready = True, time.monotonic() + self.ready_after
            found.channel, found.thread = given.get("channel_id"), given.get("thread_ts")
        return {"files": [{"id": entry["id"], "title": entry.get("title")} for entry in named]}

    def _files_delete(self, given: Body) -> Body:
        if given["file"] not in self.files:
            return {"error": "file_not_found"}
        self.files[given["file"]].deleted = True
        return {}

    def _views_open(self, given: Body) -> Body:
        view = given["view"] if isinstance(given["view"], dict) else json.loads(given["view"])
        if view_problems(view):
            return {"error": "invalid_arguments"}
        until = self.triggers.pop(given["trigger_id"], None)
        if until is None:
            return {"error": "exchanged_trigger_id"}
        return {"view": view} if time.monotonic() < until else {"error": "expired_trigger_id"}

    def _apps_connections_open(self, given: Body) -> Body:
        if self.socket is None:
            self.socket = Socket()
        return {"url": self.socket.url}

    # --- Socket Mode -----------------------------------------------------------------------------------------------------------------

    def send(self, kind: str, payload: Body, seconds: float = 10, **more: Any) -> Body:
        """Deliver an envelope over the socket; the acknowledgement."""
        assert self.socket is not None
        return self.socket.send({"envelope_id": f"E{self.number()}", "type": kind, "payload": payload, **more}, seconds)


class Socket:
    """The end of a Socket Mode connection that Slack holds."""

    def __init__(self) -> None:
        self._out: queue.Queue[Body] = queue.Queue()
        self._acks: dict[str, Body] = {}
        self._acked = threading.Condition()
        self.opened = 0
        self._current: ServerConnection | None = None
        self._server: SocketServer = serve(self._talk, "127.0.0.1", 0)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self._server.socket.getsockname()[1]}/link/?ticket=secret-ticket&app_id=A1"

    def close(self) -> None:
        self._server.shutdown()

    def drop(self) -> None:
        """Slack closes the connection, as it does every few hours."""
        assert self._current is not None
        self._current.close()

    def send(self, envelope: Body, seconds: float) -> Body:
        self._out.put(envelope)
        name = envelope["envelope_id"]
        with self._acked:
            if not self._acked.wait_for(lambda: name in self._acks, seconds):
                raise TimeoutError(f"{name} was not acknowledged in {seconds} s")
            return self._acks.pop(name)

    def _talk(self, connection: ServerConnection) -> None:
        self._current = connection
        self.opened += 1
        hello = {"type": "hello", "num_connections": 1, "debug_info": {"host": "standin"}, "connection_info": {"app_id": "A1"}}
        connection.send(json.dumps(hello))
        threading.Thread(target=self._hear, args=(connection,), daemon=True).start()
        while self._current is connection:
            try:
                envelope = self._out.get(timeout=0.02)
            except queue.Empty:
                if connection.state.name != "OPEN":
                    return
                continue
            if self._current is not connection:  # opened again while this one waited: the client is closing it
                self._out.put(envelope)
                return
            connection.send(json.dumps(envelope))

    def _hear(self, connection: ServerConnection) -> None:
        try:
            for text in connection:
                said = json.loads(text)
                with self._acked:
                    self._acks[said["envelope_id"]] = said
                    self._acked.notify_all()
        except (ConnectionClosed, ValueError):
            return


class _Handler(BaseHTTPRequestHandler):
    slack: Standin
    protocol_version = "HTTP/1.1"

    def log_message(self, *given: Any) -> None:
        """Nothing is logged."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = urlsplit(self.path).path
        if path.startswith("/api/"):
            time.sleep(self.slack.slow)
            status, headers, answer = self.slack.call(path.removeprefix("/api/"), self._token(), self._given(body))
            self._send(status, json.dumps(answer).encode(), "application/json", headers)
        elif path.startswith("/upload/"):
            found = self.slack.files.get(path.removeprefix("/upload/"))
            assert self._token() is None, "an upload's address is secret, the token has no business there"
            if found is None or found.length != len(body):
                self._send(400, b"bad length", "text/plain")
                return
            found.data = body
            self._send(200, f"OK - {len(body)}".encode(), "text/plain")
        elif path.startswith("/response/"):
            self.slack.responses.append((path, self._given(body)))
            self._send(200, b"ok", "text/plain")
        else:
            self._send(404, b"", "text/plain")

    def do_GET(self) -> None:
        parts = urlsplit(self.path).path.split("/")
        found = self.slack.files.get(parts[2]) if len(parts) > 3 and parts[1] == "files" else None
        self.slack.calls.append(("download", {"path": self.path, "token": self._token()}))
        if self.slack.limited.get("download", 0) > 0:
            self.slack.limited["download"] -= 1
            self._send(429, b"", "text/plain", {"Retry-After": "0"})
        elif found is None or found.deleted:
            self._send(404, b"", "text/plain")
        elif self._token() != BOT_TOKEN:
            self._send(302, b"", "text/html", {"Location": f"{self.slack.url}/signin"})
        elif "files:read" not in self.slack.scopes:
            self._send(200, b"<!DOCTYPE html><title>Sign in</title>", "text/html; charset=utf-8")
        else:
            self._send(200, found.data, "application/octet-stream")

    def _token(self) -> str | None:
        return (self.headers.get("Authorization") or "").removeprefix("Bearer ") or None

    def _given(self, body: bytes) -> Body:
        kind = self.headers.get("Content-Type") or ""
        if "json" in kind:
            found: Body = json.loads(body or b"{}")
            return found
        given: Body = dict(parse_qsl(urlsplit(self.path).query)) | dict(parse_qsl(body.decode()))
        if isinstance(given.get("blocks"), str):
            given["blocks"] = json.loads(given["blocks"])
        return given

    def _send(self, status: int, data: bytes, kind: str, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(data)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


# --- what Slack sends ------------------------------------------------------------------------------------------------------------------


def event(standin: Standin, inner: Body, **more: Any) -> Body:
    """The envelope of an event."""
    base = {"token": "deprecated", "team_id": TEAM, "api_app_id": "A1", "type": "event_callback", "event_time": 1}
    authorizations = [{"team_id": TEAM, "user_id": BOT, "is_bot": True}]
    return {**base, "event_id": f"Ev{standin.number():06}", "event": inner, "authorizations": authorizations, **more}


def mention(standin: Standin, message: Body, channel: str = CHANNEL) -> Body:
    return event(standin, {**message, "type": "app_mention", "channel": channel})


def posted(standin: Standin, message: Body, channel: str = CHANNEL, kind: str = "channel") -> Body:
    inner = {**message, "channel": channel, "channel_type": kind}
    if message.get("files"):
        inner["subtype"] = "file_share"
    return event(standin, inner)


def shortcut(standin: Standin, message: Body, channel: str = CHANNEL) -> Body:
    return {
        **_interaction(standin, "message_action"),
        "callback_id": "diagnose",
        "channel": {"id": channel, "name": "c"},
        "message": message,
        "message_ts": message["ts"],
    }


def command(standin: Standin, text: str, channel: str = CHANNEL) -> Body:
    return {
        "command": "/vramledger",
        "text": text,
        "team_id": TEAM,
        "channel_id": channel,
        "user_id": USER,
        "trigger_id": standin.trigger(),
        "response_url": f"{standin.url}/response/{standin.number()}",
    }


def submission(standin: Standin, text: str, channel: str = CHANNEL) -> Body:
    values = {"log": {"log": {"type": "plain_text_input", "value": text}}}
    view = {"id": "V1", "type": "modal", "callback_id": "paste", "private_metadata": channel, "state": {"values": values}, "hash": "h"}
    return {**_interaction(standin, "view_submission"), "view": view}


def press(standin: Standin, reply: Body, action: str, channel: str = CHANNEL, user: str = USER) -> Body:
    """A click on one of a reply's buttons."""
    button = next(
        element
        for block in reply["blocks"]
        if block["type"] == "actions"
        for element in block["elements"]
        if element["action_id"] == action
    )
    clicked = {"type": "button", "block_id": "about", "action_id": action, "action_ts": "1.0"}
    clicked |= {key: button[key] for key in ("value", "url", "text") if key in button}
    container = {"type": "message", "message_ts": reply["ts"], "channel_id": channel, "is_ephemeral": False}
    return {
        **_interaction(standin, "block_actions"),
        "user": {"id": user},
        "channel": {"id": channel},
        "container": container,
        "message": reply,
        "actions": [clicked],
    }


def _interaction(standin: Standin, kind: str) -> Body:
    return {
        "type": kind,
        "team": {"id": TEAM, "domain": "t"},
        "user": {"id": USER, "name": "u"},
        "api_app_id": "A1",
        "token": "deprecated",
        "trigger_id": standin.trigger(),
        "response_url": f"{standin.url}/response/{standin.number()}",
    }


def encoded(payload: Body) -> tuple[str, str]:
    """(body, content type) of a payload over HTTP: JSON for events, a form for the rest."""
    if payload.get("type") in ("event_callback", "url_verification"):
        return json.dumps(payload), "application/json"
    if "command" in payload:
        return urlencode(payload), "application/x-www-form-urlencoded"
    return urlencode({"payload": json.dumps(payload)}), "application/x-www-form-urlencoded"
