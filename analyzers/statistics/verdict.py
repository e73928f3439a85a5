"""One word for a difference: is it there, is it negligible, or can nobody tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from cctrace.analyzers.noise import NOISE_FLOOR
from cctrace.analyzers.results import Result, value
from cctrace.analyzers.sentences import percent, plural
from cctrace.analyzers.statistics.intervals import count_for, t_interval

DIFFERENCE: Final = "difference"
EQUIVALENT: Final = "equivalent"
WITHIN_NOISE: Final = "within noise"
MIN_PAIRS: Final = 3
"""Fewer pairs do not show their own spread: of two, t(0.975, 1) is 12.7, and the interval says nothing."""
MARGIN: Final = 0.01
"""Equivalent means: less than this part of the off arm's step. The published claims are "under 1 %"."""
SINGLE_RUN_SPREAD: Final = NOISE_FLOOR
"""How far single runs lie from their mean, 95 % of them: published single runs and sets of five of one point
differ by up to 2.5 percentage points, two sets of five by 0.8."""


@dataclass(frozen=True, kw_only=True)
class Verdict(Result):
    """What a difference of step times is worth. Percentages are parts of the off arm's step."""

    verdict: str = value("difference, equivalent, or within noise")
    because: str = value("what it rests on, one sentence")
    detectable_pct: float = value("smallest difference that these runs can show", "%")
    pairs: int = value("pairs of runs behind it", "pairs")
    pairs_needed: int | None = value(
        "pairs in all for a statement to ±1 %; null if the spread of pairs is not known, or too large",
        "pairs",
    )

    @property
    def more_pairs(self) -> int | None:
        """Pairs still to be run for a statement to ±1 %."""
        return None if self.pairs_needed is None else max(0, self.pairs_needed - self.pairs)


def verdict_of(log_ratios: Sequence[float], within_run: float | None = None) -> Verdict:
    """The verdict on pairs of runs.

    - From MIN_PAIRS pairs on, by the paired t interval of the mean log ratio. "Equivalent" if all of it lies
      within ±MARGIN (the two one-sided tests of Schuirmann, 1987, at half the usual risk); else "difference"
      if it excludes zero.
    - Fewer pairs say nothing of the spread between runs, so a published one stands in: a difference must be
      larger than √(2 · SINGLE_RUN_SPREAD² + within_run²), of two pairs than that ÷ √2, and never smaller than
      the noise floor.

    Without an effect, at most 5 % of verdicts are "difference" if runs are normal, and if, for fewer than
    MIN_PAIRS pairs, they are no noisier than the published ones.

    Args:
        log_ratios: ln(on ÷ off) of the step time, one for each pair; at least one.
        within_run: half width of the within-run interval of the log ratio, if known.
    """
    if len(log_ratios) >= MIN_PAIRS:
        return _of_many(log_ratios)
    return _of_few(log_ratios, within_run)


def _of_many(log_ratios: Sequence[float]) -> Verdict:
    interval = t_interval(log_ratios)
    assert interval is not None  # noqa: S101 - MIN_PAIRS is more than one
    low, high = np.expm1((interval.low, interval.high)).tolist()
    if low > -MARGIN and high < MARGIN:
        word, why = EQUIVALENT, f"lies within ±{percent(MARGIN)}"
        if interval.excludes_zero:
            why += ", though it excludes zero"
    elif interval.excludes_zero:
        word, why = DIFFERENCE, "excludes zero"
    else:
        word, why = WITHIN_NOISE, "holds zero"
    count = len(log_ratios)
    return Verdict(
        verdict=word,
        because=f"the interval of {count} pairs, {_range(low, high)} of the off arm's step, {why}",
        detectable_pct=100 * float(np.expm1(interval.half_width)),
        pairs=count,
        pairs_needed=count_for(interval.deviation, float(np.log1p(MARGIN)), least=MIN_PAIRS),
    )


def _of_few(log_ratios: Sequence[float], within_run: float | None) -> Verdict:
    count = len(log_ratios)
    limit = few_pairs_limit(count, within_run)
    growth = float(np.expm1(np.mean(log_ratios)))
    larger = abs(growth) > limit
    size = "more" if larger else "no more"
    mean = "" if count == 1 else " (geometric mean of the pairs)"
    return Verdict(
        verdict=DIFFERENCE if larger else WITHIN_NOISE,
        because=(
            f"{percent(growth, signed=True)} of the off arm's step{mean} is {size} than the {percent(limit)} "
            f"by which {plural(count, 'pair')} of runs can differ without a cause; "
            f"{plural(MIN_PAIRS - count, 'more pair')} would show the spread itself"
        ),
        detectable_pct=100 * limit,
        pairs=count,
        pairs_needed=None,
    )


def few_pairs_limit(count: int, within_run: float | None) -> float:
    """Difference, as a part of the off arm's step, that so few pairs can show without a cause."""
    spread = np.sqrt(2 * SINGLE_RUN_SPREAD**2 + (within_run or 0.0) ** 2)
    return max(NOISE_FLOOR, float(np.expm1(spread / np.sqrt(count))))


def _range(low: float, high: float) -> str:
    return f"{percent(low, signed=True)} … {percent(high, signed=True)}"
