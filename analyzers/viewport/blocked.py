"""Which part of a host call is waiting for the GPU.

Whether a call waited follows `cctrace.analyzers.waiting`. Its waiting is what it takes longer than its own
cost: for a copy the median of the copies of its direction that did not wait, else that of a launch; for a
synchronization what the fastest tenth of its kind take, at most SYNC_OWN_US.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from cctrace.analyzers.attribution.own_cost import SYNC_OWN_US, WAITED_US
from cctrace.analyzers.columns import BoolArray, FloatArray, IntArray, SmallIntArray, codes, integers
from cctrace.analyzers.submissions import own_cost_ns
from cctrace.analyzers.viewport.lanes import Lane
from cctrace.analyzers.viewport.levels import chunks
from cctrace.analyzers.viewport.reading import Numbers
from cctrace.analyzers.viewport.tracks import CHUNK_ROWS, Track
from cctrace.analyzers.waiting import DEFAULT_LAUNCH_NS, copy_limit_ns
from cctrace.trace.schema import BLOCKING_WAITS, COPY_KINDS, WORK_OPERATIONS

SAMPLE: Final = 1 << 20
"""Calls of a kind that an own cost is taken from at most, spread over the recording: their median is known to
a thousandth then."""
OF_COPIES, OF_LAUNCHES, OF_SYNCS = range(3)
SOURCES: Final = (
    "the median of copies in this direction that did not wait",
    "the median of launches, because too few copies in this direction did not wait",
    "the fastest tenth of such synchronizations, or 5 µs if that is less",
)
"""Where an own cost comes from."""


@dataclass(frozen=True, eq=False)
class Waits:
    """Which rows of each form wait; an array element for each form.

    Attributes:
        copies: copies that a host thread hands to the GPU.
        limit_ns: a row that takes longer has waited; infinite for calls that never wait.
        own_ns: own cost of such a call.
        source: where the own cost comes from, position in SOURCES.
    """

    copies: BoolArray
    limit_ns: FloatArray
    own_ns: FloatArray
    source: SmallIntArray

    def blocked_ns(self, form: Numbers, duration: IntArray) -> IntArray:
        """How long each of these rows waited, ns; 0 for those that did not."""
        waited = duration > self.limit_ns[form]
        own = np.where(waited, self.own_ns[form], 0.0)
        waiting: IntArray = np.where(waited, np.maximum(duration - own, 0.0), 0.0).astype(np.int64)
        return waiting

    def reason(self, form: int) -> str:
        """Where the own cost of a form comes from, in words."""
        return SOURCES[self.source[form]]


def waits_of(lanes: Sequence[Lane], forms: pa.Table) -> Waits:
    """Which rows wait, by the calls of each process."""
    submits = codes(forms, "kind", ("submit",)) == 0
    work = np.where(submits, codes(forms, "operation", WORK_OPERATIONS), -1)
    syncs = np.where(codes(forms, "kind", ("wait",)) == 0, codes(forms, "operation", BLOCKING_WAITS), -1)
    direction, size = codes(forms, "copy_kind", COPY_KINDS), integers(forms, "bytes")
    contract, pid = integers(forms, "blocking") == 1, integers(forms, "pid")
    copies = work == WORK_OPERATIONS.index("copy")
    limit, own, source = np.full(len(pid), np.inf), np.zeros(len(pid)), np.zeros(len(pid), np.int8)
    for process in np.unique(pid[copies | (syncs >= 0)]).tolist():
        here = pid == process
        tracks = [track for lane in lanes if lane.pid == process for track in lane.tracks]
        _, launches = _sampled(tracks, here & (work >= 0) & ~copies)
        launch_ns = float(np.median(launches)) if len(launches) else float(DEFAULT_LAUNCH_NS)
        limits = np.where(contract, 0.0, copy_limit_ns(size, launch_ns))
        for number in np.unique(direction[here & copies]).tolist():
            kind = here & copies & (direction == number)
            form, duration = _sampled(tracks, kind)
            found = own_cost_ns(duration, duration > limits[form])
            own[kind] = launch_ns if found is None else found
            source[kind] = OF_LAUNCHES if found is None else OF_COPIES
            limit[kind] = np.maximum(limits[kind], own[kind] + WAITED_US * 1e3)
        for number in np.unique(syncs[here & (syncs >= 0)]).tolist():
            kind = here & (syncs == number)
            _, duration = _sampled(tracks, kind)
            fastest = float(np.percentile(duration, 10)) if len(duration) else 0.0
            own[kind] = min(SYNC_OWN_US * 1e3, fastest)
            limit[kind], source[kind] = own[kind] + WAITED_US * 1e3, OF_SYNCS
    return Waits(copies, limit, own, source)


def _sampled(tracks: Sequence[Track], wanted: BoolArray) -> tuple[Numbers, IntArray]:
    """(forms, durations) of the rows of the wanted forms: all of them, or every n-th."""
    counts = [track.count(wanted) for track in tracks]
    every = max(1, -(-sum(counts) // SAMPLE))
    forms: list[Numbers] = [np.zeros(0, np.int32)]
    durations: list[IntArray] = [np.zeros(0, np.int64)]
    for track, count in zip(tracks, counts, strict=True):
        for chunk in chunks(len(track) if count else 0, CHUNK_ROWS):
            rows = np.flatnonzero(wanted[track.rows.form[chunk]])[::every] + chunk.start
            forms.append(track.rows.form[rows])
            durations.append(track.rows.duration(rows))
    return np.concatenate(forms), np.concatenate(durations)
