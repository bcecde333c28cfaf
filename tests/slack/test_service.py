"""The service takes Slack's events where it is configured, behind the same guard as everything else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analyzer.slack.route import PATH
from tests.slack.conftest import CAUSE, LOG
from tests.slack.standin import BOT, BOT_TOKEN, SECRET, Standin, encoded, mention, signed
from tests.slack.test_ways_in import mangled, shown
from tests.web.conftest import running

if TYPE_CHECKING:
    from pathlib import Path


def test_the_service_answers_slack(standin: Standin, tmp_path: Path) -> None:
    given = {"slack_bot_token": BOT_TOKEN, "slack_signing_secret": SECRET, "slack_api_url": standin.api, "rate_limit": 3}
    with running(f"sqlite:///{tmp_path / 'store.db'}", **given) as service, service.client() as client:
        asks = standin.say(f"<@{BOT}> {mangled(LOG)}")
        body, kind = encoded(mention(standin, asks))
        for _ in range(6):  # all of a workspace comes from a few addresses: an uploader's rate is not theirs
            assert client.post(PATH, content=body, headers={"Content-Type": kind, **signed(body)}).status_code == 200
        assert client.post(PATH, content=body, headers={"Content-Type": kind}).status_code == 401
        foreign = {"Origin": "https://evil.example", "Content-Type": kind, **signed(body)}
        assert client.post(PATH, content=body, headers=foreign).status_code == 403
        assert service.stored(1) == 1
    # Stopping waits for what is at work.
    [reply] = standin.replies(thread=asks["ts"])
    assert CAUSE in shown(reply)


def test_a_service_without_slack_has_no_such_address(tmp_path: Path) -> None:
    with running(f"sqlite:///{tmp_path / 'store.db'}", slack_bot_token=BOT_TOKEN) as service, service.client() as client:
        body, kind = "{}", "application/json"
        assert client.post(PATH, content=body, headers={"Content-Type": kind, **signed(body)}).status_code in (404, 405)
