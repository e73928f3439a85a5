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
"""Stretches that `levels` tells apart: a line through them is smooth, and a burst of steps still shows."""
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
    """Median x and median y of stretches with equally many known values.

    Returns:
        (x, y) of each stretch; the values themselves if there are no more than `stretches`.
    """
    known = np.flatnonzero(np.isfinite(y))
    x, y = np.asarray(x[known], np.float64), y[known]
    if len(known) <= stretches:
        return x, y
    edges = np.linspace(0, len(known), stretches + 1).astype(np.int64)
    middle = x[(edges[:-1] + edges[1:]) // 2]
    medians = [float(np.median(y[begin:end])) for begin, end in pairwise(edges.tolist())]
    return middle, np.array(medians)
