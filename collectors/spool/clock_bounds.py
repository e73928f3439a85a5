"""What launches and waits allow of a GPU's clock.

No run begins before its launch, and no wait ends before its run. Readings of both clocks can be off by
milliseconds where other programs had the GPU meanwhile; each launch of an idle GPU, and each wait for it,
ties the clocks to a few microseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

WINDOW_NS: Final = 1_000_000_000
"""Of all bounds within a second the tightest one counts."""

MIN_WINDOWS: Final = 3
"""Seconds with launches that a line is drawn through: two of them could both be late."""

PIECE_NS: Final = 60_000_000_000
"""One rate holds for at most about a minute: it follows temperature, and hosts slew their clocks."""

MAX_RATE: Final = 100e-6
"""How far the rate that the readings gave may be off: bad readings half a minute apart gave 50 ppm."""

SEARCH_ROUNDS: Final = 60
"""Each takes a third off the range of rates: 60 of them leave less than a nanosecond an hour."""

NOISE_NS: Final = 2_000.0
"""Bounds may contradict each other by so much: times are noted a little before and after what they mean."""

LAUNCH_PART: Final = 0.2
"""Where launches and waits are equally tight, runs begin by this part of what is left after their launches:
an idle H200 begins 3 µs after the launch call does, and a wait returns 13 µs after the run."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Bounds:
    """Limits of a correction, ns, each at a time, ns."""

    at: Floats
    limit: Floats

    def __len__(self) -> int:
        return len(self.at)

    def tightest(self, pick: Callable[[Floats], np.intp]) -> Bounds:
        """The tightest of each window: `pick` is argmax of lower, argmin of upper limits."""
        if not len(self):
            return self
        order = np.argsort(self.at, kind="stable")
        cuts = np.flatnonzero(np.diff(self.at[order] // WINDOW_NS)) + 1
        chosen = np.array([part[pick(self.limit[part])] for part in np.split(order, cuts)])
        return Bounds(self.at[chosen], self.limit[chosen])

    def within(self, begin: float, end: float) -> Bounds:
        """Those of a time."""
        inside = (self.at >= begin) & (self.at < end)
        return Bounds(self.at[inside], self.limit[inside])

    def and_also(self, other: Bounds) -> Bounds:
        """Both."""
        return Bounds(np.concatenate((self.at, other.at)), np.concatenate((self.limit, other.limit)))


@dataclass(frozen=True)
class Correction:
    """What to add to the times of a GPU, ns: linear between its points, and beside them."""

    at: Floats
    value: Floats

    def __call__(self, at: Floats) -> Floats:
        """The correction at some times."""
        beside = np.minimum(at - self.at[0], 0) + np.maximum(at - self.at[-1], 0)
        return np.asarray(np.interp(at, self.at, self.value) + self.rate * beside, np.float64)

    @property
    def rate(self) -> float:
        """Of the whole, ns per ns."""
        return float((self.value[-1] - self.value[0]) / (self.at[-1] - self.at[0]))


@dataclass(frozen=True)
class _Line:
    intercept: float
    slope: float

    def __call__(self, at: Floats) -> Floats:
        return self.intercept + self.slope * at


def correct(launches: Bounds, waits: Bounds, earliest: Bounds, latest: Bounds) -> Correction | None:
    """The correction that contradicts neither launches nor waits, nor the readings if possible.

    Args:
        launches: the correction is at least this: a run begins after its launch.
        waits: at most this: a wait ends after its run.
        earliest: at least this, from readings.
        latest: at most this, from readings.

    Returns:
        None if launches tell too little, or contradict the waits.
    """
    lower, upper = launches.tightest(np.argmax), waits.tightest(np.argmin)
    if not len(lower):
        return None
    lines = [
        (begin, end, line)
        for begin, end in _pieces(np.concatenate((lower.at, earliest.at)))
        for line in [_line(*(some.within(begin, end) for some in (lower, upper, earliest, latest)))]
        if line is not None
    ]
    if not lines:
        return None
    edges = np.array([edge for begin, end, _ in lines for edge in (begin, end)])
    values = np.concatenate([line(np.array([begin, end])) for begin, end, line in lines])
    # Where pieces meet, half-way between their lines.
    at, place = np.unique(edges, return_inverse=True)
    return Correction(at, np.bincount(place, weights=values) / np.bincount(place))


def _pieces(at: Floats) -> Iterator[tuple[float, float]]:
    begin, end = float(at.min()), float(at.max()) + 1.0
    count = max(1, round((end - begin) / PIECE_NS))
    edges = np.linspace(begin, end, count + 1)
    return zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)


def _line(lower: Bounds, upper: Bounds, earliest: Bounds, latest: Bounds) -> _Line | None:
    if len(lower) < MIN_WINDOWS:
        return None
    with_readings = lower.and_also(earliest), upper.and_also(latest)
    for below, above in (with_readings, (lower, upper)):
        slope = _slope(below, above)
        floor, ceiling = _floor(below, slope), _ceiling(above, slope)
        if floor <= ceiling + NOISE_NS:
            part = _part(lower, upper, slope)
            return _Line(floor if part == 0.0 else floor + part * (ceiling - floor), slope)
    return None


def _floor(below: Bounds, slope: float) -> float:
    """The least intercept of a line of this slope that lies above all of them."""
    return float(np.max(below.limit - slope * below.at))


def _ceiling(above: Bounds, slope: float) -> float:
    """The greatest intercept of a line that lies below all of them; infinite without any."""
    return float(np.min(above.limit - slope * above.at, initial=np.inf))


def _slope(below: Bounds, above: Bounds) -> float:
    """The rate that leaves most room; without upper limits that of the line nearest above the lower ones."""
    middle = float(np.mean(below.at))

    def room(slope: float) -> float:
        floor = _floor(below, slope)
        return _ceiling(above, slope) - floor if len(above) else -(floor + slope * middle)

    low, high = -MAX_RATE, MAX_RATE
    for _ in range(SEARCH_ROUNDS):
        third = (high - low) / 3
        if room(low + third) < room(high - third):
            low += third
        else:
            high -= third
    return (low + high) / 2


def _part(lower: Bounds, upper: Bounds, slope: float) -> float:
    """How far up between the limits: near those that scatter less, which are the tight ones."""
    if len(upper) < MIN_WINDOWS:
        return 0.0
    loose_below = float(np.median(_floor(lower, slope) - (lower.limit - slope * lower.at)))
    loose_above = float(np.median(upper.limit - slope * upper.at - _ceiling(upper, slope)))
    below, above = loose_below * LAUNCH_PART, loose_above * (1 - LAUNCH_PART)
    both = below + above
    return LAUNCH_PART if both < NOISE_NS else below / both
