"""One thread is one analysis and one reply: what comes later refines it, what Slack took apart is whole again."""

from __future__ import annotations

import io
import re
import time
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from analyzer import analyze
from analyzer.slack import work
from analyzer.slack.unmangle import SPLIT_CHARS
from analyzer.store import repository
from analyzer.store import slack as store
from analyzer.store.slack import Place
from analyzer.web import errors
from tests.slack.blockkit import problems
from tests.slack.conftest import CAUSE, LOG, OOM, SMI, Harness, harness
from tests.slack.standin import BOT, CHANNEL, DIRECT, TEAM, USER, Body, mention, posted, press
from tests.slack.test_ways_in import analysis, mangled, only, shown

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.slack.standin import Standin

GRAPH = "cuda_oom.graph_capture"


def _asked(slack: Harness, text: str = OOM, **more: Any) -> Body:
    """A mention with a log in a file, answered."""
    file = slack.standin.file("engine.log", text.encode())
    message = slack.standin.say(f"<@{BOT}>", files=[file], **more)
    slack.send(mention(slack.standin, message))
    return message


def test_a_dump_added_later_refines_the_same_report(slack: Harness) -> None:
    message = _asked(slack, LOG)
    first = analysis(slack, message["ts"])
    reply = only(slack)["ts"]
    more = slack.standin.say("", thread=message["ts"], files=[slack.standin.file("smi.txt", SMI.encode())])
    slack.send(posted(slack.standin, more))
    again = analysis(slack, message["ts"])
    assert (again.id, again.revision) == (first.id, 1)
    assert again.report is not None
    assert [info.name for info in again.report.inputs] == ["engine.log", "smi.txt"]
    assert again.report.gpu_snapshots
    assert only(slack)["ts"] == reply
    pasted = slack.standin.say(f"```{mangled(SMI)}```", thread=message["ts"], user="U0002")
    slack.send(posted(slack.standin, pasted))
    assert analysis(slack, message["ts"]).revision == 2
    assert len(slack.standin.called("chat.postMessage")) == 1


@pytest.mark.parametrize(
    "text",
    [
        "thanks!",
        "I think we should lower the utilization to 0.85, see https://docs.example/page",
        "we run vllm serve Qwen/Qwen2.5-7B --max-model-len 4096",
    ],
)
def test_talk_in_the_thread_changes_nothing(slack: Harness, text: str) -> None:
    message = _asked(slack)
    calls = len(slack.standin.calls)
    slack.send(posted(slack.standin, slack.standin.say(text, thread=message["ts"])))
    assert analysis(slack, message["ts"]).revision == 0
    assert {name for name, _ in slack.standin.calls[calls:]} <= {"conversations.replies"}


def test_a_mention_with_nothing_new_is_told_so_alone(slack: Harness) -> None:
    message = _asked(slack)
    again = slack.standin.say(f"<@{BOT}> and now?", thread=message["ts"], user="U0002")
    slack.send(mention(slack.standin, again))
    [whispered] = slack.standin.called("chat.postEphemeral")
    assert (whispered["user"], whispered["thread_ts"]) == ("U0002", message["ts"])
    assert "Nothing new" in whispered["text"]
    assert len(slack.standin.replies()) == 1


def test_a_command_that_somebody_asks_about_counts(slack: Harness) -> None:
    message = _asked(slack)
    more = slack.standin.say(f"<@{BOT}> it was `vllm serve meta-llama/Llama-3.1-8B --gpu-memory-utilization 0.95`", thread=message["ts"])
    slack.send(mention(slack.standin, more))
    report = analysis(slack, message["ts"]).report
    assert report is not None
    assert len(report.inputs) == 2
    assert report.settings["--gpu-memory-utilization"].value == 0.95


def _pieces(text: str) -> list[str]:
    """``text`` as Slack's client sends it: at most 4,000 characters a message, cut at a line's end."""
    found = [""]
    for line in text.splitlines(keepends=True):
        if len(mangled(found[-1] + line)) > SPLIT_CHARS:
            found.append("")
        found[-1] += line
    return found


@pytest.mark.parametrize("fenced", [False, True], ids=["plain", "fenced"])
def test_a_paste_that_slack_split_is_one_input_and_one_reply(slack: Harness, fenced: bool) -> None:
    parts = _pieces(OOM * 4)
    assert len(parts) > 3
    said = [slack.standin.say(f"```{mangled(part)}```" if fenced else mangled(part), DIRECT, gap=1.0) for part in parts]
    for message in said:
        slack.send(posted(slack.standin, message, DIRECT, "im"), wait=False)
    assert slack.bot.wait()
    assert GRAPH in shown(only(slack, DIRECT))
    stored = analysis(slack, said[0]["ts"], DIRECT)
    assert stored.report is not None
    [info] = stored.report.inputs
    assert info.lines == 4 * len(OOM.splitlines())
    assert slack.standin.called("chat.postEphemeral") == []


def _wrapped(text: str) -> str:
    """``text`` as a narrow terminal's copy has it."""
    return "\n".join(line[at : at + 120] for line in text.splitlines() for at in range(0, max(len(line), 1), 120))


def _linked(text: str) -> str:
    """``text`` as Slack links what it takes for addresses."""
    return re.sub(r"\b(\w+\.py)\b", r"<http://\1|\1>", mangled(text))


def _typed(text: str) -> str:
    """``text`` as a Mac's keyboard improves it."""
    return mangled(re.sub(r"'([^'\n]*)'", "\u2018\\1\u2019", text).replace("--", "—"))


@pytest.mark.parametrize(
    "mangle", [_linked, _typed, lambda text: mangled(_wrapped(text)), lambda text: mangled(re.sub("^", "> ", text, flags=re.MULTILINE))]
)
@pytest.mark.parametrize(("log", "cause"), [(LOG, CAUSE), (OOM, GRAPH)], ids=["kv", "graph"])
def test_what_slack_and_keyboards_do_to_a_log_changes_no_verdict(
    slack: Harness, mangle: Callable[[str], str], log: str, cause: str
) -> None:
    message = slack.standin.say(f"<@{BOT}>\n{mangle(log)}")
    slack.send(mention(slack.standin, message))
    report = analysis(slack, message["ts"]).report
    assert report is not None
    assert report.outcome.cause == cause
    assert sorted((fact.name, str(fact.value)) for fact in report.facts) == _facts_of(log)


@cache
def _facts_of(log: str) -> list[tuple[str, str]]:
    return sorted((fact.name, str(fact.value)) for fact in analyze([("a.log", io.BytesIO(log.encode()))]).facts)


def test_a_split_paste_that_ends_with_the_mention(slack: Harness) -> None:
    parts = _pieces(OOM)
    said = [slack.standin.say(mangled(part), gap=1.0) for part in parts[:-1]]
    last = slack.standin.say(f"{mangled(parts[-1])}\n<@{BOT}>", gap=1.0)
    slack.standin.say("something else entirely", gap=1.0, user="U0002")
    slack.send(mention(slack.standin, last))
    assert GRAPH in shown(only(slack, thread=last["ts"]))
    assert store.find(slack.database, Place(TEAM, CHANNEL, said[0]["ts"])) is None


def test_an_unreadable_history_still_answers_the_message_itself(slack: Harness) -> None:
    slack.standin.scopes.discard("history")
    message = slack.standin.say(f"<@{BOT}> {mangled(LOG)}", thread="1600000000.000100")
    slack.send(mention(slack.standin, message))
    assert CAUSE in shown(only(slack))


def test_the_picture_is_shown_and_replaced(slack: Harness) -> None:
    message = _asked(slack)
    [image] = [block for block in only(slack)["blocks"] if block["type"] == "image"]
    first = slack.standin.files[image["slack_file"]["id"]]
    assert first.data.startswith(b"\x89PNG")
    assert (first.channel, first.complete) == (None, True)
    more = slack.standin.say("", thread=message["ts"], files=[slack.standin.file("smi.txt", SMI.encode())])
    slack.send(posted(slack.standin, more))
    [image] = [block for block in only(slack)["blocks"] if block["type"] == "image"]
    assert image["slack_file"]["id"] != first.id
    assert first.deleted


@pytest.mark.parametrize("trouble", ["scope", "slow", "refused"])
def test_a_code_block_stands_in_for_the_picture(slack: Harness, trouble: str) -> None:
    if trouble == "scope":
        slack.standin.scopes.discard("files:write")
    elif trouble == "slow":
        slack.standin.ready_after = 60.0
    else:
        slack.standin.broken["files.completeUploadExternal"] = "storage_limit_reached"
    _asked(slack)
    reply = only(slack)
    assert all(block["type"] != "image" for block in reply["blocks"])
    assert "██" in shown(reply)
    assert all(file.deleted or not file.complete for file in slack.standin.files.values() if file.name == "ledger.png")


def test_a_picture_that_slack_still_processes_is_waited_for(standin: Standin, tmp_path: Path) -> None:
    standin.ready_after = 0.1
    with harness(standin, f"sqlite:///{tmp_path / 'store.db'}") as slack:
        slack.bot.slack._sleep = lambda seconds: time.sleep(0.1)
        _asked(slack)
        assert any(block["type"] == "image" for block in only(slack)["blocks"])


def test_what_cannot_be_read_is_named_and_the_rest_is_read(slack: Harness) -> None:
    shot = slack.standin.file("shot.png", b"\x89PNG\r\n\x1a\n" + bytes(99))
    log = slack.standin.file("engine.log", OOM.encode())
    gone = slack.standin.file("gone.txt", b"x")
    slack.standin.files[gone["id"]].deleted = True
    message = slack.standin.say(f"<@{BOT}>", files=[shot, gone, log])
    slack.send(mention(slack.standin, message))
    words = shown(only(slack))
    assert GRAPH in words
    assert "gone.txt cannot be read: Slack answers 404" in words
    assert "shot.png" in words
    assert "instead of a screenshot" in words


def test_what_cannot_be_read_is_named_in_the_language_of_who_asks(slack: Harness) -> None:
    shot = slack.standin.file("shot.png", b"\x89PNG\r\n\x1a\n" + bytes(99))
    gone = slack.standin.file("gone.txt", b"x")
    slack.standin.files[gone["id"]].deleted = True
    message = slack.standin.say(f"<@{BOT}> 帮忙看下这个日志", files=[shot, gone, slack.standin.file("engine.log", LOG.encode())])
    slack.send(mention(slack.standin, message))
    words = shown(only(slack))
    assert "无法读取 gone.txt：Slack 返回 404" in words
    assert "shot.png：这不是日志：PNG 图片" in words


def test_the_language_is_that_of_who_asks_and_can_be_changed(slack: Harness) -> None:
    message = _asked(slack)
    chinese = slack.standin.say(f"<@{BOT}> 帮忙看下这个日志\n```{mangled(LOG)}```")
    slack.send(mention(slack.standin, chinese))
    assert "怎么改" in shown(slack.standin.replies(thread=chinese["ts"])[0])
    english = slack.standin.replies(thread=message["ts"])[0]
    assert "What to change" in shown(english)
    slack.send(press(slack.standin, english, "language"))
    turned = slack.standin.replies(thread=message["ts"])[0]
    assert "怎么改" in shown(turned)
    assert problems(turned["blocks"]) == []
    more = slack.standin.say("", thread=message["ts"], files=[slack.standin.file("smi.txt", SMI.encode())])
    slack.send(posted(slack.standin, more))
    assert "怎么改" in shown(slack.standin.replies(thread=message["ts"])[0])  # and stays
    slack.send(press(slack.standin, slack.standin.replies(thread=message["ts"])[0], "language"))
    assert "What to change" in shown(slack.standin.replies(thread=message["ts"])[0])


def test_helped_and_wrong_are_counted_once_a_person(slack: Harness) -> None:
    message = _asked(slack)
    reply = only(slack)
    for action, user in (("helped", USER), ("wrong", USER), ("helped", "U0002")):
        slack.send(press(slack.standin, reply, action, user=user))
    assert store.feedback(slack.database, analysis(slack, message["ts"]).id) == (1, 1)
    assert all(said["response_type"] == "ephemeral" and not said["replace_original"] for _, said in slack.standin.responses)


def test_only_who_asked_may_delete_and_then_all_is_gone(slack: Harness) -> None:
    message = _asked(slack)
    reply = only(slack)
    [image] = [block for block in reply["blocks"] if block["type"] == "image"]
    slack.send(press(slack.standin, reply, "delete", user="U0002"))
    assert repository.count(slack.database) == 1
    assert f"<@{USER}>" in slack.standin.responses[-1][1]["text"]
    slack.send(press(slack.standin, reply, "delete"))
    assert repository.count(slack.database) == 0
    assert slack.standin.replies() == []
    assert slack.standin.files[image["slack_file"]["id"]].deleted
    assert store.find(slack.database, Place(TEAM, CHANNEL, message["ts"])) is None
    for action in ("helped", "language", "delete"):
        slack.send(press(slack.standin, reply, action))
        assert "gone" in slack.standin.responses[-1][1]["text"]


def test_the_thread_begins_anew_after_a_deletion(slack: Harness) -> None:
    message = _asked(slack)
    slack.send(press(slack.standin, only(slack), "delete"))
    again = slack.standin.say(f"<@{BOT}>", thread=message["ts"])
    slack.send(mention(slack.standin, again))
    assert GRAPH in shown(only(slack))
    assert repository.count(slack.database) == 1


def test_a_reply_that_somebody_took_away_is_posted_again(slack: Harness) -> None:
    message = _asked(slack)
    slack.standin.messages[CHANNEL] = [found for found in slack.standin.messages[CHANNEL] if found["user"] != BOT]
    more = slack.standin.say("", thread=message["ts"], files=[slack.standin.file("smi.txt", SMI.encode())])
    slack.send(posted(slack.standin, more))
    assert GRAPH in shown(only(slack))


def test_the_full_report_is_a_link_or_a_file(standin: Standin, tmp_path: Path) -> None:
    with harness(standin, f"sqlite:///{tmp_path / 'store.db'}", public_url=None) as slack:
        message = _asked(slack)
        reply = only(slack)
        slack.send(press(standin, reply, "report"))
        [file] = [found for found in standin.files.values() if found.name == "report.txt"]
        assert (file.channel, file.thread) == (CHANNEL, message["ts"])
        assert GRAPH in file.data.decode()


def test_pressing_the_link_does_nothing_more(slack: Harness) -> None:
    _asked(slack)
    calls = len(slack.standin.calls)
    slack.send(press(slack.standin, only(slack), "report"))
    assert len(slack.standin.calls) == calls


def test_what_is_stored_and_shown_is_redacted(slack: Harness) -> None:
    secret = "hf_abcdefghijklmnopqrstuvwxyzABCDEFGH"
    message = _asked(slack, f"HF_TOKEN={secret} started by bob@corp.example from 10.1.2.3\n{OOM}")
    stored = repository.inputs(slack.database, analysis(slack, message["ts"]).id)
    text = b"".join(piece for item in stored for piece in item.text.pieces()).decode()
    assert GRAPH in shown(only(slack))
    for private in (secret, "bob@corp.example", "10.1.2.3"):
        assert private not in text
        assert private not in str(slack.standin.replies())


def test_a_mistake_of_ours_is_said_and_nothing_is_stored(
    slack: Harness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    mistakes: list[BaseException] = []
    monkeypatch.setattr(errors, "tell", mistakes.append)

    def broken(*given: Any, **more: Any) -> Any:
        raise RuntimeError("a bug, with words of the input")

    monkeypatch.setattr(work, "read", broken)
    _asked(slack)
    assert "our mistake" in only(slack)["text"]
    assert repository.count(slack.database) == 0
    assert [type(mistake) for mistake in mistakes] == [RuntimeError]  # what Sentry is told of, where that is set
    assert "words of the input" not in caplog.text


def test_two_additions_at_once_both_count(standin: Standin, database_url: str) -> None:
    with harness(standin, database_url) as one, harness(standin, database_url) as other:
        message = _asked(one)
        for slack, name in ((one, "smi-1.txt"), (other, "smi-2.txt")):
            more = standin.say("", thread=message["ts"], files=[standin.file(name, SMI.encode())])
            slack.send(posted(standin, more), wait=False)
        assert one.bot.wait()
        assert other.bot.wait()
        report = analysis(one, message["ts"]).report
        assert report is not None
        assert {info.name for info in report.inputs} == {"engine.log", "smi-1.txt", "smi-2.txt"}
