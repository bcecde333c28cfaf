"""The bot's token goes to Slack only, and what comes back is the file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from analyzer.slack.client import Slack, web_client
from analyzer.slack.files import FileError, download, may_send_token
from analyzer.slack.sources import slack_file
from tests.slack.standin import BOT_TOKEN, Standin

if TYPE_CHECKING:
    from collections.abc import Iterator

API = "https://slack.com/api/"


@pytest.mark.parametrize(
    ("url", "api", "may"),
    [
        ("https://files.slack.com/files-pri/T-F/download/x.log", API, True),
        ("https://slack.com/x", API, True),
        ("https://a.b.slack.com/x", API, True),
        ("https://files.slack-gov.com/x", "https://slack-gov.com/api/", True),
        ("https://files.slack.com/x", "https://slack-gov.com/api/", False),
        ("http://files.slack.com/x", API, False),
        ("https://files.slack.com:8443/x", API, False),
        ("https://slack.com.evil.example/x", API, False),
        ("https://evilslack.com/x", API, False),
        ("https://files.slack.com@evil.example/x", API, False),
        ("https://evil.example/files.slack.com", API, False),
        ("https://files.slack.com:99999/x", API, False),
        ("file:///etc/passwd", API, False),
        ("", API, False),
        ("http://127.0.0.1:80/x", "http://127.0.0.1:80/api/", True),
        ("http://127.0.0.1:81/x", "http://127.0.0.1:80/api/", False),
    ],
)
def test_where_the_token_may_go(url: str, api: str, may: bool) -> None:
    assert may_send_token(url, api) is may


@pytest.fixture
def slack() -> Iterator[Standin]:
    found = Standin()
    yield found
    found.close()


def test_a_file_comes_back_whole(slack: Standin) -> None:
    data = bytes(range(256)) * 3000
    file = slack.file("a.log", data)
    assert download("a.log", file["url_private_download"], BOT_TOKEN, slack.api, len(data)) == data


@pytest.mark.parametrize("trouble", ["too-large", "sign-in-page", "redirect", "gone", "elsewhere", "nobody-there"])
def test_trouble_is_said_in_a_sentence(slack: Standin, trouble: str) -> None:
    file = slack.file("a.log", b"x" * 1000)
    url, token, limit, wanted = file["url_private_download"], BOT_TOKEN, 5000, "files:read"
    if trouble == "too-large":
        limit, wanted = 999, "larger than 999"
    elif trouble == "sign-in-page":
        slack.scopes.discard("files:read")
    elif trouble == "redirect":
        token = "xoxb-another"
    elif trouble == "gone":
        slack.files[file["id"]].deleted, wanted = True, "404"
    elif trouble == "elsewhere":
        url, wanted = "https://elsewhere.example/a.log", "does not lie with Slack"
    api = slack.api
    if trouble == "nobody-there":
        slack.close()
        wanted = "cannot be read"
    with pytest.raises(FileError, match=wanted):
        download("a.log", url, token, api, limit)
    assert all(not call["path"].startswith("/signin") for name, call in slack.calls if name == "download")


def test_a_rate_limit_is_waited_for_and_not_forever(slack: Standin) -> None:
    file = slack.file("a.log", b"x")
    waits: list[float] = []
    slack.limited = {"download": 2}
    assert download("a.log", file["url_private_download"], BOT_TOKEN, slack.api, 9, sleep=waits.append) == b"x"
    assert len(waits) == 2
    slack.limited = {"download": 99}
    with pytest.raises(FileError, match="wait"):
        download("a.log", file["url_private_download"], BOT_TOKEN, slack.api, 9, sleep=waits.append)


def test_a_file_of_a_shared_channel_is_asked_for_first(slack: Standin) -> None:
    listed = slack.file("a.log", b"INFO")
    file = slack_file({"id": listed["id"], "name": "a.log", "file_access": "check_file_info"})
    assert file is not None
    client = Slack(web_client(BOT_TOKEN, slack.api), slack.api, 100)
    assert client.download(file) == b"INFO"
    missing = slack_file({"id": "F9999", "file_access": "check_file_info"})
    assert missing is not None
    with pytest.raises(FileError, match="file_not_found"):
        client.download(missing)


def test_an_upload_in_three_steps(slack: Standin) -> None:
    client = Slack(web_client(BOT_TOKEN, slack.api), slack.api, 100)
    identifier = client.upload("ledger.png", b"\x89PNG", "Ledger")
    assert identifier is not None
    assert slack.files[identifier].data == b"\x89PNG"
    assert slack.files[identifier].complete
    slack.broken["files.getUploadURLExternal"] = "file_uploads_disabled"
    assert client.upload("ledger.png", b"\x89PNG", "Ledger") is None
