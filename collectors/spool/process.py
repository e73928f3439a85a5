"""Rows of one recorded process image: its host threads first, then its GPU streams."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cctrace.collectors.spool.collectives import communicator_births, communicator_keys
from cctrace.collectors.spool.columns import (
    LaneRows,
    Numbers,
    Texts,
    lane_table,
    may_be_executable,
    wants_event,
    wants_stream,
)
from cctrace.collectors.spool.cupti import (
    NO_SYNC_STREAM,
    Correlations,
    CuptiNumbers,
    HostCalls,
    number_alike,
)
from cctrace.collectors.spool.handles import LEGACY_STREAM, Births, Numbering, stream_keys, stream_name
from cctrace.collectors.spool.index import Index, Run
from cctrace.collectors.spool.lanes import Lanes
from cctrace.collectors.spool.layout import NO_DEVICE, Kind, Operation
from cctrace.collectors.spool.merge import Batch, merged
from cctrace.collectors.spool.replays import EAGER_NAME, Replays, find_replays
from cctrace.collectors.spool.roles import thread_roles
from cctrace.collectors.spool.spoolfile import Records, SpoolFile, take
from cctrace.collectors.spool.steps import Steps, find_steps

_BUILDS_EXECUTABLE: Final = ("cuGraphInstantiate", "cuGraphExec", "cuGraphUpload")
"""Graph-building calls whose object is an executable graph, by the begin of their name."""
_CREATES_EXECUTABLE: Final = "cuGraphInstantiate"

_SAMPLED_STEPS: Final = "sampled steps"
"""Lane of the stamps around eager steps: which stream they ran on is not known."""

_CUPTI_WORK: Final = (Kind.KERNEL, Kind.GRAPH, Kind.COPY, Kind.MEMSET)
_OUTSIDE: Final = "CUPTI rows beside the window"

_TID_MAX: Final = 2**31 - 1
"""Linux gives out no larger thread id; a larger one is damage, or CUPTI's own number of a thread."""


Fields: TypeAlias = Batch | Records
Where: TypeAlias = npt.NDArray[np.intp] | slice


@dataclass
class ProcessNumbers:
    """Numbers given out within a pid.

    Several images of one process (after exec) share them, so that none is used for two objects.
    """

    streams: Numbering = field(default_factory=lambda: Numbering(reserved=(LEGACY_STREAM,)))
    graphs: Numbering = field(default_factory=Numbering)
    events: Numbering = field(default_factory=Numbering)
    correlations: int = 0
    steps: dict[int, int] = field(default_factory=dict)


class ProcessRows:
    """Turns the records of one spool into tables, lane by lane."""

    def __init__(
        self, spool: SpoolFile, index: Index, lanes: Lanes, numbers: ProcessNumbers, step_pattern: str
    ) -> None:
        self._records = spool.records
        self._pid = spool.pid
        self._index = index
        self._lanes = lanes
        self._numbers = numbers
        self._steps: Steps = find_steps(spool.records, index, step_pattern)
        self.replays: Replays = find_replays(index, spool.pid)
        self._texts = Texts({**index.strings}, self._steps.classes)
        self._roles = thread_roles(index, set(self._steps.rows))
        self._stream_births = _stream_births(index)
        self._graph_births, self._executable_names = _graph_births(index)
        self._communicator_births = communicator_births(spool.records, index)
        self._correlations = Correlations(spool.records, index)
        self._calls_ns: tuple[int, int] | None = None
        self._launch_correlation = self._number_replays()

    def write(self, write: Callable[[pa.Table], None], progress: Callable[[int], None]) -> int:
        """Hands all rows to `write`, sorted by lane and start; returns how many there were."""
        rows = 0
        for tid in self._index.threads:
            rows += self._write_thread(tid, write, progress)
        rows += self._write_streams(write, progress)
        return rows

    def _write_thread(
        self, tid: int, write: Callable[[pa.Table], None], progress: Callable[[int], None]
    ) -> int:
        role = self._roles.get(tid)
        lane = self._lanes.add(self._pid, "thread", tid=tid, role=role, name=f"thread {tid}")
        shared = LaneRows(self._pid, lane, tid if tid <= _TID_MAX else None, role)
        host_calls = HostCalls(self._records, self._index.host_calls.get(tid, []), self._correlations)
        ranges = [*self._steps.ranges.get(tid, []), *self._index.overheads.get(tid, [])]
        ranges += self._index.collectives.get(tid, [])
        made = self._offset_steps(tid)
        count = 0
        for batch in merged(self._records, self._index.calls.get(tid, []), ranges, made):
            numbers = self._call_numbers(batch, host_calls)
            write(lane_table(batch, shared, self._texts, numbers))
            self._extend_calls(batch)
            count += len(batch)
            progress(len(batch))
        self._lanes.count(lane, count)
        return count

    def _extend_calls(self, batch: Batch) -> None:
        """Follows from when to when there are host calls."""
        if not batch.is_call.any():
            return
        first = int(batch["start_ns"][batch.is_call].min())
        last = int(batch["end_ns"][batch.is_call].max())
        known = self._calls_ns or (first, last)
        self._calls_ns = (min(known[0], first), max(known[1], last))

    def _in_window(self, batch: Batch) -> Batch:
        """The batch without rows of submissions before or after the recorded calls.

        CUPTI hands out whole buffers, so its rows begin and end up to a second beside a window.
        """
        work = np.isin(batch["kind"], _CUPTI_WORK) & (batch.positions >= 0)
        if self._calls_ns is None or not work.any():
            return batch
        stream, _ = self._correlations.stream_and_graph(batch["link"])
        starts = batch["start_ns"]
        beside = (starts < self._calls_ns[0]) | (starts > self._calls_ns[1])
        outside = work & (stream < 0) & beside
        if not outside.any():
            return batch
        unmatched = self.replays.unmatched
        unmatched[_OUTSIDE] = unmatched.get(_OUTSIDE, 0) + int(np.count_nonzero(outside))
        kept = np.flatnonzero(~outside)
        return Batch(take(batch.records, kept), batch.positions[kept])

    def _offset_steps(self, tid: int) -> Records | None:
        """The thread's steps, numbered on from those of an earlier image of the process."""
        made = self._steps.rows.get(tid)
        if made is not None:
            first = self._numbers.steps.get(tid, 0)
            made["object"] += np.uint64(first)
            self._numbers.steps[tid] = first + len(made)
        return made

    def _call_numbers(self, batch: Batch, host_calls: HostCalls) -> Numbers:
        stream = _spread(wants_stream(batch), batch, self._stream_numbers)
        ref = _spread(wants_event(batch), batch, self._event_numbers)
        communicator = _spread(batch.is_collective, batch, self._communicator_numbers)
        if communicator is not None:
            ref = communicator if ref is None else np.maximum(ref, communicator)
        executable = may_be_executable(batch)
        builds = batch.operations == Operation.GRAPH_BUILD
        if builds.any():
            executable &= ~builds | np.isin(batch["name"], self._executable_names)
        graph = _spread(executable, batch, self._graph_numbers)
        correlation = self._correlation_of(batch, host_calls)
        if correlation is not None and self._correlations:
            self._correlations.join(correlation, stream, graph)
        return Numbers(stream, correlation, graph, ref)

    def _correlation_of(self, batch: Batch, host_calls: HostCalls) -> npt.NDArray[np.int64] | None:
        if self._correlations:
            return host_calls.correlations(batch)
        positions, correlations = self._launch_correlation
        if not len(positions):
            return None
        launches = np.flatnonzero(batch.operations == Operation.GRAPH)
        if not len(launches):
            return None
        place = np.minimum(np.searchsorted(positions, batch.positions[launches]), len(positions) - 1)
        hit = positions[place] == batch.positions[launches]
        found = np.full(len(batch), -1, dtype=np.int64)
        found[launches[hit]] = correlations[place[hit]]
        return found

    def _number_replays(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.int64]]:
        """Gives each joined replay a correlation, and its row the stream and graph of the launch.

        Returns the positions of the launches in the spool, ascending, and their correlations.
        """
        replays = self.replays
        calls = take(self._index.graph_calls, replays.launch)
        numbers = np.arange(len(calls), dtype=np.int64) + self._numbers.correlations + 1
        self._numbers.correlations += len(calls)
        replays.graphs["link"] = numbers
        replays.graphs["stream"] = self._stream_numbers(calls, slice(None))
        replays.graphs["object"] = self._graph_numbers(calls, slice(None))
        positions = self._index.graph_positions[replays.launch]
        order = np.argsort(positions)
        return positions[order], numbers[order]

    def _stream_numbers(self, calls: Fields, where: Where) -> npt.NDArray[np.int64]:
        keys = stream_keys(calls["stream"][where])
        births = self._stream_births
        return self._numbers.streams.numbers(keys, births.generations(keys, calls["end_ns"][where]))

    def _graph_numbers(self, calls: Fields, where: Where) -> npt.NDArray[np.int64]:
        handles = calls["object"][where]
        births = self._graph_births
        return self._numbers.graphs.numbers(handles, births.generations(handles, calls["end_ns"][where]))

    def _event_numbers(self, calls: Fields, where: Where) -> npt.NDArray[np.int64]:
        return self._numbers.events.numbers(calls["object"][where])

    def _communicator_numbers(self, calls: Fields, where: Where) -> npt.NDArray[np.int64]:
        keys = communicator_keys(calls["object"][where])
        births = self._communicator_births
        return self._numbers.events.numbers(keys, births.generations(keys, calls["start_ns"][where]))

    def _write_streams(self, write: Callable[[pa.Table], None], progress: Callable[[int], None]) -> int:
        cupti = number_alike(
            self._records, self._index, self._correlations, self._numbers.streams, self._numbers.graphs
        )
        sources = self._stream_sources(cupti)
        return sum(self._write_stream(source, write, progress) for source in sources)

    def _stream_sources(self, cupti: CuptiNumbers) -> list[_StreamRows]:
        """Everything that goes on GPU lanes, in the order of the lanes."""
        by_lane: dict[tuple[int, int], _StreamRows] = {}
        for key, number in cupti.streams.items():
            runs = self._index.gpu[key]
            by_lane[(key[0], number)] = _StreamRows(key[0], number, runs, None, cupti)
        graphs = self.replays.graphs
        lane_ids = graphs["device"].astype(np.int64) << 32 | graphs["stream"].astype(np.int64)
        for lane_id in np.unique(lane_ids).tolist():
            device, number = lane_id >> 32, lane_id & 0xFFFFFFFF
            rows = graphs[lane_ids == lane_id]
            runs = by_lane[(device, number)].runs if (device, number) in by_lane else []
            by_lane[(device, number)] = _StreamRows(device, number, runs, rows, cupti)
        found = [by_lane[key] for key in sorted(by_lane)]
        for device in np.unique(self.replays.eager["device"]).tolist():
            rows = self.replays.eager[self.replays.eager["device"] == device]
            found.append(_StreamRows(device, None, [], rows, cupti, _SAMPLED_STEPS))
        if self._index.syncs:
            found.append(_StreamRows(NO_DEVICE, None, self._index.syncs, None, cupti, "synchronization"))
        if self._index.rotations:
            found.append(_StreamRows(NO_DEVICE, None, self._index.rotations, None, cupti, "key rotation"))
        return found

    def _write_stream(
        self, source: _StreamRows, write: Callable[[pa.Table], None], progress: Callable[[int], None]
    ) -> int:
        """Writes one GPU lane; returns its rows."""
        device = None if source.device == NO_DEVICE else source.device
        name = source.name or self._stream_name(source.number)
        lane = self._lanes.add(self._pid, "stream", device=device, stream=source.number, name=name)
        shared = LaneRows(self._pid, lane, None, None)
        texts = self._texts if source.name != _SAMPLED_STEPS else Texts({1: EAGER_NAME})
        count = 0
        for read in merged(self._records, source.runs, (), source.made):
            batch = self._in_window(read)
            write(lane_table(batch, shared, texts, source.numbers(batch)))
            count += len(batch)
            progress(int(np.count_nonzero(read.positions >= 0)))
        self._lanes.count(lane, count)
        return count

    def _stream_name(self, number: int | None) -> str:
        key = self._numbers.streams.key_of(number) if number is not None else None
        return (stream_name(key) if key is not None else None) or f"stream {number}"


@dataclass(frozen=True)
class _StreamRows:
    """Rows of one GPU lane: CUPTI's, made ones, or both. `number` is the stream's, if they all are of one."""

    device: int
    number: int | None
    runs: list[Run]
    made: Records | None
    cupti: CuptiNumbers
    name: str | None = None

    def numbers(self, batch: Batch) -> Numbers:
        made = batch.positions < 0
        kinds = batch["kind"]
        correlation = np.where(batch["link"] > 0, batch["link"].astype(np.int64), -1)
        correlation[(kinds == Kind.ROTATION) | (kinds == Kind.MARK)] = -1
        if self.number is None:
            stream = None
            if bool(np.any(kinds == Kind.SYNC)):
                stream = self._sync_streams(batch)
            return Numbers(stream=stream, correlation=correlation)
        graph = np.where(made, batch["object"].astype(np.int64), self.cupti.graph_numbers(batch["tid"]))
        return Numbers(
            stream=np.full(len(batch), self.number, dtype=np.int64), correlation=correlation, graph=graph
        )

    def _sync_streams(self, batch: Batch) -> npt.NDArray[np.int64]:
        # A synchronization names no device. CUPTI numbers streams over all devices, so any device's entry is
        # right.
        by_id = {stream: number for (_, stream), number in self.cupti.streams.items()}
        ids = (batch["stream"] & np.uint64(NO_SYNC_STREAM)).tolist()
        return np.array([by_id.get(i, -1) for i in ids], dtype=np.int64)


def _spread(
    wanted: npt.NDArray[np.bool_], batch: Batch, number: Callable[[Batch, Where], npt.NDArray[np.int64]]
) -> npt.NDArray[np.int64] | None:
    """Numbers of the wanted rows, −1 elsewhere; None if none is wanted."""
    if bool(wanted.all()):
        return number(batch, slice(None))
    where = np.flatnonzero(wanted)
    if not len(where):
        return None
    result = np.full(len(batch), -1, dtype=np.int64)
    result[where] = number(batch, where)
    return result


def _stream_births(index: Index) -> Births:
    created = index.kept[Kind.STREAM]
    return Births(created["object"], created["start_ns"])


def _graph_births(index: Index) -> tuple[Births, npt.NDArray[np.uint32]]:
    """When executable graphs were made, and the ids of calls whose object is an executable graph."""
    names = np.array(
        [i for i, text in index.strings.items() if text.startswith(_BUILDS_EXECUTABLE)], dtype=np.uint32
    )
    creating = np.array(
        [i for i, text in index.strings.items() if text.startswith(_CREATES_EXECUTABLE)], dtype=np.uint32
    )
    calls = index.graph_calls
    created = (calls["operation"] == Operation.GRAPH_BUILD) & (calls["object"] != 0)
    created &= np.isin(calls["name"], creating)
    return Births(calls["object"][created], calls["end_ns"][created]), names
