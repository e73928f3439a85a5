"""The collectives of a recording: how often, how many bytes, how long on the GPU, by operation and size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

import numpy as np

from cctrace.analyzers.collective_calls import Exchange
from cctrace.analyzers.collective_rows import ALL_TO_ALL, SEND_RECEIVE
from cctrace.analyzers.collective_runs import CollectiveRuns, Windows, collective_runs, windows_of
from cctrace.analyzers.columns import IntArray
from cctrace.analyzers.comparability.kernels import MIN_LAUNCHES
from cctrace.analyzers.copies import size_bucket
from cctrace.analyzers.loading import load
from cctrace.analyzers.results import Result, microseconds, value
from cctrace.analyzers.sentences import plural
from cctrace.trace import Metadata, Trace, open_trace

MAX_SAMPLED: Final = 20_000
"""Runs kept to be joined with those of other ranks: medians are then known to 1 %."""
SLOT_NS: Final = 1 << 24
"""Runs are kept by stretches of time of 17 ms, the same in all recordings of a host: a few decode steps."""
P95: Final = 95

RowKey = tuple[str, int | None, bool, int | None]
"""Operation, ranks, whether NCCL's call says so, and smallest size of the bucket."""


@dataclass(frozen=True, kw_only=True)
class CollectiveRow(Result):
    """Collectives of one operation, size and number of ranks, within the steady steps."""

    operation: str = value("all-reduce, all-gather … ; of kernels outside of NCCL, what their symbols say")
    of_nccl: bool = value("whether a call of NCCL says what it is; else the kernel's symbol does")
    ranks: int | None = value("GPUs that take part; null if not known")
    from_bytes: int | None = value("smallest size of the bucket; null if sizes are not known", "bytes")
    below_bytes: int | None = value("sizes of the bucket are smaller than this", "bytes")
    bytes: int | None = value("median size of the larger buffer of one rank; null if not known", "bytes")
    datatypes: tuple[str, ...] = value("types of the elements")
    runs: int = value("how often it ran, over all recorded ranks", "runs")
    per_step: float | None = value("runs per step and rank; null without steps", "runs")
    bytes_per_step: float | None = value("bytes per step and rank; null if not known", "bytes")
    timed: int = value("runs whose GPU time is known", "runs")
    gpu_median_us: float | None = value(
        "median GPU time of a run on one rank, waiting for the latest rank included; null if not known", "µs"
    )
    gpu_p95_us: float | None = value("95th percentile of it", "µs")
    call_median_us: float | None = value(
        "median host time of the call outside of graphs; null if there is none", "µs"
    )
    kernels: tuple[str, ...] = value("symbols of its kernels, most frequent first")

    @property
    def key(self) -> RowKey:
        """What rows of two recordings have in common if they are about the same collectives."""
        return (self.operation, self.ranks, self.of_nccl, self.from_bytes)


@dataclass(frozen=True, eq=False)
class RankSample:
    """Runs of one process, to be joined with those of other ranks.

    Attributes:
        pid: process.
        what: position in the table's `exchanges`.
        start_ns: begin on the GPU, CLOCK_MONOTONIC of the host.
        end_ns: end.
    """

    pid: int
    what: IntArray
    start_ns: IntArray
    end_ns: IntArray

    def __len__(self) -> int:
        return len(self.what)


@dataclass(frozen=True, kw_only=True, eq=False)
class CollectiveTable:
    """The collectives of one recording.

    Attributes:
        rows: by operation and size, most time first.
        kernels: symbols of collective kernels that ran often enough to be part of the steps.
        exchanges: what `samples` refer to.
        samples: one for each process with GPU times of collectives.
        processes: processes with collectives.
        steps: steady steps of all of them together.
        host: name of the host; None if not known.
        no_steps_because: why everything counts instead of the steady steps; None if steps were found.
        no_times_because: why no GPU time is known; None if some are.
        none_because: why there is no row; None if there are some.
        emulated: the recorder lengthened transfers; these times do not hold what it added.
        distorted: the host's times are those of a recording with CUPTI.
    """

    rows: tuple[CollectiveRow, ...]
    kernels: frozenset[str]
    exchanges: tuple[Exchange, ...]
    samples: tuple[RankSample, ...]
    processes: int
    steps: int
    host: str | None
    no_steps_because: str | None
    no_times_because: str | None
    none_because: str | None
    emulated: bool
    distorted: bool


@dataclass(frozen=True, kw_only=True)
class Bandwidth(Result):
    """How fast a collective was."""

    algorithm_gb_per_s: float | None = value("bytes ÷ time; null if bytes or time are not known", "GB/s")
    bus_gb_per_s: float | None = value("the same × the operation's factor; null if that is not known", "GB/s")
    cannot_tell_because: str | None = value("why one of them is null; null if both are known")


def collective_table(path: Path) -> CollectiveTable:
    """The collectives of a recording.

    Raises:
        UnusableInputError: the file cannot be read.
    """
    trace = open_trace(path)
    found = _found(trace)
    windows = found.windows
    runs = collective_runs(trace, windows)
    steps = _steps(runs, windows)
    metadata = trace.metadata
    rows = _rows(runs, steps)
    return CollectiveTable(
        rows=rows,
        kernels=_kernels(runs),
        exchanges=runs.kinds,
        samples=_samples(runs),
        processes=len(np.unique(runs.pid)),
        steps=steps,
        host=metadata.recording.host,
        no_steps_because=windows.why_none,
        no_times_because=None if any(row.timed for row in rows) else _no_times(trace),
        none_because=None if rows else _none(metadata, found),
        emulated=metadata.emulation is not None and "nvlink" in metadata.emulation.causes,
        distorted=found.distorted,
    )


@dataclass(frozen=True, eq=False)
class _Found:
    """What the whole recording says: it takes much memory, which the collectives may need.

    Attributes:
        windows: its steady steps.
        distorted: its host times are those of a recording with CUPTI.
        working: processes that hand work to the GPU.
    """

    windows: Windows
    distorted: bool
    working: int


def _found(trace: Trace) -> _Found:
    recording = load(trace)
    working = sum(process.calls.work_count > 0 for process in recording.processes)
    return _Found(windows_of(recording), recording.distorted, working)


# ---- bandwidths


_EVERY_OTHER_RANK: Final = ("all-gather", "reduce-scatter", ALL_TO_ALL, "gather", "scatter")
_ONE_BUFFER: Final = ("broadcast", "reduce", SEND_RECEIVE)


def bus_factor(operation: str, ranks: int | None) -> float | None:
    """What crosses the busiest link ÷ bytes, as NCCL's tests count it; None if it cannot be told.

    Source: nccl-tests, doc/PERFORMANCE.md: an all-reduce of n ranks moves 2 (n − 1) ÷ n of its bytes over
    each link, whatever the algorithm; operations that leave out a rank's own part (n − 1) ÷ n; a broadcast,
    a reduce, a send all of them. So a bus bandwidth can be compared with that of the link.
    """
    if operation in _ONE_BUFFER:
        return 1.0
    if ranks is None or ranks < 2:
        return None
    if operation == "all-reduce":
        return 2 * (ranks - 1) / ranks
    return (ranks - 1) / ranks if operation in _EVERY_OTHER_RANK else None


def bandwidth(row: CollectiveRow, us: float | None) -> Bandwidth:
    """The bandwidths of a row whose runs take `us` microseconds each."""
    if row.bytes is None:
        reason = "the call is not recorded, so its bytes are not known" if not row.of_nccl else None
        return _unknown(reason or "several kernels carried out one group of calls: whose bytes is not known")
    if not us:
        return _unknown("no GPU time is known")
    algorithm = row.bytes / us / 1e3
    factor = bus_factor(row.operation, row.ranks)
    if factor is not None:
        return Bandwidth(
            algorithm_gb_per_s=algorithm, bus_gb_per_s=algorithm * factor, cannot_tell_because=None
        )
    reason = (
        "the number of ranks is not known" if not row.ranks or row.ranks < 2 else "the operation has none"
    )
    return Bandwidth(
        algorithm_gb_per_s=algorithm, bus_gb_per_s=None, cannot_tell_because=f"no bus bandwidth: {reason}"
    )


def _unknown(reason: str) -> Bandwidth:
    return Bandwidth(algorithm_gb_per_s=None, bus_gb_per_s=None, cannot_tell_because=reason)


# ---- rows


def row_key(exchange: Exchange) -> RowKey:
    """The row that an exchange belongs to."""
    smallest = None if exchange.bytes is None else _smallest(exchange.bytes)
    return (exchange.operation, exchange.ranks, exchange.of_nccl, smallest)


def _smallest(size: int) -> int:
    exponent = int(size_bucket(np.array([size]))[0])
    return 1 << (exponent - 1) if exponent else 0


def _steps(runs: CollectiveRuns, windows: Windows) -> int:
    return sum(len(windows.of(pid)[0]) for pid in np.unique(runs.pid).tolist()) if windows.steps else 0


def _rows(runs: CollectiveRuns, steps: int) -> tuple[CollectiveRow, ...]:
    keys = [row_key(kind) for kind in runs.kinds]
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    row_of = np.array([numbers[key] for key in keys], np.int64)[runs.what]
    made = [
        _row(runs.pick(row_of == number), key, steps)
        for key, number in numbers.items()
        if (row_of == number).any()
    ]
    return tuple(sorted(made, key=lambda row: (-(row.gpu_median_us or 0.0) * row.runs, -row.runs)))


def _row(runs: CollectiveRuns, key: RowKey, steps: int) -> CollectiveRow:
    operation, ranks, of_nccl, smallest = key
    times, calls = runs.duration_ns[runs.duration_ns > 0], runs.call_ns[runs.call_ns >= 0]
    number = int(runs.count.sum())
    sizes = np.array([kind.bytes or 0 for kind in runs.kinds], np.int64)[runs.what]
    known = smallest is not None
    datatypes = {runs.kinds[what].datatype for what in np.unique(runs.what).tolist()}
    return CollectiveRow(
        operation=operation,
        of_nccl=of_nccl,
        ranks=ranks,
        from_bytes=smallest,
        below_bytes=max(2 * smallest, 1) if smallest is not None else None,
        bytes=_weighted_median(sizes, runs.count) if known else None,
        datatypes=tuple(sorted(one for one in datatypes if one is not None)),
        runs=number,
        per_step=number / steps if steps else None,
        bytes_per_step=float((sizes * runs.count).sum()) / steps if steps and known else None,
        timed=len(times),
        gpu_median_us=microseconds(float(np.median(times))) if len(times) else None,
        gpu_p95_us=microseconds(float(np.percentile(times, P95))) if len(times) else None,
        call_median_us=microseconds(float(np.median(calls))) if len(calls) else None,
        kernels=_symbols(runs),
    )


def _weighted_median(values: IntArray, counts: IntArray) -> int:
    order = np.argsort(values, kind="stable")
    total = np.cumsum(counts[order])
    return int(values[order][np.searchsorted(total, total[-1] / 2)])


def _symbols(runs: CollectiveRuns) -> tuple[str, ...]:
    counts = _launches(runs)
    order = np.argsort(-counts, kind="stable")
    return tuple(runs.symbols[number] for number in order.tolist() if counts[number])


def _launches(runs: CollectiveRuns) -> IntArray:
    """How often each symbol ran."""
    counts = np.zeros(len(runs.symbols), np.int64)
    np.add.at(counts, runs.kernel, runs.count)
    return counts


def _kernels(runs: CollectiveRuns) -> frozenset[str]:
    counts = _launches(runs)
    return frozenset(runs.symbols[number] for number in np.flatnonzero(counts >= MIN_LAUNCHES).tolist())


def _samples(runs: CollectiveRuns) -> tuple[RankSample, ...]:
    """The runs of whole slots of time, which are the same ones in every recording of a host."""
    kept = runs.pick(runs.duration_ns > 0)
    every = 1
    while len(kept) > MAX_SAMPLED:
        every *= 2
        some = kept.pick((kept.start_ns // SLOT_NS) % every == 0)
        if not len(some):
            break
        kept = some
    found = []
    for pid in np.unique(kept.pid).tolist():
        own = kept.pick(kept.pid == pid)
        found.append(RankSample(pid, own.what, own.start_ns, own.start_ns + own.duration_ns))
    return tuple(found)


# ---- why something is not known

_NO_TIMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "none": "the recording holds no GPU times (--gpu none)",
        "stamps": "stamps time whole graphs, not the kernels in them (record with --gpu nodes where CUPTI "
        "works: CC off, or devtools)",
        "graphs": "the recording times whole graphs, not the kernels in them (--gpu nodes does)",
    }
)


def _no_times(trace: Trace) -> str:
    mode = trace.metadata.collector.gpu_mode or "none"
    return _NO_TIMES.get(mode, "no row of the GPU belongs to a collective")


def _none(metadata: Metadata, found: _Found) -> str:
    """Why a recording shows no collective."""
    hardware, parallel = metadata.acceptance.hardware, metadata.acceptance.parallelism
    where = "within its steady steps " if found.windows.steps else ""
    reason = f"it {where}calls no NCCL function and launches no kernel known as a collective"
    if hardware.gpus == 1:
        return f"{reason}; it was made on one GPU, which has nothing to exchange"
    if parallel.tp == 1 and not any(size and size > 1 for size in (parallel.pp, parallel.dp, parallel.ep)):
        return f"{reason}; it runs on one GPU (tensor parallel 1)"
    if found.working > 1:
        return (
            f"{reason}, though {plural(found.working, 'process')} used the GPU: they may be replicas, or "
            "exchange data by fused kernels or copies that no name tells"
        )
    return f"{reason}: a program on one GPU has none"
