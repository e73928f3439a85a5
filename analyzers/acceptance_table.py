"""The acceptance table side by side: every field of the metadata, what each arm says, and whether it matters.

Fields are compared by the rules of `comparability`; here they keep their values, also where they are equal.
Only metadata is read, so a table of large recordings takes no longer.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, get_args, get_origin

from cctrace.analyzers.attribution.result import SEVERITIES, Comparability
from cctrace.analyzers.comparability import Outline, metadata_comparability
from cctrace.analyzers.comparability.compare import NOT_KNOWN, severity_within
from cctrace.analyzers.comparability.fields import PRESENT, UNSET, VARIABLES, fields_of, value_in
from cctrace.analyzers.comparability.rules import EXPECTED, IGNORED, rule_of
from cctrace.analyzers.sentences import bytes_text
from cctrace.trace import Acceptance, Metadata
from cctrace.trace.documents import EXTRA, hints, union_members

SAME, NEAR, DIFFERS, PARTLY, UNKNOWN = "same", "nearly the same", "differs", "known in part", "not known"
"""States of a field: equal in all recordings; equal as far as its rule asks; different; known in some
recordings only; known in none."""
MAX_CHARACTERS: Final = 4000
"""Of a value: nobody reads more in a table, and metadata may hold megabytes."""
MAX_FIELDS: Final = 400
"""Of an area: eight GPUs have 150, and a document may hold any number of unknown keys."""
_SHOWN_ELSEWHERE: Final = ("collector.processes", "emulation", "recording.symmetric_memory")
"""Fields with a table of their own, and one that is derived from another."""
_ACCEPTANCE: Final[Mapping[str, Any]] = hints(Acceptance)
"""Area of the acceptance table → its class."""
_OTHERS: Final = {
    VARIABLES: "Variables of the recorded program that matter, from an allow-list",
    "recording": "The recorded command and the window that was recorded",
    "collector": "What recorded, and how",
    "state_check": "State of the GPUs right before the command started",
    "environment": "What the recorder read at the begin and the end, and how it sampled",
    "document": "The document itself, and keys that this version does not know",
}
"""Area of the other metadata → what it holds."""


@dataclass(frozen=True)
class Said:
    """What the recordings of one arm say about a field.

    Attributes:
        texts: each different value once, in the order of the runs; None is "not known".
        runs: for each of them the numbers, from 1, of the runs that say so.
    """

    texts: tuple[str | None, ...]
    runs: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Field:
    """One field of the metadata in all recordings.

    Attributes:
        name: dotted name, as in `record --set` and in the list of differences.
        label: the name within its area.
        meaning: what it says; empty for a key that this version does not know.
        unit: its unit; empty if it has none.
        said: what each arm says, in the order of the arms.
        state: SAME, NEAR, DIFFERS, PARTLY or UNKNOWN.
        severity: forbids, warns, informs, expected, or ignored; None where nothing differs.
        messages: what the difference means for a comparison.
    """

    name: str
    label: str
    meaning: str
    unit: str
    said: tuple[Said, ...]
    state: str
    severity: str | None
    messages: tuple[str, ...]

    @property
    def differs(self) -> bool:
        """Whether recordings say different things, or not all of them say anything."""
        return self.state in (DIFFERS, PARTLY)


@dataclass(frozen=True)
class Area:
    """Fields that belong together.

    Attributes:
        name: first part of their names.
        about: what the area holds.
        fields: in the order of the document.
        left_out: fields beyond MAX_FIELDS.
    """

    name: str
    about: str
    fields: tuple[Field, ...]
    left_out: int

    def count(self, *states: str) -> int:
        """Fields in any of some states."""
        return sum(one.state in states for one in self.fields)


@dataclass(frozen=True)
class AcceptanceTable:
    """The table.

    Attributes:
        arms: names of the arms.
        areas: the areas of an acceptance test, as in `cctrace.trace.acceptance`.
        others: what else the metadata says: variables, command, recorder, state of the GPUs.
        observed: differences that no field stands for, and that are not meant: what was emulated, lost, or
            cost by recording.
    """

    arms: tuple[str, ...]
    areas: tuple[Area, ...]
    others: tuple[Area, ...]
    observed: tuple[Comparability, ...]

    @property
    def fields(self) -> tuple[Field, ...]:
        """All fields."""
        return tuple(one for area in (*self.areas, *self.others) for one in area.fields)


Arms = Mapping[str, Sequence[tuple[str, Metadata]]]
"""Arm → path and metadata of its recordings, at least one each."""


def acceptance_table(arms: Arms) -> AcceptanceTable:
    """The table of one arm, or of the arms "on" and "off"."""
    differences = _differences(arms)
    runs = {arm: [_Run.of(metadata) for _, metadata in several] for arm, several in arms.items()}
    names = list(dict.fromkeys(name for several in runs.values() for run in several for name in run.fields))
    names = [name for name in names if name not in _SHOWN_ELSEWHERE and not name.startswith("emulation.")]
    by_area: dict[str, list[str]] = {name: [] for name in (*_ACCEPTANCE, *_OTHERS)}
    for name in names:
        by_area[_area_of(name)].append(name)
    areas = {
        area: _area(area, fields, list(runs.values()), differences)
        for area, fields in by_area.items()
        if fields
    }
    listed = {one.name for area in areas.values() for one in area.fields}
    return AcceptanceTable(
        arms=tuple(arms),
        areas=tuple(area for name, area in areas.items() if name in _ACCEPTANCE),
        others=tuple(area for name, area in areas.items() if name not in _ACCEPTANCE),
        observed=tuple(
            one
            for name, several in differences.items()
            for one in several
            if name not in listed and one.message != NOT_KNOWN and one.severity != EXPECTED
        ),
    )


def differing(table: AcceptanceTable) -> list[Field]:
    """The fields that differ and may matter, the gravest first."""
    found = [one for one in table.fields if one.differs and one.severity not in (None, IGNORED)]
    return sorted(found, key=lambda one: SEVERITIES.index(one.severity or SEVERITIES[-1]))


@dataclass(frozen=True)
class _Run:
    """Fields of one recording: as they are compared, and as they are shown."""

    fields: dict[str, Any]
    shown: dict[str, Any]

    @classmethod
    def of(cls, metadata: Metadata) -> _Run:
        fields = fields_of(metadata)
        # Comparisons leave out where results go; a reader wants to see it.
        return cls(fields, {**fields, "recording.command": metadata.recording.command})

    def text(self, name: str, unit: str) -> str | None:
        compared = value_in(self.fields, name)
        return text_of(compared if compared in (None, UNSET, PRESENT) else self.shown[name], unit)


def _differences(arms: Arms) -> dict[str, list[Comparability]]:
    """Name of a field → what differs in it between the arms, or between runs of one."""
    if "on" not in arms or "off" not in arms:
        return {}
    outlines = {
        arm: [_outline(path, metadata) for path, metadata in several] for arm, several in arms.items()
    }
    found: dict[str, list[Comparability]] = {}
    for one in metadata_comparability(outlines["off"], outlines["on"]):
        found.setdefault(one.name, []).append(one)
    return found


def _outline(path: str, metadata: Metadata) -> Outline:
    return Outline(path, metadata, metadata.collector.timing == "distorted", frozenset())


def _area_of(name: str) -> str:
    first = name.split(".", 1)[0]
    return first if first in _ACCEPTANCE or first in _OTHERS else "document"


def _area(
    name: str,
    fields: Sequence[str],
    arms: Sequence[Sequence[_Run]],
    differences: Mapping[str, list[Comparability]],
) -> Area:
    found = tuple(_field(one, name, arms, differences.get(one, [])) for one in fields[:MAX_FIELDS])
    about = _OTHERS.get(name) or (_ACCEPTANCE[name].__doc__ or "").rstrip(".")
    return Area(name, about, found, max(0, len(fields) - MAX_FIELDS))


def _field(
    name: str, area: str, arms: Sequence[Sequence[_Run]], differences: Sequence[Comparability]
) -> Field:
    meaning, unit = described(name)
    values = [value_in(run.fields, name) for runs in arms for run in runs]
    state = _state(name, values)
    severity, messages = None, tuple(dict.fromkeys(one.message for one in differences))
    if differences:
        severity = min((one.severity for one in differences), key=SEVERITIES.index)
    elif state in (DIFFERS, PARTLY):
        rule = rule_of(name)
        severity = severity_within(name, values) if len(arms) == 1 else rule.severity
        messages = (rule.why,)
    return Field(
        name=name,
        label=name.removeprefix(f"{area}."),
        meaning=meaning,
        unit=unit,
        said=tuple(_said(name, unit, runs) for runs in arms),
        state=state,
        severity=severity,
        messages=messages,
    )


def _state(name: str, values: Sequence[Any]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return UNKNOWN
    if len(known) < len(values):
        return PARTLY
    if all(value == known[0] for value in known):
        return SAME
    near = rule_of(name).near
    return NEAR if near is not None and all(near(known[0], value) for value in known[1:]) else DIFFERS


def _said(name: str, unit: str, runs: Sequence[_Run]) -> Said:
    found: dict[str | None, list[int]] = {}
    for number, run in enumerate(runs, 1):
        found.setdefault(run.text(name, unit), []).append(number)
    return Said(tuple(found), tuple(tuple(numbers) for numbers in found.values()))


def text_of(value: Any, unit: str = "") -> str | None:
    """A value in full for people; None is "not known". Cut at MAX_CHARACTERS."""
    if value is None:
        return None
    if isinstance(value, bool):
        text = "yes" if value else "no"
    elif isinstance(value, int | float):
        text = _number_text(value, unit)
    elif isinstance(value, str):
        text = value
    elif isinstance(value, list | tuple) and all(isinstance(entry, str) for entry in value):
        text = " ".join(value) or "none"
    else:
        text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= MAX_CHARACTERS else f"{text[: MAX_CHARACTERS - 1]}…"


def _number_text(value: float, unit: str) -> str:
    if unit == "bytes":
        return bytes_text(float(value)) if abs(value) >= 1024 else f"{value:g} B"
    number = f"{value:d}" if isinstance(value, int) else f"{value:.6g}"
    return f"{number} {unit}" if unit and not unit.startswith("ns,") else number


def described(name: str) -> tuple[str, str]:
    """Meaning and unit of a field, from the classes of the metadata; both empty for an unknown key."""
    parts = name.split(".")
    kind: Any = Acceptance if parts[0] in _ACCEPTANCE else Metadata
    meaning, unit = "", ""
    for part in parts:
        if part.isdigit():
            continue  # an entry of a list: what it holds is said by its class
        if kind is None:
            unit = ""  # a key of an object: the meaning is the object's, the unit is not
            break
        about = {one.name: one.metadata for one in dataclasses.fields(kind)}.get(part)
        if about is None or part == EXTRA:
            meaning, unit = "", ""
            break
        meaning, unit = about.get("meaning", ""), about.get("unit", "")
        kind = _content(hints(kind)[part])
    return meaning, unit or ("bytes" if name.endswith("_bytes") else "")


def _content(hint: Any) -> Any:
    """The class that a hint holds, alone, in a tuple or in a mapping; else None."""
    for member in union_members(hint):
        if dataclasses.is_dataclass(member):
            return member
        if get_origin(member) is not None:
            for inner in get_args(member):
                if dataclasses.is_dataclass(inner):
                    return inner
    return None
