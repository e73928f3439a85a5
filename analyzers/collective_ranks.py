"""Collectives of several ranks joined: what the transfer takes, and how long early ranks wait for the latest.

A collective runs on every rank from its own begin to a common end. So the run that began last holds no
waiting: the shortest of all ranks is the transfer itself, and the begins are as far apart as the ranks are.
Runs of two ranks are one collective if each is the other's nearest by its end, among those of the same
operation and bytes, and they overlap. That takes one clock: ranks of one host.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from cctrace.analyzers.collective_calls import Exchange
from cctrace.analyzers.collective_table import P95, CollectiveTable, RankSample, RowKey, row_key
from cctrace.analyzers.columns import BoolArray, IntArray
from cctrace.analyzers.results import Result, microseconds, value

MIN_JOINED_SHARE: Final = 0.5
"""Processes are ranks of one group if this part of one's collectives has a counterpart in the other."""
MIN_RUNS: Final = 5
"""Fewer joined runs give no median."""


@dataclass(frozen=True, kw_only=True)
class JoinedRow(Result):
    """Collectives of one row of the table, seen on several ranks."""

    ranks: int = value("ranks that were joined")
    runs: int = value("collectives that all of them show", "runs")
    wire_median_us: float = value("median over collectives of the shortest time of a rank", "µs")
    wire_p95_us: float = value("95th percentile of it", "µs")
    skew_median_us: float = value("median time from the first rank's begin to the last one's", "µs")
    skew_p95_us: float = value("95th percentile of it", "µs")
    late_pid: int = value("process that most often begins last")
    late_share: float = value("part of the collectives (0–1) in which it does")


@dataclass(frozen=True)
class JoinedRanks:
    """What several ranks show together.

    Attributes:
        rows: by row of the table; those with fewer than MIN_RUNS joined collectives are missing.
        pids: processes that were joined.
        cannot_tell_because: why none were; None if some were.
    """

    rows: Mapping[RowKey, JoinedRow]
    pids: tuple[int, ...]
    cannot_tell_because: str | None


def joined_ranks(tables: Sequence[CollectiveTable]) -> JoinedRanks:
    """Joins the ranks of one recording, or of several that were made at the same time on one host.

    Args:
        tables: one for each file, at least one.
    """
    if len({table.host for table in tables}) > 1:
        return _apart("the ranks were recorded on several hosts, whose clocks differ")
    ranks = [(sample, table.exchanges) for table in tables for sample in table.samples]
    if len(ranks) < 2:
        return _apart(f"GPU times of {'one rank only' if ranks else 'no rank'} are known here")
    ranks.sort(key=lambda one: -len(one[0]))
    (first, exchanges), others = ranks[0], ranks[1:]
    found = [(sample, _counterparts(first, exchanges, sample, kinds)) for sample, kinds in others]
    joined = [(sample, at) for sample, at in found if (at >= 0).mean() >= MIN_JOINED_SHARE]
    if not joined:
        return _apart("collectives of the recorded processes do not run at the same time")
    complete = np.logical_and.reduce([at >= 0 for _, at in joined])
    starts = _columns(first, joined, complete, "start_ns")
    ends = _columns(first, joined, complete, "end_ns")
    pids = (first.pid, *(sample.pid for sample, _ in joined))
    rows = _rows([exchanges[what] for what in first.what[complete].tolist()], starts, ends, pids)
    return JoinedRanks(rows, pids, None if rows else "too few collectives of the ranks could be joined")


def _apart(reason: str) -> JoinedRanks:
    return JoinedRanks({}, (), reason)


def _columns(
    first: RankSample, joined: list[tuple[RankSample, IntArray]], complete: BoolArray, name: str
) -> IntArray:
    """One column for each rank, one row for each collective that all of them show."""
    columns = [getattr(first, name)[complete]]
    columns += [getattr(sample, name)[at[complete]] for sample, at in joined]
    return np.stack(columns, axis=1)


def _counterparts(
    first: RankSample, first_kinds: tuple[Exchange, ...], other: RankSample, other_kinds: tuple[Exchange, ...]
) -> IntArray:
    """For each run of the first rank that of the other one in the same collective, −1 if there is none."""
    found = np.full(len(first), -1, np.int64)
    numbers = {kind: number for number, kind in enumerate(other_kinds)}
    for what in np.unique(first.what).tolist():
        number = numbers.get(first_kinds[what])
        own = np.flatnonzero(first.what == what)
        theirs = np.flatnonzero(other.what == number) if number is not None else own[:0]
        if not len(theirs):
            continue
        own, theirs = own[np.argsort(first.end_ns[own])], theirs[np.argsort(other.end_ns[theirs])]
        there = _nearest(first.end_ns[own], other.end_ns[theirs])
        back = _nearest(other.end_ns[theirs], first.end_ns[own])
        mutual = back[there] == np.arange(len(own))
        pairs = theirs[there]
        overlap = (first.start_ns[own] < other.end_ns[pairs]) & (other.start_ns[pairs] < first.end_ns[own])
        found[own[mutual & overlap]] = pairs[mutual & overlap]
    return found


def _nearest(wanted: IntArray, among: IntArray) -> IntArray:
    """Position in `among`, which is sorted, of the value nearest to each wanted one."""
    after = np.clip(np.searchsorted(among, wanted), 1, max(len(among) - 1, 1))
    if len(among) == 1:
        return np.zeros(len(wanted), np.int64)
    before_is_nearer = wanted - among[after - 1] <= among[after] - wanted
    return np.where(before_is_nearer, after - 1, after)


def _rows(
    exchanges: list[Exchange], starts: IntArray, ends: IntArray, pids: tuple[int, ...]
) -> dict[RowKey, JoinedRow]:
    keys = [row_key(exchange) for exchange in exchanges]
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    row_of = np.array([numbers[key] for key in keys], np.int64)
    wire, skew = (ends - starts).min(axis=1), starts.max(axis=1) - starts.min(axis=1)
    latest = starts.argmax(axis=1)
    found = {}
    for key, number in numbers.items():
        own = np.flatnonzero(row_of == number)
        if len(own) < MIN_RUNS:
            continue
        late = np.bincount(latest[own], minlength=len(pids))
        found[key] = JoinedRow(
            ranks=len(pids),
            runs=len(own),
            wire_median_us=microseconds(float(np.median(wire[own]))),
            wire_p95_us=microseconds(float(np.percentile(wire[own], P95))),
            skew_median_us=microseconds(float(np.median(skew[own]))),
            skew_p95_us=microseconds(float(np.percentile(skew[own], P95))),
            late_pid=pids[int(late.argmax())],
            late_share=float(late.max() / len(own)),
        )
    return found
