"""What all results share: fields with meaning and unit, JSON, and the JSON schema made from both."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Final

import numpy as np

from cctrace.trace.documents import json_schema, to_document

NANOSECONDS_PER_MICROSECOND: Final = 1e3
RESULT_FORMAT_VERSION: Final = 1
"""Version of the JSON that the commands print. Raised when a field changes its meaning or goes away."""


def about(meaning: str, unit: str = "") -> dict[str, str]:
    """Field metadata: what the field means and its unit, for the JSON schema."""
    return {"meaning": meaning, "unit": unit}


def value(meaning: str, unit: str = "") -> Any:
    """A dataclass field without default, with a meaning and a unit."""
    return dataclasses.field(metadata=about(meaning, unit))


class Result:
    """Base of every result: a frozen dataclass that can be printed as JSON."""

    def to_json(self) -> dict[str, Any]:
        """The result as plain JSON types; a number that is not finite becomes null."""
        document: dict[str, Any] = _plain(to_document(self))
        return document


def _plain(item: Any) -> Any:
    if isinstance(item, dict):
        return {key: _plain(entry) for key, entry in item.items()}
    if isinstance(item, list):
        return [_plain(entry) for entry in item]
    if isinstance(item, np.generic):
        item = item.item()
    if isinstance(item, float):
        return round(item, 6) if math.isfinite(item) else None
    return item


def result_schema(cls: type[Result], title: str) -> dict[str, Any]:
    """JSON schema (draft 2020-12) of a result class: every key is there, and no other."""
    schema: dict[str, Any] = _strict(json_schema(cls))
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title}
    return {**head, "description": (cls.__doc__ or "").split("\n\n")[0].replace("\n", " ").strip(), **schema}


def _strict(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {key: _strict(item) for key, item in schema.items()}
    if isinstance(schema.get("properties"), dict):
        schema = {**schema, "required": list(schema["properties"]), "additionalProperties": False}
    return schema


def microseconds(nanoseconds: float) -> float:
    """Nanoseconds as microseconds."""
    return float(nanoseconds) / NANOSECONDS_PER_MICROSECOND
