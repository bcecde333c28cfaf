"""What Slack does to a text on its way is undone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzer.slack.sources import run, sources
from analyzer.slack.unmangle import SPLIT_CHARS, join, of_blocks, own_text, plain

ROWS = [
    ("a &lt;b&gt; &amp;&amp; c", "a <b> && c"),
    ("&amp;lt; stays what was written", "&lt; stays what was written"),
    ("see <http://gpu_worker.py|gpu_worker.py>:298]", "see gpu_worker.py:298]"),
    ("at <http://127.0.0.1:8000/health>", "at http://127.0.0.1:8000/health"),
    ("mail <mailto:a@b.example|a@b.example> or <mailto:c@d.example>", "mail a@b.example or c@d.example"),
    ("call <tel:+123456|123456>", "call 123456"),
    ("<@UBOT> please", " please"),
    (
        "<@U777> and <@U778|ann> in <#C1|ops> <!here> <!subteam^S1|@oncall> <!date^1^{date}|yesterday>",
        "@U777 and @ann in #ops @here @oncall yesterday",
    ),
    ("“--dtype” ‘auto’ isn’t", "\"--dtype\" 'auto' isn't"),
    ("vllm serve x —max-model-len 4096 –port 1", "vllm serve x --max-model-len 4096 --port 1"),
    ("range 1–2, a — b, pre–war", "range 1–2, a — b, pre–war"),
    ("Loading\u2026 12\u00a0GiB\u200b", "Loading... 12 GiB"),
    ("```\nline 1\nline 2\n```", "line 1\nline 2"),
    ("```line 1\nline 2```", "line 1\nline 2"),
    ("`one line of code`", "one line of code"),
    ("say `--flag` twice", "say `--flag` twice"),
    ("a\r\nb\rc", "a\nb\nc"),
    ("&lt;|im_start|&gt;system", "<|im_start|>system"),
    ("  indented\n\tmore", "  indented\n\tmore"),
]


@pytest.mark.parametrize(("sent", "wanted"), ROWS)
def test_a_text_is_what_its_author_pasted(sent: str, wanted: str) -> None:
    assert plain(sent, "UBOT") == (wanted, False)


@pytest.mark.parametrize("end", ["message (truncated)", "… (truncated)", "[truncated]", "Message truncated", "(message truncated)"])
def test_a_cut_message_is_known(end: str) -> None:
    assert plain(f"ERROR one\nERROR two\n{end}") == ("ERROR one\nERROR two", True)
    assert plain("the prompt was truncated to 4096 tokens")[1] is False


@given(st.text(alphabet="ab<>&;|@#!lgtamp \n\t:.-日志", max_size=80))
def test_escaping_is_undone_whatever_the_text(text: str) -> None:
    sent = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    back, cut = plain(sent)
    if not cut:
        assert back == text.rstrip().strip("\n")


def test_rich_text_is_read_where_the_text_is_cut() -> None:
    code = {"type": "rich_text_preformatted", "elements": [{"type": "text", "text": "if a < b && c:\n    raise"}]}
    said = {
        "type": "rich_text_section",
        "elements": [
            {"type": "user", "user_id": "UBOT"},
            {"type": "text", "text": " look "},
            {"type": "link", "url": "http://x.py", "text": "x.py"},
        ],
    }
    items = {"type": "rich_text_list", "elements": [{"type": "rich_text_section", "elements": [{"type": "emoji", "name": "fire"}]}]}
    blocks = [{"type": "rich_text", "elements": [said, code, items]}]
    assert plain(of_blocks(blocks), "UBOT")[0] == " look x.py\nif a < b && c:\n    raise\n:fire:"
    assert plain(own_text({"text": "<@UBOT> look", "blocks": blocks}), "UBOT")[0].endswith(":fire:")
    assert (
        own_text({"text": "what was said in full here", "blocks": [{"type": "rich_text", "elements": []}]}) == "what was said in full here"
    )


def test_pieces_cut_at_a_lines_end_and_in_its_middle() -> None:
    assert join(["INFO 01-11 a\nINFO 01-11 b", "INFO 01-11 c"]) == "INFO 01-11 a\nINFO 01-11 b\nINFO 01-11 c"
    long = "x" * SPLIT_CHARS
    assert join([long, "rest of the line\nnext"]) == long + "rest of the line\nnext"
    assert join([long, "INFO 01-11 next"]) == f"{long}\nINFO 01-11 next"
    assert join(["short", "next"]) == "short\nnext"
    assert join([]) == ""


@given(st.lists(st.text(alphabet="abc: \nINFO01-", min_size=1, max_size=30), max_size=8))
def test_joining_loses_no_character(pieces: list[str]) -> None:
    assert join(pieces).replace("\n", "") == "".join(pieces).replace("\n", "")


def _said(ts: float, text: str, user: str = "U1", **more: object) -> dict[str, object]:
    return {"ts": f"{ts:.6f}", "text": text, "user": user, **more}


def test_a_run_of_pieces_ends_where_somebody_else_speaks_or_time_passes() -> None:
    long = "x" * 3500
    said = [_said(0, long), _said(100, long), _said(101, long), _said(102, "end"), _said(103, "other"), _said(104, long, "U2")]
    assert [message["ts"] for message in run(said, "101.000000")] == ["100.000000", "101.000000", "102.000000"]
    assert [message["ts"] for message in run(said, "103.000000")] == ["103.000000"]
    assert run(said, "9.000000") == []


def test_what_messages_hold() -> None:
    shared = {"text": "INFO shared", "files": [{"id": "F2", "name": "b.log", "url_private": "https://files.slack.com/b"}]}
    messages = [
        _said(1, "hello <@UBOT>", files=[{"id": "F1", "name": "a.log", "url_private_download": "https://files.slack.com/a", "size": 3}]),
        _said(2, "mine", "UBOT"),
        _said(3, "", attachments=[shared, "x"]),
        _said(4, "joined", subtype="channel_join"),
        _said(
            5,
            "",
            files=[{"id": "F3", "mode": "tombstone"}, {"id": "F4", "is_external": True, "url_private": "https://elsewhere.example/x"}, {}],
        ),
    ]
    found = sources(messages, "UBOT")
    assert [source.text for source in found if source.file is None] == ["hello", "INFO shared"]
    assert [source.file.id for source in found if source.file is not None] == ["F1", "F2"]
