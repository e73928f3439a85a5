"""Synthetic traces with known truth: a small model of a host, a copy worker and one GPU stream.

Times are microseconds while the program runs and written as nanoseconds. The truth (`Built`) says where steps
begin and what each holds: a test compares an analysis with what was put in, not with what it printed before.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from cctrace.trace.schema import SCHEMA

START_NS = 1_000_000_000_000
PID, MAIN, WORKER = 4200, 4200, 4201
COMPUTE, COPY_STREAM, NO_STREAM = 1, 2, None
MAIN_LANE, WORKER_LANE, GPU_LANE = 0, 1, 2


@dataclass(frozen=True)
class Costs:
    """Own cost of each call and what the GPU takes, µs."""

    kernel: float = 4.0
    graph: float = 9.0
    copy: float = 3.5
    memset: float = 3.0
    event: float = 1.5
    wait: float = 1.7
    gpu_kernel: float = 6.0
    gpu_copy: float = 2.0


@dataclass(frozen=True)
class Tolls:
    """What confidential computing adds to one call, µs; `blocking` copies drain their stream."""

    kernel: float = 0.0
    graph: float = 0.0
    copy: float = 0.0
    memset: float = 0.0
    event: float = 0.0
    blocking: bool = False


@dataclass(frozen=True)
class Load:
    """What the synthetic server does."""

    execution: str = "eager"  # eager, graph, piecewise
    readback: str = "sync"  # sync, overlap, worker
    steps: int = 60
    layers: int = 12
    kernels_per_layer: int = 5
    sampling_kernels: int = 4
    input_copies: int = 3
    host_us: float = 150.0
    uneven_us: float = 0.0  # two of five steps have this much more host work
    gap_us: float = 2.0
    batch: int = 16
    prefill_every: int = 0  # a prefill step before every n-th decode step
    prefill_kernels: int = 300
    start_up: bool = False
    pause_after: int = 0  # an idle second after every n-th step
    stall_after: int = 0  # the GPU stands still for 9 ms before every n-th step
    marks: str = ""  # label of decode marks, e.g. "decode bs=16"; prefill marks say "prefill"
    kernel_names: bool = True
    gpu_rows: str = "none"  # none, stamps, nodes
    extra_share: float = 0.0  # part of the steps with one more memset
    noise: float = 0.03
    seed: int = 1
    pid: int = PID
    start_ns: int = START_NS
    costs: Costs = field(default_factory=Costs)
    tolls: Tolls = field(default_factory=Tolls)


@dataclass(frozen=True, eq=False)
class Built:
    """A synthetic trace and its truth.

    Attributes:
        table: all rows, by lane and time.
        step_ns: begin of every step (mark position): its first call.
        decode: whether each step is a decode step.
        work: kernels, graphs, copies and memsets of each step.
        events: event records and stream waits of each step.
    """

    table: pa.Table
    step_ns: np.ndarray[Any, np.dtype[np.int64]]
    decode: np.ndarray[Any, np.dtype[np.bool_]]
    work: np.ndarray[Any, np.dtype[np.int64]]
    events: np.ndarray[Any, np.dtype[np.int64]]

    @property
    def decode_work(self) -> int:
        """Work submissions of a decode step."""
        return int(np.median(self.work[self.decode]))


def build(load: Load) -> Built:
    """Runs the program and returns its trace."""
    return _Program(load).run()


class _Program:
    def __init__(self, load: Load) -> None:
        self.load = load
        self.random = np.random.default_rng(load.seed)
        self.rows: list[dict[str, Any]] = []
        self.now = 0.0
        self.gpu_free = 0.0
        self.worker_free = 0.0
        self.pending: list[float] = []  # when the tokens of earlier steps are on the host
        self.correlation = 0
        self.steps: list[tuple[float, bool, int, int]] = []
        self.work = self.events = 0

    def run(self) -> Built:
        load = self.load
        if load.start_up:
            self._start_up()
        for number in range(load.steps):
            if load.prefill_every and number % load.prefill_every == 0:
                self._step(decode=False)
            if load.pause_after and number and number % load.pause_after == 0:
                self.now += 1e6
            if load.stall_after and number and number % load.stall_after == 0:
                self.gpu_free = max(self.gpu_free, self.now) + 9e3
            self._step(decode=True)
        if load.marks:
            self._write_marks()
        rows = sorted(self.rows, key=lambda row: (row["lane"], row["start_ns"]))
        truth = np.array(self.steps, dtype=object)
        return Built(
            table=table_of(rows),
            step_ns=np.array([self._ns(begin) for begin, *_ in self.steps], np.int64),
            decode=truth[:, 1].astype(bool),
            work=truth[:, 2].astype(np.int64),
            events=truth[:, 3].astype(np.int64),
        )

    # ---- one step

    def _step(self, *, decode: bool) -> None:
        load = self.load
        begin = self.now
        self.work = self.events = 0
        for index in range(load.input_copies):
            self._copy("h2d", 64 << index, COMPUTE)
        self._forward(decode=decode)
        for index in range(load.sampling_kernels):
            self._kernel(f"sample_{index}")
        self._memset(4)
        if self.random.random() < load.extra_share:
            self._memset(8)
        self._read_back()
        self._spend(load.host_us + (load.uneven_us if len(self.steps) % 5 < 2 else 0.0))
        self.steps.append((begin, decode, self.work, self.events))

    def _forward(self, *, decode: bool) -> None:
        load = self.load
        if not decode:
            for index in range(load.prefill_kernels):
                self._kernel(f"prefill_{index % 7}")
        elif load.execution == "graph":
            self._graph(1, load.layers * load.kernels_per_layer)
        else:
            for layer in range(load.layers):
                if load.execution == "piecewise":
                    self._graph(layer + 1, load.kernels_per_layer - 1)
                    self._kernel("attention")
                else:
                    for index in range(load.kernels_per_layer):
                        self._kernel(f"layer_{index}")

    def _read_back(self) -> None:
        load = self.load
        if load.readback == "worker":
            self._event("cuEventRecord", "event-record", COMPUTE)
            done = self._worker(self.now, self.gpu_free)
            self.pending.append(done)
        else:
            if load.readback == "overlap":
                self._event("cuEventRecord", "event-record", COMPUTE)
                self._event("cuStreamWaitEvent", "stream-wait", COPY_STREAM)
            self._copy("d2h", 4 * load.batch, COPY_STREAM if load.readback == "overlap" else COMPUTE)
            self._event("cuEventRecord", "event-record", COPY_STREAM)
            self.pending.append(self.gpu_free)
        behind = 0 if load.readback == "sync" else 1
        if len(self.pending) > behind:
            ready = self.pending.pop(0)
            if load.readback == "worker":
                self.now = max(self.now, ready)  # a hand-back between threads is no driver call
            else:
                self._wait("cuEventSynchronize", "event-sync", ready, MAIN_LANE)

    def _worker(self, handed_over: float, ready: float) -> float:
        costs, tolls = self.load.costs, self.load.tolls
        time = max(handed_over + 5.0, self.worker_free)
        time = self._worker_wait(time, ready, "cuEventSynchronize", "event-sync")
        done = time + self.load.costs.gpu_copy
        end = time + self._vary(costs.copy + tolls.copy)
        end = max(end, done) if tolls.blocking else end
        self._row_copy("d2h", 4 * self.load.batch, (time, end), COPY_STREAM, WORKER_LANE)
        time = self._worker_wait(end + 1.0, done, "cuStreamSynchronize", "stream-sync")
        self.worker_free = time
        return time

    def _worker_wait(self, time: float, ready: float, name: str, operation: str) -> float:
        end = max(time + self._vary(self.load.costs.wait), ready)
        self._row(
            kind="wait", name=name, operation=operation, begin=time, end=end, lane=WORKER_LANE, blocking=True
        )
        return end

    # ---- calls

    def _kernel(self, symbol: str) -> None:
        costs = self.load.costs
        end = self._call(costs.kernel + self.load.tolls.kernel)
        kernel = symbol if self.load.kernel_names else None
        self._row(
            kind="submit", name="cuLaunchKernel", operation="kernel", end=end, stream=COMPUTE, kernel=kernel
        )
        self._gpu("kernel", symbol, costs.gpu_kernel)

    def _graph(self, number: int, kernels: int) -> None:
        costs = self.load.costs
        end = self._call(costs.graph + self.load.tolls.graph)
        self._row(
            kind="submit", name="cuGraphLaunch", operation="graph", end=end, stream=COMPUTE, graph_id=number
        )
        if self.load.gpu_rows == "nodes":
            for index in range(kernels):
                self._gpu("kernel", f"node_{index}", costs.gpu_kernel)
        else:
            self._gpu("graph", None, costs.gpu_kernel * kernels)

    def _memset(self, size: int) -> None:
        end = self._call(self.load.costs.memset + self.load.tolls.memset)
        self._row(
            kind="submit", name="cuMemsetD8Async", operation="memset", end=end, stream=COMPUTE, bytes=size
        )
        self._gpu("memset", None, 1.0)

    def _copy(self, direction: str, size: int, stream: int) -> None:
        costs, tolls = self.load.costs, self.load.tolls
        begin = self.now
        end = begin + self._vary(costs.copy + tolls.copy)
        self.gpu_free = max(self.gpu_free, end) + costs.gpu_copy
        if tolls.blocking:
            end = max(end, self.gpu_free)
        self.now = end
        self._row_copy(direction, size, (begin, end), stream, MAIN_LANE)
        self._spend(self.load.gap_us)

    def _row_copy(self, direction: str, size: int, span: tuple[float, float], stream: int, lane: int) -> None:
        names = {
            "h2d": ("cuMemcpyHtoDAsync_v2", "pinned", "device"),
            "d2h": ("cuMemcpyDtoHAsync_v2", "device", "pinned"),
        }
        name, source, destination = names[direction]
        self._row(
            kind="submit",
            name=name,
            operation="copy",
            begin=span[0],
            end=span[1],
            lane=lane,
            stream=stream,
            bytes=size,
            copy_kind=direction,
            src_memory=source,
            dst_memory=destination,
            blocking=False,
        )

    def _event(self, name: str, operation: str, stream: int) -> None:
        end = self._call(self.load.costs.event + self.load.tolls.event)
        self._row(kind="submit", name=name, operation=operation, end=end, stream=stream)

    def _wait(self, name: str, operation: str, ready: float, lane: int) -> None:
        begin = self.now
        self.now = max(begin + self._vary(self.load.costs.wait), ready)
        self._row(
            kind="wait", name=name, operation=operation, begin=begin, end=self.now, lane=lane, blocking=True
        )
        self._spend(self.load.gap_us)

    def _start_up(self) -> None:
        """Weights, warm-up kernels and graph captures before the first step."""
        for index in range(40):
            self._row_copy("h2d", 8 << 20, (self.now, self.now + 900.0), COMPUTE, MAIN_LANE)
            self.now += 950.0
            if index % 4 == 0:
                self._row(
                    kind="alloc",
                    name="cuMemAlloc_v2",
                    operation="device-alloc",
                    end=self._call(80.0),
                    bytes=1 << 26,
                )
        for index in range(400):
            self._kernel(f"tune_{index % 11}")
            if index % 20 == 0:
                self._wait("cuCtxSynchronize", "context-sync", self.gpu_free, MAIN_LANE)
        for _ in range(3):
            self._row(
                kind="capture", name="cuStreamBeginCapture_v2", operation="capture-begin", end=self._call(5.0)
            )
            for index in range(30):
                self._row(
                    kind="capture",
                    name="cuLaunchKernel",
                    operation="kernel",
                    end=self._call(4.0),
                    kernel=f"k{index}",
                )
            self._row(kind="capture", name="cuStreamEndCapture", operation="capture-end", end=self._call(5.0))
            self._row(
                kind="capture",
                name="cuGraphInstantiateWithFlags",
                operation="graph-build",
                end=self._call(400.0),
            )
        self.pending.clear()
        self.now = max(self.now, self.gpu_free) + 5_000.0

    # ---- time and rows

    def _call(self, cost: float) -> float:
        self._begin = self.now
        self.now += self._vary(cost)
        end = self.now
        self._spend(self.load.gap_us)
        return end

    def _spend(self, us: float) -> None:
        self.now += self._vary(us)

    def _vary(self, us: float) -> float:
        return us * float(max(0.5, self.random.normal(1.0, self.load.noise))) if self.load.noise else us

    def _gpu(self, kind: str, symbol: str | None, us: float) -> None:
        begin = max(self.gpu_free, self.now)
        self.gpu_free = begin + us
        wanted = {"none": (), "stamps": ("graph",), "nodes": ("kernel", "graph", "memset")}[
            self.load.gpu_rows
        ]
        if kind in wanted:
            source = "stamps" if self.load.gpu_rows == "stamps" else "cupti"
            self._row(
                kind=kind, name=symbol, begin=begin, end=self.gpu_free, lane=GPU_LANE, source=source, device=0
            )

    def _row(self, *, end: float, begin: float | None = None, lane: int = MAIN_LANE, **values: Any) -> None:
        begin = self._begin if begin is None else begin
        if values["kind"] == "submit" and self.load is not None:
            if values["operation"] in ("kernel", "graph", "copy", "memset"):
                self.work += 1
            else:
                self.events += 1
        start = self._ns(begin)
        row = {
            "source": "interposer",
            "start_ns": start,
            "duration_ns": max(0, self._ns(end) - start),
            "pid": self.load.pid,
            "tid": {MAIN_LANE: MAIN, WORKER_LANE: WORKER}.get(lane),
            "lane": lane,
            "result": 0 if lane != GPU_LANE else None,
            **values,
        }
        self.rows.append(row)

    def _ns(self, us: float) -> int:
        return self.load.start_ns + round(us * 1e3)

    def _write_marks(self) -> None:
        begins = [begin for begin, *_ in self.steps] + [self.now]
        for number, (begin, decode, _, _) in enumerate(self.steps):
            label = self.load.marks if decode else "prefill"
            self._row(
                kind="step",
                name=label,
                begin=begin,
                end=begins[number + 1],
                source="hook",
                step=number,
                step_class=label,
            )


def table_of(rows: list[dict[str, Any]]) -> pa.Table:
    """Rows as an Arrow table with all columns of the schema; missing values are null."""
    arrays = []
    for column in SCHEMA:
        values = [row.get(column.name) for row in rows]
        plain = pa.string() if pa.types.is_dictionary(column.type) else column.type
        array = pa.array(values, plain)
        arrays.append(array.dictionary_encode().cast(column.type) if plain != column.type else array)
    return pa.table(arrays, schema=SCHEMA)
