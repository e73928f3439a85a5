"""The metadata of a recording as fields by dotted name: what is known, what is not."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from cctrace.trace import Metadata

UNSET: Final = "not set"
"""Value of what a recorder would have written if it were there: a variable, a package, an emulation."""
OUTPUT_OPTIONS: Final = frozenset(
    {
        "--log-file",
        "--output-dir",
        "--output-file",
        "--result-dir",
        "--result-file",
        "--result-filename",
    }
)
"""Options of a command that only name where its results go: the arms of a pair often write different files,
and what they do does not depend on it."""
PRESENT: Final = "present"
"""Value of a part as a whole, where another recording lacks it."""
VARIABLES: Final = "environment_variables"
COMPLETE: Final = (VARIABLES, "software.frameworks")
"""Lists that a recorder fills completely: what they do not hold is not there, instead of not known."""
NULL_IS_NONE: Final = ("emulation", "recording.step_pattern", "recording.window", "state_check.missing")
"""Fields whose null says that there is none of it."""
_NESTED: Final = (*COMPLETE, "hardware.gpu_details", "state_check", "environment", "recording.window")
"""Parts whose entries are fields of their own; other objects are compared as one value."""
_WHOLE: Final = ("emulation",)
"""Parts that are one value: they belong together."""
_SYMMETRIC: Final = re.compile(r"symm[-_]?mem|nvls", re.IGNORECASE)
_ENTRY: Final = re.compile(r"(.+?)\.(\d+)\..+")
_SHOWN: Final = 200
"""Characters of a value that are shown."""


def fields_of(metadata: Metadata) -> dict[str, Any]:
    """Name → value of every field; None is "not known". The names are those of the metadata document.

    Areas of the acceptance table lose the prefix `acceptance.`, as in `record --set`.
    """
    document = metadata.to_document()
    areas = document.pop("acceptance")
    fields: dict[str, Any] = {} if document.get("state_check") else {"state_check": None}
    emulation = document.get("emulation")
    if emulation:
        # What was really charged is an outcome: it differs from run to run.
        document["emulation"] = {key: entry for key, entry in emulation.items() if key != "injected"}
    for name, part in (*areas.items(), *document.items()):
        if name in ("lanes", "clock"):
            continue  # as long as the recording, and compared by what threads and streams do
        fields.update(_flat(part, name))
    command = fields.get("recording.command")
    fields["recording.command"] = without_outputs(command)
    fields["recording.symmetric_memory"] = None if command is None else _asks_for_symmetric_memory(command)
    return fields


def _flat(item: Any, name: str) -> dict[str, Any]:
    """The leaves of a part by dotted name; what is empty or null is one field that is not known."""
    nested = name.startswith(_NESTED) or ("." not in name and name not in _WHOLE)
    if isinstance(item, Mapping) and nested:
        entries = [(str(key), entry) for key, entry in item.items()]
    elif isinstance(item, list) and nested and any(isinstance(entry, Mapping) for entry in item):
        entries = [(str(index), entry) for index, entry in enumerate(item)]
    else:
        return {name: item}
    if not entries:
        return {name: None}
    flat: dict[str, Any] = {}
    for key, entry in entries:
        flat.update(_flat(entry, f"{name}.{key}"))
    return flat


def place_of(name: str) -> tuple[str, int] | None:
    """List and position of a field that belongs to an entry of a list, such as a GPU; None for others."""
    match = _ENTRY.fullmatch(name)
    return (match[1], int(match[2])) if match else None


def sizes_of(fields: Mapping[str, Any]) -> dict[str, int]:
    """Name → number of entries of each list whose entries are fields of their own."""
    return Counter(place[0] for place in set(map(place_of, fields)) if place)


def value_in(fields: Mapping[str, Any], name: str) -> Any:
    """A field's value; UNSET if the recorder would have written it if it were there, None if not known."""
    known = fields.get(name)
    if known is not None:
        return known
    if any(other.startswith(f"{name}.") for other in fields):
        return PRESENT
    for part in (*COMPLETE, *NULL_IS_NONE):
        whole = part in NULL_IS_NONE or any(other.startswith(f"{part}.") for other in fields)
        if whole and (name == part or name.startswith(f"{part}.")):
            return UNSET
    return None


def without_outputs(command: list[str] | None) -> list[str] | None:
    """A command without the values of the options that say where its results go."""
    if command is None:
        return None
    kept: list[str] = []
    is_value = False
    for word in command:
        if is_value and not word.startswith("-"):
            is_value = False
            continue
        option, equals, _ = word.partition("=")
        is_output = option in OUTPUT_OPTIONS
        kept.append(option if is_output else word)
        is_value = is_output and not equals
    return kept


def _asks_for_symmetric_memory(command: list[str]) -> bool:
    return any(word.startswith("-") and _SYMMETRIC.search(word) for word in command)


def text_of(item: Any, other: Any) -> str | None:
    """A value as text; of two lists (command lines) only what the other one lacks. None: not known."""
    if item is None:
        return None
    if isinstance(item, list) and isinstance(other, list):
        lacking = " ".join(str(entry) for entry in item if entry not in other)
        return _short(lacking or "(as in the other arm, or in another order)")
    if isinstance(item, bool):
        return "yes" if item else "no"
    return _short(item if isinstance(item, str) else json.dumps(item, ensure_ascii=False))


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
