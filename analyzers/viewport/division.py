"""Divides the rows of a lane into its tracks, without a second copy of the rows of the largest one."""

from __future__ import annotations

import numpy as np

from cctrace.analyzers.columns import IntArray, SmallIntArray
from cctrace.analyzers.viewport.levels import chunks
from cctrace.analyzers.viewport.reading import Rows
from cctrace.analyzers.viewport.tones import TRACKS
from cctrace.analyzers.viewport.tracks import CHUNK_ROWS, Intervals, Places, Track, track_of

_NONE = np.zeros(0, np.int64)


def tracks_of_lane(
    rows: Rows, begin: int, end: int, track_of_form: SmallIntArray, tone_of_form: SmallIntArray
) -> tuple[Track, ...]:
    """The tracks of the lane whose rows lie at places from `begin` to `end`, in the order of TRACKS.

    The rows of the largest track are moved together within `rows`: places there mean nothing afterwards.
    """
    largest, picked = _picked(rows, begin, end, track_of_form)
    found = {number: _copied(rows, begin, places) for number, places in picked.items() if number >= 0}
    if largest >= 0:
        others = np.sort(np.concatenate([_NONE, *picked.values()]))
        found[largest] = _moved_together(rows, begin, end, others)
    names = list(TRACKS)
    return tuple(track_of(names[number], *found[number], tone_of_form) for number in sorted(found))


def _picked(
    rows: Rows, begin: int, end: int, track_of_form: SmallIntArray
) -> tuple[int, dict[int, IntArray]]:
    """The largest track, and the places from `begin` on of the rows of all others; −1: no track."""
    tracks = [
        track_of_form[rows.form[begin + one.start : begin + one.stop]]
        for one in chunks(end - begin, CHUNK_ROWS)
    ]
    count = sum(np.bincount(one + 1, minlength=len(TRACKS) + 1) for one in tracks)
    largest = int(np.argmax(count)) - 1
    picked = {}
    for number in (np.flatnonzero(count) - 1).tolist():
        if number != largest:
            parts = [np.flatnonzero(one == number) + CHUNK_ROWS * turn for turn, one in enumerate(tracks)]
            picked[number] = np.concatenate(parts)
    return largest, picked


def _copied(rows: Rows, begin: int, picked: IntArray) -> tuple[Intervals, Places]:
    places = picked + begin
    at = np.searchsorted(places, rows.long_places)
    own = places[np.minimum(at, len(places) - 1)] == rows.long_places
    intervals = Intervals(
        rows.start[places], rows.duration[places], rows.form[places], at[own], rows.long_durations[own]
    )
    narrow = picked.astype(np.int32) if picked[-1] <= np.iinfo(np.int32).max else picked
    return intervals, Places(begin, len(narrow), narrow, _NONE, rows.order)


def _moved_together(rows: Rows, begin: int, end: int, others: IntArray) -> tuple[Intervals, Places]:
    """The rows from `begin` to `end` without the others."""
    left = end - begin - len(others)
    if len(others):
        kept = np.ones(CHUNK_ROWS, np.bool_)
        target = begin
        for chunk in chunks(end - begin, CHUNK_ROWS):
            first, last = np.searchsorted(others, (chunk.start, chunk.stop))
            kept[:] = True
            kept[others[first:last] - chunk.start] = False
            own = kept[: chunk.stop - chunk.start]
            count = int(np.count_nonzero(own))
            for column in (rows.start, rows.duration, rows.form):
                column[target : target + count] = column[begin + chunk.start : begin + chunk.stop][own]
            target += count
    stretch = slice(begin, begin + left)
    places = Places(begin, left, None, others - np.arange(len(others)), rows.order)
    long = (rows.long_places >= begin) & (rows.long_places < end)
    long[long] = ~np.isin(rows.long_places[long] - begin, others)
    positions = rows.long_places[long] - begin
    positions = positions - np.searchsorted(others, positions)
    intervals = Intervals(
        rows.start[stretch],
        rows.duration[stretch],
        rows.form[stretch],
        positions,
        rows.long_durations[long],
    )
    return intervals, places
