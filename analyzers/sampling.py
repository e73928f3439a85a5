"""Some of many, spread over all of them."""

from __future__ import annotations

from typing import Final

import numpy as np

from cctrace.analyzers.columns import IntArray

_SEED: Final = 0


def spread_out(count: int, most: int) -> IntArray:
    """Positions of `most` of `count` things, in order; of all of them if there are no more.

    One is drawn from each of equal stretches. Were it every n-th one, work that repeats every n would be seen
    each time or never. The same numbers give the same positions.
    """
    if count <= most:
        return np.arange(count, dtype=np.int64)
    edges = np.arange(most + 1, dtype=np.int64) * count // most
    drawn = np.random.default_rng(_SEED).integers(edges[:-1], edges[1:])
    return np.asarray(drawn, np.int64)
