"""A message is put into words where it is shown: English as it is written, Chinese whole, and stored so that both stay possible."""

from __future__ import annotations

import pytest

from analyzer.model.message import Message, MessageError
from analyzer.report.messages import tell


@pytest.mark.parametrize(
    ("message", "english", "chinese"),
    [
        (Message("it ends in the middle"), "it ends in the middle", "数据不完整，中途结束"),
        (Message("{name}: {reason}", name="a.log", reason=7), "a.log: 7", "a.log：7"),
        (
            Message("{name}: {reason}", name="{x}", reason=Message("it ends in the middle")),
            "{x}: it ends in the middle",
            "{x}：数据不完整，中途结束",
        ),
        (Message("a library's own {words}"), "a library's own {words}", "a library's own {words}"),
        (Message("{"), "{", "{"),
        (Message('{"text": 1}'), '{"text": 1}', '{"text": 1}'),
        (
            Message('{"text": "{x}", "values": {"x": "y"}}'),
            '{"text": "{x}", "values": {"x": "y"}}',
            '{"text": "{x}", "values": {"x": "y"}}',
        ),
        (Message(""), "", ""),
    ],
    ids=["plain", "values", "a message inside", "not in the catalogue", "a brace", "JSON", "what looks packed", "nothing"],
)
def test_a_message_in_either_language_now_and_later(message: Message, english: str, chinese: str) -> None:
    stored = Message.unpack(message.pack())
    assert stored is not None
    for said in (message, stored):
        assert (str(said), tell(said, "en"), tell(said, "zh")) == (english, english, chinese)
    assert str(MessageError(message)) == english
    assert tell(MessageError(message), "zh") == chinese


def test_an_error_takes_the_values_of_its_message() -> None:
    assert str(MessageError("{name}: {reason}", name="a", reason="b")) == "a: b"
