"""Ties GPU times of graphs to the host's clock by what cannot be.

The recorder reads the GPU's clock at the begin and at the end of a process. A reading while other programs
have the GPU is off by tens or hundreds of microseconds, and all times between two readings are off in
proportion. Durations are right all the same. What the host saw is better: no graph begins before its call,
and whoever waits for it returns when it is done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from cctrace.analyzers.attribution.gpu_fit import TAIL_US, Anchor
from cctrace.analyzers.attribution.gpu_work import UNKNOWN, DeviceWork
from cctrace.analyzers.attribution.timeline import NONE, Timeline
from cctrace.analyzers.columns import BoolArray, FloatArray, IntArray

LEAST_LATENCY_US: Final = 3.0
"""An idle GPU starts on a graph no sooner after its call: 3.2 to 4 µs on an H200."""
CLOCK_AGREES_US: Final = 5.0
"""A clock that was read on an idle GPU is as good as this."""
SMALL_WORK_US: Final = 2.0
"""What follows a graph and ends within TAIL_US is a copy of its results."""
MIN_STRETCHES: Final = 4
"""Any two or three points are nearly a line."""
OTHER_REPLAY: Final = 0.6
"""Times that are off by more than this part of the time between two replays are those of another replay."""
_LOW: Final = 5
"""Percentile instead of the least value: single rows can be wrong."""
_GRAPH: Final = 1


def on_host_clock(
    work: DeviceWork, timeline: Timeline, queues: Sequence[IntArray], anchors: Sequence[Sequence[Anchor]]
) -> DeviceWork:
    """The work with graph times moved, stretch by stretch, to where waits and submissions allow them.

    Nothing is moved if the times agree with both in all stretches, or if rows tell more than graphs: those
    come from a recorder with a clock of its own. Where rows cannot be those of their calls, they are left
    out.

    Args:
        work: the work as recorded.
        timeline: operations of the arm.
        queues: positions of the operations of each stream in each stretch.
        anchors: what is known of the progress of each of them.
    """
    seen = np.isfinite(work.begin)
    if not seen.any() or (work.kind[seen] != _GRAPH).any():
        return work
    stretches = np.unique(work.stretch)
    late = _least_by_stretch(stretches, *_returns(work, queues, anchors))
    latency = _least_by_stretch(
        stretches, work.stretch[seen], (work.begin - timeline.start[work.owner])[seen] - LEAST_LATENCY_US
    )
    begin = np.array([np.nanmin(timeline.start[timeline.stretch == one]) for one in stretches.tolist()])
    moved = _moves(begin, late, latency)
    if not moved.any():
        return work
    at = np.searchsorted(stretches, work.stretch)
    wrong = np.abs(moved) > OTHER_REPLAY * _between_replays(work, seen)
    if wrong.any():
        return _without_times(work, seen & wrong[at])
    return replace(work, begin=work.begin + moved[at], end=work.end + moved[at])


def _returns(
    work: DeviceWork, queues: Sequence[IntArray], anchors: Sequence[Sequence[Anchor]]
) -> tuple[IntArray, FloatArray]:
    """(stretch, time from the end of the last graph before it to when all work was done) of each wait."""
    stretch, late = [], []
    for members, of_queue in zip(queues, anchors, strict=True):
        end = work.end[members]
        known = np.flatnonzero(np.isfinite(end))
        for anchor in of_queue:
            before = int(np.searchsorted(known, anchor.position)) - 1
            if anchor.op != NONE and anchor.waited and np.isfinite(anchor.waited) and before >= 0:
                stretch.append(int(work.stretch[members[0]]))
                late.append(anchor.time - float(end[known[before]]))
    return np.array(stretch, np.int64), np.array(late, np.float64)


def _least_by_stretch(stretches: IntArray, stretch: IntArray, values: FloatArray) -> FloatArray:
    """About the least of the values of each stretch; infinite where there are none."""
    return np.array(
        [
            np.percentile(values[stretch == one], _LOW, method="lower") if (stretch == one).any() else np.inf
            for one in stretches.tolist()
        ]
    )


def _moves(begin: FloatArray, late: FloatArray, latency: FloatArray) -> FloatArray:
    """By how much the times of each stretch are moved, µs.

    Args:
        begin: when each stretch begins.
        late: how long after the end of a graph waits for it return, at the soonest.
        latency: how long after its call a graph begins, at the soonest, beyond what is needed.
    """
    if min(late.min(), latency.min()) >= -CLOCK_AGREES_US:
        return np.zeros(len(late))
    least = np.minimum(np.maximum(-latency, 0.0), late)
    if not _is_drift(begin, late):
        return np.asarray(least, np.float64)
    known = np.isfinite(late)
    soonest = _soonest_return(late[known], latency[known])
    return np.asarray(np.where(known, np.maximum(late - soonest, -latency), least), np.float64)


def _soonest_return(late: FloatArray, latency: FloatArray) -> float:
    """How long after a graph the work behind it is done: the same everywhere, whatever the clocks say."""
    # Where an idle GPU waits for each graph, calls and waits leave it no room: together they know no clock.
    between = float((late + latency).min())
    if between <= TAIL_US:
        return max(0.0, between)
    least = float(late.min())
    return least if least > TAIL_US else float(np.clip(least, 0.0, SMALL_WORK_US))


def _is_drift(begin: FloatArray, late: FloatArray) -> bool:
    """Whether waits return later and later, or sooner and sooner, as two clocks drift apart."""
    known = np.isfinite(late)
    if known.sum() < MIN_STRETCHES:
        return False
    line = np.polyfit(begin[known], late[known], 1)
    return bool(np.abs(np.polyval(line, begin[known]) - late[known]).max() <= CLOCK_AGREES_US)


def _between_replays(work: DeviceWork, seen: BoolArray) -> float:
    """Usual time from one replay to the next."""
    begin = np.sort(work.begin[seen])
    return float(np.median(np.diff(begin))) if len(begin) > 1 else np.inf


def _without_times(work: DeviceWork, wrong: BoolArray) -> DeviceWork:
    return replace(
        work,
        begin=np.where(wrong, np.nan, work.begin),
        end=np.where(wrong, np.nan, work.end),
        duration=np.where(wrong, np.nan, work.duration),
        state=np.where(wrong, UNKNOWN, work.state),
    )
