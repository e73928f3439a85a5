"""The streams of a replay: what is in them, and the points in time at which their work is done."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np

from cctrace.analyzers.attribution.costs import Costs
from cctrace.analyzers.attribution.pairing import opens
from cctrace.analyzers.attribution.program import Program
from cctrace.analyzers.columns import FloatArray, IntArray

_NO_INDEX: Final = np.zeros(0, np.int64)
_Queue = tuple[int, int]
"""A stream in a passage."""


class Nodes:
    """Counts points in time; the first one is the begin."""

    def __init__(self) -> None:
        self.count = 1

    def new(self) -> int:
        """The number of a new point."""
        self.count += 1
        return self.count - 1


class Queues:
    """The streams of each passage: what is in them, and up to where their ends have become nodes."""

    def __init__(self, program: Program, owner: IntArray, nodes: Nodes) -> None:
        device = program.device
        self._nodes = nodes
        self._duration = device.duration
        spent = np.cumsum(device.pause + device.duration, axis=0)
        self._until = np.concatenate((np.zeros((1, spent.shape[1])), spent))
        self._owner = owner.copy()
        self._bounds: dict[_Queue, tuple[int, int]] = {}
        self._streams: dict[int, list[int]] = {}
        bounds = [*np.flatnonzero(opens(device.passage, device.stream)).tolist(), len(device)]
        for first, last in pairwise(bounds):
            passage, stream = int(device.passage[first]), int(device.stream[first])
            self._bounds[passage, stream] = (first, last)
            self._streams.setdefault(passage, []).append(stream)
            # First in, first out: nothing is submitted before what lies ahead of it.
            np.maximum.accumulate(owner[first:last], out=self._owner[first:last])
        self._meetings = _Meetings(device.meeting, device.passage, device.stream)
        self._base: dict[_Queue, tuple[int, int]] = {}
        self._waits: dict[_Queue, list[tuple[int, int]]] = {}
        self._edges: list[tuple[int, int, FloatArray]] = []
        self._runs: list[tuple[int, int, int]] = []
        self._arrivals: list[tuple[int, int]] = []

    def streams(self, passage: int) -> list[int]:
        """Streams with work in a passage."""
        return self._streams.get(passage, [])

    def wait(self, passage: int, stream: int, position: int, node: int) -> None:
        """What is submitted to the stream after an operation waits for a node."""
        queue = passage, stream
        if queue in self._bounds:
            at = self._submitted(queue, position, included=False)
            self._waits.setdefault(queue, []).append((at, node))

    def end(self, passage: int, stream: int, position: int, *, included: bool) -> int | None:
        """The node at which everything submitted up to an operation is done; None if there is nothing."""
        queue = passage, stream
        if queue not in self._bounds:
            return None
        upto = self._submitted(queue, position, included=included)
        for at in self._meetings.within(self._since(queue), upto):
            self._meet(at)
        return self._node_at(queue, upto)

    def edges(self) -> list[tuple[IntArray, IntArray, Costs]]:
        """Edges between ends of streams, as (targets, sources, costs)."""
        if not self._edges:
            return []
        target, source, cost = zip(*self._edges, strict=True)
        return [(np.array(target, np.int64), np.array(source, np.int64), np.array(cost, np.float64))]

    def submissions(self) -> tuple[IntArray, IntArray, IntArray, Costs]:
        """(target, submitting call, GPU operation, cost from its start to the target) of all submissions."""
        lengths = [last - first for _, first, last in self._runs]
        target = np.repeat(np.array([run[0] for run in self._runs], np.int64), lengths)
        upto = np.repeat(np.array([run[2] for run in self._runs], np.int64), lengths)
        index = np.concatenate([np.arange(first, last) for _, first, last in self._runs] or [_NO_INDEX])
        rest = self._duration[index] + self._until[upto] - self._until[index + 1]
        # A rank has come to a collective when it could start it: its time does not count yet.
        target = np.append(target, np.array([node for node, _ in self._arrivals], np.int64))
        index = np.append(index, np.array([at for _, at in self._arrivals], np.int64))
        rest = np.concatenate((rest, np.zeros((len(self._arrivals), rest.shape[1]))))
        known = self._owner[index] >= 0
        return target[known], self._owner[index[known]], index[known], rest[known]

    def _submitted(self, queue: _Queue, position: int, *, included: bool) -> int:
        """Operations of the program before the first one of the queue that is submitted later."""
        first, last = self._bounds[queue]
        owners = self._owner[first:last]
        if included:
            return first + int(np.searchsorted(owners, position, side="right"))
        return first + int(np.searchsorted(owners, position, side="left"))

    def _since(self, queue: _Queue) -> int:
        return self._base.get(queue, (0, self._bounds[queue][0]))[1]

    def _meet(self, at: int) -> None:
        """Makes the node at which all ranks have come to a collective; all of them go on from there."""
        if not self._meetings.begin(at):
            return
        members = self._meetings.members(at)
        arrivals = []
        for member in members:
            queue = self._meetings.queue(member)
            if self._since(queue) > member:
                return
            for earlier in self._meetings.within(self._since(queue), member):
                self._meet(earlier)
            before = self._node_at(queue, member)
            arrival = self._nodes.new()
            if before is not None:
                self._edges.append((arrival, before, self._until[0]))
            self._arrivals.append((arrival, member))
            arrivals.append(arrival)
        together = self._nodes.new()
        self._edges.extend((together, arrival, self._until[0]) for arrival in arrivals)
        for member in members:
            self._base[self._meetings.queue(member)] = together, member

    def _node_at(self, queue: _Queue, upto: int) -> int | None:
        """The node of the end of the operations before `upto`; None without any."""
        base, since = self._base.get(queue, (None, self._bounds[queue][0]))
        waits, upto = self._waits.pop(queue, []), max(upto, since)
        if upto == since and not waits:
            return base
        node = self._nodes.new()
        if base is not None:
            self._edges.append((node, base, self._until[upto] - self._until[since]))
        for at, source in waits:
            entry = max(at, since)
            own = self._duration[entry] if entry < upto else 0.0
            self._edges.append((node, source, own + self._until[upto] - self._until[min(entry + 1, upto)]))
        self._runs.append((node, since, upto))
        self._base[queue] = node, upto
        return node


class _Meetings:
    """Collectives that couple the streams of several ranks."""

    def __init__(self, meeting: IntArray, passage: IntArray, stream: IntArray) -> None:
        self._passage, self._stream, self._meeting = passage, stream, meeting
        rows = np.flatnonzero(meeting >= 0)
        self._members: dict[int, list[int]] = {}
        for row in rows.tolist():
            self._members.setdefault(int(meeting[row]), []).append(row)
        # A collective of one rank alone couples nothing.
        self._members = {number: found for number, found in self._members.items() if len(found) > 1}
        coupled = np.isin(meeting[rows], list(self._members))
        self._rows = rows[coupled]
        self._done: set[int] = set()

    def within(self, first: int, last: int) -> list[int]:
        """Collectives among these operations that have not happened yet, in order."""
        low, high = np.searchsorted(self._rows, (first, last)).tolist()
        return [row for row in self._rows[low:high].tolist() if int(self._meeting[row]) not in self._done]

    def members(self, row: int) -> list[int]:
        """The operations of all ranks that belong to a collective."""
        return self._members[int(self._meeting[row])]

    def queue(self, row: int) -> _Queue:
        """The queue in which an operation lies."""
        return int(self._passage[row]), int(self._stream[row])

    def begin(self, row: int) -> bool:
        """Notes that a collective happens; False if it has, or if ranks disagree on the order."""
        number = int(self._meeting[row])
        if number in self._done:
            return False
        self._done.add(number)
        return True
