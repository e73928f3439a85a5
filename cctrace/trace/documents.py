"""Frozen dataclasses as JSON documents: reading, writing, and the JSON schema, all from the type hints.

Keys that a class does not know are kept in its field `extra`, so that a document made by a newer cctrace of
the same format version survives being read and written.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")

EXTRA = "extra"
"""Name of the field that keeps unknown keys."""

_INT64 = 2**63


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


def from_document(cls: type[T], document: Mapping[str, Any]) -> T:
    """Builds a document class from a document that its JSON schema accepts; missing keys get the default."""
    known = hints(cls)
    values: dict[str, Any] = {key: _read(known[key], document[key]) for key in known if key in document}
    values[EXTRA] = {key: item for key, item in document.items() if key not in known}
    return cls(**values)


def _read(hint: Any, value: Any) -> Any:
    if value is None:
        return None
    for member in union_members(hint):
        if dataclasses.is_dataclass(member) and isinstance(value, Mapping):
            return from_document(member, value)  # type: ignore[arg-type]
        if get_origin(member) is tuple and isinstance(value, list):
            return tuple(_read(get_args(member)[0], item) for item in value)
        if member is float and isinstance(value, int) and not isinstance(value, bool):
            return float(value)
    return value


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
