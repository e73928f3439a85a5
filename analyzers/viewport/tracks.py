"""One track of a lane: its rows in order of time, how deep they lie in each other, and their pyramid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from cctrace.analyzers.columns import BoolArray, IntArray, SmallIntArray
from cctrace.analyzers.viewport.levels import BLOCK_ROWS, Level, chunks, covered, empty_level, levels_above
from cctrace.analyzers.viewport.reading import LONGEST, Numbers

MAX_DEPTH: Final = 8
"""Lines of a track at most: what lies deeper is drawn on the last one. More do not fit on a screen beside
other lanes, and rows that all overlap would have no end of lines."""
CHUNK_ROWS: Final = 2048 * BLOCK_ROWS
"""Rows that are summed up together: what they take then fits the cache."""


@dataclass(frozen=True, eq=False)
class Places:
    """Where the rows of a track lie among all rows of the trace; see `Rows`.

    Attributes:
        first: place of the lane's first row.
        count: rows of the track.
        picked: places from there on of the track's rows; None if those of the other tracks are kept.
        others: places from there on of rows of the lane's other tracks, each less its position here.
        order: number in the file of the row at each place of the trace; None if it is the place.
    """

    first: int
    count: int
    picked: IntArray | None
    others: IntArray
    order: IntArray | None

    def of(self, positions: IntArray) -> IntArray:
        """Places of the rows at these positions of the track."""
        if self.picked is not None:
            return self.first + self.picked[positions].astype(np.int64)
        return self.first + positions + np.searchsorted(self.others, positions, side="right")

    def numbers(self, positions: IntArray) -> IntArray:
        """Numbers in the file of the rows at these positions of the track."""
        places = self.of(positions)
        return places if self.order is None else self.order[places]

    def position(self, number: int) -> int | None:
        """Position of a row of the file in the track; None if it is none of its rows."""
        place = number
        if self.order is not None:
            found = np.flatnonzero(self.order == number)
            if not len(found):
                return None
            place = int(found[0])
        place -= self.first
        if self.picked is not None:
            at = int(np.searchsorted(self.picked, place))
            return at if at < len(self.picked) and self.picked[at] == place else None
        # As many rows of other tracks lie before it as there are with a smaller place.
        at = place - int(np.searchsorted(self.others + np.arange(len(self.others)), place))
        inside = 0 <= at < self.count
        return at if inside and int(self.of(np.array([at]))[0]) == place + self.first else None

    @property
    def nbytes(self) -> int:
        """Memory that it takes, bytes."""
        return self.others.nbytes + (0 if self.picked is None else self.picked.nbytes)


@dataclass(frozen=True, eq=False)
class Intervals:
    """Rows in order of their starts.

    Attributes:
        start: begin, ns.
        stored: duration, ns; LONGEST for those in `long_durations`.
        form: number of the form.
        long_positions: positions of long rows, sorted.
        long_durations: how long they are, ns.
    """

    start: IntArray
    stored: Numbers
    form: Numbers
    long_positions: IntArray
    long_durations: IntArray

    def __len__(self) -> int:
        return len(self.start)

    def duration(self, chosen: IntArray | slice) -> IntArray:
        """Durations of the rows at these positions, or in this slice, ns."""
        found: IntArray = self.stored[chosen].astype(np.int64)
        if not len(self.long_positions):
            return found
        long = np.flatnonzero(found == LONGEST)
        at = long + chosen.start if isinstance(chosen, slice) else chosen[long]
        found[long] = self.long_durations[np.searchsorted(self.long_positions, at)]
        return found

    def end(self, chosen: IntArray | slice) -> IntArray:
        """Ends of such rows, ns; rows without a duration end 1 ns after they begin, so that they are seen."""
        ends: IntArray = self.start[chosen] + np.maximum(self.duration(chosen), 1)
        return ends


@dataclass(frozen=True, eq=False)
class Track:
    """One track.

    Attributes:
        name: a key of TRACKS.
        rows: its rows.
        places: where they lie in the trace.
        depth: how many rows each one lies in, at most MAX_DEPTH − 1; None if none lies in another.
        lines: greatest depth, plus 1.
        tones: the tones that occur, numbers; columns of `busy` in the levels.
        levels: the pyramid, lowest level first.
        forms: the forms that occur.
        counts: rows of each of them.
    """

    name: str
    rows: Intervals
    places: Places
    depth: npt.NDArray[np.uint8] | None
    lines: int
    tones: SmallIntArray
    levels: tuple[Level, ...]
    forms: IntArray
    counts: IntArray

    def __len__(self) -> int:
        return len(self.rows)

    def count(self, chosen: BoolArray) -> int:
        """How many of the rows have one of the chosen forms."""
        return int(self.counts[chosen[self.forms]].sum())

    @property
    def busy_ns(self) -> float:
        """Sum of all durations."""
        return float(self.levels[-1].busy.sum(dtype=np.float64))

    @property
    def nbytes(self) -> int:
        """Memory that it takes, bytes."""
        rows = self.rows
        arrays = (rows.start, rows.stored, rows.form, rows.long_positions, rows.long_durations)
        own = sum(array.nbytes for array in arrays) + self.places.nbytes
        return own + sum(level.nbytes for level in self.levels) + (0 if self.depth is None else len(self))


def track_of(name: str, rows: Intervals, places: Places, tone_of_form: SmallIntArray) -> Track:
    """A track of at least one row."""
    count = np.zeros(len(tone_of_form), np.int64)
    for chunk in chunks(len(rows), CHUNK_ROWS):
        count += np.bincount(rows.form[chunk], minlength=len(count))
    forms = np.flatnonzero(count)
    tones = np.unique(tone_of_form[forms])
    column = np.searchsorted(tones, tone_of_form).clip(0, len(tones) - 1)
    lowest = empty_level(len(rows), len(tones))
    within = _fill(lowest, rows, column)
    depth, lines = _depth(rows, within)
    return Track(name, rows, places, depth, lines, tones, levels_above(lowest), forms, count[forms])


def _fill(level: Level, rows: Intervals, column: IntArray) -> IntArray:
    """Fills the lowest level; returns the rows that begin while an earlier one lasts."""
    level.first[:] = rows.start[::BLOCK_ROWS]
    level.until[:-1], level.until[-1] = level.first[1:], rows.start[-1]
    tones = level.busy.shape[1]
    within, latest = [np.zeros(0, np.int64)], np.iinfo(np.int64).min
    for chunk in chunks(len(rows), CHUNK_ROWS):
        start, duration = rows.start[chunk], rows.duration(chunk)
        end = start + np.maximum(duration, 1)
        begins = np.arange(0, len(start), BLOCK_ROWS)
        blocks = slice(chunk.start // BLOCK_ROWS, chunk.start // BLOCK_ROWS + len(begins))
        np.maximum.reduceat(end, begins, out=level.latest_end[blocks])
        np.maximum.reduceat(duration, begins, out=level.longest[blocks])
        if tones == 1:
            level.busy[blocks, 0] = np.add.reduceat(duration, begins)
        else:
            key = np.arange(len(start)) // BLOCK_ROWS * tones + column[rows.form[chunk]]
            sums = np.bincount(key, duration, len(begins) * tones)
            level.busy[blocks] = sums.reshape(-1, tones)
        mask, latest = covered(start, end, latest)
        within.append(np.flatnonzero(mask) + chunk.start)
    return np.concatenate(within)


def _depth(rows: Intervals, within: IntArray) -> tuple[npt.NDArray[np.uint8] | None, int]:
    """Depth of each row, from those that begin while an earlier row lasts.

    Of those, the ones that begin while another of them lasts lie deeper, and so on: rows of one depth never
    overlap, and the depth of a row follows from the rows around it alone.
    """
    if not len(within):
        return None, 1
    depth = np.zeros(len(rows), np.uint8)
    for line in range(1, MAX_DEPTH):
        depth[within] = line
        if line + 1 < MAX_DEPTH:
            mask, _ = covered(rows.start[within], rows.end(within), np.iinfo(np.int64).min)
            within = within[mask]
        if not len(within):
            return depth, line + 1
    return depth, MAX_DEPTH
