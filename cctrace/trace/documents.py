"""Frozen dataclasses as JSON documents: reading, writing, and the JSON schema, all from the type hints.

Keys that a class does not know are kept in its field `extra`, so that a document made by a newer cctrace of
the same format version survives being read and written.
"""

from __future__ import annotations

import dataclasses
import sys
import types
from collections.abc import Mapping
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")

EXTRA = "extra"
"""Name of the field that keeps unknown keys."""

_INT64 = 2**63
_SHOWN = 60
"""Characters of a wrong value that a message shows."""


def described(meaning: str, *, unit: str = "", choices: tuple[str, ...] = (), default: Any = None) -> Any:
    """A dataclass field with a meaning, a unit and, for texts, the values that make sense."""
    return dataclasses.field(default=default, metadata={"meaning": meaning, "unit": unit, "choices": choices})


def unknown_keys() -> Any:
    """The field `extra` of a document class."""
    return dataclasses.field(default_factory=dict, repr=False)


def hints(cls: type) -> Mapping[str, Any]:
    """Field name -> resolved type of a document class, without `extra`."""
    if cls not in _HINTS:
        _HINTS[cls] = {name: hint for name, hint in get_type_hints(cls).items() if name != EXTRA}
    return _HINTS[cls]


_HINTS: dict[type, dict[str, Any]] = {}
"""Resolving hints is slow, and a document has thousands of lanes."""


def union_members(hint: Any) -> tuple[Any, ...]:
    """The members of a union, or the type itself as the only member."""
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def to_document(value: Any) -> Any:
    """A value made of document classes, tuples and mappings as plain JSON types."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        document = {name: to_document(getattr(value, name)) for name in hints(type(value))}
        return {**document, **to_document(getattr(value, EXTRA, {}))}
    if isinstance(value, Mapping):
        return {str(key): to_document(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_document(item) for item in value]
    return value


class DocumentError(Exception):
    """A document that its JSON schema does not accept. The message names the place and the value."""


def from_document(cls: type[T], document: Any, place: str = "the document") -> T:
    """Builds a document class from JSON types; missing keys get the default.

    Accepts exactly what the JSON schema of the class accepts (a test holds the two together), but starts in
    no time and makes the objects on the way.

    Raises:
        DocumentError: a value has the wrong type.
    """
    if not isinstance(document, Mapping):
        raise DocumentError(f"{place}: {_shown(document)} is no object")
    known = hints(cls)
    prefix = "" if place == "the document" else f"{place}."
    values: dict[str, Any] = {
        key: _read(hint, document[key], f"{prefix}{key}") for key, hint in known.items() if key in document
    }
    values[EXTRA] = {key: item for key, item in document.items() if key not in known}
    return cls(**values)


def _read(hint: Any, value: Any, place: str) -> Any:
    """The value as the first member of the union that takes its JSON type."""
    for member in union_members(hint):
        origin = get_origin(member)
        if member is Any:
            return value
        if isinstance(value, Mapping):
            if dataclasses.is_dataclass(member):
                return from_document(member, value, place)  # type: ignore[arg-type]
            if origin is not None and issubclass(origin, Mapping):
                return {
                    key: _read(get_args(member)[1], item, f"{place}.{key}") for key, item in value.items()
                }
        elif isinstance(value, list):
            if origin is tuple:
                items = enumerate(value)
                return tuple(_read(get_args(member)[0], item, f"{place}.{i}") for i, item in items)
        elif origin is None and not dataclasses.is_dataclass(member):
            simple = _simple(member, value)
            if simple is not None or (value is None and member is types.NoneType):
                return simple
    raise DocumentError(f"{place}: {_shown(value)} is not of the type that belongs there")


def _simple(member: Any, value: Any) -> Any:
    """A number, text or truth value as `member`; None if it is none."""
    if isinstance(value, bool) or member is bool:
        return value if member is bool and isinstance(value, bool) else None
    if member is int:
        whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        return int(value) if whole and -_INT64 <= value < _INT64 else None
    if member is float and isinstance(value, (int, float)):
        return float(value) if abs(value) <= sys.float_info.max else None
    return value if member is str and isinstance(value, str) else None


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def json_schema(cls: type) -> dict[str, Any]:
    """JSON schema of a document class: every key optional, unknown keys allowed."""
    properties = {}
    for field in dataclasses.fields(cls):
        if field.name == EXTRA:
            continue
        unit = field.metadata.get("unit", "")
        choices = field.metadata.get("choices", ())
        meaning = field.metadata.get("meaning", "") + (f" [{unit}]" if unit else "")
        meaning += f"; usual values: {', '.join(choices)}" if choices else ""
        properties[field.name] = {"description": meaning, **_type_schema(hints(cls)[field.name])}
    return {"type": "object", "properties": properties}


def _type_schema(hint: Any) -> dict[str, Any]:
    members = [_member_schema(member) for member in union_members(hint)]
    if len(members) == 1:
        return members[0]
    if all(set(member) == {"type"} for member in members):
        return {"type": [member["type"] for member in members]}
    return {"anyOf": members}


_SIMPLE: dict[Any, dict[str, Any]] = {
    Any: {},
    types.NoneType: {"type": "null"},
    bool: {"type": "boolean"},
    int: {"type": "integer", "minimum": -_INT64, "maximum": _INT64 - 1},
    float: {"type": "number"},
    str: {"type": "string"},
}


def _member_schema(member: Any) -> dict[str, Any]:
    if dataclasses.is_dataclass(member) and isinstance(member, type):
        return json_schema(member)
    origin, arguments = get_origin(member), get_args(member)
    if origin is tuple:
        return {"type": "array", "items": _type_schema(arguments[0])}
    if origin is not None and issubclass(origin, Mapping):
        items = _type_schema(arguments[1])
        return {"type": "object", "additionalProperties": items} if items else {"type": "object"}
    return dict(_SIMPLE[member])
