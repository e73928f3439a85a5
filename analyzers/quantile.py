"""One quantile of millions of numbers."""

from __future__ import annotations

from typing import Final

import numpy as np

from cctrace.analyzers.columns import FloatArray, IntArray

MEDIAN: Final = 0.5


def quantile(values: IntArray | FloatArray, share: float) -> float:
    """As `np.quantile(values, share)` of numbers without NaN, in the tenth part of the time.

    numpy selects two neighbours at once, and a place for NaN: it has vectorized code for the selection of one
    number only.

    Args:
        values: at least one number.
        share: 0 to 1.
    """
    place = share * (len(values) - 1)
    below = int(place)
    ordered = np.partition(values, below)
    low = float(ordered[below])
    if below == place:
        return low
    return low + (float(ordered[below + 1 :].min()) - low) * (place - below)
