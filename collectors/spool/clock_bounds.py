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

MAX_RATE: Final = 2e-3
"""How far the rate that the readings gave may be off: they were off by up to 3 ms, which is that much where
launches of two seconds are enough."""

SEARCH_ROUNDS: Final = 60
"""Each takes a third off the range of rates: 60 of them leave less than a nanosecond an hour."""

MOST_PASSES: Final = 5
"""The second one mostly suffices."""

NOISE_NS: Final = 2_000.0
"""Bounds may contradict each other by so much: times are noted a little before and after what they mean."""

LAUNCH_NS: Final = 3_000.0
"""An idle H200 begins a run so long after its launch call begins."""

WAIT_NS: Final = 13_000.0
"""A wait returns so long after the run, there."""

LAUNCH_PART: Final = LAUNCH_NS / (LAUNCH_NS + WAIT_NS)
"""Where launches and waits leave less than both, it is parted likewise."""

CONTRADICTION: Final = 1_000.0
"""Weight of a contradiction against nearness, both in ns: a line that contradicts nothing comes first."""

Floats = npt.NDArray[np.float64]


def extended(at: Floats, points: Floats, values: Floats, rate: float) -> Floats:
    """What is linear between its points, and beside them goes on with a rate."""
    beside = np.minimum(at - points[0], 0) + np.maximum(at - points[-1], 0)
    return np.asarray(np.interp(at, points, values) + rate * beside, np.float64)


@dataclass(frozen=True)
class Bounds:
    """Limits of a correction, ns, each at a time, ns."""

    at: Floats
    limit: Floats

    def __len__(self) -> int:
        return len(self.at)

    def in_order(self) -> Bounds:
        """The same by time."""
        order = np.argsort(self.at, kind="stable")
        return Bounds(self.at[order], self.limit[order])

    def tightest(self, pick: Callable[[Floats], np.intp], rate: float) -> Bounds:
        """The tightest of each window, if they are in order.

        Args:
            pick: argmax of lower, argmin of upper limits.
            rate: of the correction, about. With 50 ppm the last launch of a second seems 50 µs tighter than
                the first one.
        """
        if not len(self):
            return self
        level = self.limit - rate * self.at
        cuts = np.flatnonzero(np.diff(self.at // WINDOW_NS)) + 1
        chosen = np.array([part[pick(level[part])] for part in np.split(np.arange(len(self)), cuts)])
        return Bounds(self.at[chosen], self.limit[chosen])

    def within(self, begin: float, end: float) -> Bounds:
        """Those of a time, if they are in order."""
        inside = slice(*np.searchsorted(self.at, (begin, end)))
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
        return extended(at, self.at, self.value, self.rate)

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
    if not len(launches):
        return None
    bounds = [some.in_order() for some in (launches, waits, earliest, latest)]
    lines = [
        (begin, end, line)
        for begin, end in _pieces(np.concatenate([some.at for some in bounds]))
        for line in [_line(*(some.within(begin, end) for some in bounds))]
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


def _line(launches: Bounds, waits: Bounds, earliest: Bounds, latest: Bounds) -> _Line | None:
    """The line by the tightest bounds of each second; which ones those are depends on its rate."""
    rate = 0.0
    for _ in range(MOST_PASSES):
        lower, upper = launches.tightest(np.argmax, rate), waits.tightest(np.argmin, rate)
        line = _line_between(lower, upper, earliest, latest)
        if line is None or abs(line.slope - rate) * WINDOW_NS < NOISE_NS / 2:
            break
        rate = line.slope
    return line


def _line_between(lower: Bounds, upper: Bounds, earliest: Bounds, latest: Bounds) -> _Line | None:
    """The line along the side that is tight.

    The line that leaves most room can be another one: launches of a busy GPU lie milliseconds before their
    runs, now more, now less, and readings that were disturbed allow as much.
    """
    if len(lower) < MIN_WINDOWS:
        return None
    trust = _trust_in_launches(lower, upper)
    for below, above in ((lower.and_also(earliest), upper.and_also(latest)), (lower, upper)):
        slope = _slope(lower, upper, below, above, trust)
        floor, ceiling = _floor(below, slope), _ceiling(above, slope)
        if floor <= ceiling + NOISE_NS:
            return _Line(min(max(_between(lower, upper, slope, trust), floor), ceiling), slope)
    return None


def _slope(lower: Bounds, upper: Bounds, below: Bounds, above: Bounds, trust: float) -> float:
    """The rate of the line that is nearest to the trusted side, of those that `below` and `above` allow."""

    def cost(slope: float) -> float:
        near = trust * _height(lower, slope)
        if trust < 1.0:
            near += (1.0 - trust) * _depth(upper, slope)
        return near + CONTRADICTION * max(0.0, _floor(below, slope) - _ceiling(above, slope))

    return _least(cost)


def _floor(below: Bounds, slope: float) -> float:
    """The least intercept of a line of this slope that lies above all of them."""
    return float(np.max(below.limit - slope * below.at))


def _ceiling(above: Bounds, slope: float) -> float:
    """The greatest intercept of a line that lies below all of them; infinite without any."""
    return float(np.min(above.limit - slope * above.at, initial=np.inf))


def _height(lower: Bounds, slope: float) -> float:
    """How high the lowest line above them passes their middle: least for the line nearest to them."""
    return _floor(lower, slope) + slope * float(np.mean(lower.at))


def _depth(upper: Bounds, slope: float) -> float:
    """The same for the highest line below them, downwards."""
    return -(_ceiling(upper, slope) + slope * float(np.mean(upper.at)))


def _least(cost: Callable[[float], float]) -> float:
    """The rate of least cost, which is convex."""
    low, high = -MAX_RATE, MAX_RATE
    for _ in range(SEARCH_ROUNDS):
        third = (high - low) / 3
        if cost(low + third) > cost(high - third):
            low += third
        else:
            high -= third
    return (low + high) / 2


def _trust_in_launches(lower: Bounds, upper: Bounds) -> float:
    """0 to 1, less than half where waits scatter less around a line: those that scatter little are tight."""
    if len(upper) < MIN_WINDOWS:
        return 1.0
    slope = _least(lambda slope: _height(lower, slope))
    of_launches = float(np.median(_floor(lower, slope) - (lower.limit - slope * lower.at))) + NOISE_NS
    slope = _least(lambda slope: _depth(upper, slope))
    of_waits = float(np.median(upper.limit - slope * upper.at - _ceiling(upper, slope))) + NOISE_NS
    return of_waits**2 / (of_waits**2 + of_launches**2)


def _between(lower: Bounds, upper: Bounds, slope: float, trust: float) -> float:
    """The intercept at which runs lie after launches, or before the ends of waits, by as much as they do."""
    floor, ceiling = _floor(lower, slope), _ceiling(upper, slope)
    room = ceiling - floor
    if trust >= 0.5:
        return floor + min(LAUNCH_NS, LAUNCH_PART * room)
    return ceiling - min(WAIT_NS, (1.0 - LAUNCH_PART) * room)
