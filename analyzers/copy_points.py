"""The copies of a recording as points, time against size: few enough to draw, with all extremes.

Ten million copies become some thousand points: where there are many, those of nearly the same size and time
are one point with a count, and the fastest and the slowest copies of each size stay points of their own. Each
point is a copy that really happened; its row leads to it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from cctrace.analyzers.arms import arm_of
from cctrace.analyzers.columns import BoolArray, FloatArray, IntArray
from cctrace.analyzers.copies import CopyBucket, copies_of
from cctrace.analyzers.copy_law import (
    MAX_SIZES,
    Fit,
    SizeRow,
    fitted,
    groups_in_order,
    microseconds_of,
    size_rows,
)
from cctrace.analyzers.copy_rows import (
    BLOCKING,
    CALL,
    LAYERS,
    RETURNED,
    WAITED,
    Copies,
    CopyThread,
    copies_in,
    told_apart,
)
from cctrace.analyzers.loading import Recording, load
from cctrace.analyzers.results import Result, about, value
from cctrace.analyzers.scope import scope_of
from cctrace.errors import UnusableInputError
from cctrace.trace import open_trace
from cctrace.trace.schema import COPY_KINDS, MEMORY_KINDS

STEADY_STEPS, EVERYWHERE = range(2)
SCOPES: Final = ("steady", "all")
MAX_POINTS: Final = 600
"""Points of one layer, direction, host memory and way of waiting."""
SLOWEST: Final = 48
"""Slowest copies that always are points of their own."""
CELLS_PER_OCTAVE: Final = 8
CELLS_PER_DECADE: Final = 64
"""Copies within 9 % of size and 4 % of time are one point at first; then twice as much, and so on."""


@dataclass(frozen=True, kw_only=True)
class CopyGroup(Result):
    """Copies of one layer, direction and host memory: the table over size, and the law."""

    layer: str = value("calls: time in the host call; gpu: time of the copy itself (CUPTI)")
    direction: str = value("h2d, d2h, d2d, h2h, p2p, other; unknown if not recorded")
    host_memory: str = value("memory on the host's side; empty if there is none")
    scope: str = value("steady: copies within steady steps; all: of the whole recording")
    copies: int = value("copies of more than 0 bytes", "copies")
    waited: int = value("of them, copies that waited in effect though their contract is not to", "copies")
    blocking: int = value("of them, copies that block by contract", "copies")
    sizes: tuple[SizeRow, ...] = value("by size, ascending")
    binned: bool = value("whether sizes are so many that those within a quarter of an octave are one line")
    fit: Fit = field(metadata=about("the law of those that did not wait"))


@dataclass(frozen=True, eq=False)
class CopyPoints:
    """The copies of one recording. Arrays have one element for each point.

    Attributes:
        layer: position in LAYERS.
        direction: position in COPY_KINDS, −1 if not recorded.
        memory: memory of the host's side, position in MEMORY_KINDS, −1 if it has none.
        waiting: position in WAITING.
        steady: whether the copy lies within a steady step.
        thread: position in `threads`; UNKNOWN for further threads and for the GPU.
        bytes: size.
        us: time, µs.
        low_us: shortest time of the copies that the point stands for.
        high_us: longest of them.
        count: how many copies the point stands for.
        row: number of the copy's row in the file.
        threads: host threads that copy, those with most copies first.
        groups: tables and laws by layer, direction, host memory and scope.
        per_step: copies within the steady steps of the class that stands for the run.
        step_class: name of that class; empty without steps.
        no_steps_because: why there are no steady steps; None if there are.
        distorted: the host's times are those of a recording with CUPTI.
        calls: copies that the host submitted.
        without_size: of them, those of 0 or unknown bytes, which no logarithmic axis shows.
    """

    layer: IntArray
    direction: IntArray
    memory: IntArray
    waiting: IntArray
    steady: BoolArray
    thread: IntArray
    bytes: IntArray
    us: FloatArray
    low_us: FloatArray
    high_us: FloatArray
    count: IntArray
    row: IntArray
    threads: tuple[CopyThread, ...]
    groups: tuple[CopyGroup, ...]
    per_step: tuple[CopyBucket, ...]
    step_class: str
    no_steps_because: str | None
    distorted: bool
    calls: int
    without_size: int

    def __len__(self) -> int:
        return len(self.row)


def copy_points(path: Path) -> CopyPoints:
    """The copies of a recording.

    Raises:
        UnusableInputError: the file cannot be read.
    """
    trace = open_trace(path)
    recording = load(trace)
    # Before the copies are read: both take much memory.
    per_step, step_class, no_steps_because = _per_step(recording)
    copies, threads = copies_in(trace, recording)
    has_size = copies.bytes > 0
    sized = copies if has_size.all() else copies.pick(has_size)
    return CopyPoints(
        **_points(sized),
        threads=threads,
        groups=_groups(sized),
        per_step=per_step,
        step_class=step_class,
        no_steps_because=no_steps_because,
        distorted=recording.distorted,
        calls=int((copies.layer == CALL).sum()),
        without_size=int(((copies.layer == CALL) & (copies.bytes <= 0)).sum()),
    )


# ---- few points of many copies


def _points(copies: Copies) -> dict[str, Any]:
    """The columns of CopyPoints."""
    duration = np.maximum(copies.duration_ns, 1)
    found, kind = told_apart(copies.layer, copies.direction, copies.memory, copies.waiting)
    chosen, cells = [], []
    for number in range(len(found)):
        rows, low, high, count = _thinned(np.flatnonzero(kind == number), copies, duration)
        chosen.append(rows)
        cells.append((low, high, count))
    rows = np.concatenate(chosen) if chosen else np.zeros(0, np.int64)
    low, high, count = (
        np.concatenate([one[part] for one in cells]) if cells else np.zeros(0, np.int64) for part in range(3)
    )
    picked = copies.pick(rows)
    return {
        "layer": picked.layer,
        "direction": picked.direction,
        "memory": picked.memory,
        "waiting": picked.waiting,
        "steady": picked.steady,
        "thread": picked.thread,
        "bytes": picked.bytes,
        "us": microseconds_of(duration[rows]),
        "low_us": microseconds_of(low),
        "high_us": microseconds_of(high),
        "count": count,
        "row": picked.row,
    }


def _thinned(
    own: IntArray, copies: Copies, duration_ns: IntArray
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """(row, shortest, longest, count) of at most about MAX_POINTS points for some copies."""
    if len(own) <= MAX_POINTS:
        return own, duration_ns[own], duration_ns[own], np.ones(len(own), np.int64)
    width = 1
    while True:
        column, cell = _cells(own, copies, duration_ns, width)
        alone = _extremes(column, duration_ns[own])
        rest = np.flatnonzero(~alone)
        found, number = told_apart(cell[rest])
        if len(found) + int(alone.sum()) <= MAX_POINTS or width >= CELLS_PER_DECADE:
            break
        width *= 2
    order, start = groups_in_order(number, duration_ns[own[rest]])
    grouped, single = own[rest[order]], own[alone]
    first, last = start[:-1], start[1:] - 1
    return (
        np.concatenate((grouped[(first + last) // 2], single)),
        np.concatenate((duration_ns[grouped[first]], duration_ns[single])),
        np.concatenate((duration_ns[grouped[last]], duration_ns[single])),
        np.concatenate((np.diff(start), np.ones(len(single), np.int64))),
    )


def _cells(own: IntArray, copies: Copies, duration_ns: IntArray, width: int) -> tuple[IntArray, IntArray]:
    """(number of the column, number of the cell) of each copy: a column is one thread, scope and size."""
    size = np.floor(np.log2(copies.bytes[own]) * CELLS_PER_OCTAVE / width).astype(np.int64)
    time = np.floor(np.log10(duration_ns[own]) * CELLS_PER_DECADE / width).astype(np.int64)
    thread = copies.thread[own].astype(np.int64) + 1
    column = ((thread * 2 + copies.steady[own]) << 16) | size
    return column, (column << 16) | time


def _extremes(column: IntArray, duration_ns: IntArray) -> BoolArray:
    """The fastest and the slowest of each column, and the SLOWEST of all."""
    alone = np.zeros(len(column), np.bool_)
    order, start = groups_in_order(told_apart(column)[1], duration_ns)
    alone[order[start[:-1]]] = True
    alone[order[start[1:] - 1]] = True
    alone[np.argpartition(duration_ns, -SLOWEST)[-SLOWEST:]] = True
    return alone


# ---- tables


def _groups(copies: Copies) -> tuple[CopyGroup, ...]:
    found, group = told_apart(copies.layer, copies.direction, copies.memory)
    made = []
    for number, (layer, direction, memory) in enumerate(found):
        own = copies.pick(np.flatnonzero(group == number))
        for scope in range(len(SCOPES)):
            some = own.pick(own.steady) if scope == STEADY_STEPS else own
            if len(some):
                made.append(_group(some, layer, direction, memory, scope))
    return tuple(made)


def _group(copies: Copies, layer: int, direction: int, memory: int, scope: int) -> CopyGroup:
    free = copies.waiting == RETURNED
    sizes = size_rows(copies.bytes, copies.duration_ns, ~free)
    return CopyGroup(
        layer=LAYERS[layer],
        direction=COPY_KINDS[direction] if direction >= 0 else "unknown",
        host_memory=MEMORY_KINDS[memory] if memory >= 0 else "",
        scope=SCOPES[scope],
        copies=len(copies),
        waited=int((copies.waiting == WAITED).sum()),
        blocking=int((copies.waiting == BLOCKING).sum()),
        sizes=sizes,
        binned=len(np.unique(copies.bytes)) > MAX_SIZES,
        fit=fitted(copies.bytes[free], copies.duration_ns[free]),
    )


def _per_step(recording: Recording) -> tuple[tuple[CopyBucket, ...], str, str | None]:
    try:
        arm = arm_of(recording)
    except UnusableInputError as error:
        return (), "", str(error).removeprefix(f"{recording.path}: ")
    scope = scope_of(arm.process.calls, arm.steps, arm.steps.main_class)
    return copies_of(scope), arm.steps.classes[arm.steps.main_class].name, None
