"""Mapping a GPU's %globaltimer to CLOCK_MONOTONIC from pairs of readings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from cctrace.collectors.spool.clock_bounds import Correction, extended

MAX_GAP_RATIO: Final = 1.5
"""A reading is used if the time between its two host readings is at most this many times the tightest one
near it: the stamp lies somewhere in the gap, so the gap is its uncertainty."""

WINDOW_NS: Final = 16_000_000_000
"""Readings within 16 s make one support point, by their median: the rate follows temperature, slowly."""

OUTLIER_NS: Final = 50_000
"""A reading this far from its neighbours' line was interrupted between its two clocks."""


MIN_SPAN_NS: Final = 1_000_000_000
"""Readings closer together than a second say nothing about the rate: 10 µs of noise would be 10 ppm."""

MIN_LAUNCH_WINDOWS: Final = 3
"""Seconds with launches from which a rate is taken: two of them could both be late."""

RATE_ERROR: Final = 10e-6
"""How far the rate may be off between two readings: as much as it was seen to be at all, 10 µs a second."""

UNKNOWN_RATE: Final = 50e-6
"""The same where nothing tells the rate: a common tolerance of oscillators."""

MAX_RATE: Final = 500e-6
"""Clocks are slewed by at most 500 ppm; more is no drift but a wrong pairing."""


@dataclass(frozen=True)
class ClockMap:
    """Support points of the mapping; between them linear, outside with the overall rate.

    `rate` is None while all readings lie close together, `residual_ns` while there are no more readings than
    the mapping needs. `origin` is the GPU time of the first reading, and `origin_offset` that minus
    CLOCK_MONOTONIC; `gpu_ns` and `offset_ns` are relative to them.
    """

    gpu_ns: npt.NDArray[np.float64]
    offset_ns: npt.NDArray[np.float64]
    rate: float | None
    origin: int
    origin_offset: int
    readings: int
    kept: int
    residual_ns: float | None
    rate_source: str | None = None
    moved_ns: int = 0

    def corrected(self, by: Correction) -> ClockMap:
        """The mapping with a correction; its times are those of the GPU since `origin`."""
        points = np.unique(np.concatenate((self.gpu_ns, by.at)))
        return replace(
            self,
            gpu_ns=points,
            offset_ns=self._offset(points) - by(points),
            rate=(self.rate or 0.0) - by.rate,
            rate_source="launches",
            residual_ns=None,
        )

    def since_origin(self, gpu_ns: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """%globaltimer values since the first reading, ns."""
        return (gpu_ns - self.origin).astype(np.float64)

    def moved(self, by_ns: int) -> ClockMap:
        """The mapping to times later by so much."""
        return replace(self, origin_offset=self.origin_offset - by_ns, moved_ns=self.moved_ns + by_ns)

    @property
    def drift_ppm(self) -> float | None:
        """Rate of the GPU clock against CLOCK_MONOTONIC, in parts per million; None if not known."""
        return None if self.rate is None else self.rate * 1e6

    def to_monotonic(self, gpu_ns: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """CLOCK_MONOTONIC, ns, of %globaltimer values."""
        offset = self._offset(self.since_origin(gpu_ns.astype(np.int64)))
        # Offsets are large (the GPU counts from 1970): only their small changes may pass through a float.
        return gpu_ns.astype(np.int64) - self.origin_offset - np.rint(offset).astype(np.int64)

    def _offset(self, relative: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return extended(relative, self.gpu_ns, self.offset_ns, self.rate or 0.0)

    def error_ns(self, gpu_ns: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """By how much `to_monotonic` may be off, ns: more with the distance from a support point."""
        relative = self.since_origin(gpu_ns.astype(np.int64))
        after = np.searchsorted(self.gpu_ns, relative)
        distance = np.minimum(
            np.abs(relative - self.gpu_ns[np.minimum(after, len(self.gpu_ns) - 1)]),
            np.abs(relative - self.gpu_ns[np.maximum(after - 1, 0)]),
        )
        return (distance * (UNKNOWN_RATE if self.rate is None else RATE_ERROR)).astype(np.int64)


def fit_clock(
    monotonic_ns: npt.NDArray[np.uint64], gpu_ns: npt.NDArray[np.uint64], gap_ns: npt.NDArray[np.uint64]
) -> ClockMap | None:
    """The mapping from readings of one device; None without any.

    Args:
        monotonic_ns: host clock in the middle of each reading, ns.
        gpu_ns: GPU clock of each reading, ns.
        gap_ns: time between the two host readings, ns.
    """
    sane = are_sane(monotonic_ns, gpu_ns, gap_ns)
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
    residual = offset - (rate or 0.0) * at
    near = np.abs(residual - _local_median(residual, at)) <= OUTLIER_NS
    if not near.any():  # they contradict each other: the tightest one is all there is
        near = gap[tight] == gap[tight].min()
    at, offset, residual = at[near], offset[near], residual[near]
    points, values = _support(at, residual, rate or 0.0)
    return ClockMap(
        gpu_ns=points,
        offset_ns=values,
        rate=rate,
        origin=origin,
        origin_offset=origin_offset,
        readings=len(monotonic_ns),
        kept=len(at),
        residual_ns=_residual(at, offset, points, values, rate_known=rate is not None),
        rate_source=None if rate is None else "readings",
    )


def are_sane(
    monotonic_ns: npt.NDArray[np.uint64], gpu_ns: npt.NDArray[np.uint64], gap_ns: npt.NDArray[np.uint64]
) -> npt.NDArray[np.bool_]:
    """Which readings can be some: those of a damaged file can be any number."""
    limit = np.uint64(2**62)
    sane: npt.NDArray[np.bool_] = (gap_ns < np.uint64(2**40)) & (monotonic_ns < limit) & (gpu_ns < limit)
    return sane


def _residual(
    at: npt.NDArray[np.float64],
    offset: npt.NDArray[np.float64],
    points: npt.NDArray[np.float64],
    values: npt.NDArray[np.float64],
    *,
    rate_known: bool,
) -> float | None:
    """Median distance of the readings from the mapping, ns; None if it must go through all of them."""
    if len(at) <= len(points) + rate_known:
        return None
    return float(np.median(np.abs(offset - np.interp(at, points, values))))


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


def _robust_rate(at: npt.NDArray[np.float64], offset: npt.NDArray[np.float64]) -> float | None:
    """Median slope between readings half the recording apart; None within a second, where noise would win."""
    half = len(at) // 2
    if not half:
        return None
    run, rise = at[-half:] - at[:half], offset[-half:] - offset[:half]
    long_enough = run > MIN_SPAN_NS
    return float(np.median(rise[long_enough] / run[long_enough])) if long_enough.any() else None


def rate_from_launches(
    gpu_begin_ns: npt.NDArray[np.uint64], launch_ns: npt.NDArray[np.uint64]
) -> float | None:
    """Rate of the GPU clock from runs and the launches that started them, where readings are missing.

    A process that was killed has readings of its start only. A run begins at the earliest when it is
    launched, so the least distance between the two clocks within a second follows their drift.

    Args:
        gpu_begin_ns: begins of runs, GPU clock.
        launch_ns: their launches, CLOCK_MONOTONIC.
    """
    if not len(gpu_begin_ns):
        return None
    at = (launch_ns - launch_ns.min()).astype(np.float64)
    distance = (gpu_begin_ns.astype(np.int64) - launch_ns.astype(np.int64)).astype(np.int64)
    relative = (distance - distance.min()).astype(np.float64)
    order = np.argsort(at, kind="stable")
    at, relative = at[order], relative[order]
    seconds = np.flatnonzero(np.diff(at // MIN_SPAN_NS)) + 1
    least = [where[np.argmin(relative[where])] for where in np.split(np.arange(len(at)), seconds)]
    if len(least) < MIN_LAUNCH_WINDOWS:
        return None
    rate = _robust_rate(at[least], relative[least])
    return rate if rate is not None and abs(rate) <= MAX_RATE else None


def _support(
    at: npt.NDArray[np.float64], residual: npt.NDArray[np.float64], rate: float
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    points, values = [], []
    for where in _windows(at):
        middle = float(np.mean(at[where]))
        points.append(middle)
        values.append(float(np.median(residual[where])) + rate * middle)
    return np.array(points), np.array(values)
