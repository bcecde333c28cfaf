"""Only Slack is believed, once, and it is answered at once."""

from __future__ import annotations

import json
import logging
import time
from typing import TYPE_CHECKING, Any

import pytest

from analyzer.slack.app import delivery_key
from analyzer.slack.route import MAX_BYTES, PATH
from analyzer.store import repository
from tests.slack.conftest import LOG, OOM, Harness, harness
from tests.slack.standin import APP_TOKEN, BOT, BOT_TOKEN, SECRET, command, encoded, mention, posted, press, shortcut, signed, submission
from tests.slack.test_ways_in import mangled, only

if TYPE_CHECKING:
    from pathlib import Path

    from tests.slack.standin import Standin


def _untouched(slack: Harness) -> bool:
    assert slack.bot.wait()
    return not slack.standin.replies() and not slack.standin.calls and repository.count(slack.database) == 0


@pytest.mark.parametrize(
    "forge",
    [
        lambda body: {},
        lambda body: {**signed(body), "X-Slack-Signature": ""},
        lambda body: {**signed(body), "X-Slack-Signature": "v0=" + "0" * 64},
        lambda body: signed(body, secret="another"),
        lambda body: signed(body, secret=""),
        lambda body: signed(body, secret=BOT_TOKEN),
        lambda body: signed(body + " "),
        lambda body: signed(body, at=time.time() - 301),
        lambda body: signed(body, at=time.time() + 301),
        lambda body: {**signed(body), "X-Slack-Request-Timestamp": str(int(time.time()) + 1)},
        lambda body: {**signed(body), "X-Slack-Request-Timestamp": "soon"},
    ],
    ids=["none", "empty", "zeros", "other-secret", "no-secret", "token", "other-body", "old", "future", "moved", "no-number"],
)
@pytest.mark.parametrize("make", [mention, shortcut], ids=["event", "interaction"])
def test_a_forged_or_old_request_does_nothing(slack: Harness, forge: Any, make: Any) -> None:
    message = slack.standin.say(f"<@{BOT}> {mangled(LOG)}")
    body, kind = encoded(make(slack.standin, message))
    answer = slack.client.post(PATH, content=body, headers={"Content-Type": kind, **forge(body)})
    assert answer.status_code == 401
    assert _untouched(slack)


def test_a_recorded_request_that_is_sent_again_does_nothing(slack: Harness) -> None:
    message = slack.standin.say(mangled(LOG))
    for payload in (shortcut(slack.standin, message), command(slack.standin, mangled(LOG)), submission(slack.standin, LOG)):
        body, kind = encoded(payload)
        headers = {"Content-Type": kind, **signed(body)}
        before = None
        for _ in range(3):
            assert slack.client.post(PATH, content=body, headers=headers).status_code == 200
            assert slack.bot.wait()
            now = (len(slack.standin.replies()), repository.count(slack.database))
            assert before in (None, now)
            before = now


def test_slacks_retries_are_delivered_once(slack: Harness) -> None:
    message = slack.standin.say(f"<@{BOT}> {mangled(LOG)}")
    payload = mention(slack.standin, message)
    slack.standin.slow = 0.05
    for number in range(4):
        again = {"X-Slack-Retry-Num": str(number), "X-Slack-Retry-Reason": "http_timeout"} if number else {}
        assert slack.send(payload, again, wait=False).status_code == 200
    assert slack.bot.wait()
    only(slack)
    assert len(slack.standin.called("chat.postMessage")) == 1


def test_two_processes_take_a_delivery_once(standin: Standin, database_url: str) -> None:
    with harness(standin, database_url) as one, harness(standin, database_url) as other:
        payload = mention(standin, standin.say(f"<@{BOT}> {mangled(LOG)}"))
        one.send(payload, wait=False)
        other.send(payload, wait=False)
        assert one.bot.wait()
        assert other.bot.wait()
        assert len(standin.replies()) == 1
        assert repository.count(one.database) == 1


def test_it_is_acknowledged_at_once_and_edited_in_place(slack: Harness) -> None:
    slack.standin.slow = 0.3
    slack.bot.slack.client.auth_test()
    message = slack.standin.say(f"<@{BOT}> {mangled(LOG)}")
    slack.send(command(slack.standin, "help"))  # the bot has learned who it is
    start = time.monotonic()
    assert slack.send(mention(slack.standin, message), wait=False).status_code == 200
    assert time.monotonic() - start < 0.3
    assert slack.bot.wait()
    [posted_first] = slack.standin.called("chat.postMessage")
    assert "Reading" in posted_first["text"]
    assert only(slack)["edited"]


def test_url_verification_and_ssl_check(slack: Harness) -> None:
    body = json.dumps({"type": "url_verification", "token": "x", "challenge": "3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P"})
    answer = slack.client.post(PATH, content=body, headers={"Content-Type": "application/json", **signed(body)})
    assert answer.json()["challenge"].startswith("3eZ")
    forged = slack.client.post(PATH, content=body, headers={"Content-Type": "application/json"})
    assert forged.status_code == 401
    assert "3eZ" not in forged.text


@pytest.mark.parametrize(
    "body", [b"", b"\xff\xfe", b"{", b"[]", b"null", b"payload=%7B", b"payload=1", b"x=1", b'{"type":"event_callback"}']
)
def test_whatever_is_signed_is_no_500(slack: Harness, body: bytes) -> None:
    text = body.decode("latin-1")
    for kind in ("application/json", "application/x-www-form-urlencoded", "text/plain"):
        headers = {"Content-Type": kind, **signed(text)}
        assert slack.client.post(PATH, content=body, headers=headers).status_code < 500


def test_a_body_that_cannot_be_slacks_is_refused_unread(slack: Harness) -> None:
    assert slack.client.post(PATH, content=b"x" * (MAX_BYTES + 1)).status_code == 413
    assert slack.client.get(PATH).status_code == 405


@pytest.mark.parametrize(
    ("event", "answered"),
    [
        ({"channel": None}, False),
        ({"ts": None}, False),
        ({"text": None, "files": [{}]}, True),
        ({"blocks": "x", "attachments": [None, 1]}, True),
    ],
    ids=["no-channel", "no-ts", "broken-file", "broken-parts"],
)
def test_events_that_lack_parts_do_no_harm(slack: Harness, event: dict[str, Any], answered: bool) -> None:
    payload = posted(slack.standin, slack.standin.say(mangled(LOG), "D0001"), "D0001", "im")
    payload["event"] = {key: value for key, value in {**payload["event"], **event}.items() if value is not None}
    assert slack.send(payload).status_code < 500
    assert (repository.count(slack.database) == 1) == answered


def test_without_a_signing_secret_nothing_is_taken_over_http(standin: Standin, tmp_path: Path) -> None:
    with harness(standin, f"sqlite:///{tmp_path / 'store.db'}", slack_signing_secret=None) as slack:
        message = standin.say(f"<@{BOT}> {mangled(LOG)}")
        for secret in (SECRET, "", BOT_TOKEN):
            body, kind = encoded(mention(standin, message))
            headers = {"Content-Type": kind, **signed(body, secret=secret)}
            assert slack.client.post(PATH, content=body, headers=headers).status_code == 401
        assert _untouched(slack)


def test_rate_limits_are_waited_for(slack: Harness) -> None:
    slack.standin.limited = {"chat.postMessage": 2, "chat.update": 1, "download": 1, "files.getUploadURLExternal": 1}
    file = slack.standin.file("engine.log", OOM.encode())
    message = slack.standin.say(f"<@{BOT}>", files=[file])
    slack.send(mention(slack.standin, message))
    assert any(block["type"] == "image" for block in only(slack)["blocks"])
    assert [name for name, _ in slack.standin.calls].count("429 chat.postMessage") == 2


def test_no_token_and_no_text_is_logged(slack: Harness, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    slack.standin.broken = {"files.delete": "internal_error"}
    file = slack.standin.file("engine.log", OOM.encode())
    message = slack.standin.say(f"<@{BOT}>", files=[file])
    slack.send(mention(slack.standin, message))
    slack.send(press(slack.standin, only(slack), "language"))
    slack.standin.broken = {"chat.update": "internal_error", "files.getUploadURLExternal": "internal_error"}
    slack.send(press(slack.standin, only(slack), "language"))
    assert "internal_error" in caplog.text
    said = caplog.text + "".join(str(record.__dict__) for record in caplog.records if record.name.startswith(("slack", "vramledger")))
    for secret in (BOT_TOKEN, APP_TOKEN, SECRET, "/response/", "/upload/", "Tried to allocate"):
        assert secret not in said


def test_keys_of_deliveries() -> None:
    assert delivery_key({"team_id": "T", "event_id": "E"}) == delivery_key({"team_id": "T", "event_id": "E", "event": {}})
    assert delivery_key({"team_id": "T", "event_id": "E"}) != delivery_key({"team_id": "T2", "event_id": "E"})
    assert delivery_key({"team": {"id": "T"}, "trigger_id": "1"}) == delivery_key({"team_id": "T", "trigger_id": "1"})
    assert delivery_key({"team_id": "T"}) is None
