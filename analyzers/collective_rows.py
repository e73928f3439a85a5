"""Rows of a trace that tell of collectives: calls of NCCL, launches of its kernels, and graphs."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cctrace.analyzers.attribution.collectives import is_collective
from cctrace.analyzers.columns import MISSING, BoolArray, IntArray, codes, integers, words
from cctrace.trace import Trace

ALL_TO_ALL: Final = "all-to-all"
SEND_RECEIVE: Final = "send/receive"
MIXED: Final = "group of several operations"
UNNAMED: Final = "unknown operation"
OF_CALLS: Final = {
    "ncclAllReduce": "all-reduce",
    "ncclReduceScatter": "reduce-scatter",
    "ncclAllGather": "all-gather",
    "ncclReduce": "reduce",
    "ncclBroadcast": "broadcast",
    "ncclBcast": "broadcast",
    "ncclSend": "send",
    "ncclRecv": "receive",
    "ncclAlltoAll": ALL_TO_ALL,
    "ncclGather": "gather",
    "ncclScatter": "scatter",
}
"""NCCL's host function → operation."""
OF_KERNELS: Final = (
    (re.compile(r"reduce_?scatter", re.IGNORECASE), "reduce-scatter"),
    (re.compile(r"all_?gather", re.IGNORECASE), "all-gather"),
    (re.compile(r"all_?to_?all|deep_?ep|moe_?a2a", re.IGNORECASE), ALL_TO_ALL),
    (re.compile(r"send_?recv", re.IGNORECASE), SEND_RECEIVE),
    (re.compile(r"broadcast", re.IGNORECASE), "broadcast"),
    (re.compile(r"all_?reduce|cross_device_reduce|multimem|(one|two)_?shot", re.IGNORECASE), "all-reduce"),
    (re.compile(r"nccl.*reduce", re.IGNORECASE), "reduce"),
)
"""What part of a kernel's symbol says which operation it is; the first that fits."""

OPERATIONS: Final = tuple(
    dict.fromkeys((*OF_CALLS.values(), *(name for _, name in OF_KERNELS), MIXED, UNNAMED))
)
_CALL_COLUMNS: Final = (
    "name",
    "start_ns",
    "duration_ns",
    "pid",
    "tid",
    "stream",
    "bytes",
    "result",
    "attributes",
)
_HOST_COLUMNS: Final = (
    "kind",
    "operation",
    "kernel",
    "start_ns",
    "pid",
    "tid",
    "stream",
    "graph_id",
    "correlation",
)
_REPLAY_COLUMNS: Final = ("operation", "start_ns", "pid", "graph_id", "correlation")
WANTED: Final = ("kernel", "capture-begin", "graph-build")
KERNEL, CAPTURE_BEGIN, BUILD = range(len(WANTED))


@dataclass(frozen=True, eq=False)
class NcclCalls:
    """Calls of NCCL that moved data.

    Attributes:
        operation: position in OPERATIONS.
        bytes: size of the larger buffer of this rank, −1 if not known.
        ranks: of the communicator, 0 if not known.
        datatype: position in `datatypes`, −1 if not known.
        captured: recorded into a graph.
        start_ns: begin.
        duration_ns: time in the call.
        pid: process.
        tid: thread.
        stream: stream, −1 if not known.
        datatypes: the words of `datatype`.
    """

    operation: IntArray
    bytes: IntArray
    ranks: IntArray
    datatype: IntArray
    captured: BoolArray
    start_ns: IntArray
    duration_ns: IntArray
    pid: IntArray
    tid: IntArray
    stream: IntArray
    datatypes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.start_ns)


@dataclass(frozen=True, eq=False)
class HostRows:
    """Launches of collective kernels, and how graphs were made; in the order of the file.

    Attributes:
        what: position in WANTED.
        captured: recorded into a graph, not submitted.
        symbol: position in `symbols`, −1 for rows that are no kernels.
        start_ns: begin of the call.
        pid: process.
        tid: thread.
        stream: stream, −1 if none.
        graph_id: executable graph, −1 if none.
        correlation: joins it to rows of the GPU, −1 if there are none.
        symbols: symbols of the kernels.
    """

    what: IntArray
    captured: BoolArray
    symbol: IntArray
    start_ns: IntArray
    pid: IntArray
    tid: IntArray
    stream: IntArray
    graph_id: IntArray
    correlation: IntArray
    symbols: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.start_ns)

    def pick(self, rows: BoolArray | IntArray) -> HostRows:
        """The rows that a mask or a list of positions selects."""
        columns = {name: column[rows] for name, column in vars(self).items() if name != "symbols"}
        return HostRows(**columns, symbols=self.symbols)

    @property
    def launches(self) -> HostRows:
        """Collective kernels launched, or recorded into graphs."""
        return self.pick(self.what == KERNEL)


@dataclass(frozen=True, eq=False)
class Replays:
    """Launches of graphs, in the order of the file.

    Attributes:
        start_ns: begin of the call.
        pid: process.
        graph_id: executable graph.
        correlation: joins it to rows of the GPU, −1 if there are none.
    """

    start_ns: IntArray
    pid: IntArray
    graph_id: IntArray
    correlation: IntArray


def nccl_calls(trace: Trace) -> NcclCalls:
    """The calls of NCCL in a trace; those that failed moved nothing and are left out."""
    table = trace.table(_CALL_COLUMNS, kinds="collective")
    table = table.filter(pa.array(integers(table, "result") <= 0))
    name, names = words(table, "name")
    operation = np.array([OPERATIONS.index(OF_CALLS.get(word, UNNAMED)) for word in names] + [0], np.int64)
    attributes = table.column("attributes").combine_chunks()
    datatype, datatypes = words(pa.table({"d": _extracted(attributes, r'"datatype": *"(?P<v>\w+)"')}), "d")
    return NcclCalls(
        operation=np.where(name >= 0, operation[name], OPERATIONS.index(UNNAMED)),
        bytes=integers(table, "bytes").astype(np.int64),
        ranks=_integers_of(_extracted(attributes, r'"ranks": *(?P<v>\d{1,6})\b')),
        datatype=datatype,
        captured=_integers_of(_extracted(attributes, r'"captured": *(?P<v>t)rue').is_valid()) > 0,
        start_ns=integers(table, "start_ns"),
        duration_ns=integers(table, "duration_ns"),
        pid=integers(table, "pid"),
        tid=integers(table, "tid"),
        stream=integers(table, "stream"),
        datatypes=datatypes,
    )


def _extracted(texts: pa.Array, pattern: str) -> pa.Array:
    """What the group `v` of a pattern matches in each text; null where it does not.

    The attributes of each row differ by their sequence number: reading each as JSON takes much longer.
    """
    if not len(texts):
        return pa.array([], pa.string())
    return pc.struct_field(pc.extract_regex(texts, pattern), "v")


def _integers_of(texts: pa.Array) -> IntArray:
    values: IntArray = texts.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return values


def host_rows(trace: Trace) -> HostRows:
    """The launches of collective kernels of a trace, and what tells which graphs hold some."""
    numbers: dict[str, int] = {}
    parts = [_of_batch(batch, numbers) for batch in trace.batches(_HOST_COLUMNS, kinds=("submit", "capture"))]
    parts = parts or [_of_batch(trace.table(_HOST_COLUMNS, kinds=[]), numbers)]
    columns = {name: np.concatenate([one[name] for one in parts]) for name in parts[0]}
    return HostRows(**columns, symbols=tuple(numbers))


def _of_batch(batch: pa.RecordBatch | pa.Table, numbers: dict[str, int]) -> dict[str, Any]:
    table = pa.table({name: batch.column(name) for name in _HOST_COLUMNS})
    what = codes(table, "operation", WANTED)
    captured = codes(table, "kind", ("capture",)) == 0
    symbol = collective_symbols(table, "kernel", numbers)
    rows = np.flatnonzero(np.where(what == KERNEL, symbol >= 0, what >= 0))
    numeric = ("start_ns", "pid", "tid", "stream", "graph_id", "correlation")
    table = table.select(numeric).take(pa.array(rows))
    found = {name: integers(table, name).astype(np.int64) for name in numeric}
    return {"what": what[rows], "captured": captured[rows], "symbol": symbol[rows], **found}


def replays_of(trace: Trace, graphs: Collection[tuple[int, int]]) -> Replays:
    """The launches of some graphs, (pid, graph_id); of no graphs nothing is read."""
    numeric = _REPLAY_COLUMNS[1:]
    parts: list[tuple[IntArray, ...]] = []
    for batch in trace.batches(_REPLAY_COLUMNS, kinds="submit") if graphs else ():
        table = pa.table({name: batch.column(name) for name in _REPLAY_COLUMNS})
        table = table.filter(pa.array(codes(table, "operation", ("graph",)) == 0))
        columns = tuple(integers(table, name).astype(np.int64) for name in numeric)
        of_those = _one_of(columns[1], columns[2], graphs)
        parts.append(tuple(column[of_those] for column in columns))
    if not parts:
        return Replays(*(np.zeros(0, np.int64) for _ in numeric))
    return Replays(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _one_of(pid: IntArray, graph_id: IntArray, graphs: Collection[tuple[int, int]]) -> BoolArray:
    found = np.zeros(len(pid), np.bool_)
    for process in {process for process, _ in graphs}:
        own = [graph for other, graph in graphs if other == process]
        found |= (pid == process) & np.isin(graph_id, own)
    return found


def collective_symbols(table: pa.Table, name: str, numbers: dict[str, int]) -> IntArray:
    """Number of the symbol of each row that is a collective's, −1 of all others; new ones are numbered."""
    code, symbols = words(table, name)
    own = [numbers.setdefault(word, len(numbers)) if is_collective(word) else MISSING for word in symbols]
    return np.array([*own, MISSING], np.int64)[code]
