"""Host calls of a trace as plain arrays."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cctrace.analyzers.columns import BoolArray, IntArray, SmallIntArray, codes, integers, words
from cctrace.analyzers.forms import TIMES, Packed, counted, looked_up, masked, packed
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
CALL_FORM_COLUMNS: Final = tuple(name for name in CALL_COLUMNS if name not in TIMES)
"""What makes two calls different, apart from their times."""

OPERATION_WORDS: Final = tuple(OPERATIONS)
SUBMIT, WAIT, ALLOC, CAPTURE = range(len(HOST_KINDS))
OPERATION: Final = {word: index for index, word in enumerate(OPERATION_WORDS)}
COPY_KIND: Final = {word: index for index, word in enumerate(COPY_KINDS)}
_D2H = COPY_KIND["d2h"]


@dataclass(frozen=True, eq=False)
class CallForms:
    """The different calls of a trace, one array element for each; see `forms`.

    Attributes:
        kind: position in HOST_KINDS, −1 for rows that are no host calls.
        operation: position in OPERATION_WORDS, −1 for a word this version does not know.
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
        return len(self.kind)

    def is_operation(self, *names: str) -> BoolArray:
        """Mask of the forms with one of these operations (words of `OPERATIONS`)."""
        wanted = np.zeros(len(OPERATION_WORDS) + 1, np.bool_)
        wanted[[OPERATION[name] for name in names]] = True
        mask: BoolArray = wanted[self.operation]
        return mask

    @property
    def is_copy(self) -> BoolArray:
        """Copies handed to the GPU."""
        return self.submits("copy")

    @property
    def is_blocking_wait(self) -> BoolArray:
        """Synchronizations with a stream, an event or a context."""
        waits: BoolArray = np.logical_and(self.kind == WAIT, self.is_operation(*BLOCKING_WAITS))
        return waits

    def submits(self, *names: str) -> BoolArray:
        """Mask of the forms that hand one of these operations to the GPU."""
        submits: BoolArray = np.logical_and(self.kind == SUBMIT, self.is_operation(*names))
        return submits

    @cached_property
    def thread(self) -> IntArray:
        """Number of the thread of each form, in order of (pid, tid)."""
        threads = self.pid.astype(np.int64) * (1 << 32) + self.tid
        _, number = np.unique(threads, return_inverse=True)
        return np.asarray(number.reshape(-1), np.int32)


@dataclass(frozen=True, eq=False)
class Calls:
    """Host calls in order of (pid, tid, start).

    What a call is stands in its form. Each column of the forms can be read as one of the calls: `calls.bytes`
    is the size of each call.

    Attributes:
        start_ns: begin, CLOCK_MONOTONIC.
        duration_ns: time in the call; 32 bits wide where all of them fit.
        form: position in `forms`.
        forms: the different calls.
    """

    start_ns: IntArray
    duration_ns: IntArray
    form: IntArray
    forms: CallForms

    def __len__(self) -> int:
        return len(self.start_ns)

    def pick(self, rows: BoolArray | IntArray | slice) -> Calls:
        """The calls that a mask, a list of positions or a slice selects, in the same order."""
        columns = (self.start_ns, self.duration_ns, self.form)
        if isinstance(rows, slice):
            if rows.indices(len(self)) == (0, len(self), 1):
                return self
            start, duration, form = (one[rows] for one in columns)
        elif rows.dtype == np.bool_:
            if rows.all():
                return self
            start, duration, form = masked(rows, *columns)
        else:
            start, duration, form = (looked_up(one, rows) for one in columns)
        return Calls(start, duration, form, self.forms)

    def each(self, of_forms: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """One value per call, of one value per form."""
        return looked_up(of_forms, self.form)

    @cached_property
    def count_of_forms(self) -> IntArray:
        """How many of the calls have each form."""
        return counted(self.form, len(self.forms))

    @property
    def occurs(self) -> BoolArray:
        """Mask of the forms that these calls have."""
        return self.count_of_forms > 0

    @property
    def work_count(self) -> int:
        """How many of the calls hand work to the GPU; see `is_work`."""
        return int(self.count_of_forms[self.forms.submits(*WORK_OPERATIONS)].sum())

    @property
    def symbols(self) -> tuple[str, ...]:
        """The words of `symbol`."""
        return self.forms.symbols

    @property
    def kind(self) -> SmallIntArray:
        """Position in HOST_KINDS."""
        return self.each(self.forms.kind)

    @property
    def operation(self) -> SmallIntArray:
        """Position in OPERATION_WORDS, −1 for a word this version does not know."""
        return self.each(self.forms.operation)

    @property
    def pid(self) -> IntArray:
        """Process."""
        return self.each(self.forms.pid)

    @property
    def tid(self) -> IntArray:
        """Thread."""
        return self.each(self.forms.tid)

    @property
    def stream(self) -> IntArray:
        """Stream number within the process, −1 if none."""
        return self.each(self.forms.stream)

    @property
    def graph_id(self) -> IntArray:
        """Executable graph, −1 if none."""
        return self.each(self.forms.graph_id)

    @property
    def bytes(self) -> IntArray:
        """Size of a copy, memset or allocation, −1 if none."""
        return self.each(self.forms.bytes)

    @property
    def copy_kind(self) -> SmallIntArray:
        """Position in COPY_KINDS, −1 if not a copy."""
        return self.each(self.forms.copy_kind)

    @property
    def host_memory(self) -> SmallIntArray:
        """Memory kind of a copy's host side (position in MEMORY_KINDS), −1 if it has none."""
        return self.each(self.forms.host_memory)

    @property
    def blocking(self) -> BoolArray:
        """Whether the call returns, by its contract, only when the GPU is done."""
        return self.each(self.forms.blocking)

    @property
    def symbol(self) -> IntArray:
        """Code of the kernel's symbol, or of the driver API's name where no kernel is known."""
        return self.each(self.forms.symbol)

    def is_operation(self, *names: str) -> BoolArray:
        """Mask of the calls with one of these operations (words of `OPERATIONS`)."""
        return self.each(self.forms.is_operation(*names))

    @property
    def is_submission(self) -> BoolArray:
        """Calls that hand anything to the GPU, also events and waits between streams."""
        return self.each(self.forms.submits(*SUBMISSION_OPERATIONS))

    @property
    def is_work(self) -> BoolArray:
        """Kernels, graphs, copies and memsets handed to the GPU: what published counts count."""
        return self.each(self.forms.submits(*WORK_OPERATIONS))

    @property
    def is_blocking_wait(self) -> BoolArray:
        """Synchronizations with a stream, an event or a context."""
        return self.each(self.forms.is_blocking_wait)

    @property
    def is_copy(self) -> BoolArray:
        """Copies handed to the GPU."""
        return self.each(self.forms.is_copy)

    @property
    def is_host_boundary(self) -> BoolArray:
        """Copies to the host and synchronizations: the host gets something back from the GPU."""
        to_host = np.logical_and(self.forms.is_copy, self.forms.copy_kind == _D2H)
        return self.each(np.logical_or(to_host, self.forms.is_blocking_wait))

    @cached_property
    def threads(self) -> tuple[tuple[int, int, slice], ...]:
        """(pid, tid, slice of its calls) for every thread, in order."""
        thread = self.each(self.forms.thread)
        bounds = [0, *(np.flatnonzero(thread[1:] != thread[:-1]) + 1).tolist(), len(self)]
        firsts = [int(self.form[begin]) for begin in bounds[:-1]] if len(self) else []
        pids, tids = self.forms.pid[firsts].tolist(), self.forms.tid[firsts].tolist()
        return tuple((pids[i], tids[i], slice(bounds[i], bounds[i + 1])) for i in range(len(firsts)))

    @property
    def end_ns(self) -> IntArray:
        """End of each call."""
        return self.start_ns + self.duration_ns


def calls_from(table: pa.Table) -> Calls:
    """The host calls of a table with (at least) CALL_COLUMNS, in any row order."""
    return calls_of(packed(table.to_batches(), CALL_FORM_COLUMNS, table.num_rows))


def calls_of(rows: Packed) -> Calls:
    """The host calls among rows whose forms have CALL_FORM_COLUMNS, in any order."""
    table = rows.forms
    rows = rows.of_forms(codes(table, "kind", HOST_KINDS) >= 0)
    copy_kind = codes(table, "copy_kind", COPY_KINDS)
    symbol, symbols = _symbols(table)
    forms = CallForms(
        kind=codes(table, "kind", HOST_KINDS),
        operation=codes(table, "operation", OPERATION_WORDS),
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
    return _in_order(Calls(rows.start_ns, rows.duration_ns, rows.form, forms))


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
    thread = calls.each(calls.forms.thread)
    earlier = calls.start_ns[1:] < calls.start_ns[:-1]
    if not (thread[1:] < thread[:-1]).any() and not (earlier & (thread[1:] == thread[:-1])).any():
        return calls
    return calls.pick(np.lexsort((calls.start_ns, thread)))
