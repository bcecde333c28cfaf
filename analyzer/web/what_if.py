"""``POST /v1/what-if``: a stored analysis, a report or a ledger, and settings → the ledger after them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from analyzer.engines.what_if import WhatIf, WhatIfError, what_if
from analyzer.web.body import Body
from analyzer.web.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

    from analyzer.model import Report
    from analyzer.web.service import Service

#: A report's JSON is bounded (report-contract.md); this is well beyond any.
MAX_BYTES = 16 << 20

_LEDGER = {
    "type": "object",
    "description": "one ledger of a report",
    "properties": {"lines": {"type": "array", "items": {"type": "object"}}},
}
#: The body, for the OpenAPI description.
QUESTION: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["settings"],
                    "properties": {
                        "analysis": {"type": "string", "description": "id of a stored analysis"},
                        "report": {"type": "object", "description": "a report (vramledger/report/1)"},
                        "ledger": _LEDGER,
                        "settings": {"type": "object", "description": "long flag → new value; null takes it away"},
                    },
                }
            }
        },
    }
}


async def question(request: Request, here: Service) -> dict[str, Any]:
    """The request's body as a question. Raises Problem where it is none."""
    data = bytearray()
    async for piece in Body(request, here.settings, here.pipes).pieces():
        data += piece
        if len(data) > MAX_BYTES:
            raise Problem("input_too_large", "a question is at most {limit} bytes", limit=MAX_BYTES)
    try:
        asked = await here.work(json.loads, bytes(data))
    except (ValueError, RecursionError):
        raise Problem("invalid_request", "the body is no JSON") from None
    if not isinstance(asked, dict) or not isinstance(asked.get("settings"), dict):
        raise Problem("invalid_request", 'the body is {"analysis": id} or {"report": …} or {"ledger": …}, with {"settings": {flag: value}}')
    if sum(name in asked for name in ("analysis", "report", "ledger")) != 1:
        raise Problem("invalid_request", "give one of analysis, report and ledger")
    return asked


def answer(given: Report | Mapping[str, Any], settings: Mapping[str, Any]) -> WhatIf:
    """The answer. Raises Problem where there is none."""
    try:
        return what_if(given, settings)
    except WhatIfError as error:
        raise Problem("invalid_request", error.message) from None
