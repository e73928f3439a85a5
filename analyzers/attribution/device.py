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
from cctrace.analyzers.attribution.gpu_clock import on_host_clock
from cctrace.analyzers.attribution.gpu_fit import Fit, Found, Sizes, anchors_of, hand_on, late_returns
from cctrace.analyzers.attribution.gpu_work import (
    AGREES_US,
    KNOWN,
    SMALL_KINDS,
    UNKNOWN,
    DeviceWork,
    awaited_records,
    queues_of,
)
from cctrace.analyzers.attribution.kernel_times import KernelTimes
from cctrace.analyzers.attribution.own_cost import OwnCost
from cctrace.analyzers.attribution.pairing import first_of_group, opens
from cctrace.analyzers.attribution.rows import DeviceRows, in_microseconds
from cctrace.analyzers.attribution.timeline import NONE, THREADS, Timeline
from cctrace.analyzers.categories import CATEGORY
from cctrace.analyzers.columns import BoolArray, FloatArray, IntArray

DELAY_US: Final = 6.5
"""From the begin of a submission until an idle GPU starts on it, where no row tells: 4 to 7 µs on an H200."""
MAX_DELAY_US: Final = 20.0
"""An idle stream starts on a submission this long after the call; one that takes longer waited for something
that no row shows."""
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


@dataclass(frozen=True)
class Elsewhere:
    """GPU times from another recording, and the phase of the steps that they are asked for."""

    times: KernelTimes
    phase: str


def device_work(
    timeline: Timeline, cost: OwnCost, rows: DeviceRows, base_ns: int, elsewhere: Elsewhere | None = None
) -> tuple[DeviceWork, OwnCost]:
    """The GPU work of one arm, with all durations that its rows and waits tell.

    Args:
        timeline: operations of the arm.
        cost: what they cost.
        rows: its GPU rows.
        base_ns: time that is zero in the timeline.
        elsewhere: GPU times that another recording tells.

    Returns:
        The work, and the own costs with what the rows tell of waits: how late after the end of the work the
        host went on.
    """
    work = _with_meetings(_submitted(timeline, rows, base_ns), timeline)
    queues = queues_of(work)
    anchors = [anchors_of(work, timeline, cost, members) for members in queues]
    work = on_host_clock(work, timeline, queues, anchors)
    work = replace(work, delay=_typical_delays(work, timeline, cost))
    found = Found(work.duration.copy(), work.state.copy(), work.longest.copy())
    anchors = [anchors_of(work, timeline, cost, members) for members in queues]
    small, nominal = np.isin(work.kind, SMALL_KINDS), _nominal(work, timeline)
    usual, exchanges = _usual_times(work, timeline, np.where(small, nominal, 0.0), elsewhere)
    hand_on(work, timeline, queues, anchors, nominal)
    cost = replace(cost, post=late_returns(work, queues, anchors, cost.post))
    for members, of_queue in zip(queues, anchors, strict=True):
        slowest = np.where(small, SLOWEST_COPY * nominal, np.inf)
        fit = Fit(work, timeline, members, found, Sizes(_weights(work, usual, elsewhere), slowest))
        for anchor in sorted(of_queue, key=lambda one: (one.position, one.time)):
            fit.reach(anchor)
    work = replace(
        work,
        duration=found.duration,
        state=found.state,
        longest=found.longest,
        nominal=usual,
        exchanges=exchanges,
    )
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
        exchanges=np.zeros(len(owner), np.bool_),
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


def _kind_of(timeline: Timeline, owner: IntArray) -> IntArray:
    category = timeline.category[owner]
    kinds = (category == CATEGORY["kernel"], category == CATEGORY["graph"], category == CATEGORY["memset"])
    return np.select(kinds, (0, 1, 3), 2)


def _nominal(work: DeviceWork, timeline: Timeline) -> FloatArray:
    """GPU time of copies and memsets by their size."""
    to_host = np.isin(timeline.category[work.owner], (CATEGORY["copy h2d"], CATEGORY["copy d2h"]))
    rate = np.where(to_host, HOST_BYTES_PER_US, DEVICE_BYTES_PER_US)
    return COPY_US + np.maximum(timeline.bytes[work.owner], 0) / rate


def _usual_times(
    work: DeviceWork, timeline: Timeline, nominal: FloatArray, elsewhere: Elsewhere | None
) -> tuple[FloatArray, BoolArray]:
    """(time of each operation where nothing of this arm tells, whether it exchanges data between GPUs)."""
    if elsewhere is None:
        return nominal, np.zeros(len(work), np.bool_)
    told = elsewhere.times.of(timeline, work.owner, elsewhere.phase)
    return np.where(np.isfinite(told), told, nominal), elsewhere.times.exchanges(timeline, work.owner)


def _weights(work: DeviceWork, usual: FloatArray, elsewhere: Elsewhere | None) -> FloatArray:
    """How one wait is shared out among operations: as another recording says, else by kind."""
    by_kind = np.array(WEIGHTS)[work.kind]
    return by_kind if elsewhere is None else np.where(usual > 0, usual, by_kind)


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
    awaited = np.full(len(work), -np.inf)
    for here, first, there, position in awaited_records(work, timeline, queues):
        if first < len(queues[here]) and position:
            target = queues[here][first]
            awaited[target] = np.maximum(awaited[target], work.end[queues[there][position - 1]])
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
