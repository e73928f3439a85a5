"""Conclusions from several pairs of runs: intervals of the difference and of its parts, and the verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from cctrace.analyzers.results import Result, about, value
from cctrace.analyzers.statistics.bootstrap import WithinRun
from cctrace.analyzers.statistics.intervals import Interval, t_interval
from cctrace.analyzers.statistics.verdict import Verdict, verdict_of


@dataclass(frozen=True)
class MeasuredPair:
    """One pair of runs.

    Attributes:
        off_us: mean step of the off arm, µs; above 0.
        on_us: mean step of the on arm, µs; above 0.
        parts_us: parts of the difference by name (shares of causes, parts of the residual), µs; without those
            that could not be told.
        within: within-run spread, where the runs are long enough for one.
    """

    off_us: float
    on_us: float
    parts_us: Mapping[str, float]
    within: WithinRun | None = None


@dataclass(frozen=True, kw_only=True)
class PartInterval(Interval):
    """A part of the difference over the pairs that know it, µs per step."""

    name: str = value("cause, or part of the residual")


@dataclass(frozen=True, kw_only=True)
class PairStatistics(Result):
    """What pairs of runs say together."""

    pairs: int = value("pairs of runs", "pairs")
    delta_us: Interval | None = field(
        metadata=about("on − off, per step, paired t, 95 %; null for one pair", "µs")
    )
    growth: Interval | None = field(
        metadata=about(
            "on ÷ off − 1 of the step time, from the mean log ratio; denominator: the off arm's step; "
            "null for one pair"
        )
    )
    throughput_loss: Interval | None = field(
        metadata=about(
            "1 − off ÷ on of the step time, from the mean log ratio; denominator: the off arm's throughput; "
            "null for one pair"
        )
    )
    parts: tuple[PartInterval, ...] = value("parts of delta_us, paired t, 95 %; none for one pair", "µs")
    within_run: WithinRun | None = field(
        metadata=about("of one pair, where its runs are long enough; says nothing about other runs")
    )
    verdict: Verdict = field(metadata=about("whether there is a difference"))


def statistics_of(pairs: Sequence[MeasuredPair]) -> PairStatistics:
    """What pairs of runs say together.

    A difference in µs is a mean of differences. A ratio is taken from the mean of ln(on ÷ off), so that it is
    the same whichever arm it is a part of; standard deviations of ratios are those of the logarithm.

    Raises:
        ValueError: there is no pair, or a step time is not above zero.
    """
    if not pairs or any(pair.off_us <= 0 or pair.on_us <= 0 for pair in pairs):
        raise ValueError("pairs of runs with step times above zero are needed")
    log_ratios = [float(np.log(pair.on_us / pair.off_us)) for pair in pairs]
    logarithm = t_interval(log_ratios)
    only = pairs[0].within if len(pairs) == 1 else None
    return PairStatistics(
        pairs=len(pairs),
        delta_us=t_interval([pair.on_us - pair.off_us for pair in pairs]),
        growth=None if logarithm is None else _growth(logarithm),
        throughput_loss=None if logarithm is None else _loss(logarithm),
        parts=tuple(_parts(pairs)),
        within_run=only,
        verdict=verdict_of(log_ratios, _within(pairs)),
    )


def _within(pairs: Sequence[MeasuredPair]) -> float | None:
    """The within-run half width that stands for the pairs: the root of their mean square."""
    known = [pair.within.log_half_width for pair in pairs if pair.within is not None]
    return float(np.sqrt(np.mean(np.square(known)))) if known else None


def _parts(pairs: Sequence[MeasuredPair]) -> list[PartInterval]:
    names = dict.fromkeys(name for pair in pairs for name in pair.parts_us)
    found = []
    for name in names:
        interval = t_interval([pair.parts_us[name] for pair in pairs if name in pair.parts_us])
        if interval is not None:
            found.append(PartInterval(name=name, **vars(interval)))
    return found


def _growth(log: Interval) -> Interval:
    """exp(x) − 1 of an interval."""
    mean, low, high = np.expm1((log.mean, log.low, log.high)).tolist()
    return Interval(mean=mean, low=low, high=high, deviation=log.deviation, count=log.count)


def _loss(log: Interval) -> Interval:
    """1 − exp(−x) of an interval: the same pairs, as throughput."""
    mean, low, high = (-np.expm1((-log.mean, -log.low, -log.high))).tolist()
    return Interval(mean=mean, low=low, high=high, deviation=log.deviation, count=log.count)
