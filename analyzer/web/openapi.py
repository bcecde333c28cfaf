"""The parts of the OpenAPI description that cannot be read off a function: bodies of any type, answers in several forms."""

from __future__ import annotations

from typing import Any

from analyzer.model.contract import json_schema
from analyzer.web.problems import CODES

_TEXT = {"schema": {"type": "string"}}
_RAW = {"schema": {"type": "string", "format": "binary"}}

#: A body of any type.
BODY: dict[str, Any] = {"requestBody": {"required": True, "content": {"application/octet-stream": _RAW, "text/plain": _TEXT}}}
#: The same, or a form.
FORM_OR_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/octet-stream": _RAW,
            "text/plain": _TEXT,
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "properties": {
                        "text": {"type": "string"},
                        "name": {"type": "string", "description": "of the text"},
                        "file": {"type": "array", "items": {"type": "string", "format": "binary"}},
                    },
                }
            },
        },
    }
}
_REPORT = {
    "application/json": {"schema": {"$ref": "#/components/schemas/Report"}},
    "text/plain": _TEXT,
    "text/markdown": _TEXT,
    "text/html": _TEXT,
}
REPORT_ANSWERS: dict[int | str, dict[str, Any]] = {200: {"description": "The report", "content": _REPORT}}
UPLOAD_ANSWERS: dict[int | str, dict[str, Any]] = {
    201: {
        "description": "The report, stored",
        "content": _REPORT,
        "headers": {
            "Location": {"schema": {"type": "string"}, "description": "where it lies"},
            "X-Delete-Token": {"schema": {"type": "string"}, "description": "what deletes it"},
        },
    },
    200: {"description": "The report, not kept (`?store=0`)", "content": _REPORT},
}
PROBLEM_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string", "enum": sorted(CODES)},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
    },
}
_ERROR = {
    "description": "RFC 9457; one line of text for a terminal",
    "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}, "text/plain": _TEXT, "text/html": _TEXT},
}
ERROR_ANSWERS: dict[int | str, dict[str, Any]] = {"4XX": _ERROR, "503": _ERROR}


def complete(description: dict[str, Any]) -> dict[str, Any]:
    """The description with the schemas that its answers name."""
    report = json_schema()
    report.pop("$schema", None)
    definitions = report.pop("$defs", {})
    schemas = description.setdefault("components", {}).setdefault("schemas", {})
    schemas["Problem"] = PROBLEM_SCHEMA
    schemas["Report"] = _moved(report)
    schemas.update({name: _moved(definition) for name, definition in definitions.items()})
    return description


def _moved(schema: Any) -> Any:
    """``schema`` with its references pointing at the components."""
    if isinstance(schema, dict):
        return {
            key: value.replace("#/$defs/", "#/components/schemas/") if key == "$ref" else _moved(value) for key, value in schema.items()
        }
    return [_moved(item) for item in schema] if isinstance(schema, list) else schema
