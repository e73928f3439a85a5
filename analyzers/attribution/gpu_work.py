"""GPU operations of one arm: what each submission puts on which stream, and what is known of its time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from cctrace.analyzers.attribution.timeline import NONE, STREAM_WAIT, Timeline
from cctrace.analyzers.columns import BoolArray, FloatArray, IntArray

UNKNOWN, BOUNDED, KNOWN = range(3)
"""What is known of a duration: nothing, the longest possible, the value."""
SMALL_KINDS: Final = (2, 3)
"""Kinds (`rows.GPU_KINDS`) of work that one call submits alone: copies and memsets."""
AGREES_US: Final = 2.0
"""Times that differ by less than this are the same: the mapping of the GPU's clock is that good."""


@dataclass(frozen=True, eq=False)
class DeviceWork:
    """Operations on the GPU of one arm, in order of (stretch, stream, submission). Times in µs.

    Attributes:
        owner: operation of the timeline that submits it.
        stretch: stretch of consecutive steps; between two of them nothing is known of a stream.
        stream: stream.
        kind: 0 kernel, 1 graph, 2 copy, 3 memset; positions in rows.GPU_KINDS.
        symbol: position in `symbols`, NONE without a name.
        begin: when it began, NaN if no row tells.
        end: when it ended, NaN if no row tells.
        duration: how long it took, a collective from when all ranks had come to it; NaN where `state` is not
            KNOWN.
        longest: longest duration that what was seen allows.
        state: UNKNOWN, BOUNDED or KNOWN.
        nominal: what it takes where nothing of this arm tells: copies and memsets by their size, kernels and
            graphs as another recording says; else 0.
        exchanges: another recording says that it exchanges data between GPUs.
        meeting: for a collective of several ranks its number within its step, the same on all ranks; for any
            other collective 0; NONE for other work.
        delay: from the begin of its submission until an idle stream starts on it.
        pause: time that its stream stood still before it for no reason that a row shows.
        symbols: words of `symbol`.
    """

    owner: IntArray
    stretch: IntArray
    stream: IntArray
    kind: IntArray
    symbol: IntArray
    begin: FloatArray
    end: FloatArray
    duration: FloatArray
    longest: FloatArray
    state: IntArray
    nominal: FloatArray
    meeting: IntArray
    exchanges: BoolArray
    delay: FloatArray
    pause: FloatArray
    symbols: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.owner)


def queues_of(work: DeviceWork) -> list[IntArray]:
    """Positions of the operations of each stream in each stretch."""
    change = np.flatnonzero((np.diff(work.stream) != 0) | (np.diff(work.stretch) != 0)) + 1
    return np.split(np.arange(len(work)), change) if len(work) else []


def awaited_records(
    work: DeviceWork, timeline: Timeline, queues: list[IntArray]
) -> list[tuple[int, int, int, int]]:
    """Where a stream waits for another one.

    Returns:
        (queue that waits, number of its operations before the wait, queue waited for, number of its
        operations before the record), in order of the waits.
    """
    number = {
        (int(work.stretch[one[0]]), int(work.stream[one[0]])): index for index, one in enumerate(queues)
    }
    submitted = [timeline.start[work.owner[members]] for members in queues]
    found = []
    for op in np.flatnonzero(timeline.is_category(STREAM_WAIT) & (timeline.record != NONE)).tolist():
        stretch, record = int(timeline.stretch[op]), int(timeline.record[op])
        here = number.get((stretch, int(timeline.stream[op])))
        there = number.get((stretch, int(timeline.stream[record])))
        if here is not None and there is not None and here != there:
            first = int(np.searchsorted(submitted[here], timeline.start[op]))
            found.append((here, first, there, int(np.searchsorted(submitted[there], timeline.start[record]))))
    return found
