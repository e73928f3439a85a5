"""What of a track is visible in a stretch of time: rows long enough to be seen, and the sum of all others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cctrace.analyzers.columns import BoolArray, FloatArray, IntArray, SmallIntArray
from cctrace.analyzers.viewport.levels import BLOCK_ROWS, FACTOR, Level, children
from cctrace.analyzers.viewport.tracks import Track


@dataclass(frozen=True)
class Window:
    """A stretch of time, in columns of equal width.

    Attributes:
        begin: ns.
        end: ns, after `begin`.
        columns: how many columns.
    """

    begin: int
    end: int
    columns: int

    @property
    def width(self) -> float:
        """Width of a column, ns."""
        return (self.end - self.begin) / self.columns


@dataclass(frozen=True, eq=False)
class Dust:
    """Rows too short to be seen, summed up in columns.

    Attributes:
        busy: ns of each tone of the track (rows) in each column.
        count: rows that begin in each column, or before the first one and last into it.
    """

    busy: FloatArray
    count: FloatArray

    def coarser(self, factor: int) -> Dust:
        """The same in columns that are wider by a factor; the last one may be narrower."""
        if factor == 1:
            return self
        begins = np.arange(0, len(self.count), factor)
        return Dust(np.add.reduceat(self.busy, begins, axis=1), np.add.reduceat(self.count, begins))

    def __add__(self, other: Dust) -> Dust:
        return Dust(self.busy + other.busy, self.count + other.count)


@dataclass(frozen=True, eq=False)
class _Heap:
    """Rows, or blocks of them, that are summed up: from when to when, ns; how many; busy ns by tone."""

    begin: IntArray
    end: IntArray
    count: IntArray
    busy: npt.NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class Gathered:
    """The visible rows of one track.

    Attributes:
        positions: rows long enough to be seen, positions in the track, in order of time.
        duration: how long they are, ns.
        dust: all other rows.
    """

    positions: IntArray
    duration: IntArray
    dust: Dust


def gather(track: Track, tone_of_form: SmallIntArray, window: Window, shortest: float, most: int) -> Gathered:
    """The rows of a track that touch a window.

    Args:
        track: the track.
        tone_of_form: tone of each form.
        window: the stretch of time.
        shortest: rows that take at least so long, ns, are seen by themselves; if they are more than `most`,
            only the longest of them.
        most: how many rows are seen at most.
    """
    heaps: list[_Heap] = []
    blocks = np.arange(len(track.levels[-1]), dtype=np.int64)
    for number in range(len(track.levels) - 1, -1, -1):
        level = track.levels[number]
        touching = (level.first[blocks] < window.end) & (level.latest_end[blocks] > window.begin)
        blocks = blocks[touching]
        shortest = longest_of(level.longest[blocks], shortest, most)
        fine = _fine_enough(level, blocks, window, shortest)
        heaps.append(_heap(track, number, blocks[fine]))
        size = FACTOR if number else BLOCK_ROWS
        below = len(track.levels[number - 1]) if number else len(track)
        blocks = children(blocks[~fine], size, below)
    start, end = track.rows.start[blocks], track.rows.end(blocks)
    touching = (start < window.end) & (end > window.begin)
    rows = blocks[touching]
    duration = track.rows.duration(rows)
    shortest = longest_of(duration, shortest, most)
    seen = duration >= shortest
    heaps.append(_rows_heap(track, rows[~seen], tone_of_form))
    return Gathered(rows[seen], duration[seen], _in_columns(heaps, window, len(track.tones)))


def longest_of(longest: IntArray, shortest: float, most: int) -> float:
    """From which duration on rows are seen, so that they are `most` at most.

    Args:
        longest: durations, ns: of rows, or of the longest row of each block.
        shortest: rows that take at least so long, ns, are seen if they are not too many.
        most: how many rows are seen at most; of equally long ones all are or none.
    """
    if np.count_nonzero(longest >= shortest) <= most:
        return shortest
    return float(np.partition(longest, len(longest) - most - 1)[len(longest) - most - 1]) + 1.0


def dust_of(track: Track, tone_of_form: SmallIntArray, positions: IntArray, window: Window) -> Dust:
    """Rows of a track summed up in columns."""
    return _in_columns([_rows_heap(track, positions, tone_of_form)], window, len(track.tones))


def _fine_enough(level: Level, blocks: IntArray, window: Window, shortest: float) -> BoolArray:
    """Blocks that can be summed up as they are: nothing in them is seen, and they begin within one column.

    Where more rows last into the window than can be seen, those before it are summed up as well.
    """
    first, until = level.first[blocks], level.until[blocks]
    inside = (first >= window.begin) & (until < window.end) & (until - first <= window.width)
    before = (until < window.begin) & (shortest > window.width)
    fine: BoolArray = (inside | before) & (level.longest[blocks] < shortest)
    return fine


def _heap(track: Track, number: int, blocks: IntArray) -> _Heap:
    level = track.levels[number]
    size = BLOCK_ROWS * FACTOR**number
    count = np.minimum(size, len(track) - blocks * size)
    return _Heap(level.first[blocks], level.latest_end[blocks], count, level.busy[blocks])


def _rows_heap(track: Track, rows: IntArray, tone_of_form: SmallIntArray) -> _Heap:
    duration = track.rows.duration(rows)
    busy = np.zeros((len(rows), len(track.tones)))
    column = np.searchsorted(track.tones, tone_of_form[track.rows.form[rows]])
    busy[np.arange(len(rows)), column] = duration
    begin = track.rows.start[rows]
    return _Heap(begin, begin + np.maximum(duration, 1), np.ones(len(rows), np.int64), busy)


def _in_columns(heaps: list[_Heap], window: Window, tones: int) -> Dust:
    """Sums heaps up: each is spread evenly over the time from its begin to its end."""
    begin, end, count = (
        np.concatenate([getattr(heap, name) for heap in heaps]) for name in ("begin", "end", "count")
    )
    busy = np.concatenate([heap.busy for heap in heaps]).astype(np.float64)
    left, right = ((time - window.begin) / window.width for time in (begin, end))
    density = busy / (right - left)[:, None]
    at = np.clip(left, 0, window.columns - 1).astype(np.int64)
    counts: FloatArray = np.bincount(at, count.astype(np.float64), window.columns).astype(np.float64)
    left, right = np.clip(left, 0, window.columns), np.clip(right, 0, window.columns)
    sums = [_spread(left, right, density[:, tone], window.columns) for tone in range(tones)]
    return Dust(np.stack(sums), counts)


def _spread(left: FloatArray, right: FloatArray, density: FloatArray, columns: int) -> FloatArray:
    """Sums in columns 0, 1, … of densities from `left` to `right`, both in columns."""
    used = np.flatnonzero(density)
    left, right, density = left[used], right[used], density[used]
    first = np.minimum(left.astype(np.int64), columns - 1)
    last = np.minimum(right.astype(np.int64), columns - 1)
    # Whole columns between the first and the last one, then what these two get of it.
    steps = np.bincount(first, density, columns + 1) - np.bincount(last, density, columns + 1)
    whole = np.cumsum(steps)[:columns]
    return np.asarray(
        whole
        - np.bincount(first, density * (left - first), columns)
        + np.bincount(last, density * (right - last), columns),
        np.float64,
    )
