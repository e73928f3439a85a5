"""Which host calls waited for the GPU.

A synchronization and a copy that blocks by contract wait, whatever they cost. An asynchronous copy is meant
to return at once; whether it did is decided by its duration, because the contract is exactly what
confidential computing breaks.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from cctrace.analyzers.calls import Calls
from cctrace.analyzers.columns import BoolArray, FloatArray, IntArray
from cctrace.analyzers.quantile import MEDIAN, quantile
from cctrace.trace.schema import WORK_OPERATIONS

COPY_OVER_LAUNCH: Final = 2.0
"""Own cost of an asynchronous copy over that of a kernel launch: 4.3–9.5 µs against 4–5 µs on an H200."""
COPY_SLACK_NS: Final = 30_000
"""On top: first copies after a pause take up to 26 µs there without waiting for anything, and 64 KB to the
host 35 µs with CC on (H20), where a launch costs 5 to 15 µs."""
COPY_BANDWIDTH_BYTES_PER_NS: Final = 1.5
"""A copy that stages or encrypts on the calling thread is granted this: the slowest rate measured with CC on
(H100, SEV-SNP, 1 MB, 1.5 GB/s); B200 reaches 7.2 GB/s."""
DEFAULT_LAUNCH_NS: Final = 6_000
"""Own cost of a launch where a trace holds none: between 3.45 µs (CC off) and 15.7 µs (CC on), near the
first."""

FASTEST: Final = 0.1
SLOW_FACTOR: Final = 4.0
SLOW_SLACK_NS: Final = 20_000
"""A launch that takes longer than SLOW_FACTOR times the fastest tenth of its category, plus this, waited for
room in the queue or lost its CPU; it says nothing on own cost."""


def waited_in_effect(calls: Calls) -> BoolArray:
    """Mask of the calls that waited for the GPU.

    Args:
        calls: calls of one process.
    """
    forms = calls.forms
    kinds = (forms.submits(*WORK_OPERATIONS) & ~forms.is_copy, forms.is_copy, forms.is_blocking_wait)
    launch, copy, wait = range(1, len(kinds) + 1)
    kind = calls.each(np.select(kinds, (launch, copy, wait), 0).astype(np.int8))
    launches = calls.duration_ns[kind == launch]
    launch_ns = quantile(launches, MEDIAN) if len(launches) else float(DEFAULT_LAUNCH_NS)
    copies = np.flatnonzero(kind == copy)
    form = calls.form[copies]
    slow = forms.blocking[form] | (calls.duration_ns[copies] > copy_limit_ns(forms.bytes, launch_ns)[form])
    waited: BoolArray = kind == wait
    waited[copies[slow]] = True
    return waited


def copy_limit_ns(size_bytes: IntArray, launch_ns: float) -> FloatArray:
    """Longest time that an asynchronous copy of this size takes without waiting for earlier GPU work."""
    fixed = COPY_OVER_LAUNCH * launch_ns + COPY_SLACK_NS
    return np.asarray(fixed + np.maximum(size_bytes, 0) / COPY_BANDWIDTH_BYTES_PER_NS, np.float64)


def not_slow(duration_ns: IntArray) -> BoolArray:
    """Calls of one category that say something on its own cost: all but those far above its fastest tenth."""
    if not len(duration_ns):
        return np.zeros(0, np.bool_)
    fastest = quantile(duration_ns, FASTEST)
    mask: BoolArray = duration_ns <= SLOW_FACTOR * fastest + SLOW_SLACK_NS
    return mask
