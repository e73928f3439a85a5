"""What a viewport shows: every lane's visible rows as marks, and the sum of what is too short to be seen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from cctrace.analyzers.columns import FloatArray, IntArray, SmallIntArray
from cctrace.analyzers.viewport.gather import Dust, Gathered, Window, dust_of, gather, longest_of
from cctrace.analyzers.viewport.index import Index
from cctrace.analyzers.viewport.lanes import Lane
from cctrace.analyzers.viewport.tracks import Track

MAX_ITEMS: Final = 4000
"""Marks and columns of dust of one answer: a browser draws them in a few milliseconds, and no more could be
told apart on a screen."""
LEAST_NS: Final = 0.5
"""Less than this is no time but a rounding error: times are whole nanoseconds."""
MAX_LANES: Final = MAX_ITEMS // 16
"""Lanes of one answer at most: each has two tracks with a few columns then."""
MAX_COLUMNS: Final = 1 << 14
"""Columns that can be asked for: twice the pixels of a wide screen."""


@dataclass(frozen=True, eq=False)
class TrackAnswer:
    """One track of a lane.

    Attributes:
        track: the track.
        positions: the marks' positions in the track, in order of time.
        number: their numbers in the file.
        start: their begins, ns.
        duration: how long they are, ns.
        depth: how many rows each one lies in.
        form: their forms.
        tone: their tones.
        blocked: which part of their duration is waiting, ns.
        pixel: columns with dust: the first of the window's columns that each one takes.
        busy: part (0–1) of each column of dust in which rows that are no marks were under way.
        count: rows that are no marks and begin there.
        dust_tone: the tone with most time of them.
    """

    track: Track
    positions: IntArray
    number: IntArray
    start: IntArray
    duration: IntArray
    depth: IntArray
    form: IntArray
    tone: SmallIntArray
    blocked: IntArray
    pixel: IntArray
    busy: FloatArray
    count: IntArray
    dust_tone: SmallIntArray


@dataclass(frozen=True, eq=False)
class LaneAnswer:
    """One lane with its tracks."""

    lane: Lane
    tracks: tuple[TrackAnswer, ...]


@dataclass(frozen=True, eq=False)
class Answer:
    """What a viewport shows.

    Attributes:
        window: the stretch of time, in the columns that were asked for.
        factor: how many of those are one column of dust; the last one may be narrower.
        lanes: the lanes.
    """

    window: Window
    factor: int
    lanes: tuple[LaneAnswer, ...]

    @property
    def marks(self) -> int:
        """Marks in all lanes."""
        return sum(len(track.positions) for lane in self.lanes for track in lane.tracks)

    @property
    def items(self) -> int:
        """Marks and columns of dust in all lanes."""
        return self.marks + sum(len(track.pixel) for lane in self.lanes for track in lane.tracks)


@dataclass(frozen=True, eq=False)
class _Part:
    """One track while its answer is made; `whole`: it has so few rows that all are marks."""

    track: Track
    whole: bool
    found: Gathered

    def coarser(self, factor: int) -> _Part:
        """The same with columns of dust that are wider by a factor."""
        return replace(self, found=replace(self.found, dust=self.found.dust.coarser(factor)))


def visible(index: Index, lanes: Sequence[Lane], window: Window) -> Answer:
    """What a window shows of some lanes: MAX_ITEMS marks and columns of dust at most.

    Rows that take at least a column are marks; where only few rows are in the window, all of them are. Where
    marks and dust are too many together, dust comes in wider columns, and only the longest rows are marks.
    """
    tracks = [track for lane in lanes for track in lane.tracks]
    few = MAX_ITEMS // (2 * max(len(tracks), 1))
    parts = [_part(index, track, window, few) for track in tracks]
    factor = 1
    if _marks(parts) + _columns(parts) > MAX_ITEMS:
        factor, most = _room(index, parts, window)
        parts = [one.coarser(factor) for one in _longest(index, parts, window, most)]
    answers = iter([_answer(index, one, window, factor) for one in parts])
    return Answer(
        window, factor, tuple(LaneAnswer(lane, tuple(next(answers) for _ in lane.tracks)) for lane in lanes)
    )


def _part(index: Index, track: Track, window: Window, few: int) -> _Part:
    begin, end = np.searchsorted(track.rows.start, (window.begin, window.end))
    whole = bool(end - begin <= few)
    shortest, most = (0.0, few) if whole else (window.width, MAX_ITEMS)
    return _Part(track, whole, gather(track, index.forms.tone, window, shortest, most))


def _room(index: Index, parts: Sequence[_Part], window: Window) -> tuple[int, int]:
    """By which factor columns of dust are wider, and how many marks there is room for then.

    Marks get half of an answer if they need it, and what dust leaves: as much as if every row that may become
    dust were.
    """
    wanted = min(_marks(parts), MAX_ITEMS // 2)
    dust = _without(index, parts, window, math.inf)
    factor = 1
    while factor < window.columns and MAX_ITEMS - _columns(dust) < wanted:
        dust = [one.coarser(2) for one in dust]
        factor *= 2
    return min(factor, window.columns), MAX_ITEMS - _columns(dust)


def _longest(index: Index, parts: Sequence[_Part], window: Window, most: int) -> list[_Part]:
    """The same with at most so many marks: all of parts that are whole, and the longest of the others."""
    most -= _marks([one for one in parts if one.whole])
    others = [part.found.duration for part in parts if not part.whole]
    shortest = longest_of(np.concatenate(others), 0.0, most) if others else 0.0
    return _without(index, parts, window, shortest)


def _without(index: Index, parts: Sequence[_Part], window: Window, shortest: float) -> list[_Part]:
    """The same with marks only of rows that take at least so long, ns, and all of parts that are whole."""
    return [one if one.whole else _hidden(index, one, window, shortest) for one in parts]


def _hidden(index: Index, part: _Part, window: Window, shortest: float) -> _Part:
    found = part.found
    short = found.duration < shortest
    dust = found.dust + dust_of(part.track, index.forms.tone, found.positions[short], window)
    return replace(part, found=Gathered(found.positions[~short], found.duration[~short], dust))


def _marks(parts: Sequence[_Part]) -> int:
    return sum(len(part.found.positions) for part in parts)


def _columns(parts: Sequence[_Part]) -> int:
    return sum(len(_occupied(part.found.dust)) for part in parts)


def _occupied(dust: Dust) -> IntArray:
    """Columns that hold any dust."""
    found: IntArray = np.flatnonzero((dust.count > 0) | (dust.busy.sum(axis=0) > LEAST_NS))
    return found


def _answer(index: Index, part: _Part, window: Window, factor: int) -> TrackAnswer:
    track, rows, dust = part.track, part.found.positions, part.found.dust
    form = track.rows.form[rows].astype(np.int64)
    column = _occupied(dust)
    pixel = column * factor
    width_ns = np.minimum(factor, window.columns - pixel) * window.width
    return TrackAnswer(
        track=track,
        positions=rows,
        number=track.places.numbers(rows),
        start=track.rows.start[rows],
        duration=part.found.duration,
        depth=np.zeros(len(rows), np.int64) if track.depth is None else track.depth[rows].astype(np.int64),
        form=form,
        tone=index.forms.tone[form],
        blocked=index.forms.waits.blocked_ns(form, part.found.duration),
        pixel=pixel,
        busy=np.clip(dust.busy[:, column].sum(axis=0) / width_ns, 0.0, 1.0),
        count=np.rint(dust.count[column]).astype(np.int64),
        dust_tone=track.tones[np.argmax(dust.busy[:, column], axis=0)],
    )
