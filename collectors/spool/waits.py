"""Which run of a graph each wait of the host waited for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from cctrace.collectors.spool.handles import LEGACY_STREAM
from cctrace.collectors.spool.layout import Flag, Operation
from cctrace.collectors.spool.spoolfile import Records, take
from cctrace.collectors.spool.stamps import places_by

WAIT_OPERATIONS: Final = (
    Operation.STREAM_SYNC,
    Operation.CONTEXT_SYNC,
    Operation.EVENT_SYNC,
    Operation.EVENT_RECORD,
    Operation.STREAM_WAIT,
)
"""Calls that tell what the host waits for."""

PER_THREAD_STREAM: Final = 2
"""A thread's own stream without the thread, which the collector adds: which one is meant is not known."""

Places = npt.NDArray[np.intp]
Numbers = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class _Waits:
    """Waits for the work that a stream had got by some time: places of the calls, streams, times."""

    call: Places
    stream: Numbers
    since: Numbers

    def select(self, where: npt.NDArray[np.bool_]) -> _Waits:
        return _Waits(self.call[where], self.stream[where], self.since[where])

    def and_also(self, other: _Waits) -> _Waits:
        mine, others = (self.call, self.stream, self.since), (other.call, other.stream, other.since)
        call, stream, since = (np.concatenate(both) for both in zip(mine, others, strict=True))
        return _Waits(call, stream, since)


def waited_for(calls: Records, launches: Records, *, one_device: bool) -> tuple[Places, Places]:
    """Waits that succeeded, and the last launch of a stream that each certainly waited for.

    What was only captured into a graph is no wait.

    A wait for an event waits for what its stream had got when the event was recorded; what a stream was made
    to wait for by another event counts too, but no longer chains of events.

    Args:
        calls: calls of `WAIT_OPERATIONS`, by start.
        launches: graph launches, by start.
        one_device: all launches are for one device, so that a wait for a context waits for them.

    Returns:
        Places in `calls`, and as many in `launches`.
    """
    place = np.flatnonzero((calls["result"] == 0) & ((calls["flags"] & Flag.CAPTURED) == 0))
    fine = take(calls, place)
    direct = _of_streams(fine).and_also(_of_events(fine, Operation.EVENT_SYNC))
    waits = direct.and_also(_through_events(fine, direct))
    found = [(waits.call[:0], waits.call[:0])]
    for handle, there in places_by(_one_legacy(launches["stream"])).items():
        if handle == PER_THREAD_STREAM or (handle == LEGACY_STREAM and not one_device):
            continue
        mine = waits.select(_one_legacy(waits.stream) == np.uint64(handle))
        found.append(_hits(mine.call, _last(launches, there, mine.since)))
    if one_device:
        of_context = np.flatnonzero(fine["operation"] == Operation.CONTEXT_SYNC)
        every = np.arange(len(launches))
        found.append(_hits(of_context, _last(launches, every, fine["start_ns"][of_context])))
    wait, launch = (np.concatenate(part) for part in zip(*found, strict=True))
    return place[wait], launch


def _of_streams(calls: Records) -> _Waits:
    where = np.flatnonzero(calls["operation"] == Operation.STREAM_SYNC)
    return _Waits(where, calls["stream"][where], calls["start_ns"][where])


def _of_events(calls: Records, operation: Operation) -> _Waits:
    """Calls that wait for an event: stream and time of its last record before."""
    where = np.flatnonzero(calls["operation"] == operation)
    recorded = np.flatnonzero(calls["operation"] == Operation.EVENT_RECORD)
    of_event = places_by(calls["object"][recorded])
    record = np.full(len(where), -1, dtype=np.intp)
    for event, here in places_by(calls["object"][where]).items():
        records = recorded[of_event.get(event, recorded[:0])]
        latest = np.searchsorted(calls["start_ns"][records], calls["start_ns"][where[here]]) - 1
        known = latest >= 0
        record[here[known]] = records[latest[known]]
    known = record >= 0
    return _Waits(where[known], calls["stream"][record[known]], calls["start_ns"][record[known]])


def _through_events(calls: Records, waits: _Waits) -> _Waits:
    """What the streams waited for had been made to wait for."""
    made = _of_events(calls, Operation.STREAM_WAIT)
    by_stream = places_by(calls["stream"][made.call])
    through = np.full(len(waits.call), -1, dtype=np.intp)
    for stream, here in places_by(waits.stream).items():
        there = by_stream.get(stream, through[:0])
        latest = np.searchsorted(calls["start_ns"][made.call[there]], waits.since[here], side="right") - 1
        known = latest >= 0
        through[here[known]] = there[latest[known]]
    known = through >= 0
    return _Waits(waits.call[known], made.stream[through[known]], made.since[through[known]])


def _one_legacy(streams: Numbers) -> Numbers:
    """The legacy default stream has two handles."""
    return np.where(streams == 1, np.uint64(LEGACY_STREAM), streams)


def _last(launches: Records, there: Places, at: Numbers) -> Places:
    """The last of the launches `there` whose call had returned at each time; −1 for none."""
    ends = np.maximum.accumulate(launches["end_ns"][there])
    before = np.searchsorted(ends, at, side="right") - 1
    return np.where(before >= 0, there[before], -1)


def _hits(call: Places, last: Places) -> tuple[Places, Places]:
    return call[last >= 0], last[last >= 0]
