"""Few points for many: what a chart shows of millions of steps without hiding the extreme ones."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

import numpy as np
from tsdownsample import MinMaxDownsampler

from cctrace.analyzers.columns import FloatArray, IntArray

MAX_POINTS: Final = 2000
"""Points of one trace in a viewport: more than one for each pixel of a wide screen cannot be told apart."""
MIN_POINTS: Final = 4
LEVEL_STRETCHES: Final = 120
"""Stretches that `levels` tells apart at most: a burst of steps still shows."""
LEVEL_VALUES: Final = 8
"""Values in each of them, at least: a single odd one does not move their median."""
_LOWEST_AND_HIGHEST: Final[Any] = MinMaxDownsampler()  # type: ignore[no-untyped-call]


def extremes(x: FloatArray | IntArray, y: FloatArray, points: int = MAX_POINTS) -> IntArray:
    """Positions of the points that stand for a series: the lowest and the highest of each stretch of x.

    Args:
        x: ascending; step numbers, or times.
        y: one value for each; one that is not known is NaN, and never chosen.
        points: at most so many are chosen; at least MIN_POINTS are allowed.

    Returns:
        Ascending positions. All that are known if they are no more than `points`; else the largest and the
        smallest value are among them, and none is made up.
    """
    known = np.flatnonzero(np.isfinite(y))
    points = max(points, MIN_POINTS)
    if len(known) <= points:
        return known
    if len(known) < len(y):
        x, y = x[known], y[known]
    series = (np.ascontiguousarray(x), y) if x[-1] > x[0] else (y,)
    chosen: IntArray = _LOWEST_AND_HIGHEST.downsample(*series, n_out=points // 2 * 2).astype(np.int64)
    # A stretch whose values are all equal gives one position twice.
    return known[np.unique(chosen)]


def levels(
    x: FloatArray | IntArray, y: FloatArray, stretches: int = LEVEL_STRETCHES
) -> tuple[FloatArray, FloatArray]:
    """A line through the medians of stretches that hold equally many values each.

    Args:
        x: ascending.
        y: one value for each; NaN where one is not known.
        stretches: at most so many, each of LEVEL_VALUES values or more.

    Returns:
        (x, y) of the line, from the first to the last known value; empty if none is known.
    """
    known = np.flatnonzero(np.isfinite(y))
    x, y = np.asarray(x[known], np.float64), y[known]
    if not len(known):
        return x, y
    edges = np.linspace(0, len(known), max(min(stretches, len(known) // LEVEL_VALUES), 1) + 1).astype(
        np.int64
    )
    middle = x[(edges[:-1] + edges[1:]) // 2]
    medians = [float(np.median(y[begin:end])) for begin, end in pairwise(edges.tolist())]
    # The line begins and ends where the values do.
    return np.concatenate((x[:1], middle, x[-1:])), np.array([medians[0], *medians, medians[-1]])
