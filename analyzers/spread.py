"""Median and percentiles of a set of durations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cctrace.analyzers.columns import IntArray
from cctrace.analyzers.results import NANOSECONDS_PER_MICROSECOND, Result, value


@dataclass(frozen=True)
class Spread(Result):
    """How a set of durations is spread."""

    count: int = value("number of values")
    median_us: float = value("median", "µs")
    p10_us: float = value("10th percentile", "µs")
    p90_us: float = value("90th percentile", "µs")
    mean_us: float = value("mean", "µs")
    max_us: float = value("largest", "µs")


def spread(durations_ns: IntArray) -> Spread | None:
    """The spread of durations in nanoseconds, None of no durations."""
    if not len(durations_ns):
        return None
    us = durations_ns / NANOSECONDS_PER_MICROSECOND
    p10, median, p90 = (float(x) for x in np.percentile(us, (10, 50, 90)))
    return Spread(len(us), median, p10, p90, float(us.mean()), float(us.max()))
