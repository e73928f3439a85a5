"""What a program asks of NCCL, which kernels carry it out, and which of them lie in graphs.

A call of NCCL launches a kernel, or queues one: inside a group the end of the group launches for all calls
since its begin. So a call belongs to the first launch of NCCL that its thread makes on the call's stream, and
one launch carries out all calls that belong to it. Calls recorded into a graph are carried out by each
replay of it, in the order in which they were recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from cctrace.analyzers.collective_rows import (
    ALL_TO_ALL,
    BUILD,
    CAPTURE_BEGIN,
    MIXED,
    OF_KERNELS,
    OPERATIONS,
    SEND_RECEIVE,
    UNNAMED,
    HostRows,
    NcclCalls,
)
from cctrace.analyzers.columns import MISSING, BoolArray, IntArray
from cctrace.analyzers.comparability.kernels import short_name
from cctrace.analyzers.copy_rows import told_apart

_SEND, _RECEIVE = OPERATIONS.index("send"), OPERATIONS.index("receive")


@dataclass(frozen=True)
class Exchange:
    """One exchange of data between GPUs, as far as it is known.

    Attributes:
        operation: all-reduce, all-gather …
        bytes: size of the larger buffer of one rank, of all calls that are carried out together; None if not
            known.
        ranks: GPUs that take part; None if not known.
        datatype: of the elements; None if not known.
        of_nccl: whether a call of NCCL says so; else the kernel's symbol does.
    """

    operation: str
    bytes: int | None
    ranks: int | None
    datatype: str | None
    of_nccl: bool


@dataclass(frozen=True, eq=False)
class Exchanged:
    """What each of some launches carries out.

    Attributes:
        what: position in `kinds` for each launch, −1 if no call is known.
        call_ns: time in the calls of NCCL that it carries out, −1 if there are none.
        kinds: the different exchanges.
    """

    what: IntArray
    call_ns: IntArray
    kinds: tuple[Exchange, ...]


# ---- which launch carries out which calls


def exchanged(calls: NcclCalls, launches: HostRows) -> Exchanged:
    """What each launch carries out, captured ones included."""
    launch = _launch_of(calls, launches)
    count = np.bincount(launch[launch >= 0], minlength=len(launches))
    columns = _columns(calls, launches, launch, count)
    # An end of a group that launched several kernels: nothing tells which calls are whose.
    unclear = (count > 1) & _followed_by_none(launches, count)
    columns["bytes"] = np.where(unclear, MISSING, columns["bytes"])
    known = np.flatnonzero(count)
    found, number = told_apart(
        *(columns[name][known] for name in ("operation", "bytes", "ranks", "datatype"))
    )
    what = np.full(len(launches), MISSING, np.int64)
    what[known] = number
    kinds = tuple(
        Exchange(
            operation=OPERATIONS[operation],
            bytes=size if size >= 0 else None,
            ranks=ranks if ranks > 0 else None,
            datatype=calls.datatypes[datatype] if datatype >= 0 else None,
            of_nccl=True,
        )
        for operation, size, ranks, datatype in found
    )
    return Exchanged(what, columns["call_ns"], kinds)


def _launch_of(calls: NcclCalls, launches: HostRows) -> IntArray:
    """For each call the position of the launch that carries it out, −1 if there is none."""
    found = np.full(len(calls), MISSING, np.int64)
    of_nccl = _launches_nccl(launches)
    for own_calls, there_launched in _by_place(calls, launches):
        own = there_launched[of_nccl[there_launched]]
        own = own[np.argsort(launches.start_ns[own], kind="stable")]
        after = np.searchsorted(launches.start_ns[own], calls.start_ns[own_calls])
        there = after < len(own)
        found[own_calls[there]] = own[after[there]]
    return found


def _by_place(calls: NcclCalls, launches: HostRows) -> Iterator[tuple[IntArray, IntArray]]:
    """(calls, launches) of each thread and stream, submitted and captured ones apart."""
    pairs = zip(
        (calls.captured, calls.pid, calls.tid, calls.stream),
        (launches.captured, launches.pid, launches.tid, launches.stream),
        strict=True,
    )
    both = [np.concatenate((one.astype(np.int64), other.astype(np.int64))) for one, other in pairs]
    places, number = told_apart(*both)
    for place in range(len(places)):
        rows = np.flatnonzero(number == place)
        yield rows[rows < len(calls)], rows[rows >= len(calls)] - len(calls)


def _columns(calls: NcclCalls, launches: HostRows, launch: IntArray, count: IntArray) -> dict[str, IntArray]:
    """What the calls of each launch say together."""
    own = np.flatnonzero(launch >= 0)
    at = launch[own]
    size = np.maximum(calls.bytes[own], 0)
    sends, receives = calls.operation[own] == _SEND, calls.operation[own] == _RECEIVE

    def total(values: IntArray | BoolArray) -> IntArray:
        sums = np.zeros(len(launches), np.int64)
        np.add.at(sums, at, values)
        return sums

    def common(values: IntArray, otherwise: int) -> IntArray:
        low, high = np.full(len(launches), np.iinfo(np.int64).max), np.full(len(launches), -1)
        np.minimum.at(low, at, values[own])
        np.maximum.at(high, at, values[own])
        return np.where((count > 0) & (low == high), high, otherwise)

    ranks = common(calls.ranks, 0)
    sent, received = total(sends), total(receives)
    between_peers = (count > 0) & (sent + received == count)
    everyone = between_peers & (sent == ranks) & (received == ranks) & (ranks > 1)
    operation = common(calls.operation, OPERATIONS.index(MIXED))
    operation = np.where(between_peers, OPERATIONS.index(SEND_RECEIVE), operation)
    operation = np.where(everyone, OPERATIONS.index(ALL_TO_ALL), operation)
    known = np.bincount(at[calls.bytes[own] >= 0], minlength=len(launches)) == count
    size_of = np.where(between_peers, np.maximum(total(size * sends), total(size * receives)), total(size))
    return {
        "operation": operation,
        "bytes": np.where((count > 0) & known, size_of, MISSING),
        "ranks": ranks,
        "datatype": common(calls.datatype, MISSING),
        "call_ns": np.where(count > 0, total(calls.duration_ns[own]), MISSING),
    }


def unknown_exchange(symbol: str) -> Exchange:
    """What a kernel of which no call is known exchanges, as far as its symbol says.

    NCCL has several kernels for one operation. Any other one is an operation of its own.
    """
    operation = OPERATIONS[_named(symbol)]
    if not _of_nccl(symbol):
        operation = f"{operation} ({short_name(symbol)})"
    return Exchange(operation, None, None, None, of_nccl=False)


def _launches_nccl(launches: HostRows) -> BoolArray:
    mask: BoolArray = np.array([_of_nccl(symbol) for symbol in launches.symbols] + [False])[launches.symbol]
    return mask


def _of_nccl(symbol: str) -> bool:
    return "nccl" in symbol.lower()


def _named(symbol: str) -> int:
    """Position in OPERATIONS of what a kernel's symbol says."""
    for pattern, name in OF_KERNELS:
        if pattern.search(symbol):
            return OPERATIONS.index(name)
    return OPERATIONS.index(UNNAMED)


def _followed_by_none(launches: HostRows, count: IntArray) -> BoolArray:
    """Launches of NCCL whose next one, on the same thread and stream, carries out no call."""
    order = np.lexsort((launches.start_ns, launches.stream, launches.tid, launches.pid, launches.captured))
    order = order[_launches_nccl(launches)[order]]
    same = np.ones(max(len(order) - 1, 0), np.bool_)
    for column in (launches.stream, launches.tid, launches.pid, launches.captured):
        same &= column[order[1:]] == column[order[:-1]]
    follows = np.zeros(len(launches), np.bool_)
    follows[order[:-1]] = same & (count[order[1:]] == 0)
    return follows


# ---- graphs


def recipes(host: HostRows) -> Mapping[tuple[int, int], IntArray]:
    """(pid, graph) → the captured launches that it holds, positions in `host.launches`, as recorded."""
    launches = host.launches
    captured = np.flatnonzero(launches.captured)
    if not len(captured):
        return {}
    begins, builds = (
        host.pick(host.what == CAPTURE_BEGIN),
        host.pick((host.what == BUILD) & (host.graph_id >= 0)),
    )
    found: dict[tuple[int, int], IntArray] = {}
    for pid, tid in told_apart(builds.pid, builds.tid)[0]:
        began = np.sort(begins.start_ns[(begins.pid == pid) & (begins.tid == tid)])
        own = captured[(launches.pid[captured] == pid) & (launches.tid[captured] == tid)]
        own = own[np.argsort(launches.start_ns[own], kind="stable")]
        session = np.searchsorted(began, launches.start_ns[own], side="right")
        made = builds.pick((builds.pid == pid) & (builds.tid == tid))
        of_graph = np.searchsorted(began, made.start_ns, side="right")
        for graph, number in zip(made.graph_id.tolist(), of_graph.tolist(), strict=True):
            if number:
                found[pid, graph] = own[session == number]
    return found
