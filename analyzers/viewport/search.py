"""Rows by what they are: the next copy that blocks, the next row of a name, and which names there are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cctrace.analyzers.columns import BoolArray, IntArray
from cctrace.analyzers.viewport.index import Index
from cctrace.analyzers.viewport.lanes import Lane
from cctrace.analyzers.viewport.levels import chunks
from cctrace.analyzers.viewport.tracks import CHUNK_ROWS, Intervals, Track

MAX_NAMES: Final = 50
"""Names in an answer: a list that people look through."""


@dataclass(frozen=True)
class FoundRow:
    """One row.

    Attributes:
        number: its number in the file.
        lane: number of its lane.
        start: its begin, ns.
        duration: how long it is, ns.
        name: the text on it.
    """

    number: int
    lane: int
    start: int
    duration: int
    name: str


@dataclass(frozen=True)
class FoundName:
    """A text on rows, and how many of them have it."""

    name: str
    count: int


@dataclass(frozen=True, eq=False)
class _Wanted:
    """Rows that are looked for: those of some forms that pass a test, if there is one."""

    forms: BoolArray
    test: Callable[[Intervals, IntArray], BoolArray] | None = None

    def among(self, rows: Intervals, stretch: slice) -> IntArray:
        """Positions of the wanted rows in a stretch."""
        positions: IntArray = np.flatnonzero(self.forms[rows.form[stretch]]) + stretch.start
        return positions if self.test is None else positions[self.test(rows, positions)]


def found_row(index: Index, lane: Lane, track: Track, position: int) -> FoundRow:
    """The row at a position of a track."""
    at = np.array([position])
    return FoundRow(
        number=int(track.places.numbers(at)[0]),
        lane=lane.number,
        start=int(track.rows.start[position]),
        duration=int(track.rows.duration(at)[0]),
        name=index.forms.label[int(track.rows.form[position])].as_py(),
    )


def next_blocking_copy(
    index: Index, lanes: Sequence[Lane], after: float, *, forward: bool = True
) -> FoundRow | None:
    """The first copy that begins after a time and keeps its thread waiting, or the last one before it."""
    waits = index.forms.waits

    def waited(rows: Intervals, positions: IntArray) -> BoolArray:
        mask: BoolArray = rows.duration(positions) > waits.limit_ns[rows.form[positions]]
        return mask

    return _next(index, lanes, after, _Wanted(waits.copies, waited), forward=forward)


def next_by_name(
    index: Index, lanes: Sequence[Lane], after: float, text: str, *, forward: bool = True
) -> FoundRow | None:
    """The first row that begins after a time and whose name has a text in it, or the last one before it."""
    return _next(index, lanes, after, _Wanted(_named(index, text)), forward=forward)


def found_names(index: Index, text: str) -> tuple[int, tuple[FoundName, ...]]:
    """How many rows have a text in their name, and which names these are: MAX_NAMES, most frequent first."""
    count = np.zeros(len(index.forms.tone), np.int64)
    for lane in index.lanes:
        for track in lane.tracks:
            count[track.forms] += track.counts
    chosen = np.flatnonzero(_named(index, text) & (count > 0))
    table = pa.table({"name": index.forms.label.take(pa.array(chosen)), "count": count[chosen]})
    names = table.group_by("name").aggregate([("count", "sum")])
    names = names.sort_by([("count_sum", "descending"), ("name", "ascending")]).slice(0, MAX_NAMES)
    found = [FoundName(str(row["name"]), int(row["count_sum"])) for row in names.to_pylist()]
    return int(count[chosen].sum()), tuple(found)


def _named(index: Index, text: str) -> BoolArray:
    """Forms with a text in what stands on them, or in their name; case does not matter."""
    mask = np.zeros(len(index.forms.tone), np.bool_)
    for column in (index.forms.label, index.forms.name):
        hits = pc.match_substring(column, text, ignore_case=True).fill_null(False)
        mask |= hits.to_numpy(zero_copy_only=False)
    return mask


def _next(
    index: Index, lanes: Sequence[Lane], after: float, wanted: _Wanted, *, forward: bool
) -> FoundRow | None:
    """The nearest wanted row in any of the lanes."""
    best: tuple[Lane, Track, int] | None = None
    limit = np.inf if forward else -np.inf
    for lane in lanes:
        for track in lane.tracks:
            if track.count(wanted.forms):
                found = (_first_after if forward else _last_before)(track.rows, after, limit, wanted)
                if found is not None:
                    best, limit = (lane, track, found), float(track.rows.start[found])
    return found_row(index, *best) if best else None


def _first_after(rows: Intervals, after: float, limit: float, wanted: _Wanted) -> int | None:
    """The first wanted row that begins after one time and before another."""
    begin = int(np.searchsorted(rows.start, after, side="right"))
    end = int(np.searchsorted(rows.start, limit))
    for chunk in chunks(end - begin, CHUNK_ROWS):
        found = wanted.among(rows, slice(begin + chunk.start, begin + chunk.stop))
        if len(found):
            return int(found[0])
    return None


def _last_before(rows: Intervals, before: float, limit: float, wanted: _Wanted) -> int | None:
    """The last wanted row that begins before one time and after another."""
    end = int(np.searchsorted(rows.start, before))
    begin = int(np.searchsorted(rows.start, limit, side="right"))
    for chunk in chunks(end - begin, CHUNK_ROWS):
        found = wanted.among(rows, slice(end - chunk.stop, end - chunk.start))
        if len(found):
            return int(found[-1])
    return None
