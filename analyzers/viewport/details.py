"""All that a trace holds of one row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cctrace.analyzers.sentences import time_text
from cctrace.analyzers.viewport.index import Index
from cctrace.analyzers.viewport.lanes import Lane
from cctrace.analyzers.viewport.links import linked_rows
from cctrace.analyzers.viewport.search import FoundRow
from cctrace.analyzers.viewport.tracks import Track
from cctrace.trace import COLUMNS, Trace


@dataclass(frozen=True)
class Value:
    """One column of a row: its name, value, unit ('' if it has none) and meaning."""

    name: str
    value: str
    unit: str
    meaning: str


@dataclass(frozen=True)
class RowDetails:
    """One row.

    Attributes:
        lane: number of its lane.
        start: its begin, ns.
        duration: how long it is, ns.
        values: every column that is not null.
        linked: the GPU rows of a submission, or the submission of a GPU row.
    """

    lane: int
    start: int
    duration: int
    values: tuple[Value, ...]
    linked: tuple[FoundRow, ...]


def row_details(index: Index, trace: Trace, number: int) -> RowDetails | None:
    """What the trace holds of the row with a number; None if it has no such row.

    Raises:
        UnusableInputError: the file is damaged.
    """
    if not 0 <= number < index.rows:
        return None
    (row,) = trace.rows([number]).to_pylist()
    values = [
        Value(column.name, str(row[column.name]), column.unit, column.meaning)
        for column in COLUMNS
        if row[column.name] is not None
    ]
    linked: tuple[FoundRow, ...] = ()
    place = _place(index, row["lane"], number)
    if place is not None:
        values += _waiting(index, place[1], place[2])
        linked = linked_rows(index, trace, *place)
    return RowDetails(row["lane"], row["start_ns"] - index.base_ns, row["duration_ns"], tuple(values), linked)


def _place(index: Index, lane_number: int, number: int) -> tuple[Lane, Track, int] | None:
    """Where the index holds a row; None if it is not drawn."""
    lane = index.lane(lane_number)
    for track in lane.tracks if lane else ():
        position = track.places.position(number)
        if lane and position is not None:
            return lane, track, position
    return None


def _waiting(index: Index, track: Track, position: int) -> list[Value]:
    """How long a call waited, and how that is known."""
    at = np.array([position])
    form = track.rows.form[at]
    blocked = int(index.forms.waits.blocked_ns(form, track.rows.duration(at))[0])
    if not blocked:
        return []
    own = time_text(float(index.forms.waits.own_ns[form[0]]) / 1e3)
    meaning = f"part of the duration in which the call waited: all but {own}, its own cost: "
    meaning += index.forms.waits.reason(int(form[0]))
    return [Value("waiting", str(blocked), "ns", meaning)]
