"""Mapping a GPU's %globaltimer to CLOCK_MONOTONIC from pairs of readings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

MAX_GAP_RATIO: Final = 1.5
"""A reading is used if the time between its two host readings is at most this many times the tightest one
near it: the stamp lies somewhere in the gap, so the gap is its uncertainty."""

WINDOW_NS: Final = 16_000_000_000
"""Readings within 16 s make one support point: enough of them (one a second) for a median, short enough for a
rate that follows temperature."""

OUTLIER_NS: Final = 50_000
"""A reading this far from its neighbours' line was interrupted between its two clocks."""


@dataclass(frozen=True)
class ClockMap:
    """Support points of the mapping; between them linear, outside with the overall rate.

    `origin` is the GPU time of the first reading, and `origin_offset` that minus CLOCK_MONOTONIC; `gpu_ns`
    and `offset_ns` are relative to them.
    """

    gpu_ns: npt.NDArray[np.float64]
    offset_ns: npt.NDArray[np.float64]
    rate: float
    origin: int
    origin_offset: int
    readings: int
    kept: int
    residual_ns: float

    @property
    def drift_ppm(self) -> float:
        """Rate of the GPU clock against CLOCK_MONOTONIC, in parts per million."""
        return self.rate * 1e6

    def to_monotonic(self, gpu_ns: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """CLOCK_MONOTONIC, ns, of %globaltimer values."""
        relative = (gpu_ns.astype(np.int64) - self.origin).astype(np.float64)
        offset = np.interp(relative, self.gpu_ns, self.offset_ns)
        offset += self.rate * np.minimum(relative - self.gpu_ns[0], 0)
        offset += self.rate * np.maximum(relative - self.gpu_ns[-1], 0)
        # Offsets are large (the GPU counts from 1970): only their small changes may pass through a float.
        return gpu_ns.astype(np.int64) - self.origin_offset - np.rint(offset).astype(np.int64)


def fit_clock(
    monotonic_ns: npt.NDArray[np.uint64], gpu_ns: npt.NDArray[np.uint64], gap_ns: npt.NDArray[np.uint64]
) -> ClockMap | None:
    """The mapping from readings of one device; None without any.

    Args:
        monotonic_ns: host clock in the middle of each reading, ns.
        gpu_ns: GPU clock of each reading, ns.
        gap_ns: time between the two host readings, ns.
    """
    sane = (gap_ns < np.uint64(2**40)) & (monotonic_ns < np.uint64(2**62)) & (gpu_ns < np.uint64(2**62))
    if not sane.any():
        return None
    order = np.argsort(gpu_ns[sane], kind="stable")
    host = monotonic_ns[sane][order].astype(np.int64)
    gpu = gpu_ns[sane][order].astype(np.int64)
    gap = gap_ns[sane][order].astype(np.float64)
    origin, origin_offset = int(gpu[0]), int(gpu[0] - host[0])
    at = (gpu - origin).astype(np.float64)
    offset = (gpu - host - origin_offset).astype(np.float64)
    tight = gap <= MAX_GAP_RATIO * _local_minimum(gap, at)
    at, offset = at[tight], offset[tight]
    rate = _robust_rate(at, offset)
    residual = offset - rate * at
    near = np.abs(residual - _local_median(residual, at)) <= OUTLIER_NS
    if not near.any():  # they contradict each other: the tightest one is all there is
        near = gap[tight] == gap[tight].min()
    at, offset, residual = at[near], offset[near], residual[near]
    points, values = _support(at, residual, rate)
    fitted = np.interp(at, points, values)
    return ClockMap(
        gpu_ns=points,
        offset_ns=values,
        rate=rate,
        origin=origin,
        origin_offset=origin_offset,
        readings=len(monotonic_ns),
        kept=len(at),
        residual_ns=float(np.median(np.abs(offset - fitted))),
    )


def _windows(at: npt.NDArray[np.float64]) -> list[npt.NDArray[np.intp]]:
    numbers = (at // WINDOW_NS).astype(np.int64)
    edges = np.flatnonzero(np.diff(numbers)) + 1
    return list(np.split(np.arange(len(at)), edges))


def _local_minimum(gap: npt.NDArray[np.float64], at: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    result = np.empty_like(gap)
    for where in _windows(at):
        result[where] = gap[where].min()
    return result


def _local_median(values: npt.NDArray[np.float64], at: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    result = np.empty_like(values)
    for where in _windows(at):
        result[where] = np.median(values[where])
    return result


def _robust_rate(at: npt.NDArray[np.float64], offset: npt.NDArray[np.float64]) -> float:
    """Median slope between readings half the recording apart (0 within a second: noise would win)."""
    half = len(at) // 2
    if not half:
        return 0.0
    run, rise = at[-half:] - at[:half], offset[-half:] - offset[:half]
    long_enough = run > 1e9
    return float(np.median(rise[long_enough] / run[long_enough])) if long_enough.any() else 0.0


def _support(
    at: npt.NDArray[np.float64], residual: npt.NDArray[np.float64], rate: float
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    points, values = [], []
    for where in _windows(at):
        middle = float(np.mean(at[where]))
        points.append(middle)
        values.append(float(np.median(residual[where])) + rate * middle)
    return np.array(points), np.array(values)
