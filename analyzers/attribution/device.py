"""GPU work of one arm: what each submission puts on which stream, and for how long.

Rows of GPU work tell it where there are any. Elsewhere the waiting of the host tells it: a synchronization
that was kept waiting returns when the work before it is done. The durations of the operations since the
last known point of the stream are then the longest that are consistent with the time of each submission:
work that could have finished earlier did. Where no wait ever shows the GPU, its time is not known and never
mattered: the host was slower, in every mix of causes that makes the host slower still.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Final

import numpy as np

from cctrace.analyzers.attribution.collectives import is_collective
from cctrace.analyzers.attribution.own_cost import OwnCost
from cctrace.analyzers.attribution.pairing import first_of_group, opens
from cctrace.analyzers.attribution.rows import DeviceRows, in_microseconds
from cctrace.analyzers.attribution.timeline import (
    CONTEXT_SYNC,
    EVENT_SYNC,
    NONE,
    STREAM_SYNC,
    STREAM_WAIT,
    THREADS,
    Timeline,
)
from cctrace.analyzers.categories import CATEGORY
from cctrace.analyzers.columns import BoolArray, FloatArray, IntArray

DELAY_US: Final = 6.5
"""From the begin of a submission until an idle GPU starts on it, where no row tells: 4 to 7 µs on an H200."""
MAX_DELAY_US: Final = 20.0
"""An idle stream starts on a submission this long after the call; one that takes longer waited for something
that no row shows."""
TAIL_US: Final = 20.0
"""A wait as short as this shows the latency of the last submission, not a busy GPU."""
COPY_US: Final = 2.0
"""GPU time of a small copy or memset, where nothing tells: the order of a DMA's fixed cost."""
HOST_BYTES_PER_US: Final = 50_000.0
"""Between host and GPU: PCIe 5, 50 GB/s as recorded."""
DEVICE_BYTES_PER_US: Final = 1_000_000.0
"""Within the GPU: a third of an H200's memory bandwidth, as each byte is read and written."""
SLOWEST_COPY: Final = 20.0
"""A copy that seems to take this many times its nominal time waited for something else: with encryption a
copy
takes up to ten times longer."""
WEIGHTS: Final = (1.0, 100.0, 0.3, 0.3)
"""Weights of a kernel, a graph, a copy and a memset where one wait must be shared out among them: a graph
stands for the kernels of a whole model or of a layer."""
STEPS_IN_FLIGHT: Final = 3
"""A wait tells nothing of work that was submitted so many steps before: engines keep two steps in flight."""
AGREES_US: Final = 2.0
"""Times that differ by less than this are the same: the mapping of the GPU's clock is that good."""

UNKNOWN, BOUNDED, KNOWN = range(3)
"""What is known of a duration: nothing, the longest possible, the value."""


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
        nominal: what a copy or memset takes by its size; 0 for other work.
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
    delay: FloatArray
    pause: FloatArray
    symbols: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.owner)


@dataclass(frozen=True)
class _Anchor:
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


def device_work(
    timeline: Timeline, cost: OwnCost, rows: DeviceRows, base_ns: int
) -> tuple[DeviceWork, OwnCost]:
    """The GPU work of one arm, with all durations that its rows and waits tell.

    Returns:
        The work, and the own costs with what the rows tell of waits: how late after the end of the work the
        host went on.
    """
    work = _with_meetings(_submitted(timeline, rows, base_ns), timeline)
    work = replace(work, delay=_typical_delays(work, timeline, cost))
    found = _Found(work.duration.copy(), work.state.copy(), work.longest.copy())
    queues = _queues(work)
    anchors = [_anchors(work, timeline, cost, members) for members in queues]
    nominal = _nominal(work, timeline)
    _hand_on(work, timeline, queues, anchors, nominal)
    cost = replace(cost, post=_late_returns(work, queues, anchors, cost.post))
    for members, of_queue in zip(queues, anchors, strict=True):
        fit = _Fit(work, timeline, members, found, SLOWEST_COPY * nominal)
        for anchor in sorted(of_queue, key=lambda one: (one.position, one.time)):
            fit.reach(anchor)
    nominal = np.where(np.isin(work.kind, (2, 3)), nominal, 0.0)
    work = replace(work, duration=found.duration, state=found.state, longest=found.longest, nominal=nominal)
    delay, pause = _latencies(work, timeline, cost, _awaited_end(work, timeline, queues))
    return replace(work, delay=delay, pause=pause), cost


def _submitted(timeline: Timeline, rows: DeviceRows, base_ns: int) -> DeviceWork:
    """One operation for each GPU row of a submission, or one without times where it has no row."""
    owners = np.flatnonzero(timeline.is_work)
    correlation = timeline.correlation[owners]
    first = np.searchsorted(rows.correlation, correlation, side="left")
    count = np.where(
        correlation >= 0, np.searchsorted(rows.correlation, correlation, side="right") - first, 0
    )
    repeat = np.maximum(count, 1)
    owner = np.repeat(owners, repeat)
    before = np.cumsum(repeat) - repeat
    row = np.repeat(first - before, repeat) + np.arange(int(repeat.sum()))
    seen = np.repeat(count > 0, repeat)
    row = np.where(seen, row, 0)
    blank = len(rows) == 0
    nothing = np.full(len(owner), np.nan)
    begin = nothing if blank else np.where(seen, in_microseconds(rows.start_ns, base_ns)[row], np.nan)
    end = nothing if blank else np.where(seen, in_microseconds(rows.end_ns, base_ns)[row], np.nan)
    kind, symbol = _kind_of(timeline, owner), np.where(seen, NONE, timeline.symbol[owner])
    stream = timeline.stream[owner]
    if not blank:
        kind = np.where(seen, rows.kind[row], kind)
        symbol = np.where(seen & (rows.name[row] >= 0), rows.name[row] + len(timeline.symbols), symbol)
        stream = np.where(seen & (rows.stream[row] >= 0), rows.stream[row], stream)
    stretch = timeline.stretch[owner]
    order = np.lexsort((np.arange(len(owner)), timeline.start[owner], stream, stretch))
    work = DeviceWork(
        owner=owner,
        stretch=stretch,
        stream=stream,
        kind=kind.astype(np.int64),
        symbol=symbol.astype(np.int64),
        begin=begin,
        end=end,
        duration=end - begin,
        longest=np.full(len(owner), np.inf),
        state=np.where(seen, KNOWN, UNKNOWN),
        nominal=np.zeros(len(owner)),
        meeting=np.full(len(owner), NONE, np.int64),
        delay=np.full(len(owner), DELAY_US),
        pause=np.zeros(len(owner)),
        symbols=timeline.symbols + rows.names,
    )
    columns = {
        field.name: getattr(work, field.name)[order]
        for field in fields(DeviceWork)
        if field.name != "symbols"
    }
    return DeviceWork(**columns, symbols=work.symbols)


def _with_meetings(work: DeviceWork, timeline: Timeline) -> DeviceWork:
    """The work with its collectives: their numbers, and their time from when the last rank had come to them.

    The n-th collective of a step is the same one on all ranks, if all ranks have equally many in that step.
    """
    collective = np.array([is_collective(word) for word in work.symbols] + [False])[work.symbol]
    rows = np.flatnonzero(collective & (work.kind == 0))
    if not len(rows):
        return work
    rank, step = timeline.thread[work.owner[rows]] // THREADS, timeline.step[work.owner[rows]]
    order = np.lexsort((work.begin[rows], step, rank))
    rows, rank, step = rows[order], rank[order], step[order]
    begins = opens(step, rank)
    number = np.arange(len(rows)) - first_of_group(begins)
    # Where a rank lacks a row, the others cannot be told apart: they meet nobody.
    lacking = np.isin(step, _unequal_steps(step, rank))
    number = np.where(lacking, len(rows) * (rank + 1) + number, number)
    duration = work.duration.copy()
    meeting = work.meeting.copy()
    meeting[rows] = number
    key = step * (int(number.max()) + 1) + number
    _, group = np.unique(key, return_inverse=True)
    group = group.reshape(-1)
    arrival = np.full(int(group.max()) + 1, -np.inf)
    np.maximum.at(arrival, group, work.begin[rows])
    duration[rows] = np.maximum(work.end[rows] - arrival[group], 0.0)
    return replace(work, meeting=meeting, duration=duration)


def _unequal_steps(step: IntArray, rank: IntArray) -> IntArray:
    """Steps in which ranks have unequal numbers of collectives."""
    ranks = np.unique(rank)
    steps, index = np.unique(step, return_inverse=True)
    counts = np.stack([np.bincount(index.reshape(-1)[rank == one], minlength=len(steps)) for one in ranks])
    return np.asarray(steps[counts.min(axis=0) != counts.max(axis=0)])


def _queues(work: DeviceWork) -> list[IntArray]:
    """Positions of the operations of each stream in each stretch."""
    change = np.flatnonzero((np.diff(work.stream) != 0) | (np.diff(work.stretch) != 0)) + 1
    return np.split(np.arange(len(work)), change) if len(work) else []


def _kind_of(timeline: Timeline, owner: IntArray) -> IntArray:
    category = timeline.category[owner]
    kinds = (category == CATEGORY["kernel"], category == CATEGORY["graph"], category == CATEGORY["memset"])
    return np.select(kinds, (0, 1, 3), 2)


def _nominal(work: DeviceWork, timeline: Timeline) -> FloatArray:
    """GPU time of copies and memsets by their size."""
    to_host = np.isin(timeline.category[work.owner], (CATEGORY["copy h2d"], CATEGORY["copy d2h"]))
    rate = np.where(to_host, HOST_BYTES_PER_US, DEVICE_BYTES_PER_US)
    return COPY_US + np.maximum(timeline.bytes[work.owner], 0) / rate


def _previous_end(work: DeviceWork) -> FloatArray:
    """When the operation before in the stream ended, −inf for the first one, NaN if not known."""
    end = work.end
    before = np.full(len(work), -np.inf)
    same = (work.stream[1:] == work.stream[:-1]) & (work.stretch[1:] == work.stretch[:-1])
    before[1:] = np.where(same, end[:-1], -np.inf)
    return before


def _typical_delays(work: DeviceWork, timeline: Timeline, cost: OwnCost) -> FloatArray:
    """Delay of each operation: the median where an idle stream shows it, by kind of work."""
    latency = work.begin - timeline.start[work.owner]
    idle = _previous_end(work) < timeline.start[work.owner]
    shown = idle & (latency > 0) & (latency <= MAX_DELAY_US + cost.own[work.owner])
    delay = np.full(len(work), DELAY_US)
    for kind in range(4):
        rows = work.kind == kind
        samples = latency[rows & shown]
        if len(samples):
            delay[rows] = float(np.median(samples))
    return delay


def _awaited_end(work: DeviceWork, timeline: Timeline, queues: list[IntArray]) -> FloatArray:
    """When the work of other streams was done that each operation waits for; −inf if it waits for none.

    NaN where that is not known.
    """
    number = {
        (int(work.stretch[one[0]]), int(work.stream[one[0]])): index for index, one in enumerate(queues)
    }
    submitted = [timeline.start[work.owner[members]] for members in queues]
    awaited = np.full(len(work), -np.inf)
    for op in np.flatnonzero(timeline.is_category(STREAM_WAIT) & (timeline.record >= 0)).tolist():
        stretch, record = int(timeline.stretch[op]), int(timeline.record[op])
        here = number.get((stretch, int(timeline.stream[op])))
        there = number.get((stretch, int(timeline.stream[record])))
        if here is None or there is None:
            continue
        first = int(np.searchsorted(submitted[here], timeline.start[op]))
        last = int(np.searchsorted(submitted[there], timeline.start[record])) - 1
        if first < len(queues[here]) and last >= 0:
            target = queues[here][first]
            awaited[target] = np.maximum(awaited[target], work.end[queues[there][last]])
    return awaited


def _latencies(
    work: DeviceWork, timeline: Timeline, cost: OwnCost, awaited: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """(delay, pause) of each operation: as seen where the submission was what it waited for."""
    before = np.maximum(_previous_end(work), awaited)
    latency = work.begin - timeline.start[work.owner]
    first = np.ones(len(work), np.bool_)
    first[1:] = work.owner[1:] != work.owner[:-1]
    stood_still = work.begin - np.maximum(before, timeline.start[work.owner] + work.delay)
    idle = first & (work.begin > before + AGREES_US) & (latency > 0)
    plausible = idle & (latency <= MAX_DELAY_US + cost.own[work.owner])
    delay = np.where(plausible, latency, work.delay)
    unexplained = (idle & ~plausible) | ~first
    pause = np.where(unexplained & np.isfinite(before), np.nan_to_num(np.maximum(stood_still, 0.0)), 0.0)
    return delay, pause


def _anchors(work: DeviceWork, timeline: Timeline, cost: OwnCost, members: IntArray) -> list[_Anchor]:
    """All points of a stream at which something is known of its progress, in order."""
    stream, stretch = int(work.stream[members[0]]), int(work.stretch[members[0]])
    submitted = timeline.start[work.owner[members]]
    visible = submitted + work.delay[members]
    begin = work.begin[members]
    anchors = [
        _Anchor(position, float(begin[position]), _waited(float(begin[position] - visible[position])))
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
            anchors.append(_Anchor(at, float(cost.done[op]), max(0.0, float(cost.done[op]) - since), op))
    return anchors


def _hand_on(
    work: DeviceWork,
    timeline: Timeline,
    queues: list[IntArray],
    anchors: list[list[_Anchor]],
    nominal: FloatArray,
) -> None:
    """Passes what a copy stream shows on to the stream that it waits for.

    A copy of results waits on a stream of its own for the event of the computation. When it is done, so has
    the computation been, since the time that the copy itself takes.
    """
    number = {
        (int(work.stretch[members[0]]), int(work.stream[members[0]])): index
        for index, members in enumerate(queues)
    }
    submitted = [timeline.start[work.owner[members]] for members in queues]
    for op in np.flatnonzero(timeline.is_category(STREAM_WAIT) & (timeline.record >= 0)).tolist():
        stretch, record = int(timeline.stretch[op]), int(timeline.record[op])
        here = number.get((stretch, int(timeline.stream[op])))
        there = number.get((stretch, int(timeline.stream[record])))
        if here is None or there is None or here == there:
            continue
        first = int(np.searchsorted(submitted[here], timeline.start[op]))
        position = int(np.searchsorted(submitted[there], timeline.start[record]))
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
            anchors[there].append(_Anchor(position, done, waited, following[0].op))
            anchors[here].remove(following[0])


def _late_returns(
    work: DeviceWork, queues: list[IntArray], anchors: list[list[_Anchor]], post: FloatArray
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


@dataclass(frozen=True, eq=False)
class _Found:
    """What has been found of all GPU operations so far; fields as in `DeviceWork`, filled in place."""

    duration: FloatArray
    state: IntArray
    longest: FloatArray


class _Fit:
    """Walks along one stream and gives the operations without a row the longest consistent durations."""

    def __init__(
        self,
        work: DeviceWork,
        timeline: Timeline,
        members: IntArray,
        found: _Found,
        slowest: FloatArray,
    ) -> None:
        self._members = members
        self._submitted = timeline.start[work.owner[members]] + work.delay[members]
        self._step = timeline.step[work.owner[members]]
        self._weight = np.array(WEIGHTS)[work.kind[members]]
        self._end = work.end[members]
        self._duration, self._state, self._longest = found.duration, found.state, found.longest
        self._slowest = np.where(np.isin(work.kind, (2, 3)), slowest, np.inf)
        self._position = 0
        self._since = -np.inf
        self._at_the_latest = -np.inf

    def reach(self, anchor: _Anchor) -> None:
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

    def _steps_of(self, anchor: _Anchor) -> int:
        """Over how many steps the operations go that an anchor tells something of."""
        return int(self._step[anchor.position - 1] - self._step[self._position]) + 1

    def _pass_known(self, until: int) -> None:
        """Moves on behind the last operation with a row."""
        known = np.flatnonzero(np.isfinite(self._end[self._position : until]))
        if len(known):
            last = self._position + int(known[-1])
            self._since = self._at_the_latest = float(self._end[last])
            self._position = last + 1

    def _share_out(self, rows: IntArray, anchor: _Anchor) -> None:
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
