"""One quantile of millions of numbers."""

from __future__ import annotations

from typing import Final

import numpy as np

from cctrace.analyzers.columns import FloatArray, IntArray
from cctrace.analyzers.forms import masked

MEDIAN: Final = 0.5
MANY: Final = 1 << 20
"""More numbers are not copied to be sorted: a part of them is."""
SAMPLE: Final = 1 << 14
"""Numbers that tell where the wanted one lies."""
SIDE: Final = 0.02
"""Part of the numbers that is looked at on either side: the sample's quantiles are true within 0.004 (σ)."""


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
    part = place - below
    if len(values) > MANY:
        values, below = _around(values, share, below)
    ordered = np.partition(values, below)
    low = float(ordered[below])
    return low if not part else low + (float(ordered[below + 1 :].min()) - low) * part


def _around(values: IntArray | FloatArray, share: float, below: int) -> tuple[IntArray | FloatArray, int]:
    """Those values among which the wanted two are, and the place of the first one among them.

    Where a sample leads astray, all values: to sort them takes a copy of them.
    """
    sample = np.sort(values[:: len(values) // SAMPLE])
    last = len(sample) - 1
    low, high = (sample[int(np.clip((share + side) * last, 0, last))] for side in (-SIDE, SIDE))
    between = (values >= low) & (values <= high)
    under = np.count_nonzero(values < low)
    (found,) = masked(between, values)
    inside = under <= below < under + len(found) - 1
    return (found, below - under) if inside else (values, below)
