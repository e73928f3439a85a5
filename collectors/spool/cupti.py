"""CUPTI's rows: which host call submitted each, and whose stream and graph its numbers mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from cctrace.collectors.spool.handles import Numbering
from cctrace.collectors.spool.index import Index, Run
from cctrace.collectors.spool.layout import Flag, Operation
from cctrace.collectors.spool.merge import Batch
from cctrace.collectors.spool.spoolfile import Records, joined, take

_WORK: Final = (Operation.KERNEL, Operation.GRAPH, Operation.COPY, Operation.MEMSET)

MAX_IDS_PER_ROW: Final = 64
"""Calls without a GPU row use up ids too, but not more than so many for each that has one."""

VOTE_ROWS: Final = 4096
"""Rows of a CUPTI stream that are asked which stream they were submitted to; they all say the same unless a
graph forks into streams of its own."""

NO_SYNC_STREAM: Final = 0xFFFFFFFF
"""CUPTI's stream number of a synchronization that is not about one stream."""


class Correlations:
    """Correlation ids that have a GPU row. CUPTI counts them up, so that a table answers which ones do."""

    def __init__(self, records: Records, index: Index) -> None:
        parts = [run.gather(records)["link"] for runs in index.gpu.values() for run in runs]
        links = np.concatenate([np.zeros(0, dtype=np.uint32), *parts])
        self._known = np.zeros(0, dtype=bool)
        # A damaged id far above the others must not make the table large.
        links = links[links < MAX_IDS_PER_ROW * len(links) + 1024]
        if len(links):
            self._known = np.zeros(int(links.max()) + 2, dtype=bool)
            self._known[links] = True
            self._known[[0, -1]] = False

    def __bool__(self) -> bool:
        return bool(len(self._known))

    def contain(self, links: npt.NDArray[np.uint32]) -> npt.NDArray[np.bool_]:
        """Which of the ids have a GPU row."""
        return np.take(self._known, np.minimum(links, len(self._known) - 1))


class HostCalls:
    """CUPTI's view of one thread's calls that led to a GPU row, to be joined with the interposer's view."""

    def __init__(self, records: Records, runs: Sequence[Run], wanted: Correlations) -> None:
        parts = []
        for run in runs if wanted else ():
            calls = run.gather(records)
            parts.append(take(calls, wanted.contain(calls["link"])))
        calls = joined(parts)
        order = np.argsort(calls["start_ns"], kind="stable")
        self._start, self._end, self._link = (calls[n][order] for n in ("start_ns", "end_ns", "link"))
        # A runtime call and the driver call inside it may both be there: searching needs ascending ends.
        self._end = np.maximum.accumulate(self._end) if len(self._end) else self._end
        self._last_used = -1

    def correlations(self, batch: Batch) -> npt.NDArray[np.int64]:
        """Correlation of each row, −1 for none; rows come sorted by start, batch after batch.

        A call belongs to the CUPTI call that it overlaps: a runtime call encloses the driver call that the
        interposer saw, and CUPTI's own driver call lies within it. Of several, the first that hands over
        work.
        """
        result = np.full(len(batch), -1, dtype=np.int64)
        is_work = np.isin(batch.operations, _WORK) & ((batch["flags"] & Flag.CAPTURED) == 0)
        work = np.flatnonzero(is_work)
        if not len(work) or not len(self._start):
            return result
        starts, ends = batch["start_ns"][work], batch["end_ns"][work]
        place = np.searchsorted(self._end, starts, side="left")
        inside = place < len(self._start)
        clipped = np.minimum(place, len(self._start) - 1)
        inside &= self._start[clipped] <= ends
        # One CUPTI call, one row: the first work call within it.
        before = np.concatenate(([self._last_used], np.where(inside, place, -1)[:-1]))
        inside &= place > np.maximum.accumulate(before)
        result[work[inside]] = self._link[place[inside]]
        if inside.any():
            self._last_used = int(place[inside][-1])
        return result


@dataclass
class Joined:
    """Streams and graphs of the submissions that have a correlation, to number CUPTI's alike."""

    correlation: list[npt.NDArray[np.int64]] = field(default_factory=list)
    stream: list[npt.NDArray[np.int64]] = field(default_factory=list)
    graph: list[npt.NDArray[np.int64]] = field(default_factory=list)

    def add(
        self,
        correlation: npt.NDArray[np.int64],
        stream: npt.NDArray[np.int64],
        graph: npt.NDArray[np.int64],
    ) -> None:
        """Notes the joined ones among some calls."""
        where = correlation >= 0
        if where.any():
            self.correlation.append(correlation[where])
            self.stream.append(stream[where])
            self.graph.append(graph[where])

    def lookup(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Correlation (ascending), stream and graph."""
        empty = np.zeros(0, dtype=np.int64)
        columns = [np.concatenate([empty, *part]) for part in (self.correlation, self.stream, self.graph)]
        if not bool(np.all(columns[0][1:] >= columns[0][:-1])):
            order = np.argsort(columns[0], kind="stable")
            columns = [column[order] for column in columns]
        return columns[0], columns[1], columns[2]


@dataclass(frozen=True)
class CuptiNumbers:
    """Our number of each CUPTI stream, by (device, stream), and of each CUPTI graph."""

    streams: dict[tuple[int, int], int]
    graphs: dict[int, int]

    def graph_numbers(self, ids: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Our numbers of CUPTI graph ids; −1 for 0, which is no graph."""
        if not ids.any():
            return np.full(len(ids), -1, dtype=np.int64)
        distinct, place = np.unique(ids, return_inverse=True)
        table = np.array([self.graphs.get(int(i), -1) for i in distinct], dtype=np.int64)
        numbers: npt.NDArray[np.int64] = table[place]
        return numbers


def number_alike(
    records: Records, index: Index, joined: Joined, streams: Numbering, graphs: Numbering
) -> CuptiNumbers:
    """Gives CUPTI's streams and graphs the numbers that the interposer's have, by what was submitted to them.

    A CUPTI stream of which no row was joined, or a second one for the same stream (a graph's side branch),
    gets a new number.
    """
    correlation, stream, graph = joined.lookup()
    votes: dict[tuple[int, int], tuple[int, int, int]] = {}
    graph_votes: dict[int, dict[int, int]] = {}
    for key, runs in index.gpu.items():
        rows = _some_rows(records, runs)
        place = np.searchsorted(correlation, rows["link"])
        place = np.minimum(place, max(0, len(correlation) - 1))
        hit = correlation[place] == rows["link"] if len(correlation) else np.zeros(len(rows), dtype=bool)
        eager = hit & (rows["tid"] == 0)
        chosen = eager if eager.any() else hit
        if chosen.any():
            numbers, counts = np.unique(stream[place[chosen]], return_counts=True)
            best = int(np.argmax(counts))
            votes[key] = (int(eager.any()), int(counts[best]), int(numbers[best]))
        for cupti_id, number in zip(rows["tid"][hit].tolist(), graph[place[hit]].tolist(), strict=True):
            if cupti_id and number >= 0:
                tally = graph_votes.setdefault(cupti_id, {})
                tally[number] = tally.get(number, 0) + 1
    stream_numbers: dict[tuple[int, int], int] = {}
    taken: set[tuple[int, int]] = set()
    for key in sorted(index.gpu, key=lambda k: (*(-v for v in votes.get(k, (0, 0, 0))[:2]), k)):
        number = votes[key][2] if key in votes else -1
        if number < 0 or (key[0], number) in taken:
            number = streams.fresh()
        taken.add((key[0], number))
        stream_numbers[key] = number
    graph_numbers = {i: max(tally, key=lambda n: tally[n]) for i, tally in graph_votes.items()}
    for cupti_id in _graph_ids(records, index):
        if cupti_id not in graph_numbers:
            graph_numbers[cupti_id] = graphs.fresh()
    return CuptiNumbers(stream_numbers, graph_numbers)


def _some_rows(records: Records, runs: Sequence[Run]) -> Records:
    parts: list[Records] = []
    count = 0
    for run in runs:
        parts.append(run.gather(records))
        count += run.count
        if count >= VOTE_ROWS:
            break
    return joined(parts)


def _graph_ids(records: Records, index: Index) -> list[int]:
    found: set[int] = set()
    for runs in index.gpu.values():
        for run in runs:
            ids = run.gather(records)["tid"]
            found.update(np.unique(ids[ids != 0]).tolist())
    return sorted(found)
