"""What waits tell of GPU times: points in a stream at which its progress is known, and what follows of them.

Times that no row tells are the longest ones with which everything before such a point is done by then: work
that could have finished earlier did.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from cctrace.analyzers.attribution.gpu_work import (
    AGREES_US,
    BOUNDED,
    KNOWN,
    DeviceWork,
    awaited_records,
)
from cctrace.analyzers.attribution.own_cost import OwnCost
from cctrace.analyzers.attribution.timeline import CONTEXT_SYNC, EVENT_SYNC, NONE, STREAM_SYNC, Timeline
from cctrace.analyzers.categories import CATEGORY
from cctrace.analyzers.columns import BoolArray, FloatArray, IntArray

TAIL_US: Final = 20.0
"""A wait as short as this shows the latency of the last submission, not a busy GPU."""
STEPS_IN_FLIGHT: Final = 3
"""A wait tells nothing of work that was submitted so many steps before: engines keep two steps in flight."""


@dataclass(frozen=True)
class Anchor:
    """A point in a stream at which the end of all work before it is known.

    Attributes:
        position: number of operations of the stream before it.
        time: when they were done.
        waited: how long something had been waiting for that; 0: nothing had, so they may have ended before.
        op: the operation that waited, NONE if it was the next operation of the stream.
    """

    position: int
    time: float
    waited: float
    op: int = NONE


@dataclass(frozen=True, eq=False)
class Found:
    """What has been found of all GPU operations so far; fields as in `DeviceWork`, filled in place."""

    duration: FloatArray
    state: IntArray
    longest: FloatArray


@dataclass(frozen=True, eq=False)
class Sizes:
    """How large GPU operations are beside each other, and what they take at most (µs)."""

    weight: FloatArray
    slowest: FloatArray


def anchors_of(work: DeviceWork, timeline: Timeline, cost: OwnCost, members: IntArray) -> list[Anchor]:
    """All points of a stream at which something is known of its progress, in order."""
    stream, stretch = int(work.stream[members[0]]), int(work.stretch[members[0]])
    submitted = timeline.start[work.owner[members]]
    visible = submitted + work.delay[members]
    begin = work.begin[members]
    anchors = [
        Anchor(position, float(begin[position]), _waited(float(begin[position] - visible[position])))
        for position in np.flatnonzero(np.isfinite(begin)).tolist()
        if position and not np.isfinite(begin[position - 1])
    ]
    waiting = np.flatnonzero(cost.waits & (timeline.stretch == stretch))
    seen = waiting[_concerns(timeline, waiting, stream)]
    asked = np.where(timeline.is_category(EVENT_SYNC)[seen], timeline.record[seen], seen)
    # A copy waits for itself as well; a record and a synchronization do not come after work that begins
    # later.
    position = np.searchsorted(submitted, timeline.start[asked], side="left") + timeline.is_copy[seen]
    for at, op in zip(position.tolist(), seen.tolist(), strict=True):
        if at:
            since = float(timeline.start[op] + cost.own[op]) if cost.exact[op] else np.inf
            anchors.append(Anchor(at, float(cost.done[op]), max(0.0, float(cost.done[op]) - since), op))
    return anchors


def hand_on(
    work: DeviceWork,
    timeline: Timeline,
    queues: list[IntArray],
    anchors: list[list[Anchor]],
    nominal: FloatArray,
) -> None:
    """Passes what a copy stream shows on to the stream that it waits for.

    A copy of results waits on a stream of its own for the event of the computation. When it is done, so has
    the computation been, since the time that the copy itself takes.
    """
    for here, first, there, position in awaited_records(work, timeline, queues):
        following = sorted(
            (one for one in anchors[here] if one.position > first), key=lambda one: one.position
        )
        if not following or not position:
            continue
        rows = queues[here][first : following[0].position]
        to_host = timeline.category[work.owner[rows]] == CATEGORY["copy d2h"]
        if to_host.all() and np.isnan(work.begin[rows]).all():
            done = following[0].time - float(nominal[rows].sum())
            waited = following[0].waited if following[0].waited > TAIL_US else 0.0
            anchors[there].append(Anchor(position, done, waited, following[0].op))
            anchors[here].remove(following[0])


def late_returns(
    work: DeviceWork, queues: list[IntArray], anchors: list[list[Anchor]], post: FloatArray
) -> FloatArray:
    """Time from the end of awaited work to the return, where the next row of the stream shows a late return.

    A thread that sleeps while it waits wakes up tens of microseconds after the work is done. By then the
    stream may long be at its next operation. The anchors are moved to the begin of that operation; if that
    was before the call, the call did not wait at all.
    """
    post = post.copy()
    for members, of_queue in zip(queues, anchors, strict=True):
        begin = work.begin[members]
        known = np.flatnonzero(np.isfinite(begin))
        for number, anchor in enumerate(of_queue):
            at = int(np.searchsorted(known, anchor.position))
            late = anchor.time - float(begin[known[at]]) if anchor.op != NONE and at < len(known) else 0.0
            if late > 0 and late < anchor.waited:
                post[anchor.op] += late
            if late > 0:
                waited = max(0.0, anchor.waited - late)
                of_queue[number] = replace(anchor, time=anchor.time - late, waited=waited)
    return post


def _waited(longer: float) -> float:
    return longer if longer > AGREES_US else 0.0


def _concerns(timeline: Timeline, waiting: IntArray, stream: int) -> BoolArray:
    """Which waiting operations wait for this stream."""
    category, record = timeline.category[waiting], timeline.record[waiting]
    of_event = (category == EVENT_SYNC) & (record >= 0) & (timeline.stream[record] == stream)
    of_stream = np.isin(category, (STREAM_SYNC,)) | timeline.is_copy[waiting]
    concerned: BoolArray = (
        of_event | (of_stream & (timeline.stream[waiting] == stream)) | (category == CONTEXT_SYNC)
    )
    return concerned


class Fit:
    """Walks along one stream and gives the operations without a row the longest consistent durations."""

    def __init__(
        self,
        work: DeviceWork,
        timeline: Timeline,
        members: IntArray,
        found: Found,
        sizes: Sizes,
    ) -> None:
        self._members = members
        self._submitted = timeline.start[work.owner[members]] + work.delay[members]
        self._step = timeline.step[work.owner[members]]
        self._weight = sizes.weight[members]
        self._end = work.end[members]
        self._duration, self._state, self._longest = found.duration, found.state, found.longest
        self._slowest = sizes.slowest
        self._position = 0
        self._since = -np.inf
        self._at_the_latest = -np.inf

    def reach(self, anchor: Anchor) -> None:
        """Uses what is known at an anchor for the operations since the last one."""
        self._pass_known(anchor.position)
        unknown = anchor.position > self._position
        if unknown and self._steps_of(anchor) <= STEPS_IN_FLIGHT:
            self._share_out(np.arange(self._position, anchor.position), anchor)
        self._position = max(self._position, anchor.position)
        if anchor.waited:
            self._since = anchor.time
        elif unknown:
            self._since = -np.inf
        self._at_the_latest = anchor.time

    def _steps_of(self, anchor: Anchor) -> int:
        """Over how many steps the operations go that an anchor tells something of."""
        return int(self._step[anchor.position - 1] - self._step[self._position]) + 1

    def _pass_known(self, until: int) -> None:
        """Moves on behind the last operation with a row."""
        known = np.flatnonzero(np.isfinite(self._end[self._position : until]))
        if len(known):
            last = self._position + int(known[-1])
            self._since = self._at_the_latest = float(self._end[last])
            self._position = last + 1

    def _share_out(self, rows: IntArray, anchor: Anchor) -> None:
        at = self._members[rows]
        fixed = np.where(self._state[at] == KNOWN, self._duration[at], 0.0)
        free = self._state[at] != KNOWN
        if not free.any():
            return
        is_tail = bool(free[-1]) and 0 < anchor.waited <= TAIL_US
        bounded = is_tail or not anchor.waited
        # What may have been done before the last point leaves less room, if the longest is asked for.
        since = self._at_the_latest if bounded else self._since
        found = self._longest_durations(rows, anchor.time, since, (free, fixed))
        slowest = self._slowest[at]
        if (found > slowest).any() and (free & (found < slowest)).any():
            # No copy takes that long: the rest goes to the other operations.
            fixed = np.where(free & (found > slowest), slowest, fixed)
            again = self._longest_durations(rows, anchor.time, since, (free & (found <= slowest), fixed))
            found = np.where(free & (found > slowest), slowest, again)
        self._set(rows[free], found[free], BOUNDED if bounded else KNOWN)
        if is_tail:
            tail = min(anchor.time - float(self._submitted[rows[-1]]), anchor.time - self._since)
            self._set(rows[-1:], np.array([max(0.0, tail)]), KNOWN)

    def _longest_durations(
        self, rows: IntArray, time: float, since: float, durations: tuple[BoolArray, FloatArray]
    ) -> FloatArray:
        """Durations by weight of the free operations, the longest with which all are done by a time.

        The stream ends at max over i of (submission of i + durations from i on), and at `since` + all of
        them.
        """
        free, fixed = durations
        weight = np.where(free, self._weight[rows], 0.0)
        after, fixed_after = np.cumsum(weight[::-1])[::-1], np.cumsum(fixed[::-1])[::-1]
        room = time - self._submitted[rows] - fixed_after
        with np.errstate(divide="ignore", invalid="ignore"):
            possible = np.where(after > 0, room / after, np.inf)
        per_weight = min(float(possible.min()), (time - since - fixed_after[0]) / max(after[0], 1e-9))
        return np.asarray(max(per_weight, 0.0) * weight, np.float64)

    def _set(self, rows: IntArray, found: FloatArray, state: int) -> None:
        at = self._members[rows]
        if state == KNOWN:
            self._duration[at] = np.minimum(found, self._slowest[at])
            self._state[at] = KNOWN
        else:
            self._longest[at] = np.minimum(self._longest[at], found)
            self._state[at] = np.maximum(self._state[at], BOUNDED)
