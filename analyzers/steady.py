"""Steady state: which steps of a class stand for the running server."""

from __future__ import annotations

from typing import Final

import numpy as np

from cctrace.analyzers.columns import BoolArray, FloatArray, IntArray

STEADY, WARM_UP, PAUSE, SET_UP, HICCUP = range(5)
EXCLUSIONS: Final = ("steady", "warm-up", "pause", "allocation or capture", "hiccup")
"""Why a step does not count as steady, by code."""

PAUSE_FACTOR: Final = 5.0
"""A step this many times longer than the median of its class is no typical work: p99 of inter-token latency
in recorded runs lies below 1.7 medians."""
PAUSE_OUTSIDE_SHARE: Final = 0.5
"""Such a step is a pause of the load (no requests) if at least this part of what it takes longer lies outside
driver calls; else its calls were slow or waited: a hiccup."""
WARM_UP_DROP: Final = 1.2
"""The first steps are warm-up if they take this much longer than the rest: host speed alone drifts by less
within a run."""
MAX_WARM_UP_SHARE: Final = 0.1
"""At most this part of a class is warm-up; a later change is a change of the load or of the host's speed."""
MIN_WARM_UP_STEPS: Final = 3
MIN_STEPS_FOR_CHANGE: Final = 15
"""Fewer steps than this cannot show where a warm-up ends."""
HABIT_SHARE: Final = 0.2
"""If more steps of a class than this allocate, allocating is what its steps do and no reason to leave them
out."""


def exclusions(
    class_of: IntArray, period_ns: IntArray, inside_ns: IntArray, allocates: BoolArray, captures: BoolArray
) -> IntArray:
    """For each step STEADY, or why it is left out (position in EXCLUSIONS); steps come in order of time.

    Args:
        class_of: class of each step.
        period_ns: length of each step.
        inside_ns: time of the submitting thread in driver calls, for each step.
        allocates: steps that allocate memory.
        captures: steps that capture a graph.
    """
    reason = np.full(len(class_of), STEADY, np.int64)
    for number in np.unique(class_of):
        members = np.flatnonzero(class_of == number)
        reason[members] = _of_class(
            period_ns[members], inside_ns[members], allocates[members], captures[members]
        )
    return reason


def _of_class(
    period_ns: IntArray, inside_ns: IntArray, allocates: BoolArray, captures: BoolArray
) -> IntArray:
    reason = np.full(len(period_ns), STEADY, np.int64)
    median = np.median(period_ns)
    outside_ns = period_ns - inside_ns
    longer, longer_outside = period_ns - median, outside_ns - np.median(outside_ns)
    paused = longer_outside >= PAUSE_OUTSIDE_SHARE * longer
    too_long = period_ns > PAUSE_FACTOR * median
    reason[too_long] = np.where(paused, PAUSE, HICCUP)[too_long]
    if allocates.mean() <= HABIT_SHARE:
        reason[allocates] = SET_UP
    reason[captures] = SET_UP
    steady = np.flatnonzero(reason == STEADY)
    reason[steady[: warm_up_length(period_ns[steady])]] = WARM_UP
    return reason


def warm_up_length(period_ns: IntArray) -> int:
    """How many of the first steps are warm-up: the best split in two means, if its first part is slower."""
    steps = len(period_ns)
    longest = int(steps * MAX_WARM_UP_SHARE)
    if steps < MIN_STEPS_FOR_CHANGE or longest < MIN_WARM_UP_STEPS:
        return 0
    level = np.log(np.maximum(period_ns, 1).astype(np.float64))
    # A single outlier must not look like a change of level.
    level = np.clip(level, *np.percentile(level, (5, 95)))
    split = MIN_WARM_UP_STEPS + int(np.argmin(_split_errors(level)[MIN_WARM_UP_STEPS - 1 :]))
    slower = level[:split].mean() - level[split:].mean() > np.log(WARM_UP_DROP)
    return split if slower and split <= longest else 0


def _split_errors(level: FloatArray) -> FloatArray:
    """Sum of squared distances from two means, for a split after 1, 2, … n − 1 values."""
    count = np.arange(1, len(level))
    total, squares = np.cumsum(level)[:-1], np.cumsum(level**2)[:-1]
    rest, rest_squares = level.sum() - total, (level**2).sum() - squares
    return np.asarray(squares - total**2 / count + rest_squares - rest**2 / (len(level) - count), np.float64)
