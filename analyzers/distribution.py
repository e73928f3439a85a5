"""How the numbers of some steps are distributed: quantiles, histograms that can be compared, and ECDFs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from cctrace.analyzers.columns import FloatArray, IntArray

MAX_BINS: Final = 120
MIN_BINS: Final = 8
TAIL_PERCENTILE: Final = 99.5
"""Bins end here, and a little later: one value far out would leave all others in one bin."""
TAIL_ROOM: Final = 1.02
WHOLE_VALUES: Final = 60
"""Counts that span no more than this have a bin for each count."""
CURVE_POINTS: Final = 400
CURVE_TAIL: Final = 50
"""Single values at each end of a curve of many: a median needs no more points, a p99.9 does."""


@dataclass(frozen=True)
class Quantiles:
    """Of some numbers, in their unit."""

    count: int
    median: float
    p10: float
    p90: float
    p99: float
    largest: float


@dataclass(frozen=True, eq=False)
class Histogram:
    """Samples in the same bins.

    Attributes:
        edges: of the bins, ascending.
        shares: for each sample the part (0–1) of its values in each bin.
        beyond: for each sample how many of its values lie after the last bin.
        even_ratios: whether bins are equally wide on a logarithmic axis, else on a linear one.
    """

    edges: FloatArray
    shares: tuple[FloatArray, ...]
    beyond: tuple[int, ...]
    even_ratios: bool


def quantiles(values: FloatArray) -> Quantiles | None:
    """The quantiles of numbers, NaN left out; None of none."""
    known = values[np.isfinite(values)]
    if not len(known):
        return None
    p10, median, p90, p99 = (float(one) for one in np.percentile(known, (10, 50, 90, 99)))
    return Quantiles(len(known), median, p10, p90, p99, float(known.max()))


def histogram(
    samples: Sequence[FloatArray], *, whole: bool = False, even_ratios: bool = False
) -> Histogram | None:
    """A histogram of several samples over bins that they share; None if there is no value.

    Args:
        samples: NaN is left out; with `even_ratios`, so are values that are not positive.
        whole: the values are counts; no bin splits one.
        even_ratios: bins of equal ratio instead of equal width.
    """
    known = [one[np.isfinite(one) & ((one > 0) | (not even_ratios))] for one in samples]
    if not any(map(len, known)):
        return None
    ends = [np.percentile(one, (0, TAIL_PERCENTILE)) for one in known if len(one)]
    low, high = min(float(end[0]) for end in ends), max(float(end[1]) for end in ends) * TAIL_ROOM
    scaled = [np.log(one) for one in known] if even_ratios else known
    if whole and not even_ratios:
        edges = _whole_edges(low, high)
    elif even_ratios:
        edges = np.exp(_even_edges(np.log(low), np.log(max(high, low)), scaled))
    else:
        edges = _even_edges(low, high, scaled)
    # A value on the last edge belongs to the last bin, and rounding must not lose the first one.
    edges[0] = min(edges[0], low)
    counts = [np.histogram(one, edges)[0] for one in known]
    return Histogram(
        edges=edges,
        shares=tuple(count / max(len(one), 1) for count, one in zip(counts, known, strict=True)),
        beyond=tuple(int((one > edges[-1]).sum()) for one in known),
        even_ratios=even_ratios,
    )


def _whole_edges(low: float, high: float) -> FloatArray:
    """Edges between counts."""
    first, last = int(np.floor(low)), int(np.floor(high))
    width = max(1, -(-(last - first + 1) // WHOLE_VALUES))
    return np.asarray(np.arange(first, last + 1 + width, width) - 0.5, np.float64)


def _even_edges(low: float, high: float, samples: Sequence[FloatArray]) -> FloatArray:
    """Edges of bins as wide as Freedman and Diaconis advise for the sample that needs the narrowest ones.

    Width 2 × interquartile range ÷ cube root of the count (Freedman and Diaconis 1981).
    """
    if high <= low:
        half = max(abs(low), 1.0) / 100
        return np.array([low - half, low + half])
    widths = []
    for one in samples:
        if len(one):
            first, third = np.percentile(one, (25, 75))
            widths.append(2 * (third - first) / len(one) ** (1 / 3))
    narrowest = min((width for width in widths if width > 0), default=(high - low) / MIN_BINS)
    bins = int(np.clip(np.ceil((high - low) / narrowest), MIN_BINS, MAX_BINS))
    return np.linspace(low, high, bins + 1)


def curve(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The empirical distribution function: (ascending values, part (0–1) of all values up to each).

    Of many values some are chosen, all of the largest and smallest among them; NaN is left out.
    """
    known = np.sort(values[np.isfinite(values)])
    rank = _chosen_ranks(len(known))
    return known[rank], (rank + 1) / max(len(known), 1)


def _chosen_ranks(count: int) -> IntArray:
    if count <= CURVE_POINTS:
        return np.arange(count)
    middle = np.linspace(0, count - 1, CURVE_POINTS - 2 * CURVE_TAIL).astype(np.int64)
    ends = np.arange(CURVE_TAIL)
    return np.unique(np.concatenate((ends, middle, count - 1 - ends)))
