"""The chosen steps of one process as operations on host threads: what was called, when, after what gap.

Three operations are added that no call made: a *boundary* where a step of the submitting thread ends, a
*hand-over* where a thread hands work to another one, and a *join* where it waits for that (see `handover`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Final

import numpy as np

from cctrace.analyzers.arms import Arm
from cctrace.analyzers.attribution.rows import HandOverRows, HostRows, in_microseconds
from cctrace.analyzers.categories import CATEGORIES, CATEGORY, COPY_CATEGORIES, category_of
from cctrace.analyzers.columns import BoolArray, FloatArray, IntArray
from cctrace.trace.schema import WORK_OPERATIONS

BOUNDARY: Final = len(CATEGORIES)
"""Category of the end of a step on the submitting thread."""
JOIN: Final = len(CATEGORIES) + 1
"""Category of a wait for another host thread."""
HAND_OVER: Final = len(CATEGORIES) + 2
"""Category of the moment at which a host thread lets another one go on."""
KINDS: Final = len(CATEGORIES) + 3
"""Number of categories with these three."""
THREADS: Final = 1000
"""Numbers of threads of one rank: those of the n-th rank begin at n times this."""
SUBMITTING: Final = 0
"""Number of the thread that hands most work to the GPU; the length of a step is read from it."""
NONE: Final = -1

COPY_NUMBERS: Final = tuple(CATEGORY[word] for word in COPY_CATEGORIES)
WORK_NUMBERS: Final = (*COPY_NUMBERS, *(CATEGORY[word] for word in WORK_OPERATIONS if word != "copy"))
"""Categories that put work on the GPU."""
EVENT_SYNC, STREAM_SYNC, CONTEXT_SYNC = (
    CATEGORY[word] for word in ("event-sync", "stream-sync", "context-sync")
)
SYNC_NUMBERS: Final = (EVENT_SYNC, STREAM_SYNC, CONTEXT_SYNC)
RECORD, STREAM_WAIT = CATEGORY["event-record"], CATEGORY["stream-wait"]


USUAL_SHARE: Final = 0.8
"""A worker's synchronizations are of one kind if this part of them refers to one stream."""


@dataclass(frozen=True, eq=False)
class _Referring:
    """What tells which event a call refers to; fields as in `Timeline`, `ref` is the event."""

    thread: IntArray
    category: IntArray
    stream: IntArray
    ref: IntArray
    start: FloatArray


@dataclass(frozen=True, eq=False)
class Timeline:
    """Operations of one arm, in order of (thread, time). Times are µs since the first chosen step.

    Attributes:
        thread: number of the thread; SUBMITTING is 0.
        step: number of the step that the operation works for.
        category: position in CATEGORIES, or BOUNDARY or JOIN.
        start: begin.
        end: end.
        gap: host time on the thread since its operation before.
        stream: stream, NONE if none.
        bytes: size of a copy, NONE if none.
        host_memory: memory kind of a copy's host side, NONE if none.
        contract: the call waits for the GPU by its contract.
        correlation: what joins it to GPU rows, NONE if none.
        symbol: position in `symbols`.
        graph: executable graph, NONE if none.
        record: position of the event record that a synchronization or stream wait refers to, NONE if unknown.
        partner: for a JOIN the position of the operation whose end it waits for, else NONE.
        symbols: kernel symbols and API names.
        threads: number of each thread → its id.
    """

    thread: IntArray
    step: IntArray
    category: IntArray
    start: FloatArray
    end: FloatArray
    gap: FloatArray
    stream: IntArray
    bytes: IntArray
    host_memory: IntArray
    contract: BoolArray
    correlation: IntArray
    symbol: IntArray
    graph: IntArray
    record: IntArray
    partner: IntArray
    symbols: tuple[str, ...]
    threads: Mapping[int, int]

    def __len__(self) -> int:
        return len(self.start)

    @property
    def length(self) -> FloatArray:
        """Time from begin to end."""
        return self.end - self.start

    def is_category(self, *numbers: int) -> BoolArray:
        """Mask of the operations of these categories."""
        mask: BoolArray = np.isin(self.category, numbers)
        return mask

    @property
    def is_work(self) -> BoolArray:
        """Operations that put work on the GPU."""
        return self.is_category(*WORK_NUMBERS)

    @property
    def is_copy(self) -> BoolArray:
        """Copies."""
        return self.is_category(*COPY_NUMBERS)

    @property
    def is_sync(self) -> BoolArray:
        """Synchronizations: the host waits for the GPU by the call's contract."""
        return self.is_category(*SYNC_NUMBERS)

    @property
    def unresolved(self) -> float:
        """Part of the synchronizations with events whose record is not known; 0–1."""
        syncs = self.is_category(EVENT_SYNC)
        return float((self.record[syncs] == NONE).mean()) if syncs.any() else 0.0

    @cached_property
    def stretch(self) -> IntArray:
        """Number of the stretch of consecutive chosen steps in which each operation lies."""
        steps = np.unique(self.step)
        number = np.concatenate(([0], np.cumsum(np.diff(steps) > 1))) if len(steps) else steps
        return np.asarray(number[np.searchsorted(steps, self.step)], np.int64)

    def taken(self, rows: IntArray) -> Timeline:
        """The operations at these positions; references to those left out become NONE."""
        moved = np.full(len(self) + 1, NONE, np.int64)
        moved[rows] = np.arange(len(rows))
        columns: dict[str, Any] = {name: getattr(self, name)[rows] for name in COLUMNS}
        columns["record"], columns["partner"] = moved[columns["record"]], moved[columns["partner"]]
        return replace(self, **columns)

    def with_rows(self, added: dict[str, Any]) -> Timeline:
        """The operations with further ones behind them; `taken` brings them into order.

        Args:
            added: columns of the further operations; those missing are NONE, zero or False.
        """
        count = len(added["start"])
        columns: dict[str, Any] = {}
        for name in COLUMNS:
            old = getattr(self, name)
            blank = np.zeros(count, old.dtype) if old.dtype.kind in "fb" else np.full(count, NONE, old.dtype)
            columns[name] = np.concatenate((old, np.asarray(added.get(name, blank), old.dtype)))
        return replace(self, **columns)


COLUMNS: Final = tuple(field.name for field in fields(Timeline) if field.name not in ("symbols", "threads"))
"""The fields of a timeline with one element per operation."""


def timeline_of(arm: Arm, rows: HostRows, chosen: IntArray, base_ns: int) -> Timeline:
    """The operations of the chosen steps of one process.

    Joins are those of hand-overs that the trace holds; `handover` adds those that can be inferred.

    Args:
        arm: the process and its steps.
        rows: host calls of the windows around the chosen steps.
        chosen: numbers of the steps, sorted.
        base_ns: time that becomes zero.
    """
    calls = rows.calls
    own = ~np.isin(calls.tid, arm.steps.other_loops)
    calls, ref, correlation = calls.pick(own), rows.ref[own], rows.correlation[own]
    numbers = _threads(np.concatenate((calls.tid, rows.hand_overs.tid)), arm.steps.submitting_tid)
    start = in_microseconds(calls.start_ns, base_ns)
    category, stream = category_of(calls).astype(np.int64), calls.stream.astype(np.int64)
    thread = _numbered(calls.tid, numbers)
    timeline = Timeline(
        thread=thread,
        step=_step_at(calls.start_ns, arm),
        category=category,
        start=start,
        end=in_microseconds(calls.end_ns, base_ns),
        gap=np.zeros(len(calls)),
        stream=stream,
        bytes=calls.bytes.astype(np.int64),
        host_memory=calls.host_memory.astype(np.int64),
        contract=calls.blocking & np.isin(category, (*COPY_NUMBERS, *SYNC_NUMBERS)),
        correlation=correlation.astype(np.int64),
        symbol=calls.symbol.astype(np.int64),
        graph=calls.graph_id.astype(np.int64),
        record=_records(_Referring(thread, category, stream, ref, start)),
        partner=np.full(len(calls), NONE, np.int64),
        symbols=calls.symbols,
        threads={number: tid for tid, number in numbers.items()},
    )
    timeline = _with_hand_overs(timeline, rows.hand_overs, arm, numbers, base_ns)
    timeline = replace(timeline, step=_steps_of_jobs(timeline))
    timeline = _with_boundaries(timeline, arm, chosen, base_ns)
    timeline = replace(timeline, gap=_gaps(timeline, arm, chosen, base_ns))
    return timeline.taken(np.flatnonzero(np.isin(timeline.step, chosen)))


def _threads(tid: IntArray, submitting: int) -> dict[int, int]:
    """Thread id → number: the submitting thread first, the others by number of calls."""
    found, counts = np.unique(tid, return_counts=True)
    others = [int(one) for one in found[np.argsort(-counts, kind="stable")] if one != submitting]
    return {one: number for number, one in enumerate((submitting, *others))}


def _numbered(tid: IntArray, numbers: Mapping[int, int]) -> IntArray:
    found, index = np.unique(tid, return_inverse=True)
    numbered: IntArray = np.array([numbers[one] for one in found.tolist()], np.int64)[index.reshape(-1)]
    return numbered


def _step_at(time_ns: IntArray, arm: Arm) -> IntArray:
    """Number of the step in which each time lies, whether chosen or not; NONE outside of all steps."""
    step = np.searchsorted(arm.steps.start_ns, time_ns, side="right") - 1
    inside = (step >= 0) & (time_ns < arm.steps.end_ns[np.maximum(step, 0)])
    return np.where(inside, step, NONE)


def _with_hand_overs(
    timeline: Timeline, rows: HandOverRows, arm: Arm, numbers: Mapping[int, int], base_ns: int
) -> Timeline:
    """The operations with the recorded hand-overs and the waits for them, in order of (thread, end).

    A job has one number, and is handed over and back: a wait is for the last hand-over of its job by another
    thread before the wait ends.
    """
    if not len(rows):
        return timeline
    start, end = in_microseconds(rows.start_ns, base_ns), in_microseconds(rows.end_ns, base_ns)
    thread = _numbered(rows.tid, numbers)
    partner = np.full(len(rows), NONE, np.int64)
    for op in np.flatnonzero(rows.waits).tolist():
        fitting = ~rows.waits & (rows.ref == rows.ref[op]) & (thread != thread[op]) & (end <= end[op])
        candidates = np.flatnonzero(fitting)
        if len(candidates):
            partner[op] = len(timeline) + int(candidates[np.argmax(end[candidates])])
    both = timeline.with_rows(
        {
            "thread": thread,
            "step": _step_at(rows.end_ns, arm),
            "category": np.where(rows.waits, JOIN, HAND_OVER),
            "start": start,
            "end": end,
            "partner": partner,
        }
    )
    # At one moment a thread first hands over what it has done, and then finds the next job waiting.
    return both.taken(np.lexsort((both.is_category(JOIN), both.start, both.end, both.thread)))


def _records(calls: _Referring) -> IntArray:
    """For synchronizations and stream waits the last record of the same event before them.

    Programs take events from a pool: between a record and a worker's synchronization with it the submitting
    thread can have recorded the same event for something else. So a worker's synchronizations all refer to
    the stream that most of them refer to.
    """
    everything = np.flatnonzero(calls.category == RECORD)
    found = _last_records(
        calls, np.flatnonzero(np.isin(calls.category, (EVENT_SYNC, STREAM_WAIT))), everything
    )
    for thread in np.unique(calls.thread[calls.thread != SUBMITTING]).tolist():
        syncs = np.flatnonzero((calls.thread == thread) & (calls.category == EVENT_SYNC) & (found >= 0))
        streams, counts = np.unique(calls.stream[found[syncs]], return_counts=True)
        if not len(streams) or counts.max() < USUAL_SHARE * len(syncs):
            continue
        usual = int(streams[np.argmax(counts)])
        doubtful = syncs[calls.stream[found[syncs]] != usual]
        found[doubtful] = _last_records(calls, doubtful, everything[calls.stream[everything] == usual])[
            doubtful
        ]
    return found


def _last_records(calls: _Referring, refers: IntArray, records: IntArray) -> IntArray:
    """For the operations `refers` the last of `records` with the same event before them, else NONE."""
    found = np.full(len(calls.category), NONE, np.int64)
    records, refers = records[calls.ref[records] >= 0], refers[calls.ref[refers] >= 0]
    if not len(records) or not len(refers):
        return found
    # Records and references in one order of (event, time): the last record before a reference is its own.
    both = np.concatenate((records, refers))
    is_record = np.arange(len(both)) < len(records)
    order = np.lexsort((calls.start[both], calls.ref[both]))
    latest = np.maximum.accumulate(np.where(is_record[order], np.arange(len(order)), NONE))
    candidate = both[order[np.maximum(latest, 0)]]
    own = ~is_record[order] & (latest >= 0) & (calls.ref[candidate] == calls.ref[both[order]])
    found[both[order[own]]] = candidate[own]
    return found


def _steps_of_jobs(timeline: Timeline) -> IntArray:
    """Steps of operations of other threads: those of the work that they wait for.

    A copy-worker fetches the tokens of a step while the next one runs. From a wait for something of the
    submitting thread (an event that it recorded, a job that it handed over), up to the next such wait, it
    works for the step of that.
    """
    step: IntArray = timeline.step.copy()
    awaited = np.where(timeline.is_category(EVENT_SYNC), timeline.record, timeline.partner)
    from_main = (awaited >= 0) & (timeline.thread[awaited] == SUBMITTING)
    for thread in timeline.threads:
        if thread == SUBMITTING:
            continue
        rows = np.flatnonzero(timeline.thread == thread)
        last = np.maximum.accumulate(np.where(from_main[rows], np.arange(len(rows)), NONE))
        has_job = last >= 0
        step[rows[has_job]] = timeline.step[awaited[rows[last[has_job]]]]
    return step


def _with_boundaries(timeline: Timeline, arm: Arm, chosen: IntArray, base_ns: int) -> Timeline:
    """The operations with a boundary behind each chosen step, in order."""
    at = in_microseconds(arm.steps.end_ns[chosen], base_ns)
    main = timeline.thread == SUBMITTING
    # A call that a mark cuts belongs to the step in which it begins.
    last_end = np.full(len(arm.steps), -np.inf)
    inside = main & (timeline.step >= 0) & ~timeline.is_category(JOIN)
    np.maximum.at(last_end, timeline.step[inside], timeline.end[inside])
    at = np.maximum(at, last_end[chosen])
    # A wait that a mark cuts lies in the step in which it ends: its time is no host time of the step before.
    for wait in np.flatnonzero((timeline.thread == SUBMITTING) & timeline.is_category(JOIN)).tolist():
        cut = (timeline.start[wait] < at) & (at < timeline.end[wait])
        at[cut] = timeline.start[wait]
    count = len(chosen)
    both = timeline.with_rows(
        {
            "thread": np.full(count, SUBMITTING),
            "step": chosen,
            "category": np.full(count, BOUNDARY),
            "start": at,
            "end": at,
        }
    )
    # A call can begin at the very time of the mark: it belongs to the next step.
    return both.taken(np.lexsort((both.step, both.end, both.thread)))


def _gaps(timeline: Timeline, arm: Arm, chosen: IntArray, base_ns: int) -> FloatArray:
    """Host time before each operation: since the one before it, or since the step began."""
    before = np.full(len(timeline), np.nan)
    same = timeline.thread[1:] == timeline.thread[:-1]
    before[1:][same] = timeline.end[:-1][same]
    # A stretch that was not read lies before the first call of a window: it is no host time.
    begin = np.full(len(arm.steps) + 1, np.nan)
    begin[chosen] = in_microseconds(arm.steps.start_ns[chosen], base_ns)
    main = timeline.thread == SUBMITTING
    before = np.where(main, np.fmax(before, begin[timeline.step]), before)
    before[~main & _spans_unread(before, timeline.start, arm, chosen, base_ns)] = np.nan
    gap: FloatArray = np.nan_to_num(np.maximum(timeline.start - before, 0.0), nan=0.0)
    return gap


def _spans_unread(begin: FloatArray, end: FloatArray, arm: Arm, chosen: IntArray, base_ns: int) -> BoolArray:
    """Which stretches of time hold a whole step that was not read."""
    unread = np.ones(len(arm.steps), np.int64)
    unread[chosen] = 0
    before = np.concatenate(([0], np.cumsum(unread)))
    first = np.searchsorted(in_microseconds(arm.steps.start_ns, base_ns), begin)
    last = np.searchsorted(in_microseconds(arm.steps.end_ns, base_ns), end, side="right")
    holds: BoolArray = before[np.maximum(last, first)] > before[first]
    return holds
