"""CUPTI's rows: which host call submitted each, and whose stream and graph its numbers mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from cctrace.collectors.spool.handles import Numbering
from cctrace.collectors.spool.index import Index, Run
from cctrace.collectors.spool.layout import Flag, Operation
from cctrace.collectors.spool.merge import Batch
from cctrace.collectors.spool.spoolfile import Records, joined

_WORK: Final = (Operation.KERNEL, Operation.GRAPH, Operation.COPY, Operation.MEMSET)

MAX_IDS_PER_ROW: Final = 64
"""Calls without a GPU row use up ids too, but not more than so many for each that has one."""

VOTE_ROWS: Final = 4096
"""Rows of a CUPTI stream that are asked which stream they were submitted to; they all say the same unless a
graph forks into streams of its own."""

NO_SYNC_STREAM: Final = 0xFFFFFFFF
"""CUPTI's stream number of a synchronization that is not about one stream."""


class Correlations:
    """Correlation ids that have a GPU row, each with stream and graph of the submission it was joined with.

    CUPTI counts ids up, so that tables answer: 9 bytes an id.
    """

    def __init__(self, records: Records, index: Index) -> None:
        runs = [run for runs in index.gpu.values() for run in runs]
        # A damaged id far above the others must not make the tables large.
        limit = MAX_IDS_PER_ROW * sum(run.count for run in runs) + 1024
        links = (run.gather(records)["link"] for run in runs)
        last = max((int(link.max(initial=0, where=link < limit)) for link in links), default=0)
        self._known = np.zeros(last + 2 if last else 0, dtype=bool)
        for run in runs if last else ():
            self._known[np.minimum(run.gather(records)["link"], last + 1)] = True
        self._known[[0, -1] if last else []] = False
        self._stream = np.full(len(self._known), -1, dtype=np.int32)
        self._graph = np.full(len(self._known), -1, dtype=np.int32)

    def __bool__(self) -> bool:
        return bool(len(self._known))

    def contain(self, links: npt.NDArray[np.uint32]) -> npt.NDArray[np.bool_]:
        """Which of the ids have a GPU row."""
        return np.take(self._known, self._place(links))

    def join(
        self,
        links: npt.NDArray[np.int64],
        stream: npt.NDArray[np.int64] | None,
        graph: npt.NDArray[np.int64] | None,
    ) -> None:
        """Notes the streams and graphs of submissions; a link of −1 is none."""
        where = np.flatnonzero(links >= 0)
        for table, numbers in ((self._stream, stream), (self._graph, graph)):
            if numbers is not None:
                table[links[where]] = numbers[where]

    def stream_and_graph(
        self, links: npt.NDArray[np.uint32]
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """Numbers of stream and graph of the submission behind each id; −1 for none."""
        if not self:
            nothing = np.full(len(links), -1, dtype=np.int32)
            return nothing, nothing
        places = self._place(links)
        return np.take(self._stream, places), np.take(self._graph, places)

    def _place(self, links: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
        places: npt.NDArray[np.uint32] = np.minimum(links, np.uint32(len(self._known) - 1))
        return places


class HostCalls:
    """CUPTI's view of one thread's calls that led to a GPU row, to be joined with the interposer's view."""

    def __init__(self, records: Records, runs: Sequence[Run], wanted: Correlations) -> None:
        names = ("start_ns", "end_ns", "link")
        parts: list[list[npt.NDArray[Any]]] = [[records[name][:0]] for name in names]
        for run in runs if wanted else ():
            calls = run.gather(records)
            keep = wanted.contain(calls["link"])
            for name, part in zip(names, parts, strict=True):
                part.append(calls[name][keep])
        start, end, link = (np.concatenate(part) for part in parts)
        if not bool(np.all(start[1:] >= start[:-1])):
            order = np.argsort(start, kind="stable")
            start, end, link = start[order], end[order], link[order]
        # A runtime call and the driver call inside it may both be there: searching needs ascending ends.
        self._start, self._end, self._link = start, np.maximum.accumulate(end), link
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
    records: Records, index: Index, correlations: Correlations, streams: Numbering, graphs: Numbering
) -> CuptiNumbers:
    """Gives CUPTI's streams and graphs the numbers that the interposer's have, by what was submitted to them.

    A CUPTI stream of which no row was joined, or a second one for the same stream (a graph's side branch),
    gets a new number.
    """
    votes: dict[tuple[int, int], tuple[int, int, int]] = {}
    graph_votes: dict[int, dict[int, int]] = {}
    for key, runs in index.gpu.items():
        rows = _some_rows(records, runs)
        stream, graph = correlations.stream_and_graph(rows["link"])
        eager = (stream >= 0) & (rows["tid"] == 0)
        chosen = eager if eager.any() else stream >= 0
        if chosen.any():
            numbers, counts = np.unique(stream[chosen], return_counts=True)
            best = int(np.argmax(counts))
            votes[key] = (int(eager.any()), int(counts[best]), int(numbers[best]))
        for cupti_id, number in zip(rows["tid"].tolist(), graph.tolist(), strict=True):
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
