"""A report ⇄ bytes, both languages inside, so that every rendering can be made from what is stored, years later.

A field that the model has gained since takes its default; one that it has lost is passed over. Values keep their type: a log's
``12288`` stays a whole number where the model says float, so that what is read later is byte for byte what was answered.
"""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import zstandard

from analyzer.model import Report, facts, finding, gpu, ledger, report, text, units
from analyzer.model.message import MessageError

#: First byte of a stored report; bumped when older ones can no longer be read as they are.
FORMAT = b"\x01"
_LEVEL = 3
#: A report is bounded (report-contract.md); this is far beyond any, and keeps a damaged row from taking all memory.
_MAX_BYTES = 1 << 30
#: Key that tells which member of a union of classes a value is.
_TYPE = "!"
_ATOMS = frozenset({str, int, float, bool, type(None)})


class CodecError(MessageError, ValueError):
    """Bytes that are no stored report."""


def pack(made: Report) -> bytes:
    """The report as it is stored."""
    # Python's own writer keeps infinities and numbers of any length, which a log may print.
    plain = json.dumps(_plain(made, Report), ensure_ascii=False, separators=(",", ":"))
    # Half a surrogate pair, which a log's own JSON may hold, is no character: "?" here as in every answer.
    return FORMAT + zstandard.ZstdCompressor(level=_LEVEL).compress(plain.encode("utf-8", "replace"))


def unpack(stored: bytes) -> Report:
    """What ``pack`` was given: equal to it, and so is every rendering. Raises CodecError for anything else."""
    if stored[:1] != FORMAT:
        raise CodecError("a stored report of another format")
    try:
        plain = json.loads(zstandard.ZstdDecompressor().decompress(stored[1:], max_output_size=_MAX_BYTES))
        made = _build(plain, Report)
    except (zstandard.ZstdError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CodecError("a stored report is damaged: {kind}", kind=type(error).__name__) from error
    assert isinstance(made, Report)
    return made


@cache
def _hints(kind: type) -> dict[str, Any]:
    """The types of a class's fields. The model's modules name each other's classes for the type checker only, so all are at hand here."""
    names = {name: value for module in (units, text, facts, ledger, finding, gpu, report) for name, value in vars(module).items()}
    return get_type_hints(kind, localns=names)


@cache
def _members(hint: Any) -> dict[str, type]:
    """The classes of a union by name; empty for a type that is no union of several."""
    if get_origin(hint) not in (Union, UnionType):
        return {}
    classes = {member.__name__: member for member in get_args(hint) if is_dataclass(member) and isinstance(member, type)}
    return classes if len(classes) > 1 else {}


@cache
def _named_hints(kind: type) -> tuple[tuple[str, Any], ...]:
    """The fields of a class with their types; empty for what is no dataclass."""
    if not is_dataclass(kind):
        return ()
    hints = _hints(kind)
    return tuple((field.name, hints[field.name]) for field in fields(kind))


def _plain(value: Any, hint: Any) -> Any:
    """``value`` in JSON's types."""
    kind = type(value)
    if kind in _ATOMS:
        return value
    named = _named_hints(kind)  # type: ignore[arg-type]  # a class can be a key
    if named:
        shape = {name: _plain(getattr(value, name), of) for name, of in named}
        return {_TYPE: kind.__name__, **shape} if _members(hint) else shape
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, dict):
        return {key: _plain(item, _item(hint, 1)) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item, _item(hint, place)) for place, item in enumerate(value)]
    return value


def _build(value: Any, hint: Any) -> Any:
    """The other way round."""
    hint = _one(value, hint)
    if hint is text.Text and isinstance(value, str):
        return text.Text.of(value)  # once one string for every language
    if isinstance(hint, type) and is_dataclass(hint):
        hints = _hints(hint)
        return hint(**{field.name: _build(value[field.name], hints[field.name]) for field in fields(hint) if field.name in value})
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint(value)
    origin = get_origin(hint)
    if origin is dict:
        return {key: _build(item, _item(hint, 1)) for key, item in value.items()}
    if origin in (list, tuple):
        return origin(_build(item, _item(hint, place)) for place, item in enumerate(value))
    return value


def _one(value: Any, hint: Any) -> Any:
    """The member of a union that ``value`` is of; plain values are of none."""
    if get_origin(hint) not in (Union, UnionType):
        return hint
    if value is None:
        return None
    members = _members(hint)
    if members:
        return members[value[_TYPE]]
    return next((member for member in get_args(hint) if is_dataclass(member) or get_origin(member) is not None), None)


def _item(hint: Any, place: int) -> Any:
    """The type of the item at ``place`` of a list, a tuple, or of a dict's values."""
    if get_origin(hint) in (Union, UnionType):
        hint = next((member for member in get_args(hint) if get_origin(member) is not None), None)
    arguments = get_args(hint)
    if not arguments:
        return None
    if get_origin(hint) is tuple and arguments[-1] is not Ellipsis:
        return arguments[place]
    return arguments[1] if get_origin(hint) is dict else arguments[0]
