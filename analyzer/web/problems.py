"""Errors as a client sees them: RFC 9457 with a stable code, a page for a browser, one plain line for a terminal."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from starlette.responses import Response

from analyzer.model import Text
from analyzer.model.message import Message, MessageError
from analyzer.report.messages import tell

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: Code → (HTTP status, title).
CODES: dict[str, tuple[int, Text]] = {
    "empty_input": (400, Text("Nothing to read", "没有可读的内容")),
    "not_text": (400, Text("This is no text", "这不是文本")),
    "malformed_input": (400, Text("The input is damaged", "输入已损坏")),
    "malformed_multipart": (400, Text("The form is damaged", "表单已损坏")),
    "unauthorized": (401, Text("A token is needed", "需要令牌")),
    "forbidden": (403, Text("Not allowed", "不允许")),
    "not_found": (404, Text("Not found", "未找到")),
    "method_not_allowed": (405, Text("This address does not do that", "该地址不支持此方法")),
    "upload_timeout": (408, Text("The upload stopped", "上传中断")),
    "input_too_large": (413, Text("The input is too large", "输入过大")),
    "expansion_too_large": (413, Text("The input expands to too much", "解压后过大")),
    "unsupported_encoding": (415, Text("This encoding is not understood", "不支持的编码")),
    "invalid_request": (422, Text("The request cannot be understood", "请求无法理解")),
    "rate_limited": (429, Text("Too many requests", "请求过于频繁")),
    "internal_error": (500, Text("Our mistake", "服务器内部错误")),
    "unavailable": (503, Text("Not available now", "暂时不可用")),
}

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


class Problem(MessageError):  # noqa: N818 — the RFC's word
    """Something that is answered with an error. ``detail`` is for the person who sent the request."""

    def __init__(self, code: str, detail: str | Message, headers: Mapping[str, str] | None = None, /, **values: object) -> None:
        super().__init__(detail, **values)
        self.code = code
        self.headers = dict(headers or {})

    @property
    def status(self) -> int:
        return CODES[self.code][0]

    def title(self, language: str) -> str:
        return CODES[self.code][1].get(language)


def line(problem: Problem, detail: str) -> str:
    """The problem in one line for a terminal, without control characters of whatever it quotes."""
    return _CONTROL.sub(" ", f"{problem.status} {problem.code}: {detail}").strip() + "\n"


def response(problem: Problem, form: str, language: str, clean: Callable[[str], str] = str) -> Response:
    """The answer in ``form``: text, html or (anything else) problem+json, as RFC 9457 has it; ``type`` is the stable code.

    ``clean`` redacts the detail, which may quote a name or a path.
    """
    detail = clean(tell(problem, language))
    headers = {**problem.headers, "Content-Language": language, "Cache-Control": "no-store", "Vary": "Accept, Accept-Language, User-Agent"}
    if form in ("text", "markdown"):
        return Response(encoded(line(problem, detail)), problem.status, headers, "text/plain; charset=utf-8")
    if form == "html":
        from analyzer.web.pages import problem_page

        return Response(encoded(problem_page(problem, detail, language)), problem.status, headers, "text/html; charset=utf-8")
    values = {"type": problem.code, "title": problem.title(language), "status": problem.status, "detail": detail}
    return Response(encoded(json.dumps(values, ensure_ascii=False)), problem.status, headers, "application/problem+json")


def encoded(text: str) -> bytes:
    """``text`` as UTF-8; half a surrogate pair, which is no character, as "?"."""
    return text.encode("utf-8", "replace")
