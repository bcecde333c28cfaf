"""The manifests ask for what the bot needs, and for nothing more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "slack"
#: Scope → what of Slack's the code uses it for.
NEEDED = {
    "app_mentions:read": 'event("app_mention")',
    "channels:history": "conversations_history",
    "groups:history": "conversations_replies",
    "im:history": 'channel_type") == "im"',
    "mpim:history": 'event("message")',
    "chat:write": "chat_postMessage",
    "commands": "app.command(",
    "files:read": "download",
    "files:write": "files_getUploadURLExternal",
}


def _manifest(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))
    return found


def _without_addresses(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_addresses(item) for key, item in value.items() if key not in ("url", "request_url", "socket_mode_enabled")}
    return [_without_addresses(item) for item in value] if isinstance(value, list) else value


def test_scopes_are_those_that_the_code_uses() -> None:
    code = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "analyzer" / "slack").glob("*.py"))
    assert set(_manifest("manifest-http.yaml")["oauth_config"]["scopes"]["bot"]) == set(NEEDED)
    assert [scope for scope, used in NEEDED.items() if used not in code] == []


def test_both_are_the_same_app() -> None:
    http, socket = _manifest("manifest-http.yaml"), _manifest("manifest-socket.yaml")
    assert _without_addresses(http) == _without_addresses(socket)
    assert (http["settings"]["socket_mode_enabled"], socket["settings"]["socket_mode_enabled"]) == (False, True)
    assert "vram.example" not in (FOLDER / "manifest-socket.yaml").read_text(encoding="utf-8")
    addresses = {http["settings"]["event_subscriptions"]["request_url"], http["settings"]["interactivity"]["request_url"]}
    assert addresses == {http["features"]["slash_commands"][0]["url"]} == {"https://vram.example/slack/events"}


def test_names_are_those_that_the_bot_listens_to() -> None:
    features = _manifest("manifest-http.yaml")["features"]
    assert features["shortcuts"][0]["callback_id"] == "diagnose"
    assert len(features["shortcuts"][0]["name"]) <= 24
    assert set(_manifest("manifest-http.yaml")["settings"]["event_subscriptions"]["bot_events"]) == {
        "app_mention", "message.channels", "message.groups", "message.im", "message.mpim",
    }  # fmt: skip
