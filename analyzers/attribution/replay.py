"""Replays the merged program: how long each step takes in any mix of causes.

Host threads run in order, streams are first in, first out, and whatever waits for several things goes on
after the last of them. So every point in time is the maximum over what it depends on, each plus a cost; and
every cost is linear in the switches (see `program`). Between two waits a thread only adds costs up. What is
left to replay are the few points at which something waits, so a replay of all mixes at once takes one
matrix product and some vector operations for each wait: far less than one step of Python for each
operation.

Which calls exist is part of a mix, too: the launch player chooses the structure of the submissions, the pcie
player that of the copies. Where the arms' structures differ, each one is compiled by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from cctrace.analyzers.attribution.costs import LAUNCH, NEVER, OFF, PCIE, Costs
from cctrace.analyzers.attribution.pairing import opens
from cctrace.analyzers.attribution.program import Program
from cctrace.analyzers.attribution.queues import Nodes, Queues
from cctrace.analyzers.attribution.timeline import (
    BOUNDARY,
    CONTEXT_SYNC,
    COPY_NUMBERS,
    EVENT_SYNC,
    JOIN,
    NONE,
    RECORD,
    STREAM_SYNC,
    STREAM_WAIT,
    SUBMITTING,
)
from cctrace.analyzers.columns import BoolArray, FloatArray, IntArray

CHUNK_EDGES: Final = 50_000
"""Dependencies evaluated at once: with 64 mixes 25 MB."""
_BEGIN: Final = 0
"""Node of the begin of every passage: time 0."""

Mixes = FloatArray
"""Mixes of causes (rows) by player (columns): 1 where a player takes the on arm's behaviour."""


def replay(program: Program, mixes: Mixes, columns: Mixes | None = None) -> FloatArray:
    """Length of each step in each mix.

    Args:
        program: the merged program.
        mixes: mixes by the players of `result.PLAYERS`.
        columns: the same for costs with more columns than players have (see `sites`); default: `mixes`.

    Returns:
        Mixes × steps of the program (leading ones included), µs.
    """
    switched = mixes if columns is None else columns
    basis = np.concatenate((np.ones((len(switched), 1)), switched), axis=1)
    periods = np.zeros((len(mixes), len(program.counts)))
    for launch, copies, chosen in _structures(program, mixes):
        compiled = compiled_program(program, launch_on=launch, copies_on=copies)
        periods[chosen] = compiled.periods(basis[chosen].T).T
    return periods


def _structures(program: Program, mixes: Mixes) -> list[tuple[bool, bool, BoolArray]]:
    """(structure of the submissions, of the copies, mixes with it)."""
    launch, copies = mixes[:, LAUNCH - 1] > 0, mixes[:, PCIE - 1] > 0
    if program.alone == (0, 0):
        return [(False, False, np.ones(len(mixes), np.bool_))]
    kinds = [
        (one, other, (launch == one) & (copies == other)) for one in (False, True) for other in (False, True)
    ]
    return [kind for kind in kinds if kind[2].any()]


@dataclass(frozen=True, eq=False)
class Compiled:
    """One structure of a program as points in time (nodes) and what they depend on (edges).

    Attributes:
        nodes: number of points; every one depends on points with lower numbers only.
        target: node of each edge that waits, sorted.
        source: node that it waits for.
        cost: what lies between them.
        end_node: node from which the end of each step is reckoned.
        end_cost: what lies between that node and the end of the step.
        first: whether a step is the first one of its passage.
    """

    nodes: int
    target: IntArray
    source: IntArray
    cost: Costs
    end_node: IntArray
    end_cost: Costs
    first: BoolArray

    def periods(self, basis: FloatArray) -> FloatArray:
        """Steps × mixes, µs; `basis` holds COLUMNS × mixes."""
        time = np.full((self.nodes, basis.shape[1]), NEVER)
        time[_BEGIN] = 0.0
        for begin, end in self._chunks():
            self._reach(time, basis, begin, end)
        ends = time[self.end_node] + self.end_cost @ basis
        before = np.concatenate((np.zeros((1, ends.shape[1])), ends[:-1]))
        before[self.first] = 0.0
        return np.asarray(ends - before, np.float64)

    def _chunks(self) -> list[tuple[int, int]]:
        """Stretches of edges that end where a node's edges end."""
        if not len(self.target):
            return []
        ends = np.append(np.flatnonzero(np.diff(self.target)) + 1, len(self.target))
        cuts = ends[np.searchsorted(ends, np.arange(CHUNK_EDGES, len(self.target), CHUNK_EDGES))]
        bounds = np.unique(np.concatenate(([0], cuts, [len(self.target)])))
        return list(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True))

    def _reach(self, time: FloatArray, basis: FloatArray, begin: int, end: int) -> None:
        target, source = self.target[begin:end], self.source[begin:end]
        begins = np.flatnonzero(opens(target, source))
        # Many submissions of one stretch of host time wait for the same point: the latest of them counts.
        offset = np.maximum.reduceat(self.cost[begin:end] @ basis, begins, axis=0)
        target, source = target[begins], source[begins]
        bounds = [*np.flatnonzero(opens(target)).tolist(), len(target)]
        for first, last in pairwise(bounds):
            time[target[first]] = np.max(time[source[first:last]] + offset[first:last], axis=0)


def compiled_program(program: Program, *, launch_on: bool, copies_on: bool) -> Compiled:
    """A program in one structure: which arm's submissions, and which arm's copies, it makes."""
    return _Compiler(program, launch_on=launch_on, copies_on=copies_on).run()


class _Compiler:
    def __init__(self, program: Program, *, launch_on: bool, copies_on: bool) -> None:
        host, device = program.host, program.device
        self._program, self._nodes = program, Nodes()
        self._exists = _existing(program, launch_on=launch_on, copies_on=copies_on)
        own = host.own * self._exists[:, None]
        self._lanes = _Lanes(host.passage, host.thread, host.gap + own)
        self._start = self._lanes.until - own
        is_copy = np.isin(host.category, COPY_NUMBERS)
        of_call = device.on_owner if launch_on else device.off_owner
        of_copy = device.on_owner if copies_on else device.off_owner
        copies = np.append(is_copy, False)[device.off_owner] | np.append(is_copy, False)[device.on_owner]
        self._queues = Queues(program, np.where(copies, of_copy, of_call), self._nodes)
        preferred, other = host.off_dependency, host.on_dependency
        if launch_on:
            preferred, other = other, preferred
        self._dependency = np.where(preferred >= 0, preferred, other)
        self._recorded: dict[int, int] = {}
        self._edges: list[tuple[int, int, FloatArray]] = []

    def run(self) -> Compiled:
        host = self._program.host
        for position in self._interactions().tolist():
            category = int(host.category[position])
            if category == JOIN:
                self._join(position)
            elif category == RECORD:
                node = self._materialized(position, int(self._program.host.stream[position]))
                if node is not None:
                    self._recorded[position] = node
            elif category == STREAM_WAIT:
                self._stream_wait(position)
            else:
                self._host_waits(position)
        return self._compiled()

    def _interactions(self) -> IntArray:
        """Operations at which something waits, or that something waits for, in order."""
        host = self._program.host
        waits = self._exists & (host.post[:, 1:].any(axis=1) | (host.post[:, OFF] > NEVER))
        referred = np.zeros(len(host), np.bool_)
        referred[self._dependency[self._dependency >= 0]] = True
        records = (host.category == RECORD) & referred
        joins = (host.category == JOIN) & (self._dependency >= 0)
        ordered = self._exists & (host.category == STREAM_WAIT) & (self._dependency >= 0)
        return np.flatnonzero(waits | records | joins | ordered)

    # ---- what waits

    def _join(self, position: int) -> None:
        partner = int(self._dependency[position])
        node, since = self._lanes.latest(partner, included=True)
        late = self._program.host.post[position]
        cost = self._lanes.until[partner] - since + (late if late[OFF] > NEVER else 0.0)
        self._thread_node(position, [(node, cost)])

    def _stream_wait(self, position: int) -> None:
        node = self._recorded.get(int(self._dependency[position]))
        stream = int(self._program.host.stream[position])
        if node is not None and stream != NONE:
            self._queues.wait(self._passage(position), stream, position, node)

    def _host_waits(self, position: int) -> None:
        host = self._program.host
        category, stream = int(host.category[position]), int(self._program.host.stream[position])
        if category == EVENT_SYNC:
            nodes = [self._recorded.get(int(self._dependency[position]))]
        elif category == CONTEXT_SYNC:
            streams = self._queues.streams(self._passage(position))
            nodes = [self._materialized(position, one) for one in streams]
        elif category == STREAM_SYNC or category in COPY_NUMBERS:
            nodes = [self._materialized(position, stream, included=category != STREAM_SYNC)]
        else:
            return
        awaited = [(node, host.post[position]) for node in nodes if node is not None]
        if awaited:
            self._thread_node(position, awaited)

    def _thread_node(self, position: int, awaited: Sequence[tuple[int, FloatArray]]) -> None:
        """A point on a thread: after its own costs, and after everything awaited."""
        node = self._nodes.new()
        before, since = self._lanes.latest(position, included=False)
        self._edges.append((node, before, self._lanes.until[position] - since))
        self._edges.extend((node, source, cost) for source, cost in awaited)
        self._lanes.mark(position, node)

    def _materialized(self, position: int, stream: int, *, included: bool = False) -> int | None:
        """The node of the end of all work submitted to a stream before an operation; None without any."""
        return self._queues.end(self._passage(position), stream, position, included=included)

    def _passage(self, position: int) -> int:
        return int(self._program.host.passage[position])

    # ---- the result

    def _compiled(self) -> Compiled:
        target = np.array([edge[0] for edge in self._edges], np.int64)
        source = np.array([edge[1] for edge in self._edges], np.int64)
        width = self._program.host.gap.shape[1]
        cost = np.array([edge[2] for edge in self._edges], np.float64).reshape(len(target), width)
        parts = [(target, source, cost), *self._queues.edges()]
        submissions = self._queues.submissions()
        if len(submissions[0]):
            parts.append(self._submission_edges(*submissions))
        target, source = (np.concatenate([part[index] for part in parts]) for index in (0, 1))
        cost = np.concatenate([part[2] for part in parts])
        order = np.lexsort((source, target))
        host = self._program.host
        ends = np.flatnonzero((host.category == BOUNDARY) & (host.thread == SUBMITTING))
        node, since = self._lanes.latest_of(ends)
        passage = host.passage[ends]
        return Compiled(
            nodes=self._nodes.count,
            target=target[order],
            source=source[order],
            cost=cost[order],
            end_node=node,
            end_cost=self._lanes.until[ends] - since,
            first=opens(passage),
        )

    def _submission_edges(
        self, target: IntArray, owner: IntArray, index: IntArray, rest: Costs
    ) -> tuple[IntArray, IntArray, Costs]:
        """From the thread that submits to the end of the queue behind it."""
        node, since = self._lanes.latest_of(owner)
        return target, node, self._start[owner] - since + self._program.device.delay[index] + rest


class _Lanes:
    """Host time of each thread within its passage, and the points on it at which it waited."""

    def __init__(self, passage: IntArray, thread: IntArray, cost: Costs) -> None:
        order = np.lexsort((np.arange(len(passage)), thread, passage))
        begins = opens(passage[order], thread[order])
        total = np.cumsum(cost[order], axis=0)
        first = np.flatnonzero(begins)
        base = np.zeros((len(first), cost.shape[1]))
        base[1:] = total[first[1:] - 1]
        number = np.cumsum(begins) - 1
        self.until = np.empty_like(cost)
        """Host time from the begin of the passage to the end of each operation, if nothing ever waits."""
        self.until[order] = total - base[number]
        self._rank = np.empty(len(order), np.int64)
        self._rank[order] = np.arange(len(order))
        self._first_rank = np.empty(len(order), np.int64)
        self._first_rank[order] = first[number]
        self._lane = np.empty(len(order), np.int64)
        self._lane[order] = number
        self._latest: dict[int, tuple[int, int]] = {}
        self._marks: list[tuple[int, int, int]] = []
        self._begin = np.zeros(cost.shape[1])

    def mark(self, position: int, node: int) -> None:
        """Notes that the thread's time after an operation is that of a node."""
        self._latest[int(self._lane[position])] = (position, node)
        self._marks.append((int(self._rank[position]), position, node))

    def latest(self, position: int, *, included: bool) -> tuple[int, FloatArray]:
        """(last node on the thread up to an operation, host time until then)."""
        at, node = self._latest.get(int(self._lane[position]), (NONE, _BEGIN))
        if at > position or (at == position and not included):
            return self._earlier(position, included=included)
        return (node, self.until[at]) if at != NONE else (_BEGIN, self._begin)

    def _earlier(self, position: int, *, included: bool) -> tuple[int, FloatArray]:
        nodes, since = self.latest_of(np.array([position]), included=included)
        return int(nodes[0]), since[0]

    def latest_of(self, positions: IntArray, *, included: bool = False) -> tuple[IntArray, Costs]:
        """(last node on the thread before each operation, host time until then)."""
        since = np.zeros((len(positions), self.until.shape[1]))
        nodes = np.full(len(positions), _BEGIN, np.int64)
        if not self._marks:
            return nodes, since
        ranks, at, node = (np.array(column, np.int64) for column in zip(*sorted(self._marks), strict=True))
        # Ranks are whole numbers: what lies before the next one includes the operation itself.
        found = np.searchsorted(ranks, self._rank[positions] + included, side="left") - 1
        known = (found >= 0) & (ranks[np.maximum(found, 0)] >= self._first_rank[positions])
        nodes[known] = node[found[known]]
        since[known] = self.until[at[found[known]]]
        return nodes, since


def _existing(program: Program, *, launch_on: bool, copies_on: bool) -> BoolArray:
    """Which operations are made in a structure."""
    host = program.host
    has_off, has_on = host.off >= 0, host.on >= 0
    is_copy = np.isin(host.category, COPY_NUMBERS)
    by_launch, by_copies = (has_on if one else has_off for one in (launch_on, copies_on))
    exists: BoolArray = np.where(is_copy, by_copies, by_launch) | (host.category >= BOUNDARY)
    return exists
