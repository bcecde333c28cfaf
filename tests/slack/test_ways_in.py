"""Every way in leads to one reply in the thread, and to a stored analysis that belongs to it."""

from __future__ import annotations

from typing import Any

import pytest

from analyzer.store import repository
from analyzer.store import slack as store
from analyzer.store.slack import Place
from analyzer.store.values import HistoryFilter
from tests.slack.blockkit import problems
from tests.slack.conftest import CAUSE, LOG, OOM, SMI, Harness, harness
from tests.slack.standin import BOT, CHANNEL, DIRECT, TEAM, USER, Standin, command, mention, posted, shortcut, submission


def mangled(text: str) -> str:
    """A paste as Slack hands it on."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def shown(reply: dict[str, Any]) -> str:
    """All words of a reply."""
    found = []
    for block in reply["blocks"]:
        found.append((block.get("text") or {}).get("text", ""))
        for element in block.get("elements", []):
            found += [str(item.get("text", "")) for item in element.get("elements", [])]
            found.append(str(element.get("text", "")))
    return "\n".join(found)


def only(slack: Harness, channel: str = CHANNEL, thread: str | None = None) -> dict[str, Any]:
    """The one reply of the bot."""
    [reply] = slack.standin.replies(channel, thread)
    assert problems(reply["blocks"]) == []
    return reply


def analysis(slack: Harness, thread: str, channel: str = CHANNEL) -> repository.StoredAnalysis:
    found = store.find(slack.database, Place(TEAM, channel, thread))
    assert found is not None
    assert found.analysis_id is not None
    stored = repository.get(slack.database, found.analysis_id)
    assert stored is not None
    return stored


@pytest.mark.parametrize("wrap", ["<@UBOT> {}", "<@UBOT> why?\n```\n{}\n```", "```{}``` <@UBOT>"], ids=["plain", "question", "block"])
def test_a_mention_with_pasted_text(slack: Harness, wrap: str) -> None:
    message = slack.standin.say(wrap.format(mangled(LOG)))
    assert slack.send(mention(slack.standin, message)).status_code == 200
    reply = only(slack, thread=message["ts"])
    assert f"`{CAUSE}`" in shown(reply)
    stored = analysis(slack, message["ts"])
    assert stored.report is not None
    assert stored.report.outcome.cause == CAUSE
    assert any(
        element.get("url") == f"https://vram.example/a/{stored.id}" for block in reply["blocks"] for element in block.get("elements", [])
    )


def test_both_databases_keep_it_with_team_and_channel(standin: Standin, database_url: str) -> None:
    with harness(standin, database_url) as slack:
        message = standin.say(f"<@{BOT}> {mangled(LOG)}")
        slack.send(mention(standin, message))
        assert analysis(slack, message["ts"]).state == "done"
        assert [item[2] for item in store.recent(slack.database, TEAM, CHANNEL)] == [CAUSE]


def test_a_dropped_file_without_a_word(slack: Harness) -> None:
    file = slack.standin.file("engine.log", OOM.encode())
    message = slack.standin.say("", files=[file])
    slack.send(posted(slack.standin, message))
    assert "cuda_oom.graph_capture" in shown(only(slack, thread=message["ts"]))
    [name] = [item.inputs for item in repository.history(slack.database, HistoryFilter()).items]
    assert name == ("engine.log",)


def test_a_snippet_and_a_mention_of_it(slack: Harness) -> None:
    file = slack.standin.file("Untitled", LOG.encode(), mode="snippet", pretty_type="Plain Text")
    message = slack.standin.say(f"<@{BOT}> what is this?", files=[file])
    slack.send(mention(slack.standin, message))
    slack.send(posted(slack.standin, message))  # the same message comes as this event too
    assert CAUSE in shown(only(slack, thread=message["ts"]))
    assert len(slack.standin.called("chat.postMessage")) == 1


def test_a_mention_in_a_thread_whose_earlier_messages_hold_the_log(slack: Harness) -> None:
    first = slack.standin.say("our server died, any idea?")
    slack.standin.say(f"```{mangled(LOG)}```", user="U0002", thread=first["ts"])
    slack.standin.say("let me ask the bot", thread=first["ts"])
    asks = slack.standin.say(f"<@{BOT}>", thread=first["ts"])
    slack.send(mention(slack.standin, asks))
    assert CAUSE in shown(only(slack, thread=first["ts"]))
    report = analysis(slack, first["ts"]).report
    assert report is not None
    assert len(report.inputs) == 1  # talk is no input


def test_a_long_thread_is_read_page_by_page(slack: Harness) -> None:
    first = slack.standin.say("dead")
    for _ in range(210):
        slack.standin.say("hm", thread=first["ts"])
    slack.standin.say(f"```{mangled(LOG)}```", thread=first["ts"])
    asks = slack.standin.say(f"<@{BOT}>", thread=first["ts"])
    slack.send(mention(slack.standin, asks))
    assert CAUSE in shown(only(slack, thread=first["ts"]))
    assert len(slack.standin.called("conversations.replies")) == 2


def test_a_direct_message(slack: Harness) -> None:
    message = slack.standin.say(mangled(LOG), DIRECT)
    slack.send(posted(slack.standin, message, DIRECT, "im"))
    assert CAUSE in shown(only(slack, DIRECT, message["ts"]))


def test_the_message_shortcut(slack: Harness) -> None:
    message = slack.standin.say(mangled(LOG), user="U0002")
    assert slack.send(shortcut(slack.standin, message)).status_code == 200
    assert CAUSE in shown(only(slack, thread=message["ts"]))


def test_the_message_shortcut_where_the_bot_is_no_member(slack: Harness) -> None:
    message = slack.standin.say(mangled(LOG), "C0009")
    slack.send(shortcut(slack.standin, message, "C0009"))
    [(_, said)] = slack.standin.responses
    assert said["response_type"] == "ephemeral"
    assert "/invite" in said["text"]


def test_the_slash_command_with_a_text(slack: Harness) -> None:
    answer = slack.send(command(slack.standin, mangled(LOG)))
    assert answer.status_code == 200
    opening, reply = slack.standin.replies()
    assert f"<@{USER}>" in opening["text"]
    assert reply["thread_ts"] == opening["ts"]
    assert CAUSE in shown(reply)


def test_the_slash_command_where_the_bot_is_no_member_answers_directly(slack: Harness) -> None:
    slack.send(command(slack.standin, mangled(LOG), "C0009"))
    assert CAUSE in shown(slack.standin.replies(DIRECT)[-1])


def test_the_slash_command_opens_a_form_and_the_form_is_read(slack: Harness) -> None:
    slack.send(command(slack.standin, ""))
    [opened] = slack.standin.called("views.open")
    view = opened["view"] if isinstance(opened["view"], dict) else {}
    assert not view or view["private_metadata"] == CHANNEL
    slack.send(submission(slack.standin, LOG))
    assert CAUSE in shown(slack.standin.replies()[-1])


def test_an_expired_trigger_is_said(slack: Harness) -> None:
    payload = command(slack.standin, "")
    slack.standin.triggers[payload["trigger_id"]] = 0.0
    slack.send(payload)
    [(path, said)] = slack.standin.responses
    assert payload["response_url"].endswith(path)
    assert "gave up waiting" in said["text"]


def test_usage_recent_and_watching_are_said(slack: Harness) -> None:
    assert "watch on|off" in slack.send(command(slack.standin, "help")).json()["text"]
    assert "Nothing" in slack.send(command(slack.standin, "recent")).json()["text"]
    message = slack.standin.say(f"<@{BOT}> {mangled(LOG)}")
    slack.send(mention(slack.standin, message))
    recent = slack.send(command(slack.standin, "recent")).json()
    assert CAUSE in recent["text"]
    assert recent["response_type"] == "ephemeral"
    assert "Nothing" in slack.send(command(slack.standin, "recent", "C0002")).json()["text"]


TRACE = (
    'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\nValueError: something else broke badly in our own code here'
)


@pytest.mark.parametrize(
    ("text", "answered"),
    [
        (LOG, True),
        ("thanks, that helped a lot! The KV cache was too small, so we lowered --max-model-len.", False),
        ("try vllm serve Qwen/Qwen2.5-7B-Instruct --max-model-len 8192 --gpu-memory-utilization 0.95", False),
        ("INFO 01-11 15:51:18 llm_engine.py:275] # GPU blocks: 229, # CPU blocks: 512", False),
        (SMI, False),
        (TRACE, False),
    ],
    ids=["failure", "talk", "advice", "healthy-line", "dump", "unknown"],
)
def test_a_watched_channel_answers_what_is_certain_and_nothing_else(slack: Harness, text: str, answered: bool) -> None:
    quiet = slack.standin.say(mangled(text))
    slack.send(posted(slack.standin, quiet))
    assert slack.standin.replies() == []  # nobody switched it on
    assert slack.send(command(slack.standin, "watch on")).json()["response_type"] == "in_channel"
    message = slack.standin.say(mangled(text))
    slack.send(posted(slack.standin, message))
    assert len(slack.standin.replies(thread=message["ts"])) == answered
    assert repository.count(slack.database) == answered
    slack.send(command(slack.standin, "watch off"))
    slack.send(posted(slack.standin, slack.standin.say(mangled(text))))
    assert len(slack.standin.replies()) == answered


def test_watched_by_a_setting(standin: Standin, database_url: str) -> None:
    with harness(standin, database_url, slack_watch_channels=["C0002"]) as slack:
        slack.send(posted(standin, standin.say(mangled(LOG), "C0002"), "C0002"))
        assert len(standin.replies("C0002")) == 1


@pytest.mark.parametrize(
    "more",
    [{"bot_id": "B9"}, {"subtype": "message_changed"}, {"subtype": "message_deleted"}, {"subtype": "channel_join"}, {"hidden": True}],
    ids=lambda more: next(iter(more.values())) if "subtype" in more else next(iter(more)),
)
def test_what_no_person_wrote_is_never_answered(slack: Harness, more: dict[str, Any]) -> None:
    slack.send(command(slack.standin, "watch on"))
    message = slack.standin.say(mangled(LOG), files=[slack.standin.file("a.log", LOG.encode())])
    payload = posted(slack.standin, message)
    payload["event"].update(more)
    slack.send(payload)
    assert slack.standin.replies() == []
    assert repository.count(slack.database) == 0


def test_a_dropped_file_that_is_no_log_is_passed_over(slack: Harness) -> None:
    for name, data in (("notes.txt", b"buy milk and eggs, then call the office\n" * 9), ("shot.png", b"\x89PNG\r\n\x1a\n" + bytes(99))):
        slack.send(posted(slack.standin, slack.standin.say("", files=[slack.standin.file(name, data)])))
    assert slack.standin.replies() == []
    assert repository.count(slack.database) == 0


def test_a_bare_mention_is_told_what_to_send(slack: Harness) -> None:
    message = slack.standin.say(f"<@{BOT}> help me")
    slack.send(mention(slack.standin, message))
    assert "drop the log as a file" in shown(only(slack))
    assert repository.count(slack.database) == 0
    more = slack.standin.say(mangled(LOG), thread=message["ts"])
    slack.send(posted(slack.standin, more))
    assert CAUSE in shown(only(slack))  # the same reply, now with the answer


def test_a_paste_that_is_too_short_is_told_which_lines_are_missing(slack: Harness) -> None:
    message = slack.standin.say(
        f"<@{BOT}> RuntimeError: something broke in our own code and the engine is not running any more, please help"
    )
    slack.send(mention(slack.standin, message))
    assert "non-default args" in shown(only(slack))
