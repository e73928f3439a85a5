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
BURST_DROP: Final = 1.05
"""All steps before the first pause are warm-up if they take this much longer than those after it: enough are
left without them."""
MAX_WARM_UP_SHARE: Final = 0.1
"""At most this part of a class is warm-up; a later change is a change of the load or of the host's speed."""
CLEAR_DROP: Final = 2.0
MAX_CLEAR_SHARE: Final = 0.25
"""Neither of those halves the time of steps of one class, or stops at a pause: then the first steps shared
the GPU with another program, or compiled, and up to this part of the class is warm-up."""
DISTURBED_SHARE: Final = 0.1
"""Where more than this part of the first steps are pauses or hiccups, another program had turns on the GPU:
what lies between them is no more typical than they are. Pauses of a load are rarer."""
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
    paused = np.flatnonzero(reason == PAUSE)
    if len(paused):
        for number in np.unique(class_of):
            steady = np.flatnonzero((class_of == number) & (reason == STEADY))
            first = steady[: slow_first_burst(period_ns[steady], int((steady < paused[0]).sum()))]
            reason[first] = WARM_UP
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
    disturbed = disturbed_start(too_long)
    reason[:disturbed][~too_long[:disturbed]] = WARM_UP
    if allocates.mean() <= HABIT_SHARE:
        reason[allocates] = SET_UP
    reason[captures] = SET_UP
    steady = np.flatnonzero(reason == STEADY)
    reason[steady[: warm_up_length(period_ns[steady])]] = WARM_UP
    return reason


def disturbed_start(too_long: BoolArray) -> int:
    """How many of the first steps of a class belong to a disturbance; see DISTURBED_SHARE."""
    surplus = np.cumsum(too_long - DISTURBED_SHARE)
    length = int(np.argmax(surplus)) + 1
    many = too_long[:length].sum() >= MIN_WARM_UP_STEPS
    return length if many and length <= MAX_CLEAR_SHARE * len(too_long) else 0


def slow_first_burst(period_ns: IntArray, before_pause: int) -> int:
    """How many of the steps before the first pause are warm-up: all if they are slower than the rest.

    Args:
        period_ns: length of each steady step of a class.
        before_pause: how many of them come before the first pause.
    """
    if not MIN_WARM_UP_STEPS <= before_pause <= MAX_CLEAR_SHARE * len(period_ns):
        return 0
    level = np.log(np.maximum(period_ns, 1).astype(np.float64))
    drop = np.exp(level[:before_pause].mean() - level[before_pause:].mean())
    return before_pause if drop > BURST_DROP else 0


def warm_up_length(period_ns: IntArray) -> int:
    """How many of the first steps are warm-up.

    Steps can become faster in several stages, as other programs leave the GPU one by one: what is left after
    one stage is looked at again.
    """
    dropped, most = 0, int(MAX_CLEAR_SHARE * len(period_ns))
    while stage := _first_stage(period_ns[dropped:]):
        if dropped + stage > most:
            break
        dropped += stage
    return dropped


def _first_stage(period_ns: IntArray) -> int:
    """Where the best split in two means is, if its first part is slower and short; else 0."""
    steps = len(period_ns)
    if steps < MIN_STEPS_FOR_CHANGE or int(steps * MAX_WARM_UP_SHARE) < MIN_WARM_UP_STEPS:
        return 0
    level = np.log(np.maximum(period_ns, 1).astype(np.float64))
    # A single outlier must not look like a change of level.
    level = np.clip(level, *np.percentile(level, (5, 95)))
    split = MIN_WARM_UP_STEPS + int(np.argmin(_split_errors(level)[MIN_WARM_UP_STEPS - 1 :]))
    drop = np.exp(level[:split].mean() - level[split:].mean())
    longest = steps * (MAX_CLEAR_SHARE if drop > CLEAR_DROP else MAX_WARM_UP_SHARE)
    return split if drop > WARM_UP_DROP and split <= longest else 0


def _split_errors(level: FloatArray) -> FloatArray:
    """Sum of squared distances from two means, for a split after 1, 2, … n − 1 values."""
    count = np.arange(1, len(level))
    total, squares = np.cumsum(level)[:-1], np.cumsum(level**2)[:-1]
    rest, rest_squares = level.sum() - total, (level**2).sum() - squares
    return np.asarray(squares - total**2 / count + rest_squares - rest**2 / (len(level) - count), np.float64)
