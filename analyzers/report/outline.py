"""What the comparison of all runs needs of one: its metadata, and a few rows of each kind."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cctrace.analyzers.calls import Calls
from cctrace.analyzers.columns import IntArray
from cctrace.analyzers.comparability.kernels import MIN_LAUNCHES
from cctrace.analyzers.loading import Recording


def outline(recording: Recording) -> Recording:
    """A recording with few rows, which says the same of its kernels and of how it was recorded.

    Runs of hundreds of megabytes are compared pair by pair; their outlines stay in memory together.
    """
    gpu = recording.gpu
    one_of_each = np.zeros(len(gpu), np.bool_)
    one_of_each[np.unique(gpu.stamped, return_index=True)[1]] = True
    nowhere = np.zeros(len(recording.marks), np.bool_)
    return replace(
        recording,
        calls=recording.calls.pick(_few_of_each(recording.calls)),
        marks=recording.marks.pick(nowhere),
        gpu=gpu.pick(one_of_each),
    )


def _few_of_each(calls: Calls) -> IntArray:
    """Positions of the first MIN_LAUNCHES calls of each kind, operation and symbol, in order."""
    key = (calls.symbol.astype(np.int64) << 16) + (calls.operation.astype(np.int64) << 8) + calls.kind
    order = np.argsort(key, kind="stable")
    first = np.unique(key[order], return_index=True)[1]
    rank = np.arange(len(order)) - np.repeat(first, np.diff([*first.tolist(), len(order)]))
    return np.asarray(np.sort(order[rank < MIN_LAUNCHES]), np.int64)
