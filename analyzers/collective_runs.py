"""Collectives as they ran within the steady steps: what each exchanged, and its time on the GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from cctrace.analyzers.collective_calls import (
    Exchange,
    Exchanged,
    exchanged,
    recipes,
    unknown_exchange,
)
from cctrace.analyzers.collective_rows import (
    HostRows,
    Replays,
    collective_symbols,
    host_rows,
    nccl_calls,
    replays_of,
)
from cctrace.analyzers.columns import MISSING, BoolArray, IntArray, integers
from cctrace.analyzers.copy_rows import told_apart
from cctrace.analyzers.loading import Recording
from cctrace.analyzers.steady import STEADY
from cctrace.analyzers.steps import NoSteps
from cctrace.trace import Trace

_CORRELATIONS: Final = 1 << 44
"""Numbers of correlations of one process; those of the n-th process begin at n times this."""
_COLUMNS: Final = ("what", "kernel", "pid", "call_ns", "start_ns", "duration_ns", "count")
_GPU_COLUMNS: Final = ("name", "start_ns", "duration_ns", "pid", "correlation")


@dataclass(frozen=True, eq=False)
class Windows:
    """The steady steps of the processes that take part.

    Attributes:
        steps: pid → (begin, end) of each steady step, the process with most steady time first. Empty: no
            process has any, and everything counts.
        why_none: why there are none; None if there are.
    """

    steps: Mapping[int, tuple[IntArray, IntArray]]
    why_none: str | None

    def of(self, pid: int) -> tuple[IntArray, IntArray]:
        """(begin, end) of the steps of a process; one without steps of its own has those of the first."""
        return self.steps.get(pid) or next(iter(self.steps.values()))

    def inside(self, pid: IntArray, time_ns: IntArray) -> BoolArray:
        """Which moments of which processes count."""
        if not self.steps:
            return np.ones(len(pid), np.bool_)
        counts = np.zeros(len(pid), np.bool_)
        for process in np.unique(pid).tolist():
            start, end = self.of(process)
            own = np.flatnonzero(pid == process)
            at = np.searchsorted(start, time_ns[own], side="right") - 1
            counts[own] = (at >= 0) & (time_ns[own] < end[np.maximum(at, 0)])
        return counts


@dataclass(frozen=True, eq=False)
class CollectiveRuns:
    """Collectives that ran within the steady steps; one array element for each that stands by itself.

    Attributes:
        what: position in `kinds`.
        kernel: position in `symbols`.
        pid: process.
        call_ns: time in NCCL's calls, −1 if there are none, or if it is a node of a graph.
        start_ns: begin on the GPU, −1 if not known.
        duration_ns: time on the GPU, −1 if not known.
        count: how many it stands for: more than 1 only for nodes of graphs whose times are not known.
        kinds: the different exchanges.
        symbols: symbols of the kernels.
    """

    what: IntArray
    kernel: IntArray
    pid: IntArray
    call_ns: IntArray
    start_ns: IntArray
    duration_ns: IntArray
    count: IntArray
    kinds: tuple[Exchange, ...]
    symbols: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.what)

    def pick(self, rows: BoolArray | IntArray) -> CollectiveRuns:
        """Those that a mask or a list of positions selects."""
        columns = {name: getattr(self, name)[rows] for name in _COLUMNS}
        return CollectiveRuns(**columns, kinds=self.kinds, symbols=self.symbols)


@dataclass(frozen=True, eq=False)
class _GpuRows:
    """Runs of collective kernels."""

    kernel: IntArray
    start_ns: IntArray
    duration_ns: IntArray
    pid: IntArray
    correlation: IntArray

    def __len__(self) -> int:
        return len(self.kernel)


@dataclass(frozen=True, eq=False)
class _Rows:
    """What is joined.

    Attributes:
        launches: of collective kernels.
        recipes: (pid, graph) → the captured launches that it holds, for graphs that hold some.
        replays: launches of these graphs.
        gpu: runs of collective kernels.
        known: what each launch carries out.
        symbols: of all kernels.
    """

    launches: HostRows
    recipes: Mapping[tuple[int, int], IntArray]
    replays: Replays
    gpu: _GpuRows
    known: Exchanged
    symbols: tuple[str, ...]


def windows_of(recording: Recording) -> Windows:
    """The steady steps in which collectives are looked for."""
    found: dict[int, tuple[IntArray, IntArray]] = {}
    reason = "no process handed work to the GPU"
    for process in recording.processes:
        steps = process.steps
        if isinstance(steps, NoSteps):
            reason = steps.reason
            continue
        steady = np.flatnonzero(steps.exclusion == STEADY)
        if len(steady):
            found[process.pid] = (steps.start_ns[steady], steps.end_ns[steady])
    if not found:
        return Windows({}, reason)
    order = sorted(found, key=lambda pid: -int((found[pid][1] - found[pid][0]).sum()))
    return Windows({pid: found[pid] for pid in order}, None)


def collective_runs(trace: Trace, windows: Windows) -> CollectiveRuns:
    """The collectives of a trace within its steady steps."""
    host = host_rows(trace)
    numbers = {symbol: number for number, symbol in enumerate(host.symbols)}
    gpu = _gpu_rows(trace, numbers)
    launches = host.launches
    known = exchanged(nccl_calls(trace), launches)
    graphs = {graph: recipe for graph, recipe in recipes(host).items() if len(recipe)}
    replays = replays_of(trace, graphs)
    return _Join(_Rows(launches, graphs, replays, gpu, known, tuple(numbers)), windows).runs()


def _gpu_rows(trace: Trace, numbers: dict[str, int]) -> _GpuRows:
    parts = [_gpu_batch(batch, numbers) for batch in trace.batches(_GPU_COLUMNS, kinds="kernel")]
    parts = parts or [_gpu_batch(trace.table(_GPU_COLUMNS, kinds=[]), numbers)]
    return _GpuRows(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _gpu_batch(batch: pa.RecordBatch | pa.Table, numbers: dict[str, int]) -> tuple[IntArray, ...]:
    table = pa.table({name: batch.column(name) for name in _GPU_COLUMNS})
    kernel = collective_symbols(table, "name", numbers)
    rows = np.flatnonzero((kernel >= 0) & (integers(table, "duration_ns") > 0))
    numeric = ("start_ns", "duration_ns", "pid", "correlation")
    table = table.select(numeric).take(pa.array(rows))
    return (kernel[rows], *(integers(table, name).astype(np.int64) for name in numeric))


class _Join:
    """Joins rows of the GPU with what was launched: one launch, or one node of a replay, is one row."""

    def __init__(self, rows: _Rows, windows: Windows) -> None:
        known, gpu, symbols = rows.known, rows.gpu, rows.symbols
        self.launches, self.recipes, self.replays = rows.launches, rows.recipes, rows.replays
        self.gpu, self.windows, self.symbols = gpu, windows, symbols
        # What is known by its symbol alone comes after what calls say.
        self.kinds = (*known.kinds, *(unknown_exchange(symbol) for symbol in symbols))
        self.by_symbol = len(known.kinds)
        self.what = np.where(known.what >= 0, known.what, self.by_symbol + self.launches.symbol)
        self.call_ns = known.call_ns
        self.pids = np.unique(np.concatenate((self.launches.pid, self.replays.pid, gpu.pid)))
        self.parts: list[dict[str, IntArray]] = []

    def runs(self) -> CollectiveRuns:
        gpu_key = self._keys(self.gpu.pid, self.gpu.correlation)
        taken = self._eager(gpu_key)
        taken |= self._replayed(gpu_key)
        self._alone(np.flatnonzero(~taken))
        columns = {name: np.concatenate([part[name] for part in self.parts]) for name in _COLUMNS}
        # Kernels with different symbols can be of one kind.
        kinds = {kind: number for number, kind in enumerate(dict.fromkeys(self.kinds))}
        columns["what"] = np.array([kinds[kind] for kind in self.kinds] or [0], np.int64)[columns["what"]]
        return CollectiveRuns(**columns, kinds=tuple(kinds), symbols=self.symbols)

    def _keys(self, pid: IntArray, correlation: IntArray) -> IntArray:
        process = np.searchsorted(self.pids, pid)
        return np.where(correlation >= 0, process * _CORRELATIONS + correlation, MISSING)

    def _eager(self, gpu_key: IntArray) -> BoolArray:
        """Launches that were submitted, with the row of the GPU where there is one."""
        own = np.flatnonzero(~self.launches.captured)
        launches = self.launches.pick(own)
        at, there = _looked_up(self._keys(launches.pid, launches.correlation), gpu_key)
        counted = self.windows.inside(launches.pid, launches.start_ns)
        self._add(
            what=self.what[own],
            kernel=launches.symbol,
            pid=launches.pid,
            call_ns=self.call_ns[own],
            gpu=np.where(there, at, MISSING),
            counted=counted,
        )
        taken = np.zeros(len(self.gpu), np.bool_)
        taken[at[there]] = True
        return taken

    def _replayed(self, gpu_key: IntArray) -> BoolArray:
        """Nodes of graphs: each replay runs the captured launches in the order of their capture."""
        taken = np.zeros(len(self.gpu), np.bool_)
        counted = self.windows.inside(self.replays.pid, self.replays.start_ns)
        replay_key = self._keys(self.replays.pid, self.replays.correlation)
        order = np.lexsort((self.gpu.start_ns, gpu_key))
        first = np.searchsorted(gpu_key[order], replay_key)
        last = np.searchsorted(gpu_key[order], replay_key, side="right")
        nodes = np.where(replay_key >= 0, last - first, 0)
        for (pid, graph), recipe in self.recipes.items():
            own = np.flatnonzero((self.replays.pid == pid) & (self.replays.graph_id == graph))
            whole = own[nodes[own] == len(recipe)]
            rows = order[first[whole][:, None] + np.arange(len(recipe))]
            same = (self.gpu.kernel[rows] == self.launches.symbol[recipe]).all(axis=1)
            rows, whole = rows[same], whole[same]
            taken[rows.reshape(-1)] = True
            self._add_nodes(pid, recipe, rows[counted[whole]])
            self._add_unseen(pid, recipe, int(counted[own[nodes[own] == 0]].sum()))
        return taken

    def _add_nodes(self, pid: int, recipe: IntArray, rows: IntArray) -> None:
        """Replays whose nodes have rows: one row of `rows` for each."""
        flat = rows.reshape(-1)
        self._add(
            what=np.tile(self.what[recipe], len(rows)),
            kernel=self.gpu.kernel[flat],
            pid=np.full(len(flat), pid),
            call_ns=np.full(len(flat), MISSING),
            gpu=flat,
            counted=np.ones(len(flat), np.bool_),
        )

    def _add_unseen(self, pid: int, recipe: IntArray, replays: int) -> None:
        """Replays whose nodes have no rows."""
        if replays:
            kernel = self.launches.symbol[recipe]
            found, number = told_apart(self.what[recipe], kernel)
            what, symbol = np.array(found, np.int64).T
            nothing = np.full(len(found), MISSING)
            part = {
                "what": what,
                "kernel": symbol,
                "pid": np.full(len(found), pid),
                "count": np.bincount(number, minlength=len(found)) * replays,
            }
            self.parts.append({**part, **dict.fromkeys(("call_ns", "start_ns", "duration_ns"), nothing)})

    def _alone(self, rows: IntArray) -> None:
        """Rows of the GPU that no launch explains: their symbols say what they are."""
        self._add(
            what=self.by_symbol + self.gpu.kernel[rows],
            kernel=self.gpu.kernel[rows],
            pid=self.gpu.pid[rows],
            call_ns=np.full(len(rows), MISSING),
            gpu=rows,
            counted=self.windows.inside(self.gpu.pid[rows], self.gpu.start_ns[rows]),
        )

    def _add(
        self,
        *,
        what: IntArray,
        kernel: IntArray,
        pid: IntArray,
        call_ns: IntArray,
        gpu: IntArray,
        counted: BoolArray,
    ) -> None:
        """Adds those that count; `gpu` holds positions of rows of the GPU, −1 where there is none."""
        rows = gpu[counted]
        found = rows >= 0
        start, duration = (np.full(len(rows), MISSING, np.int64) for _ in range(2))
        start[found], duration[found] = self.gpu.start_ns[rows[found]], self.gpu.duration_ns[rows[found]]
        self.parts.append(
            {
                "what": what[counted],
                "kernel": kernel[counted],
                "pid": pid[counted],
                "call_ns": call_ns[counted],
                "start_ns": start,
                "duration_ns": duration,
                "count": np.ones(len(rows), np.int64),
            }
        )


def _looked_up(keys: IntArray, among: IntArray) -> tuple[IntArray, BoolArray]:
    """(position of each key in `among`, whether it is there); key −1 is nowhere."""
    if not len(among):
        return np.zeros(len(keys), np.int64), np.zeros(len(keys), np.bool_)
    order = np.argsort(among, kind="stable")
    at = order[np.minimum(np.searchsorted(among[order], keys), len(among) - 1)]
    return at, (keys >= 0) & (among[at] == keys)
