"""The table of a trace: one row per event. The one place where columns, units and vocabularies are defined.

Times are nanoseconds of CLOCK_MONOTONIC of the recording host. Rows are sorted by (pid, lane, start_ns), so
that one thread or one GPU stream lies in few row groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

FORMAT_VERSION: Final = 1
"""Raised when an older reader would misread a newer file. Added optional columns do not raise it."""

METADATA_KEY: Final = b"cctrace"
"""Key of the JSON document in the Parquet file's key-value metadata."""

KINDS: Final = {
    "submit": "host call that hands work to the GPU: kernel, graph, copy, memset, event record, stream wait",
    "wait": "host call that waits for the GPU, or asks whether it is done",
    "alloc": "host call that allocates, frees or registers memory",
    "capture": "host call that begins or ends a graph capture, builds a graph, or is recorded into a graph",
    "kernel": "GPU: one kernel (CUPTI)",
    "graph": "GPU: one replay of a graph, from its first to its last node (stamps or CUPTI)",
    "copy": "GPU: one memory copy (CUPTI)",
    "memset": "GPU: one memset (CUPTI)",
    "sync": "GPU synchronization as CUPTI saw it",
    "overhead": "time that the profiler or the driver spent on itself (CUPTI)",
    "collective": "host call of NCCL that moves data between GPUs; its launch, if it has one, lies inside",
    "range": "a named range of host time (NVTX), or of GPU time around a sampled eager step (stamps)",
    "step": "one scheduler iteration, marked by the engine",
    "crypto": "confidential-computing key rotation (CUPTI)",
    "counter": "one sample of a counter (NVML)",
    "clock": "one reading of two clocks together (reserved: clock readings are in the metadata)",
}
"""Values of the column `kind`."""

OPERATIONS: Final = {
    # submissions
    "kernel": "one kernel launch",
    "graph": "one graph launch",
    "copy": "one copy",
    "memset": "one memset",
    "event-record": "an event recorded on a stream",
    "stream-wait": "a stream made to wait for an event",
    "host-function": "a host function queued on a stream",
    "memory-operation": "a value in memory, or a semaphore, that a stream writes or awaits",
    "prefetch": "managed memory prefetched or discarded",
    "stream-alloc": "memory allocated or freed in stream order",
    "unknown": "a submission whose name is newer than this collector",
    # waits
    "stream-sync": "the host waits for a stream",
    "event-sync": "the host waits for an event",
    "context-sync": "the host waits for everything in a context",
    "query": "the host asks whether a stream or an event is done, without waiting",
    # allocations
    "host-alloc": "page-locked host memory allocated",
    "host-free": "page-locked host memory freed",
    "host-register": "existing host memory page-locked",
    "host-unregister": "the opposite of host-register",
    "device-alloc": "device or managed memory allocated (waits for the GPU in some cases)",
    "device-free": "device memory freed (waits for the GPU in some cases)",
    # graphs
    "capture-begin": "a stream starts to capture",
    "capture-end": "a capture ends in a graph",
    "graph-build": "a graph instantiated, cloned, updated or uploaded",
}
"""Values of the column `operation`: what a host call does."""

SUBMISSION_OPERATIONS: Final = (
    "kernel",
    "graph",
    "copy",
    "memset",
    "event-record",
    "stream-wait",
    "host-function",
    "memory-operation",
    "prefetch",
    "stream-alloc",
    "unknown",
)
WORK_OPERATIONS: Final = ("kernel", "graph", "copy", "memset")
"""The submissions that put work on the GPU: what the published counts per decode step count."""
BLOCKING_WAITS: Final = ("stream-sync", "event-sync", "context-sync")

SOURCES: Final = {
    "interposer": "the driver API as the program called it",
    "stamps": "%globaltimer kernels inside captured graphs and around sampled eager steps",
    "cupti": "CUPTI activity records; host times of such a recording are distorted",
    "nvtx": "NVTX ranges of the program",
    "hook": "marks set through cctrace's own hook",
    "nvml": "NVML, sampled by the recorder",
    "recorder": "the recorder itself",
    "imported": "another tool's file (reserved: nothing writes it yet)",
}
"""Values of the column `source`: who saw the row."""

COPY_KINDS: Final = ("h2d", "d2h", "d2d", "h2h", "p2p", "other")
MEMORY_KINDS: Final = ("unknown", "pageable", "pinned", "device", "array", "managed")
ROLES: Final = ("scheduler", "worker", "copy-worker", "other")


@dataclass(frozen=True)
class Column:
    """One column: its name, Arrow type, unit ('' if it has none) and meaning; `null` says when it is null."""

    name: str
    type: pa.DataType
    unit: str
    meaning: str
    null: str = "never"


def _words() -> pa.DataType:
    return pa.dictionary(pa.int32(), pa.string())


COLUMNS: Final = (
    Column("kind", _words(), "", "what the row is; see KINDS"),
    Column(
        "name",
        _words(),
        "",
        "driver API name, NCCL's function, kernel symbol, range label or counter name",
        "no name is known",
    ),
    Column("operation", _words(), "", "what a host call does; see OPERATIONS", "no call or synchronization"),
    Column("source", _words(), "", "who saw it; see SOURCES"),
    Column("start_ns", pa.int64(), "ns, CLOCK_MONOTONIC", "begin"),
    Column("duration_ns", pa.int64(), "ns", "end − begin; 0 for instants"),
    Column("pid", pa.int32(), "", "process"),
    Column("tid", pa.int32(), "", "host thread", "not on a host thread"),
    Column("lane", pa.int32(), "", "number of the host thread or GPU stream in the metadata's `lanes`"),
    Column("role", _words(), "", "role of the thread: scheduler, worker, copy-worker, other", "not known"),
    Column("device", pa.int16(), "", "CUDA device ordinal", "not known"),
    Column(
        "stream", pa.int32(), "", "stream, numbered per process; 0 is the legacy default stream", "no stream"
    ),
    Column(
        "correlation", pa.int64(), "", "joins a submission to its GPU rows, within a pid", "no GPU row known"
    ),
    Column("graph_id", pa.int32(), "", "executable graph, numbered per process", "not of a graph"),
    Column("node_id", pa.int64(), "", "node within the graph (CUPTI)", "not a graph node"),
    Column("kernel", _words(), "", "symbol of the kernel that a submission launches", "not a kernel launch"),
    Column("bytes", pa.int64(), "bytes", "size of a copy, memset, allocation or collective", "has no size"),
    Column("copy_kind", _words(), "", "direction of a copy: h2d, d2h, d2d, h2h, p2p, other", "not a copy"),
    Column(
        "src_memory",
        _words(),
        "",
        "memory a copy reads: pageable, pinned, device, array, managed, unknown",
        "not a copy",
    ),
    Column("dst_memory", _words(), "", "memory a copy writes", "not a copy"),
    Column(
        "blocking",
        pa.bool_(),
        "",
        "by its contract the call returns only when the GPU is done; whether an asynchronous copy blocked in "
        "effect is for the analysis to find",
        "not a copy, memset or wait",
    ),
    Column("step", pa.int32(), "", "number of the step, from 0", "not a step row"),
    Column(
        "step_class",
        _words(),
        "",
        "steps that may be compared: the engine's label without its counter",
        "not a step row",
    ),
    Column(
        "ref",
        pa.int64(),
        "",
        "event, job or communicator that rows share, numbered per process",
        "refers to nothing",
    ),
    Column("value", pa.float64(), "the counter's own, in its name", "value of a counter", "not a counter"),
    Column(
        "result",
        pa.int16(),
        "CUresult",
        "return value of a host call: 0 success, 600 not ready; of a collective, ncclResult_t",
        "not a host call",
    ),
    Column("attributes", pa.string(), "JSON", "rare extras", "none"),
)

SCHEMA: Final = pa.schema([pa.field(c.name, c.type) for c in COLUMNS])
"""Arrow schema of a trace, without metadata."""

REQUIRED_COLUMNS: Final = ("kind", "name", "operation", "start_ns", "duration_ns", "pid", "tid", "lane")
"""Without these a file is not a trace. Others may be missing in files of other makers, and read as null."""
