"""Which GPU rows belong to a submission: both have the same `correlation`, within a process.

The index does not hold correlations, which are as many as rows: they are read where they are needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from cctrace.analyzers.columns import IntArray, integers
from cctrace.analyzers.viewport.index import Index
from cctrace.analyzers.viewport.lanes import Lane
from cctrace.analyzers.viewport.query import Answer
from cctrace.analyzers.viewport.search import FoundRow, found_row
from cctrace.analyzers.viewport.tones import GPU
from cctrace.analyzers.viewport.tracks import Track
from cctrace.trace import Trace

MAX_SUBMISSIONS: Final = 300
"""Submissions whose links are drawn: more arrows hide what they lead to."""
MAX_LAG_NS: Final = 1_000_000_000
"""GPU work that begins later than this after its submission is not looked for: queues of a server are some
milliseconds long."""
MAX_ROWS: Final = 1 << 17
"""Rows of a lane that are looked through for one answer, half a row group: a few milliseconds."""
MAX_LINKED: Final = 50
"""Linked rows of one row: a graph can have thousands of nodes."""


@dataclass(frozen=True, eq=False)
class Links:
    """Links from submissions to the first of their GPU rows in each stream; an array element for each.

    Attributes:
        from_row: number of the submission in the file.
        to_row: number of the GPU row.
        from_lane: lane of the submission.
        to_lane: lane of the GPU row.
        from_time: end of the submission, ns.
        to_time: begin of the GPU row, ns.
    """

    from_row: IntArray
    to_row: IntArray
    from_lane: IntArray
    to_lane: IntArray
    from_time: IntArray
    to_time: IntArray

    def __len__(self) -> int:
        return len(self.from_row)


@dataclass(frozen=True, eq=False)
class _Submissions:
    """Submissions of one process with a correlation, in order of it."""

    correlation: IntArray
    number: IntArray
    lane: IntArray
    start: IntArray
    end: IntArray


def links_of(index: Index, trace: Trace, answer: Answer) -> Links:
    """The links of the submissions that an answer shows; none if they are more than MAX_SUBMISSIONS.

    Raises:
        UnusableInputError: the file is damaged.
    """
    shown = [
        (lane.lane, track, np.flatnonzero(index.forms.submits[track.form]))
        for lane in answer.lanes
        for track in lane.tracks
    ]
    parts = [np.zeros((6, 0), np.int64)]
    if sum(len(rows) for _, _, rows in shown) <= MAX_SUBMISSIONS:
        for pid in sorted({lane.pid for lane, _, rows in shown if len(rows)}):
            own = [
                (np.full(len(rows), lane.number), track.number[rows], track.start[rows], track.duration[rows])
                for lane, track, rows in shown
                if lane.pid == pid
            ]
            submissions = _submissions(trace, *(np.concatenate(column) for column in zip(*own, strict=True)))
            streams = [one.lane for one in answer.lanes if one.lane.pid == pid]
            parts += [_links_to(trace, submissions, lane, answer.window.end) for lane in streams]
    return Links(*np.concatenate(parts, axis=1))


def linked_rows(index: Index, trace: Trace, lane: Lane, track: Track, position: int) -> tuple[FoundRow, ...]:
    """The GPU rows of a submission, or the submission of a GPU row; at most MAX_LINKED.

    Raises:
        UnusableInputError: the file is damaged.
    """
    form = int(track.rows.form[position])
    correlation = _correlations(trace, track.places.numbers(np.array([position])))[0]
    if correlation < 0 or not (track.name == GPU or index.forms.submits[form]):
        return ()
    start = int(track.rows.start[position])
    found: list[FoundRow] = []
    for other in (one for one in index.lanes if one.pid == lane.pid):
        for candidate in other.tracks:
            if (candidate.name == GPU) == (track.name == GPU):
                continue
            rows = _around(candidate, start, before=track.name == GPU)
            if track.name == GPU:
                rows = rows[index.forms.submits[candidate.rows.form[rows]]]
            hits = rows[_correlations(trace, candidate.places.numbers(rows)) == correlation]
            found += [found_row(index, other, candidate, hit) for hit in hits[:MAX_LINKED].tolist()]
    return tuple(sorted(found, key=lambda one: one.start)[:MAX_LINKED])


def _around(track: Track, time: int, *, before: bool) -> IntArray:
    """Rows that begin up to MAX_LAG_NS before a time, or after it; MAX_ROWS at most."""
    first, last = (time - MAX_LAG_NS, time) if before else (time, time + MAX_LAG_NS)
    begin = int(np.searchsorted(track.rows.start, first))
    end = int(np.searchsorted(track.rows.start, last, side="right"))
    return (
        np.arange(max(begin, end - MAX_ROWS), end) if before else np.arange(begin, min(end, begin + MAX_ROWS))
    )


def _submissions(
    trace: Trace, lane: IntArray, number: IntArray, start: IntArray, duration: IntArray
) -> _Submissions:
    correlation = _correlations(trace, number)
    known = np.flatnonzero(correlation >= 0)
    known = known[np.argsort(correlation[known], kind="stable")]
    end = start + duration
    return _Submissions(correlation[known], number[known], lane[known], start[known], end[known])


def _links_to(trace: Trace, submissions: _Submissions, lane: Lane, end: int) -> IntArray:
    """Links to the first rows of a stream that submissions have put there."""
    parts = [np.zeros((6, 0), np.int64)]
    for track in lane.tracks:
        if track.name != GPU or not len(submissions.start):
            continue
        begin = int(np.searchsorted(track.rows.start, submissions.start.min()))
        stop = int(np.searchsorted(track.rows.start, max(end, int(submissions.end.max())) + MAX_LAG_NS))
        rows = np.arange(begin, min(stop, begin + MAX_ROWS))
        found = _correlations(trace, track.places.numbers(rows))
        at = np.searchsorted(submissions.correlation, found)
        at = np.minimum(at, len(submissions.correlation) - 1)
        hit = np.flatnonzero(submissions.correlation[at] == found)
        # A graph can have one row for each of its nodes.
        at, first = np.unique(at[hit], return_index=True)
        rows = rows[hit[first]]
        columns = (
            submissions.number[at],
            track.places.numbers(rows),
            submissions.lane[at],
            np.full(len(at), lane.number),
            submissions.end[at],
            track.rows.start[rows],
        )
        parts.append(np.stack(columns))
    return np.concatenate(parts, axis=1)


def _correlations(trace: Trace, numbers: IntArray) -> IntArray:
    """Correlations of rows, by their numbers in the file; −1 where they have none."""
    return integers(trace.rows(numbers, ("correlation",)), "correlation").astype(np.int64)
