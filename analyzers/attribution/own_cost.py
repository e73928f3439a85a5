"""Own cost and waiting: what each call of a thread costs by itself, and what it waited for the GPU.

A synchronization waits by contract. Whether an asynchronous copy does is for `copy_cost` to find out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from cctrace.analyzers.attribution.copy_cost import (
    RETURN_US,
    SELF_WAIT_US,
    CopyKind,
    CopyRows,
    Submissions,
    copy_keys,
    copy_kinds,
)
from cctrace.analyzers.attribution.pairing import group_numbers
from cctrace.analyzers.attribution.timeline import JOIN, KINDS, SUBMITTING, SYNC_NUMBERS, Timeline
from cctrace.analyzers.categories import CATEGORIES, CATEGORY
from cctrace.analyzers.columns import BoolArray, FloatArray, IntArray
from cctrace.analyzers.copies import size_bucket
from cctrace.analyzers.waiting import not_slow

SYNC_OWN_US: Final = 5.0
"""A synchronization that has nothing to wait for costs at most this: 1.6 µs published, 2–6 µs recorded."""
WAITED_US: Final = 3.0
"""A call that takes this much longer than its own cost waited: twice the scatter of own costs."""
SHORT_GAP_US: Final = 100.0
"""Host time between two calls of less than this is code that ran through; longer gaps can hold waits."""
MIN_GAPS: Final = 200
"""Fewer short gaps do not show how fast the host was."""
SPEED_OF_CALLS: Final = 0.5
"""Calls follow the host's speed with this exponent: in eleven of twelve pairs of recordings with a known,
emulated toll, whose hosts differed in speed by up to a factor of 1.9, a square root puts the found toll
within 3 % of it; without it up to 14 % are missing or too many."""
SPEED_LIMITS: Final = (0.5, 2.0)
"""Processes of one machine differ in speed by less than this."""
MIN_CALLS: Final = 3
"""Fewer calls of a kind give no typical cost."""
_TOLL_CATEGORIES: Final = ("kernel", "graph", "copy d2d", "memset")
"""Submissions whose growth is launch toll and nothing else; the first that both arms have is taken."""


@dataclass(frozen=True, eq=False)
class OwnCost:
    """What each operation of a timeline costs its thread. All µs.

    Attributes:
        own: time in the call without waiting for the GPU.
        excess: time in a slow call above what such calls cost: lost CPU, or no room in the queue.
        toll: launch toll within `own` of a copy between host and GPU; NaN for other calls, where all growth
            is launch toll.
        self_wait: part of `own` in which a blocking copy waits for itself.
        waits: the call returns only when its GPU work is done.
        post: from the end of that GPU work to the return, for calls that wait.
        crypto: part of `post` that decrypts.
        done: latest time at which the GPU work of a waiting call was done.
        exact: the call was kept waiting, so `done` is when the GPU work ended.
    """

    own: FloatArray
    excess: FloatArray
    toll: FloatArray
    self_wait: FloatArray
    waits: BoolArray
    post: FloatArray
    crypto: FloatArray
    done: FloatArray
    exact: BoolArray


def own_costs(
    off: Timeline, on: Timeline, rows: tuple[CopyRows, CopyRows], slowdown: float
) -> tuple[OwnCost, OwnCost]:
    """Own costs of both arms.

    Args:
        off: the off arm.
        on: the on arm.
        rows: when the copies of each arm ran, where rows tell.
        slowdown: how much longer calls take in the on arm because its host is slower; see `call_slowdown`.
    """
    toll = max(0.0, _launch_toll(off, on, slowdown))
    submissions = Submissions(_typical_submission(off), _typical_submission(on), toll, slowdown)
    off_kinds, on_kinds = copy_kinds(off, on, rows, submissions)
    return _arm(off, off_kinds, rows[0]), _arm(on, on_kinds, rows[1])


def call_slowdown(off: Timeline, on: Timeline) -> float:
    """Factor by which calls of the on arm take longer because its host runs slower, tolls aside.

    Two processes of one machine differ in speed. The host code between calls shows it; calls follow less.
    """
    first, second = _short_gaps(off), _short_gaps(on)
    common = [category for category in first if category in second]
    if sum(min(first[one][0], second[one][0]) for one in common) < MIN_GAPS:
        return 1.0
    before = sum(first[one][0] * first[one][1] for one in common)
    after = sum(first[one][0] * second[one][1] for one in common)
    return float(np.clip(after / before, *SPEED_LIMITS) ** SPEED_OF_CALLS)


def _short_gaps(timeline: Timeline) -> dict[int, tuple[int, float]]:
    """Number and mean of the short gaps of the submitting thread, by the category of the call behind them."""
    short = (timeline.thread == SUBMITTING) & (timeline.gap > 0) & (timeline.gap < SHORT_GAP_US)
    gap, category = timeline.gap[short], timeline.category[short]
    counts = np.bincount(category, minlength=KINDS)
    sums = np.bincount(category, weights=gap, minlength=KINDS)
    return {
        one: (int(counts[one]), float(sums[one] / counts[one])) for one in np.flatnonzero(counts).tolist()
    }


def _launch_toll(off: Timeline, on: Timeline, slowdown: float) -> float:
    """What a submission costs more in the on arm: difference of the typical own costs, µs."""
    for word in _TOLL_CATEGORIES:
        first, second = (_typical(one, one.is_category(CATEGORY[word])) for one in (off, on))
        if np.isfinite(first) and np.isfinite(second):
            return second - first * slowdown
    return 0.0


def _typical_submission(timeline: Timeline) -> float:
    numbers = [CATEGORY[word] for word in _TOLL_CATEGORIES]
    return float(np.nan_to_num(_typical(timeline, timeline.is_category(*numbers)), nan=SYNC_OWN_US))


def _typical(timeline: Timeline, chosen: BoolArray) -> float:
    """Median time of calls that are not slow, NaN of too few."""
    length = timeline.length[chosen]
    length = length[_not_slow(length)]
    return float(np.median(length)) if len(length) >= MIN_CALLS else float("nan")


def _not_slow(length_us: FloatArray) -> BoolArray:
    return not_slow((length_us * 1e3).astype(np.int64))


class _Costing:
    """The costs of one arm while they are found, kind of call by kind of call."""

    def __init__(self, timeline: Timeline) -> None:
        count = len(timeline)
        self.length = timeline.length
        self.own, self.excess = self.length.copy(), np.zeros(count)
        self.toll, self.self_wait = np.full(count, np.nan), np.zeros(count)
        self.waits, self.kept = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
        self.post, self.crypto = np.zeros(count), np.zeros(count)

    def slow_calls(self, group: IntArray) -> None:
        """Parts what slow calls take longer from their own cost; calls of a group should cost the same."""
        slow = group[~_not_slow(self.length[group])]
        usual = np.setdiff1d(group, slow, assume_unique=True)
        if len(slow) and len(usual):
            self.own[slow] = np.median(self.length[usual])
            self.excess[slow] = self.length[slow] - self.own[slow]

    def synchronizations(self, rows: IntArray) -> None:
        """Synchronizations of one operation."""
        self.waits[rows] = True
        self.post[rows] = min(SYNC_OWN_US, float(np.percentile(self.length[rows], 10)))
        self.kept[rows] = self.length[rows] > self.post[rows] + WAITED_US
        self.own[rows] = np.where(self.kept[rows], self.post[rows], self.length[rows])

    def joins(self, rows: IntArray, timeline: Timeline) -> None:
        """Waits for other threads: the time from the hand-over to the moment at which the thread goes on."""
        partner = timeline.partner[rows]
        since = timeline.end[rows] - timeline.end[partner]
        waited = (partner >= 0) & (self.length[rows] > 0) & (since <= self.length[rows] + WAITED_US)
        usual = float(np.median(since[waited])) if waited.any() else 0.0
        self.own[rows], self.excess[rows] = 0.0, 0.0
        self.post[rows] = np.where(waited, since, usual)
        self.waits[rows] = partner >= 0

    def copies(self, rows: IntArray, kind: CopyKind) -> None:
        """Copies of one kind without rows of their own."""
        behind = kind.toll if kind.toll_behind else 0.0
        self.toll[rows] = kind.toll - behind
        if not kind.blocks:
            return
        before = kind.expected + kind.crypto - behind
        self.excess[rows], self.waits[rows] = 0.0, True
        self.kept[rows] = kind.is_kept_waiting | (self.length[rows] > before + kind.slack)
        self.own[rows] = np.where(self.kept[rows], np.minimum(self.length[rows], before), self.length[rows])
        room = self.length[rows] - np.where(self.kept[rows], self.own[rows], 0.0)
        self.post[rows] = np.minimum(SELF_WAIT_US + behind, room)
        alone = min(SELF_WAIT_US, max(0.0, kind.typical - kind.expected))
        self.self_wait[rows] = np.where(self.kept[rows], 0.0, alone)

    def seen_copies(self, rows: IntArray, kind: CopyKind, end: FloatArray) -> None:
        """Copies of one kind that rows show; `end` is when each call returned less when its copy was done."""
        self.toll[rows] = kind.toll
        blocking, late = rows[end[rows] >= 0], np.maximum(end, 0.0)
        self.excess[blocking], self.waits[blocking], self.kept[blocking] = 0.0, True, True
        self.own[blocking] = np.minimum(self.length[blocking], kind.expected + kind.crypto)
        self.post[blocking] = late[blocking]
        self.crypto[blocking] = np.maximum(late[blocking] - RETURN_US, 0.0) if kind.decrypts else 0.0


def _arm(timeline: Timeline, kinds: dict[int, CopyKind], copies: CopyRows) -> OwnCost:
    costing = _Costing(timeline)
    for group in _groups(timeline):
        costing.slow_calls(group)
    for number in SYNC_NUMBERS:
        rows = np.flatnonzero(timeline.is_category(number))
        if len(rows):
            costing.synchronizations(rows)
    joins = np.flatnonzero(timeline.is_category(JOIN))
    if len(joins):
        costing.joins(joins, timeline)
    keys, seen, late = copy_keys(timeline), np.isfinite(copies.end), timeline.end - copies.end
    for key, kind in kinds.items():
        rows = np.flatnonzero(keys == key)
        costing.copies(rows[~seen[rows]], kind)
        costing.seen_copies(rows[seen[rows]], kind, late)
    done = np.where(seen & costing.waits, copies.end, timeline.end - costing.post)
    return OwnCost(
        own=costing.own,
        excess=costing.excess,
        toll=costing.toll,
        self_wait=costing.self_wait,
        waits=costing.waits,
        post=costing.post,
        crypto=costing.crypto,
        done=done,
        exact=costing.waits & costing.kept,
    )


def _groups(timeline: Timeline) -> list[IntArray]:
    """Positions of calls that should cost the same: category, graph, and for copies kind and size."""
    calls = np.flatnonzero((timeline.category < len(CATEGORIES)) & ~timeline.is_sync)
    if not len(calls):
        return []
    graph = np.where(timeline.category == CATEGORY["graph"], timeline.graph, 0)
    keys = (timeline.category, copy_keys(timeline), size_bucket(timeline.bytes), graph)
    group = group_numbers(*(key[calls] for key in keys))
    order = np.argsort(group, kind="stable")
    return np.split(calls[order], np.cumsum(np.bincount(group))[:-1])
