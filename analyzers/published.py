"""The JSON schemas that `docs/schemas` publishes, made from the result classes."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final, get_args

from cctrace.analyzers.findings.result import Findings
from cctrace.analyzers.report.document import Report
from cctrace.analyzers.results import Result, result_schema
from cctrace.analyzers.step_list import StepList
from cctrace.analyzers.summary import Summary
from cctrace.trace.documents import hints

RESULTS: Final[dict[str, type[Result]]] = {
    "summary": Summary,
    "steps": StepList,
    "diff": Report,
    "findings": Findings,
}
"""Command → class of the JSON that it prints."""


def published_schemas() -> dict[str, dict[str, Any]]:
    """Command → JSON schema of `cctrace COMMAND --json`. What occurs several times in it is in `$defs`."""
    return {name: _with_definitions(cls, f"cctrace {name} --json") for name, cls in RESULTS.items()}


def _with_definitions(cls: type[Result], title: str) -> dict[str, Any]:
    schema = result_schema(cls, title)
    counts = Counter(_text(part) for part in _objects(schema))
    named = {_text(_body(part)): part.__name__ for part in _parts(cls)}
    names = {text: name for text, name in named.items() if counts[text] > 1}
    # Of a definition itself, only what is inside is replaced.
    definitions = {
        name: {key: _replaced(entry, names) for key, entry in json.loads(text).items()}
        for text, name in sorted(names.items(), key=lambda item: item[1])
    }
    made: dict[str, Any] = {key: _replaced(entry, names) for key, entry in schema.items()}
    return {**made, "$defs": definitions} if definitions else made


def _parts(cls: type) -> dict[type, None]:
    """The result classes that a class holds at any depth."""
    found: dict[type, None] = {}
    for hint in hints(cls).values():
        for member in _members(hint):
            if member not in found:
                found[member] = None
                found.update(_parts(member))
    return found


def _members(hint: Any) -> list[type]:
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return [hint]
    return [member for argument in get_args(hint) for member in _members(argument)]


def _body(cls: type[Result]) -> dict[str, Any]:
    """The schema of a class as it stands inside of another one."""
    whole = result_schema(cls, "")
    return {key: whole[key] for key in ("type", "properties", "required", "additionalProperties")}


def _text(schema: Any) -> str:
    return json.dumps(schema, ensure_ascii=False)


def _objects(schema: Any) -> Iterator[dict[str, Any]]:
    """Every schema of an object within a schema, without its description."""
    if isinstance(schema, list):
        for entry in schema:
            yield from _objects(entry)
    elif isinstance(schema, dict):
        if "properties" in schema:
            yield _undescribed(schema)
        for entry in schema.values():
            yield from _objects(entry)


def _undescribed(schema: dict[str, Any]) -> dict[str, Any]:
    return {key: entry for key, entry in schema.items() if key != "description"}


def _replaced(schema: Any, names: Mapping[str, str]) -> Any:
    """A schema with references in place of the named objects; a description stays beside."""
    if isinstance(schema, list):
        return [_replaced(entry, names) for entry in schema]
    if not isinstance(schema, dict):
        return schema
    name = names.get(_text(_undescribed(schema))) if "properties" in schema else None
    if name is None:
        return {key: _replaced(entry, names) for key, entry in schema.items()}
    beside = {"description": schema["description"]} if "description" in schema else {}
    return {**beside, "$ref": f"#/$defs/{name}"}
