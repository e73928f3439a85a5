"""What a copy costs by its size: medians, and one law, fixed + bytes ÷ bandwidth, where it holds.

The law is fitted to logarithms by least absolute deviations: copies span many decades of size, a tenth too
much is as bad at 64 B as at 64 MB, and one size that is off must not bend the rest. Where one law does not
describe the medians there is none: some platforms' copies follow no single law (small ones pass one path,
large ones another), and then the table of medians is the answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from cctrace.analyzers.columns import BoolArray, FloatArray, IntArray
from cctrace.analyzers.results import Result, about, microseconds, value
from cctrace.analyzers.sentences import bytes_text, percent, plural

MAX_SIZES: Final = 48
"""Different sizes told apart; where there are more, those within a quarter of an octave are one line."""
SIZES_PER_OCTAVE: Final = 4
MIN_COPIES: Final = 5
"""Fewer copies of a size give no median that a law may rest on."""
MIN_LAW_SIZES: Final = 3
"""Two sizes fit any law with two unknowns."""
MIN_LAW_RANGE: Final = 10.0
"""Largest ÷ smallest size: within less than a decade, fixed cost and bandwidth cannot be told apart."""
MAX_MISFIT: Final = 0.10
"""A law that misses the median of a size by more, which that median's own interval does not excuse, does not
hold. The published B200 copies miss theirs by 14 % at 1 MB."""
MISFIT_US: Final = 1.0
"""And by more than this: places in a program differ by about so much in what the same copy costs there."""
MIN_GROWTH: Final = 0.10
"""A time that grows by less from the smallest to the largest size does not depend on the size."""
DRAWS: Final = 200
"""Resampled medians behind an interval: 5 draws lie beyond each end of it."""
_TAILS: Final = (2.5, 97.5)
_SEED: Final = 7
"""The same recording gives the same interval."""
_COARSE: Final = 160
_FINE: Final = 25
_BEYOND: Final = 1e3
"""Sizes at which the fixed cost equals the transfer are tried from 1/_BEYOND of the smallest to _BEYOND of
the largest."""
_TIME_BITS: Final = 40
"""2^40 ns are 18 minutes: longer calls count as that long in an order by time."""


@dataclass(frozen=True)
class SizeRow(Result):
    """Copies of one size (or of nearly one: then `bytes` is their median)."""

    bytes: int = value("size", "bytes")
    copies: int = value("copies that did not wait for other work", "copies")
    median_us: float | None = value("their median time; null if there are none", "µs")
    p10_us: float | None = value("their 10th percentile", "µs")
    p90_us: float | None = value("their 90th percentile", "µs")
    waited: int = value("copies that kept the host waiting", "copies")
    waited_median_us: float | None = value(
        "their median time, waiting included; null if there are none", "µs"
    )


@dataclass(frozen=True)
class Law(Result):
    """Time = fixed + bytes ÷ bandwidth. Intervals are 95 %, of this recording alone."""

    fixed_us: float = value("cost of a copy of no bytes", "µs")
    fixed_low_us: float = value("lower end of its interval", "µs")
    fixed_high_us: float = value("upper end of its interval", "µs")
    gb_per_s: float | None = value("10⁹ bytes a second; null if the time does not grow with the size", "GB/s")
    gb_per_s_low: float | None = value("lower end of its interval", "GB/s")
    gb_per_s_high: float | None = value("upper end of its interval; null if it has none", "GB/s")

    def at_us(self, size_bytes: FloatArray) -> FloatArray:
        """Time of copies of these sizes, µs."""
        per_byte = 0.0 if self.gb_per_s is None else 1e-3 / self.gb_per_s
        return np.asarray(self.fixed_us + per_byte * size_bytes, np.float64)


@dataclass(frozen=True)
class Fit(Result):
    """The law of some copies, or why there is none."""

    law: Law | None = field(metadata=about("the law; null if it cannot be told, or does not hold"))
    sizes: int = value("sizes that it rests on")
    copies: int = value("copies that it rests on")
    cannot_tell_because: str | None = value("why there is no law; null if there is one")


@dataclass(frozen=True, eq=False)
class Sizes:
    """Copies grouped by size, each group in order of time.

    Attributes:
        bytes: size of each group, ascending.
        start: where each group begins in `us`; one more at the end.
        us: times of the copies, ascending within a group.
    """

    bytes: IntArray
    start: IntArray
    us: FloatArray

    @property
    def counts(self) -> IntArray:
        """Copies of each group."""
        counts: IntArray = np.diff(self.start)
        return counts

    def quantile(self, part: float) -> FloatArray:
        """The quantile of each group."""
        found: FloatArray = self.quantiles(np.full((1, len(self.bytes)), part))[0]
        return found

    def quantiles(self, parts: FloatArray) -> FloatArray:
        """One quantile of each group per row of `parts` (0–1, one column a group)."""
        place = self.start[:-1] + parts * (self.counts - 1)
        lower = np.floor(place).astype(np.int64)
        upper = np.minimum(lower + 1, self.start[1:] - 1)
        weight = place - lower
        return np.asarray(self.us[lower] * (1 - weight) + self.us[upper] * weight, np.float64)


def size_numbers(size_bytes: IntArray) -> IntArray:
    """Numbers sizes so that copies of one number belong together: exactly equal ones, unless there are many.

    Args:
        size_bytes: sizes from 1 on.
    """
    found, number = np.unique(size_bytes, return_inverse=True)
    if len(found) <= MAX_SIZES:
        return np.asarray(number.reshape(-1), np.int64)
    return _quarter_octaves(size_bytes)


def _quarter_octaves(size_bytes: IntArray) -> IntArray:
    return np.floor(SIZES_PER_OCTAVE * np.log2(size_bytes) + 0.5).astype(np.int64)


def grouped(number: IntArray, size_bytes: IntArray, duration_ns: IntArray) -> Sizes:
    """Groups copies by the number of their size."""
    order, start = groups_in_order(number, duration_ns)
    sizes = size_bytes[order]
    middle = [
        int(np.median(sizes[a:b])) for a, b in zip(start[:-1].tolist(), start[1:].tolist(), strict=True)
    ]
    return Sizes(np.array(middle, np.int64), start, microseconds_of(duration_ns[order]))


def groups_in_order(number: IntArray, duration_ns: IntArray) -> tuple[IntArray, IntArray]:
    """Sorts by (number, duration).

    Args:
        number: group of each element, from 0 to below 2^23.
        duration_ns: duration of each.

    Returns:
        (order, start): positions in sorted order; where each group that occurs begins in it, and the end.
    """
    longest = (1 << _TIME_BITS) - 1
    # One key of 64 bits sorts several times as fast as two keys one after the other.
    order = np.argsort((number.astype(np.int64) << _TIME_BITS) | np.clip(duration_ns, 0, longest))
    found = number[order]
    changes = np.flatnonzero(found[1:] != found[:-1]) + 1
    start = np.concatenate(([0], changes, [len(order)])) if len(order) else np.zeros(1, np.int64)
    return order, start


def microseconds_of(duration_ns: IntArray) -> FloatArray:
    """Durations as microseconds."""
    return np.asarray(duration_ns / 1e3, np.float64)


def size_rows(size_bytes: IntArray, duration_ns: IntArray, waited: BoolArray) -> tuple[SizeRow, ...]:
    """The table over size: copies that did not wait, and those that did.

    Args:
        size_bytes: sizes from 1 on.
        duration_ns: time of each copy.
        waited: true for copies that kept the host waiting.
    """
    number = size_numbers(size_bytes)
    rows = []
    order, start = groups_in_order(number, duration_ns)
    for begin, end in zip(start[:-1].tolist(), start[1:].tolist(), strict=True):
        own = order[begin:end]
        free, kept = duration_ns[own[~waited[own]]], duration_ns[own[waited[own]]]
        p10, median, p90 = _percentiles(free)
        rows.append(
            SizeRow(
                bytes=int(np.median(size_bytes[own])),
                copies=len(free),
                median_us=median,
                p10_us=p10,
                p90_us=p90,
                waited=len(kept),
                waited_median_us=_percentiles(kept)[1],
            )
        )
    return tuple(rows)


def _percentiles(duration_ns: IntArray) -> tuple[float | None, float | None, float | None]:
    if not len(duration_ns):
        return None, None, None
    p10, median, p90 = np.percentile(duration_ns, (10, 50, 90)).tolist()
    return microseconds(p10), microseconds(median), microseconds(p90)


def fitted(size_bytes: IntArray, duration_ns: IntArray) -> Fit:
    """The law of copies that did not wait.

    Args:
        size_bytes: sizes from 1 on.
        duration_ns: time of each copy.
    """
    # Nearly equal sizes are one: what differs between them is the place of the call, not the size.
    sizes = grouped(_quarter_octaves(size_bytes), size_bytes, np.maximum(duration_ns, 1))
    enough = np.flatnonzero(sizes.counts >= MIN_COPIES)
    counts = (len(enough), int(sizes.counts[enough].sum()))
    reason = _too_few(sizes.bytes[enough], len(sizes.bytes))
    if reason is not None:
        return Fit(None, *counts, reason)
    size = sizes.bytes[enough].astype(np.float64)
    medians = np.log(sizes.quantile(0.5))[enough]
    drawn = np.log(_resampled_medians(sizes))[:, enough]
    fixed, per_byte = _least_deviations(size, np.concatenate((medians[None], drawn)))
    law = _law(fixed, per_byte, size)
    reason = _misfit(law, size, medians, drawn)
    return Fit(law if reason is None else None, *counts, reason)


def _too_few(size: IntArray, all_sizes: int) -> str | None:
    if len(size) >= MIN_LAW_SIZES and size[-1] >= MIN_LAW_RANGE * size[0]:
        return None
    of_enough = f"with at least {MIN_COPIES} copies that did not wait"
    if not len(size):
        return f"no size {of_enough}" if all_sizes else "all of them waited"
    if len(size) < MIN_LAW_SIZES:
        return f"only {plural(len(size), 'size')} {of_enough}; a law takes {MIN_LAW_SIZES}"
    first, last = (bytes_text(float(one)) for one in (size[0], size[-1]))
    return f"the sizes, {first} to {last}, span less than a factor of {MIN_LAW_RANGE:.0f}"


def _resampled_medians(sizes: Sizes) -> FloatArray:
    """DRAWS rows of medians of copies drawn anew from those of each size.

    The median of n values drawn from n is the quantile at a place that follows a beta distribution around the
    middle: drawing the place spares drawing the copies (order statistics of the uniform distribution).
    """
    random = np.random.default_rng(_SEED)
    half = (sizes.counts + 1) / 2
    return sizes.quantiles(random.beta(half, half, (DRAWS, len(half))))


def _least_deviations(size: FloatArray, logs: FloatArray) -> tuple[FloatArray, FloatArray]:
    """For each row of logarithms of times the law with the least mean absolute deviation from them.

    With the size h at which transfer and fixed cost are equal, ln t = ln fixed + ln(1 + size ÷ h): for each h
    tried, the best ln fixed is a median.

    Returns:
        (fixed, per byte) of each row.
    """
    lowest, highest = np.log(size[0] / _BEYOND), np.log(size[-1] * _BEYOND)
    coarse = np.linspace(lowest, highest, _COARSE)
    step = coarse[1] - coarse[0]
    fine = np.linspace(-step, step, _FINE)
    rows = np.arange(len(logs))
    level, cost = _deviations(size, logs, np.tile(coarse, (len(logs), 1)))
    tried = coarse[cost.argmin(axis=1)][:, None] + fine[None]
    level, cost = _deviations(size, logs, tried)
    best = cost.argmin(axis=1)
    fixed = np.exp(level[rows, best])
    return fixed, fixed / np.exp(tried[rows, best])


def _deviations(size: FloatArray, logs: FloatArray, tried: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(ln fixed, mean absolute deviation) for each row of logarithms and each ln h tried for it."""
    rest = logs[:, None, :] - np.log1p(size / np.exp(tried)[..., None])
    level = np.median(rest, axis=2)
    return level, np.abs(rest - level[..., None]).mean(axis=2)


def _law(fixed: FloatArray, per_byte: FloatArray, size: FloatArray) -> Law:
    """The law of the first row; the other rows give the intervals."""
    grows = per_byte * (size[-1] - size[0]) >= MIN_GROWTH * (fixed + per_byte * size[0])
    low, high = (float(end) for end in np.percentile(fixed[1:], _TAILS))
    slow, fast = (float(end) for end in np.percentile(np.where(grows, per_byte, 0.0)[1:], _TAILS))
    own, own_fixed = float(per_byte[0]), float(fixed[0])
    return Law(
        fixed_us=own_fixed,
        fixed_low_us=min(low, own_fixed),
        fixed_high_us=max(high, own_fixed),
        gb_per_s=1e-3 / own if grows[0] else None,
        gb_per_s_low=1e-3 / max(fast, own) if fast > 0 or grows[0] else None,
        gb_per_s_high=1e-3 / min(slow, own) if slow > 0 and grows[0] else None,
    )


def _misfit(law: Law, size: FloatArray, medians: FloatArray, drawn: FloatArray) -> str | None:
    """Why the law does not hold: where it misses a median by too much, its interval allowed for."""
    expected = law.at_us(size)
    low, high = (np.exp(np.percentile(drawn, tail, axis=0)) for tail in _TAILS)
    beyond = np.maximum(np.maximum(low - expected, expected - high), 0.0)
    if ((beyond <= MAX_MISFIT * expected) | (beyond <= MISFIT_US)).all():
        return None
    worst = int(np.argmax(beyond / expected))
    off = float(np.exp(medians[worst]) / expected[worst] - 1)
    side = "more" if off > 0 else "less"
    return (
        f"one law, fixed + bytes ÷ bandwidth, does not fit: copies of {bytes_text(float(size[worst]))} take "
        f"{percent(abs(off))} {side} than it says; the medians by size hold"
    )
