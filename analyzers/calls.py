"""Host calls of a trace as plain arrays."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa

from cctrace.analyzers.columns import BoolArray, IntArray, SmallIntArray, codes, integers, words
from cctrace.trace.schema import (
    BLOCKING_WAITS,
    COPY_KINDS,
    MEMORY_KINDS,
    OPERATIONS,
    SUBMISSION_OPERATIONS,
    WORK_OPERATIONS,
)

HOST_KINDS: Final = ("submit", "wait", "alloc", "capture")
CALL_COLUMNS: Final = (
    "kind",
    "name",
    "operation",
    "start_ns",
    "duration_ns",
    "pid",
    "tid",
    "stream",
    "graph_id",
    "kernel",
    "bytes",
    "copy_kind",
    "src_memory",
    "dst_memory",
    "blocking",
)
"""What `calls_from` reads of a trace."""

OPERATION_WORDS: Final = tuple(OPERATIONS)
SUBMIT, WAIT, ALLOC, CAPTURE = range(len(HOST_KINDS))
OPERATION: Final = {word: index for index, word in enumerate(OPERATION_WORDS)}
COPY_KIND: Final = {word: index for index, word in enumerate(COPY_KINDS)}
_D2H = COPY_KIND["d2h"]


@dataclass(frozen=True, eq=False)
class Calls:
    """Host calls, one array element per call, in order of (pid, tid, start).

    Attributes:
        kind: position in HOST_KINDS.
        operation: position in OPERATION_WORDS, −1 for a word this version does not know.
        start_ns: begin, CLOCK_MONOTONIC.
        duration_ns: time in the call.
        pid: process.
        tid: thread.
        stream: stream number within the process, −1 if none.
        graph_id: executable graph, −1 if none.
        bytes: size of a copy, memset or allocation, −1 if none.
        copy_kind: position in COPY_KINDS, −1 if not a copy.
        host_memory: memory kind of a copy's host side (position in MEMORY_KINDS), −1 if it has none.
        blocking: the call returns, by its contract, only when the GPU is done.
        symbol: code of the kernel's symbol, or of the driver API's name where no kernel is known.
        symbols: the words of `symbol`.
    """

    kind: SmallIntArray
    operation: SmallIntArray
    start_ns: IntArray
    duration_ns: IntArray
    pid: IntArray
    tid: IntArray
    stream: IntArray
    graph_id: IntArray
    bytes: IntArray
    copy_kind: SmallIntArray
    host_memory: SmallIntArray
    blocking: BoolArray
    symbol: IntArray
    symbols: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.start_ns)

    def pick(self, rows: BoolArray | IntArray | slice) -> Calls:
        """The calls that a mask, a list of positions or a slice selects, in the same order."""
        if isinstance(rows, np.ndarray) and rows.dtype == np.bool_ and rows.all():
            return self
        values = {
            field.name: getattr(self, field.name)
            if field.name == "symbols"
            else getattr(self, field.name)[rows]
            for field in fields(self)
        }
        return Calls(**values)

    def is_operation(self, *names: str) -> BoolArray:
        """Mask of the calls with one of these operations (words of `OPERATIONS`)."""
        wanted = np.zeros(len(OPERATION_WORDS) + 1, np.bool_)
        wanted[[OPERATION[name] for name in names]] = True
        mask: BoolArray = wanted[self.operation]
        return mask

    @staticmethod
    def _both(first: BoolArray, second: BoolArray) -> BoolArray:
        return np.logical_and(first, second)

    @property
    def is_submission(self) -> BoolArray:
        """Calls that hand anything to the GPU, also events and waits between streams."""
        return self._both(self.kind == SUBMIT, self.is_operation(*SUBMISSION_OPERATIONS))

    @property
    def is_work(self) -> BoolArray:
        """Kernels, graphs, copies and memsets handed to the GPU: what published counts count."""
        return self._both(self.kind == SUBMIT, self.is_operation(*WORK_OPERATIONS))

    @property
    def is_blocking_wait(self) -> BoolArray:
        """Synchronizations with a stream, an event or a context."""
        return self._both(self.kind == WAIT, self.is_operation(*BLOCKING_WAITS))

    @property
    def is_copy(self) -> BoolArray:
        """Copies handed to the GPU."""
        return self._both(self.kind == SUBMIT, self.is_operation("copy"))

    @property
    def is_host_boundary(self) -> BoolArray:
        """Copies to the host and synchronizations: the host gets something back from the GPU."""
        return np.logical_or(self._both(self.is_copy, self.copy_kind == _D2H), self.is_blocking_wait)

    @cached_property
    def threads(self) -> tuple[tuple[int, int, slice], ...]:
        """(pid, tid, slice of its calls) for every thread, in order."""
        if not len(self):
            return ()
        change = np.flatnonzero((np.diff(self.pid) != 0) | (np.diff(self.tid) != 0)) + 1
        bounds = [0, *change.tolist(), len(self)]
        return tuple((int(self.pid[a]), int(self.tid[a]), slice(a, b)) for a, b in pairwise(bounds))

    @property
    def end_ns(self) -> IntArray:
        """End of each call."""
        return self.start_ns + self.duration_ns


def calls_from(table: pa.Table) -> Calls:
    """The host calls of a table with (at least) CALL_COLUMNS, in any row order."""
    kind = codes(table, "kind", HOST_KINDS)
    if (kind < 0).any():
        table = table.filter(pa.array(kind >= 0))
        kind = kind[kind >= 0]
    copy_kind = codes(table, "copy_kind", COPY_KINDS)
    symbol, symbols = _symbols(table)
    calls = Calls(
        kind=kind,
        operation=codes(table, "operation", OPERATION_WORDS),
        start_ns=integers(table, "start_ns"),
        duration_ns=integers(table, "duration_ns"),
        pid=integers(table, "pid"),
        tid=integers(table, "tid"),
        stream=integers(table, "stream"),
        graph_id=integers(table, "graph_id"),
        bytes=integers(table, "bytes"),
        copy_kind=copy_kind,
        host_memory=_host_memory(table, copy_kind),
        blocking=integers(table, "blocking") == 1,
        symbol=symbol,
        symbols=symbols,
    )
    return _in_order(calls)


def _symbols(table: pa.Table) -> tuple[IntArray, tuple[str, ...]]:
    kernel, kernels = words(table, "kernel")
    name, names = words(table, "name")
    return np.where(kernel >= 0, kernel + len(names), name), names + kernels


def _host_memory(table: pa.Table, copy_kind: SmallIntArray) -> SmallIntArray:
    source = codes(table, "src_memory", MEMORY_KINDS)
    destination = codes(table, "dst_memory", MEMORY_KINDS)
    to_host = copy_kind == _D2H
    from_host = copy_kind == COPY_KIND["h2d"]
    nowhere = np.int8(-1)
    return np.where(to_host, destination, np.where(from_host, source, nowhere)).astype(np.int8)


def _in_order(calls: Calls) -> Calls:
    """Sorts by (pid, tid, start) unless the rows already lie so, which a converted trace's nearly do."""
    if len(calls) < 2:
        return calls
    thread = calls.pid.astype(np.int64) * (1 << 32) + calls.tid
    change = np.diff(thread)
    same = change == 0
    if (change >= 0).all() and (np.diff(calls.start_ns)[same] >= 0).all():
        return calls
    return calls.pick(np.lexsort((calls.start_ns, calls.tid, calls.pid)))
