"""First pass over a spool: which records belong to which thread or stream, and what concerns them all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from cctrace.collectors.spool.layout import RECORD, Kind, Operation
from cctrace.collectors.spool.spoolfile import Chunk, Records, SpoolFile, chunks, joined, take, text_at
from cctrace.collectors.spool.waits import WAIT_OPERATIONS

GPU_KINDS: Final = (Kind.KERNEL, Kind.GRAPH, Kind.COPY, Kind.MEMSET)
_KEPT_WHOLE: Final = (
    Kind.STAMP,
    Kind.BINDING,
    Kind.STREAM,
    Kind.CLOCK,
    Kind.GPU_CLOCK,
    Kind.LOSS,
    Kind.STATE,
    Kind.TAX,
)
_KNOWN: Final = np.zeros(256, dtype=bool)
_KNOWN[[0, *Kind]] = True
_VALID_OPERATION: Final = np.zeros(256, dtype=bool)
_VALID_OPERATION[[int(o) for o in Operation if o]] = True

_GRAPH_CALLS: Final = np.zeros(256, dtype=bool)
_GRAPH_CALLS[[Operation.GRAPH, Operation.GRAPH_BUILD]] = True
_WAITS: Final = np.zeros(256, dtype=bool)
_WAITS[list(WAIT_OPERATIONS)] = True


@dataclass
class Run:
    """Records of one lane within one chunk: `base + local[i]`, or all from `base` on if `local` is None."""

    base: int
    count: int
    local: npt.NDArray[np.uint32] | None
    first_start: int

    def positions(self) -> npt.NDArray[np.intp]:
        """Positions in the file, ascending."""
        if self.local is None:
            return np.arange(self.base, self.base + self.count)
        return self.local.astype(np.intp) + self.base

    def gather(self, records: Records) -> Records:
        """The records: a view where they lie together, else a copy."""
        if self.local is None:
            return records[self.base : self.base + self.count]
        return take(records[self.base : self.base + int(self.local[-1]) + 1], self.local)


@dataclass
class Index:
    """Where the records of each family lie.

    `calls`, `marks`, `collectives`, `host_calls` and `overheads` go by thread id; `gpu` by (device, CUPTI
    stream). `kept` holds the records of the small families themselves, in file order; `graph_calls` those of
    graph launches and builds, with their positions, `waits` those of waits and
    of the events they wait for if there are stamps.
    """

    calls: dict[int, list[Run]] = field(default_factory=dict)
    marks: dict[int, list[Run]] = field(default_factory=dict)
    collectives: dict[int, list[Run]] = field(default_factory=dict)
    host_calls: dict[int, list[Run]] = field(default_factory=dict)
    overheads: dict[int, list[Run]] = field(default_factory=dict)
    gpu: dict[tuple[int, int], list[Run]] = field(default_factory=dict)
    syncs: list[Run] = field(default_factory=list)
    rotations: list[Run] = field(default_factory=list)
    kept: dict[Kind, Records] = field(default_factory=dict)
    graph_calls: Records = field(default_factory=lambda: np.zeros(0, dtype=np.void))
    graph_positions: npt.NDArray[np.intp] = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    waits: Records = field(default_factory=lambda: np.zeros(0, dtype=RECORD))
    operations: dict[int, npt.NDArray[np.int64]] = field(default_factory=dict)
    strings: dict[int, str] = field(default_factory=dict)
    unusable: dict[str, int] = field(default_factory=dict)
    first_ns: int | None = None
    last_ns: int | None = None

    @property
    def threads(self) -> list[int]:
        """Ids of threads that have a row, ascending."""
        return sorted({*self.calls, *self.marks, *self.collectives, *self.overheads})


def build_index(spool: SpoolFile, progress: Callable[[int], None]) -> Index:
    """Reads the spool once. Memory: 4 bytes a record where threads alternate, else next to nothing."""
    index = Index()
    kept: dict[Kind, list[Records]] = {kind: [] for kind in _KEPT_WHOLE}
    graph_calls: list[Records] = []
    graph_positions: list[npt.NDArray[np.intp]] = [np.zeros(0, dtype=np.intp)]
    waits: list[Records] = []
    for chunk in chunks(spool.records):
        _add_strings(index, spool.records, chunk)
        _add_calls(index, chunk, graph_calls, graph_positions, waits)
        counts = np.bincount(chunk.kinds, minlength=256)
        if counts[0] + counts[Kind.CALL] < len(chunk.kinds):
            for kind in _KEPT_WHOLE:
                if counts[kind]:
                    kept[kind].append(take(chunk.records, chunk.kinds == kind))
            _add_by_thread(index.marks, chunk, Kind.MARK, index)
            _add_by_thread(index.collectives, chunk, Kind.COLLECTIVE, index)
            _add_by_thread(index.host_calls, chunk, Kind.HOST_CALL, None)
            _add_by_thread(index.overheads, chunk, Kind.OVERHEAD, index)
            _add_gpu(index, chunk)
            unknown = int(counts[~_KNOWN].sum())
            if unknown:
                _count(index.unusable, "records of an unknown kind", unknown)
        progress(len(chunk.kinds))
    index.kept = {kind: joined(parts) for kind, parts in kept.items()}
    index.graph_calls = joined(graph_calls)
    if len(index.kept[Kind.STAMP]):
        index.waits = joined(waits)
    index.graph_positions = np.concatenate(graph_positions)
    return index


def _add_strings(index: Index, records: Records, chunk: Chunk) -> None:
    names = chunk.records["name"][chunk.strings].tolist()
    for position, name in zip(chunk.strings.tolist(), names, strict=True):
        text = text_at(records, chunk.base + position)
        if text is None:
            _count(index.unusable, "damaged texts", 1)
        else:
            index.strings[name] = text


def _add_calls(
    index: Index,
    chunk: Chunk,
    graph_calls: list[Records],
    graph_positions: list[npt.NDArray[np.intp]],
    waits: list[Records],
) -> None:
    is_call = chunk.kinds == Kind.CALL
    operations = np.where(is_call, chunk.records["operation"], np.uint8(0))
    counts = np.bincount(operations, minlength=256)
    invalid = int(np.count_nonzero(is_call)) - int(counts[_VALID_OPERATION].sum())
    if invalid:
        _count(index.unusable, "calls of an unknown operation", invalid)
    where = np.flatnonzero(np.take(_VALID_OPERATION, operations) if invalid else is_call)
    if not len(where):
        return
    runs = _add_runs(index.calls, chunk, where, index)
    for tid, run in runs:
        own = (
            counts if len(runs) == 1 else np.bincount(operations[run.positions() - chunk.base], minlength=256)
        )
        index.operations[tid] = index.operations.get(tid, 0) + own
    if counts[_WAITS].any():
        waits.append(take(chunk.records, np.take(_WAITS, operations)))
    if not counts[_GRAPH_CALLS].any():
        return
    about_graphs = np.flatnonzero(np.take(_GRAPH_CALLS, operations))
    if len(about_graphs):
        graph_calls.append(take(chunk.records, about_graphs))
        graph_positions.append(about_graphs + chunk.base)


def _add_by_thread(runs: dict[int, list[Run]], chunk: Chunk, kind: Kind, bounds: Index | None) -> None:
    where = np.flatnonzero(chunk.kinds == kind)
    if len(where):
        _add_runs(runs, chunk, where, bounds)


def _add_gpu(index: Index, chunk: Chunk) -> None:
    where = np.flatnonzero((chunk.kinds >= Kind.KERNEL) & (chunk.kinds <= Kind.MEMSET))
    if len(where):
        devices = _field(chunk, "device", where).astype(np.uint64)
        streams = _field(chunk, "stream", where) & np.uint64(0xFFFFFFFF)
        keys = devices << np.uint64(32) | streams
        for key, run in _split(chunk, where, keys, index):
            index.gpu.setdefault((key >> 32, key & 0xFFFFFFFF), []).append(run)
    for kind, runs in ((Kind.SYNC, index.syncs), (Kind.ROTATION, index.rotations)):
        where = np.flatnonzero(chunk.kinds == kind)
        if len(where):
            runs.append(_run(chunk, where, chunk.records["start_ns"][where], index))


def _add_runs(
    runs: dict[int, list[Run]], chunk: Chunk, where: npt.NDArray[np.intp], bounds: Index | None
) -> list[tuple[int, Run]]:
    """Appends a run per thread; returns thread ids and runs."""
    added = _split(chunk, where, _field(chunk, "tid", where), bounds)
    for tid, run in added:
        runs.setdefault(tid, []).append(run)
    return added


def _field(chunk: Chunk, name: str, where: npt.NDArray[np.intp]) -> npt.NDArray[Any]:
    """A field of some records of the chunk."""
    column = np.ascontiguousarray(chunk.records[name])
    return column if len(where) == len(column) else np.take(column, where)


def _split(
    chunk: Chunk, where: npt.NDArray[np.intp], keys: npt.NDArray[Any], bounds: Index | None
) -> list[tuple[int, Run]]:
    """One run per distinct key, in file order within each."""
    starts = _field(chunk, "start_ns", where)
    if bool(np.all(keys == keys[0])):
        return [(int(keys[0]), _run(chunk, where, starts, bounds))]
    # Rings are emptied one after the other: a thread's records come many in a row.
    begins = np.concatenate(([0], np.flatnonzero(keys[1:] != keys[:-1]) + 1))
    distinct, group = np.unique(keys[begins], return_inverse=True)
    # At most as many groups as records in a chunk; 16 bits sort by radix.
    narrow = np.repeat(group.astype(np.uint16), np.diff(np.append(begins, len(keys))))
    order = np.argsort(narrow, kind="stable")
    ends = np.cumsum(np.bincount(narrow, minlength=len(distinct)))
    parts = np.split(order, ends[:-1])
    return [
        (int(key), _run(chunk, where[part], starts[part], bounds))
        for key, part in zip(distinct.tolist(), parts, strict=True)
    ]


def _run(chunk: Chunk, where: npt.NDArray[np.intp], starts: npt.NDArray[Any], bounds: Index | None) -> Run:
    first = int(starts.min())
    if bounds is not None:
        last = int(_field(chunk, "end_ns", where).max())
        bounds.first_ns = first if bounds.first_ns is None else min(bounds.first_ns, first)
        bounds.last_ns = last if bounds.last_ns is None else max(bounds.last_ns, last)
    begin, count = int(where[0]), len(where)
    if int(where[-1]) - begin + 1 == count:
        return Run(chunk.base + begin, count, None, first)
    return Run(chunk.base, count, where.astype(np.uint32), first)


def _count(counts: dict[str, int], what: str, number: int) -> None:
    counts[what] = counts.get(what, 0) + number
