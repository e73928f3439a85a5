"""Reads the rows of the replayed steps again, with the columns that only a replay needs.

A summary of ten million rows reads few columns of all rows; a replay reads all columns of a few hundred
steps.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from cctrace.analyzers.calls import CALL_COLUMNS, HOST_KINDS, Calls, calls_from
from cctrace.analyzers.columns import BoolArray, FloatArray, IntArray, SmallIntArray, codes, integers, words
from cctrace.analyzers.steps import Steps
from cctrace.trace import Trace

WHOLE_ROWS: Final = 2_000_000
"""Up to this many rows of a file the windows are read as one: cheaper than reading row groups again."""
AFTER_STEPS: Final = 2
"""Median steps read after each window: another thread finishes the work of a step while the next one runs."""
GPU_KINDS: Final = ("kernel", "graph", "copy", "memset")
_HOST_COLUMNS: Final = (*CALL_COLUMNS, "correlation", "ref")
_GPU_COLUMNS: Final = (
    "kind",
    "name",
    "start_ns",
    "duration_ns",
    "stream",
    "correlation",
    "graph_id",
    "node_id",
    "device",
)


HAND_OVER_NAMES: Final = ("hand-over", "job-wait")
"""Names of ranges: a thread hands job `ref` to another one, or back; a thread waits for job `ref`. cctrace
itself records none; other producers of the format may."""
_HAND_OVER_COLUMNS: Final = ("name", "start_ns", "duration_ns", "tid", "ref")


@dataclass(frozen=True, eq=False)
class HandOverRows:
    """Jobs that host threads hand to each other, and their waits for them, in order of (tid, end).

    Attributes:
        waits: whether a row is a wait; else it is a hand-over.
        start_ns: begin.
        end_ns: end.
        tid: thread.
        ref: job.
    """

    waits: BoolArray
    start_ns: IntArray
    end_ns: IntArray
    tid: IntArray
    ref: IntArray

    def __len__(self) -> int:
        return len(self.start_ns)


@dataclass(frozen=True, eq=False)
class HostRows:
    """Host calls of the windows, in order of (tid, start).

    Attributes:
        calls: the calls.
        correlation: what joins a submission to its GPU rows, −1 if it has none.
        ref: event that a call records or waits for, −1 if none.
        hand_overs: what host threads hand to each other, where the trace holds it.
    """

    calls: Calls
    correlation: IntArray
    ref: IntArray
    hand_overs: HandOverRows


@dataclass(frozen=True, eq=False)
class DeviceRows:
    """GPU work of the windows that a submission explains, in order of (correlation, start).

    Attributes:
        kind: position in GPU_KINDS.
        name: position in `names`, −1 without a name.
        start_ns: begin.
        end_ns: end.
        stream: stream number, −1 if not known.
        correlation: the submission.
        names: kernel symbols.
        quarantined: rows left out because they end before, or when, they begin.
    """

    kind: SmallIntArray
    name: IntArray
    start_ns: IntArray
    end_ns: IntArray
    stream: IntArray
    correlation: IntArray
    names: tuple[str, ...]
    quarantined: int

    def __len__(self) -> int:
        return len(self.start_ns)


def windows_of(steps: Steps, chosen: IntArray) -> list[tuple[int, int]]:
    """Stretches of time [start, end) in ns that hold the chosen steps, and a little after them."""
    if not len(chosen):
        return []
    after = AFTER_STEPS * int(np.median(steps.period_ns[chosen]))
    starts, ends = steps.start_ns[chosen], steps.end_ns[chosen] + after
    opens = np.concatenate(([True], starts[1:] > np.maximum.accumulate(ends)[:-1]))
    first = np.flatnonzero(opens)
    last = np.concatenate((first[1:], [len(chosen)])) - 1
    return list(zip(starts[first].tolist(), np.maximum.accumulate(ends)[last].tolist(), strict=True))


def host_rows(trace: Trace, pid: int, windows: list[tuple[int, int]]) -> HostRows:
    """The host calls of one process that begin within the windows; queries are left out.

    How often a program asks whether the GPU is done is chance; the time of asking stays host time.
    """
    table = _read(trace, _HOST_COLUMNS, HOST_KINDS, pid, windows)
    asks = codes(table, "operation", ("query",)) == 0
    table = table.filter(pa.array(~asks & within(integers(table, "start_ns"), windows)))
    order = np.lexsort((integers(table, "start_ns"), integers(table, "tid")))
    table = table.take(pa.array(order))
    hand_overs = _hand_overs(trace, pid, windows)
    return HostRows(calls_from(table), integers(table, "correlation"), integers(table, "ref"), hand_overs)


def _hand_overs(trace: Trace, pid: int, windows: list[tuple[int, int]]) -> HandOverRows:
    table = _read(trace, _HAND_OVER_COLUMNS, ("range",), pid, windows)
    start, name = integers(table, "start_ns"), codes(table, "name", HAND_OVER_NAMES)
    end = start + integers(table, "duration_ns")
    tid, ref = integers(table, "tid"), integers(table, "ref")
    kept = np.flatnonzero((name >= 0) & (ref >= 0) & (tid >= 0) & within(start, windows))
    kept = kept[np.lexsort((ref[kept], name[kept], start[kept], end[kept], tid[kept]))]
    return HandOverRows(name[kept] == 1, start[kept], end[kept], tid[kept], ref[kept])


def device_rows(trace: Trace, pid: int, windows: list[tuple[int, int]]) -> DeviceRows:
    """The GPU rows of one process that a submission explains.

    Where a graph's nodes are known, the row of the whole graph is left out.
    """
    table = _read(trace, _GPU_COLUMNS, GPU_KINDS, pid, windows)
    start, length = integers(table, "start_ns"), integers(table, "duration_ns")
    correlation = integers(table, "correlation")
    kind = codes(table, "kind", GPU_KINDS)
    joined = (correlation >= 0) & (kind >= 0)
    proper = joined & (length > 0)
    node = proper & (kind != GPU_KINDS.index("graph"))
    whole = (kind == GPU_KINDS.index("graph")) & np.isin(correlation, np.unique(correlation[node]))
    name, names = words(table, "name")
    kept = np.flatnonzero(proper & ~whole)
    kept = kept[np.lexsort((start[kept], correlation[kept]))]
    return DeviceRows(
        kind=kind[kept],
        name=name[kept],
        start_ns=start[kept],
        end_ns=(start + length)[kept],
        stream=integers(table, "stream")[kept],
        correlation=correlation[kept],
        names=names,
        quarantined=int((joined & (length <= 0)).sum()),
    )


def within(time_ns: IntArray, windows: list[tuple[int, int]]) -> BoolArray:
    """Which times lie within the windows, which are sorted and do not overlap."""
    starts = np.array([start for start, _ in windows], np.int64)
    ends = np.array([end for _, end in windows], np.int64)
    number = np.searchsorted(starts, time_ns, side="right") - 1
    inside: BoolArray = (number >= 0) & (time_ns < ends[np.maximum(number, 0)])
    return inside


def in_microseconds(time_ns: IntArray, base_ns: int) -> FloatArray:
    """Times as microseconds since a base."""
    return np.asarray((time_ns - base_ns) / 1e3, np.float64)


def _read(
    trace: Trace, columns: Iterable[str], kinds: Iterable[str], pid: int, windows: list[tuple[int, int]]
) -> pa.Table:
    wanted, of_kinds = list(columns), list(kinds)
    spans = windows
    if trace.num_rows <= WHOLE_ROWS and windows:
        spans = [(windows[0][0], windows[-1][1])]
    tables = [
        trace.table(wanted, kinds=of_kinds, pid=pid, start_ns=start, end_ns=end) for start, end in spans
    ]
    return pa.concat_tables(tables).unify_dictionaries() if tables else trace.table(wanted, kinds=[])
