"""`--set model.precision=nvfp4`: names, types and conversion of the fields a user may set."""

from __future__ import annotations

import dataclasses
import difflib
import json
import math
from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType, NoneType
from typing import Any, get_origin

from cctrace.errors import UnusableInputError
from cctrace.trace.acceptance import Acceptance
from cctrace.trace.documents import EXTRA, hints, union_members

_TRUE = ("true", "yes", "on", "1")
_FALSE = ("false", "no", "off", "0")
_UNKNOWN = ("", "null")
"""Texts that set a field back to "not known". ("none" is a value: a TEE can be none.)"""


@dataclasses.dataclass(frozen=True)
class SettableField:
    """One name that `--set` accepts; `expects` says in words what a value looks like."""

    name: str
    meaning: str
    unit: str
    choices: tuple[str, ...]
    types: tuple[Any, ...]

    @property
    def expects(self) -> str:
        """What a value looks like, for people."""
        if self.choices:
            return " | ".join(self.choices)
        words = [_WORDS.get(get_origin(kind) or kind, "text") for kind in self.types]
        return " or ".join(words) + (f" [{self.unit}]" if self.unit else "")


_WORDS: dict[Any, str] = {
    int: "whole number",
    float: "number",
    bool: "yes | no",
    str: "text",
    tuple: "list: a,b,c or a JSON array",
    Mapping: "a=1,b=2 or a JSON object",
}


@cache
def _fields() -> Mapping[str, SettableField]:
    found = {"label": SettableField("label", "name of the recording", "", (), (str,))}
    for area, area_type in hints(Acceptance).items():
        for item in dataclasses.fields(area_type):
            if item.name == EXTRA:
                continue
            types = tuple(t for t in union_members(hints(area_type)[item.name]) if t is not NoneType)
            types = tuple(Mapping if get_origin(t) not in (None, tuple) else t for t in types)
            name = f"{area}.{item.name}"
            about = item.metadata
            found[name] = SettableField(name, about["meaning"], about["unit"], about["choices"], types)
    return MappingProxyType(found)


def settable_fields() -> Mapping[str, SettableField]:
    """Name -> field of everything that `--set` accepts, in the order of the acceptance table."""
    return _fields()


def resolve(name: str, value: Any) -> tuple[tuple[str, ...], Any]:
    """Path of the field `name` (area and key, or one top-level key), and `value` in the field's type.

    The texts "" and "null" mean "not known". Raises UnusableInputError for an unknown name (the message
    lists the nearest names) or a value that the field cannot hold.
    """
    settable = _fields().get(name)
    if settable is None:
        raise UnusableInputError(f"there is no field '{name}'; {_nearest(name)}")
    return tuple(name.split(".")), _convert(settable, value)


def _nearest(name: str) -> str:
    names = list(_fields())
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    last = name.rsplit(".", 1)[-1]
    close += [n for n in names if n.rsplit(".", 1)[-1] == last and n not in close]
    if close:
        return "did you mean " + " or ".join(close[:4]) + "?"
    return "`cctrace info --fields` lists what can be set"


def _convert(settable: SettableField, value: Any) -> Any:
    if value is None or (isinstance(value, str) and value.strip() in _UNKNOWN):
        return None
    # Any text is a text, so the narrower types come first.
    for kind in sorted(settable.types, key=lambda t: t is str):
        converted = _CONVERTERS[get_origin(kind) or kind](value)
        if converted is not None:
            if isinstance(converted, str) and settable.choices and converted not in settable.choices:
                break
            return converted
    raise UnusableInputError(f"'{value}' does not fit {settable.name}: expected {settable.expects}")


def _to_int(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    try:
        number = int(value.strip().replace("_", "")) if isinstance(value, str) else value
    except ValueError:
        return None
    return number if isinstance(number, int) and abs(number) < 2**63 else None


def _to_float(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _to_bool(value: Any) -> bool | None:
    if isinstance(value, bool):
        return value
    text = value.strip().lower() if isinstance(value, str) else ""
    return True if text in _TRUE else False if text in _FALSE else None


def _to_text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _to_list(value: Any) -> tuple[Any, ...] | None:
    if isinstance(value, str):
        if not value.lstrip().startswith("["):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        value = _json(value)
    return tuple(value) if isinstance(value, (list, tuple)) else None


def _to_object(value: Any) -> Mapping[str, Any] | None:
    if isinstance(value, str):
        pairs = [part.partition("=") for part in value.split(",")]
        if not value.lstrip().startswith("{") and all(separator for _, separator, _ in pairs):
            return {key.strip(): text.strip() for key, _, text in pairs}
        value = _json(value)
    return value if isinstance(value, Mapping) else None


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


_CONVERTERS: dict[Any, Callable[[Any], Any]] = {
    int: _to_int,
    float: _to_float,
    bool: _to_bool,
    str: _to_text,
    tuple: _to_list,
    Mapping: _to_object,
}
