"""Where one host thread waits for another: hand-overs to a worker, and waits for what it hands back.

A wait between host threads (a future, a queue) is no driver call. Without it the replay would let the
scheduler run ahead of its worker, and lost overlap would be put down to the host. Where no rows tell, it is
inferred:

- a worker cannot synchronize with an event before another thread has recorded it: a hand-over;
- where a gap of the submitting thread holds the end of a worker's job, at the same place in most steps of
  either arm, the thread waited there. The wait then exists in both arms: one that is already satisfied leaves
  no gap, but it is still a dependency.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from cctrace.analyzers.attribution.timeline import JOIN, KINDS, NONE, SUBMITTING, Timeline
from cctrace.analyzers.columns import BoolArray, FloatArray, IntArray

MIN_GAP_US: Final = 30.0
"""A shorter gap is no wait: host code between two calls takes that long."""
MIN_STEP_SHARE: Final = 0.8
"""A wait is at the same place in this part of the steps; chance hits less."""
PROMPT_US: Final = 60.0
"""A thread that waited goes on this soon after the hand-back, or"""
STEADY_AFTER: Final = 0.5
"""the time from the hand-back to the next call varies by less than this part of what the gap does, or"""
FOLLOWS: Final = 0.5
"""the gap is longer where the hand-back comes later, with this correlation: a wait has 0.8 to 0.9 where all
that runs varies by 2 %, chance 0.15 over 60 steps."""
MIN_JOBS: Final = 5
"""Fewer jobs of a worker show no habit."""


@dataclass(frozen=True)
class WaitPlace:
    """A place in the step where the submitting thread waits for a worker.

    Attributes:
        thread: number of the worker.
        category: category of the operation before which the wait lies.
        occurrence: how many operations of that category come before it in the step.
        lag: how many steps before its own the job belongs to.
    """

    thread: int
    category: int
    occurrence: int
    lag: int


def are_recorded(timeline: Timeline) -> bool:
    """Whether the trace itself tells where threads wait for each other."""
    return bool(timeline.is_category(JOIN).any())


def wait_places(timeline: Timeline) -> tuple[WaitPlace, ...]:
    """Where the submitting thread of one arm visibly waits for other threads."""
    if are_recorded(timeline):
        return ()
    found = [_place(timeline, thread) for thread in timeline.threads if thread != SUBMITTING]
    return tuple(place for place in found if place is not None)


def common_places(first: Timeline, second: Timeline) -> tuple[WaitPlace, ...]:
    """Where the submitting thread waits for other threads in both arms, if only one of them shows it.

    Where a thread of the other arm goes on before the worker is done, it does not wait: that a gap held the
    end of the job had other reasons, such as a lock that the worker held.
    """
    places = dict.fromkeys((*wait_places(first), *wait_places(second)))
    return tuple(one for one in places if _allows(first, one) and _allows(second, one))


def _allows(timeline: Timeline, place: WaitPlace) -> bool:
    """Whether the jobs are done before the thread goes on, in nearly all steps that have both."""
    _, _, done = _pairs_at(timeline, place)
    return not len(done) or bool(np.mean(done) >= MIN_STEP_SHARE)


def with_joins(timeline: Timeline, places: tuple[WaitPlace, ...]) -> Timeline:
    """The operations with a join before each one that waits for another thread, if the trace tells none."""
    if are_recorded(timeline):
        return timeline
    waiting, partner = _hand_overs(timeline)
    for place in places:
        ops, ends, done = _pairs_at(timeline, place)
        # A job that ends after the call it should precede is another one.
        waiting, partner = np.concatenate((waiting, ops[done])), np.concatenate((partner, ends[done]))
    waiting, first = np.unique(waiting, return_index=True)
    partner = partner[first]
    if not len(waiting):
        return timeline
    before, after = _split(timeline, waiting, partner)
    gap = timeline.gap.copy()
    gap[waiting] = after
    at = timeline.start[waiting] - after
    both = replace(timeline, gap=gap).with_rows(
        {
            "thread": timeline.thread[waiting],
            "step": timeline.step[waiting],
            "category": np.full(len(waiting), JOIN),
            "start": at,
            "end": at,
            "gap": before,
            "partner": partner,
        }
    )
    is_join = np.arange(len(both)) >= len(timeline)
    # A join lies directly before the operation that waits.
    order = np.lexsort((~is_join, np.concatenate((np.arange(len(timeline)), waiting))))
    return both.taken(order)


def _hand_overs(timeline: Timeline) -> tuple[IntArray, IntArray]:
    """(synchronizations with another thread's event, records of those events)."""
    record = timeline.record
    crosses = (record >= 0) & timeline.is_sync & (timeline.thread[record] != timeline.thread)
    rows = np.flatnonzero(crosses)
    return rows, record[rows]


def _jobs(timeline: Timeline, thread: int) -> IntArray:
    """Last operation of each job of a worker, by step: array over steps, NONE without one."""
    rows = np.flatnonzero((timeline.thread == thread) & (timeline.step >= 0))
    last = np.full(int(timeline.step.max(initial=0)) + 1, NONE, np.int64)
    last[timeline.step[rows]] = rows  # rows are in order of time: the last one stays
    return last


def _occurrence(timeline: Timeline, rows: IntArray) -> IntArray:
    """How many operations of the same category come before each one in its step (rows of one thread)."""
    key = timeline.step[rows] * KINDS + timeline.category[rows]
    order = np.argsort(key, kind="stable")
    opens = np.concatenate(([True], key[order][1:] != key[order][:-1])) if len(rows) else np.zeros(0, bool)
    first = np.maximum.accumulate(np.where(opens, np.arange(len(rows)), 0))
    occurrence = np.empty(len(rows), np.int64)
    occurrence[order] = np.arange(len(rows)) - first
    return occurrence


def _place(timeline: Timeline, thread: int) -> WaitPlace | None:
    """The place where the submitting thread waits for one worker, None if it shows none."""
    last = _jobs(timeline, thread)
    jobs = np.flatnonzero(last >= 0)
    if len(jobs) < MIN_JOBS:
        return None
    main = np.flatnonzero(timeline.thread == SUBMITTING)
    wide = main[timeline.gap[main] >= MIN_GAP_US]
    if not len(wide):
        return None
    begin = timeline.start[wide] - timeline.gap[wide]
    number = np.searchsorted(begin, timeline.end[last[jobs]], side="right") - 1
    at = wide[np.maximum(number, 0)]
    inside = (number >= 0) & (timeline.end[last[jobs]] <= timeline.start[at])
    at, jobs = at[inside], jobs[inside]
    if not len(at):
        return None
    occurrence = np.zeros(len(timeline), np.int64)
    occurrence[main] = _occurrence(timeline, main)
    key = np.stack((timeline.category[at], occurrence[at], timeline.step[at] - jobs), axis=1)
    places, of_place, counts = np.unique(key, axis=0, return_inverse=True, return_counts=True)
    best = int(np.argmax(counts))
    rows = of_place.reshape(-1) == best
    if counts[best] < MIN_STEP_SHARE * int((last >= 0).sum()):
        return None
    gap, after = timeline.gap[at[rows]], timeline.start[at[rows]] - timeline.end[last[jobs[rows]]]
    category, number_before, lag = (int(part) for part in places[best])
    return WaitPlace(thread, category, number_before, lag) if _waits(gap, after) else None


def _waits(gap: FloatArray, after: FloatArray) -> bool:
    """Whether the gaps end because of the hand-back, and do not just happen to contain it."""
    prompt, steady = np.median(after) <= PROMPT_US, _spread(after) <= STEADY_AFTER * _spread(gap)
    return bool(prompt or steady or _correlation(gap, gap - after) >= FOLLOWS)


def _correlation(first: FloatArray, second: FloatArray) -> float:
    """Pearson's, 0 where one of them does not vary."""
    varies = np.ptp(first) > 0 and np.ptp(second) > 0
    return float(np.corrcoef(first, second)[0, 1]) if varies else 0.0


def _spread(values: FloatArray) -> float:
    low, high = np.percentile(values, (25, 75))
    return float(high - low)


def _pairs_at(timeline: Timeline, place: WaitPlace) -> tuple[IntArray, IntArray, BoolArray]:
    """(operations at a place, last operations of the jobs they wait for, whether these are done by then).

    Of all steps that have both.
    """
    main = np.flatnonzero(timeline.thread == SUBMITTING)
    chosen = (timeline.category[main] == place.category) & (_occurrence(timeline, main) == place.occurrence)
    ops = main[chosen]
    last = _jobs(timeline, place.thread)
    step = timeline.step[ops] - place.lag
    known = (step >= 0) & (step < len(last))
    partner = np.where(known, last[np.where(known, step, 0)], NONE)
    ops, partner = ops[partner >= 0], partner[partner >= 0]
    return ops, partner, timeline.end[partner] <= timeline.start[ops]


def _split(timeline: Timeline, waiting: IntArray, partner: IntArray) -> tuple[FloatArray, FloatArray]:
    """The gaps of waiting operations in two: host time before the wait, and host time after it."""
    gap = timeline.gap[waiting]
    since = timeline.start[waiting] - timeline.end[partner]
    waited: BoolArray = since < gap
    after, before = np.minimum(gap, np.maximum(since, 0.0)), np.zeros(len(waiting))
    for kind in np.unique(timeline.thread[waiting]):
        own = timeline.thread[waiting] == kind
        typical = float(np.median(after[own & waited])) if (own & waited).any() else np.inf
        satisfied = own & ~waited
        after[satisfied] = np.minimum(gap[satisfied], typical)
        before[satisfied] = gap[satisfied] - after[satisfied]
        # Where a thread mostly waits, nothing tells what it did before: the few other cases are exceptions.
        shown = np.count_nonzero(satisfied) * 2 >= np.count_nonzero(own)
        usual = float(np.median(before[satisfied])) if shown else 0.0
        rows = own & waited
        before[rows] = np.minimum(usual, gap[rows] - after[rows])
    return before, after
