"""The copies of a recording one by one: what each is, where it stands in the file, whether it waited."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from cctrace.analyzers.columns import BoolArray, IntArray, codes, integers
from cctrace.analyzers.forms import numbered
from cctrace.analyzers.loading import Recording
from cctrace.analyzers.steady import STEADY
from cctrace.analyzers.steps import NoSteps
from cctrace.analyzers.waiting import waited_in_effect
from cctrace.trace import Trace
from cctrace.trace.schema import COPY_KINDS, MEMORY_KINDS

CALL, GPU = range(2)
LAYERS: Final = ("calls", "gpu")
"""What a time is: of the host call, or of the copy itself on the GPU (CUPTI)."""
RETURNED, WAITED, BLOCKING = range(3)
WAITING: Final = ("returned at once", "waited in effect", "blocks by contract")
MAX_THREADS: Final = 8
"""Threads told apart, those with most copies first; the others are one."""
UNKNOWN: Final = -1

_COLUMNS: Final = (
    "kind",
    "operation",
    "start_ns",
    "duration_ns",
    "pid",
    "tid",
    "bytes",
    "copy_kind",
    "src_memory",
    "dst_memory",
    "blocking",
)
_H2D, _D2H = COPY_KINDS.index("h2d"), COPY_KINDS.index("d2h")


@dataclass(frozen=True)
class CopyThread:
    """A host thread that copies.

    Attributes:
        pid: process.
        tid: thread.
        role: its role; "thread" if that is not known.
        name: role and number, for people.
    """

    pid: int
    tid: int
    role: str
    name: str


@dataclass(frozen=True, eq=False)
class Copies:
    """Single copies, in the order of the file.

    Attributes:
        layer: position in LAYERS.
        direction: position in COPY_KINDS, −1 if not recorded.
        memory: memory of the host's side, position in MEMORY_KINDS, −1 if it has none.
        waiting: position in WAITING; copies of the GPU do not wait.
        steady: whether it begins within a steady step.
        pid: process.
        tid: thread, −1 for the GPU.
        thread: position in the list of threads, UNKNOWN for further threads and for the GPU.
        bytes: size, −1 if not known.
        start_ns: begin.
        duration_ns: end − begin.
        row: number of its row in the file.
    """

    layer: IntArray
    direction: IntArray
    memory: IntArray
    waiting: IntArray
    steady: BoolArray
    pid: IntArray
    tid: IntArray
    thread: IntArray
    bytes: IntArray
    start_ns: IntArray
    duration_ns: IntArray
    row: IntArray

    def __len__(self) -> int:
        return len(self.row)

    def pick(self, rows: BoolArray | IntArray) -> Copies:
        """The copies that a mask or a list of positions selects."""
        return Copies(**{name: column[rows] for name, column in vars(self).items()})

    def with_(self, **columns: IntArray | BoolArray) -> Copies:
        """The same copies with other values of some columns."""
        return Copies(**{**vars(self), **columns})


def copies_in(trace: Trace, recording: Recording) -> tuple[Copies, tuple[CopyThread, ...]]:
    """The copies of a trace, and the threads that copy, those with most copies first.

    Args:
        trace: the file.
        recording: the same, loaded.
    """
    copies = _read(trace)
    threads = _threads(copies, trace)
    copies = copies.with_(
        waiting=_waiting(copies, recording),
        steady=_in_steady_steps(copies, recording),
        thread=_thread_numbers(copies, threads),
    )
    return copies, threads


def told_apart(*columns: IntArray) -> tuple[list[tuple[int, ...]], IntArray]:
    """(the different rows of the columns, in order; the number of each row's)."""
    number, examples = numbered([pa.array(column) for column in columns])
    found = list(zip(*(column[examples].tolist() for column in columns), strict=True))
    order = sorted(range(len(found)), key=found.__getitem__)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return [found[index] for index in order], place[number]


# ---- reading


def _read(trace: Trace) -> Copies:
    """The copies of a trace, whole batches at a time: a row's number is its place in the file."""
    parts: list[Copies] = []
    first = 0
    for batch in trace.batches(_COLUMNS):
        found = _of_batch(batch, first)
        if len(found):
            parts.append(found)
        first += batch.num_rows
    if not parts:
        return _of_batch(trace.table(_COLUMNS, kinds=[]), 0)
    return Copies(**{name: np.concatenate([getattr(one, name) for one in parts]) for name in vars(parts[0])})


def _of_batch(batch: pa.RecordBatch | pa.Table, first: int) -> Copies:
    kinds = codes(_table(batch, "kind"), "kind", ("submit", "copy"))
    host = (kinds == 0) & (codes(_table(batch, "operation"), "operation", ("copy",)) == 0)
    at = np.flatnonzero(host | (kinds == 1))
    table = pa.table({name: batch.column(name) for name in _COLUMNS}).take(pa.array(at))
    direction = codes(table, "copy_kind", COPY_KINDS)
    source, target = (codes(table, name, MEMORY_KINDS) for name in ("src_memory", "dst_memory"))
    memory = np.where(direction == _D2H, target, np.where(direction == _H2D, source, np.int8(UNKNOWN)))
    blocking = integers(table, "blocking") == 1
    nothing = np.zeros(len(at), np.int8)
    return Copies(
        layer=np.where(host[at], np.int8(CALL), np.int8(GPU)),
        direction=direction,
        memory=memory,
        waiting=np.where(blocking & host[at], np.int8(BLOCKING), np.int8(RETURNED)),
        steady=nothing.astype(np.bool_),
        pid=integers(table, "pid").astype(np.int32),
        tid=integers(table, "tid").astype(np.int32),
        thread=nothing,
        bytes=integers(table, "bytes").astype(np.int64),
        start_ns=integers(table, "start_ns"),
        duration_ns=integers(table, "duration_ns"),
        row=(first + at).astype(np.int64),
    )


def _table(batch: pa.RecordBatch | pa.Table, name: str) -> pa.Table:
    return pa.table({name: batch.column(name)})


# ---- what each copy is


def _waiting(copies: Copies, recording: Recording) -> IntArray:
    """Adds to copies that block by contract those that waited in effect."""
    waiting: IntArray = copies.waiting.copy()
    for process in recording.processes:
        own = np.flatnonzero((copies.layer == CALL) & (copies.pid == process.pid))
        # Calls are in order of thread and time; rows of other makers' files need not be.
        own = own[np.lexsort((copies.start_ns[own], copies.tid[own]))]
        waited = waited_in_effect(process.calls)[np.flatnonzero(process.calls.is_copy)]
        kept = own[waited]
        waiting[kept[waiting[kept] == RETURNED]] = WAITED
    return waiting


def _in_steady_steps(copies: Copies, recording: Recording) -> BoolArray:
    steady = np.zeros(len(copies), np.bool_)
    for process in recording.processes:
        own = np.flatnonzero(copies.pid == process.pid)
        if not len(own) or isinstance(process.steps, NoSteps):
            continue
        steps = process.steps
        counted = np.flatnonzero(steps.exclusion == STEADY)
        if not len(counted):
            continue
        at = np.searchsorted(steps.start_ns[counted], copies.start_ns[own], side="right") - 1
        inside = (at >= 0) & (copies.start_ns[own] < steps.end_ns[counted][np.maximum(at, 0)])
        steady[own] = inside & ~np.isin(copies.tid[own], steps.other_loops)
    return steady


def _threads(copies: Copies, trace: Trace) -> tuple[CopyThread, ...]:
    """The threads with most copies."""
    host = copies.layer == CALL
    found, number = told_apart(copies.pid[host], copies.tid[host])
    counts = np.bincount(number, minlength=len(found))
    busiest = [found[index] for index in np.argsort(-counts, kind="stable")[:MAX_THREADS].tolist()]
    roles = {(lane.pid, lane.tid): lane.role for lane in trace.lanes if lane.kind == "thread"}
    several = len({pid for pid, _ in busiest}) > 1
    threads = []
    for pid, tid in busiest:
        role = roles.get((pid, tid)) or "thread"
        threads.append(CopyThread(pid, tid, role, f"{role} {tid}" + (f" of {pid}" if several else "")))
    return tuple(threads)


def _thread_numbers(copies: Copies, threads: tuple[CopyThread, ...]) -> IntArray:
    number = np.full(len(copies), UNKNOWN, np.int8)
    for index, thread in enumerate(threads):
        own = (copies.pid == thread.pid) & (copies.tid == thread.tid) & (copies.layer == CALL)
        number[own] = index
    return number
