"""The index of a trace: its lanes and their tracks, and what each form of a row means."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from cctrace.analyzers.columns import BoolArray, SmallIntArray, integers
from cctrace.analyzers.viewport.blocked import Waits, waits_of
from cctrace.analyzers.viewport.division import tracks_of_lane
from cctrace.analyzers.viewport.lanes import Lane, described, ordered
from cctrace.analyzers.viewport.levels import chunks
from cctrace.analyzers.viewport.reading import Progress, Rows, read_rows
from cctrace.analyzers.viewport.tones import labels_of, names_of, submissions_of, tones_of, tracks_of
from cctrace.analyzers.viewport.tracks import CHUNK_ROWS
from cctrace.trace import Trace

READING: Final = 0.6
"""Part of the time that reading takes; the rest goes into the levels."""


@dataclass(frozen=True, eq=False)
class Forms:
    """The different rows of a trace, one array element for each; see `cctrace.analyzers.forms`.

    Attributes:
        track: position in TRACKS, −1 for rows that are not drawn.
        tone: position in TONES.
        label: the text on a row.
        name: its name.
        submits: whether such a row hands anything to the GPU.
        waits: which of such rows wait, and how long.
    """

    track: SmallIntArray
    tone: SmallIntArray
    label: pa.Array
    name: pa.Array
    submits: BoolArray
    waits: Waits


@dataclass(frozen=True, eq=False)
class Index:
    """What is needed to draw a trace.

    Attributes:
        path: the file.
        base_ns: start of the first row that is drawn, CLOCK_MONOTONIC; all times of the index count from it.
        end: end of the last row that is drawn.
        rows: rows of the file.
        forms: what rows mean.
        lanes: threads, most submissions first; then streams, busiest first; then counters.
    """

    path: Path
    base_ns: int
    end: int
    rows: int
    forms: Forms
    lanes: tuple[Lane, ...]

    def lane(self, number: int) -> Lane | None:
        """The lane of this number."""
        return next((lane for lane in self.lanes if lane.number == number), None)

    @property
    def nbytes(self) -> int:
        """Memory that it takes, bytes."""
        return sum(track.nbytes for lane in self.lanes for track in lane.tracks) + int(
            self.forms.label.nbytes
        )


def build_index(trace: Trace, progress: Progress = lambda _: None) -> Index:
    """Reads a trace and builds its index.

    Args:
        trace: the trace.
        progress: is told from time to time which part is done.

    Raises:
        UnusableInputError: the file is damaged, or its times cannot be drawn.
    """
    rows = read_rows(trace, lambda part: progress(part * READING))
    track, tone, pid = tracks_of(rows.forms), tones_of(rows.forms), integers(rows.forms, "pid")
    submits = submissions_of(rows.forms)
    base_ns = _base(rows, track)
    np.subtract(rows.start, base_ns, out=rows.start)
    lanes: list[Lane] = []
    for number, begin, end in _lanes(rows):
        own_pid = int(pid[rows.form[begin]])
        tracks = tracks_of_lane(rows, begin, end, track, tone)
        submissions = sum(one.count(submits) for one in tracks)
        lanes.append(
            described(number, trace.metadata, tracks, pid=own_pid, rows=end - begin, submissions=submissions)
        )
        progress(READING + (1 - READING) * end / len(rows))
    every = [one for lane in lanes for one in lane.tracks]
    label, name = labels_of(rows.forms), names_of(rows.forms)
    forms = Forms(track, tone, label, name, submits, waits_of(lanes, rows.forms))
    last = max((int(one.levels[-1].latest_end.max()) for one in every), default=0)
    return Index(trace.path, base_ns, last, len(rows), forms, ordered(lanes))


def _lanes(rows: Rows) -> list[tuple[int, int, int]]:
    """(number, first place, last place + 1) of each lane."""
    bounds = rows.bounds.tolist()
    return list(zip(rows.lanes.tolist(), bounds[:-1], bounds[1:], strict=True))


def _base(rows: Rows, track: SmallIntArray) -> int:
    """Start of the first row that is drawn; 0 if none is."""
    begins = [_first_drawn(rows, begin, end, track) for _, begin, end in _lanes(rows)]
    return min((one for one in begins if one is not None), default=0)


def _first_drawn(rows: Rows, begin: int, end: int, track: SmallIntArray) -> int | None:
    for chunk in chunks(end - begin, CHUNK_ROWS):
        drawn = track[rows.form[begin + chunk.start : begin + chunk.stop]] >= 0
        if drawn.any():
            return int(rows.start[begin + chunk.start + int(np.argmax(drawn))])
    return None
