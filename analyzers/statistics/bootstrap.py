"""How far the mean step of one run is known from that run alone: the moving-block bootstrap.

It knows nothing of what differs from one run to the next, and so shows no significance: where runs differ by
1 %, it calls six of ten null comparisons different.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from cctrace.analyzers.columns import FloatArray
from cctrace.analyzers.results import Result, value
from cctrace.analyzers.statistics.intervals import CONFIDENCE

BLOCK_PER_AUTOCORRELATION: Final = 3
"""Blocks this many autocorrelation times long keep nearly all of the dependence between steps."""
WINDOW_PER_AUTOCORRELATION: Final = 5
"""Lags summed for the autocorrelation time, in multiples of it: enough for the bias, before noise adds up
(Sokal, Monte Carlo Methods in Statistical Mechanics, 1997, section 3)."""
MIN_BLOCKS: Final = 6
"""A run of fewer blocks has too few independent parts to show a spread."""
DRAWS: Final = 2000
"""The 2.5 % percentile then rests on 50 draws."""
_SEED: Final = 20
"""The same recordings give the same interval."""


@dataclass(frozen=True, kw_only=True)
class WithinRun(Result):
    """How far one pair's difference of mean steps is known; no statement about other runs."""

    low_us: float = value("lower end of the 95 % interval of on − off, within-run only", "µs")
    high_us: float = value("upper end of the 95 % interval of on − off, within-run only", "µs")
    log_half_width: float = value("half width of the 95 % interval of ln(on ÷ off), within-run only")
    off_block: int = value("block length, off arm", "steps")
    on_block: int = value("block length, on arm", "steps")


def within_run(off_us: FloatArray, on_us: FloatArray) -> WithinRun | None:
    """The within-run interval of a pair.

    Args:
        off_us: step times of one class in order of time, off arm, µs.
        on_us: the same, on arm.

    Returns:
        None if a run is too short: its steps, autocorrelated as they are, hold fewer than MIN_BLOCKS blocks.
    """
    blocks = [block_length(arm) for arm in (off_us, on_us)]
    if any(len(arm) < MIN_BLOCKS * block for arm, block in zip((off_us, on_us), blocks, strict=True)):
        return None
    random = np.random.default_rng(_SEED)
    off, on = (_block_means(arm, block, random) for arm, block in zip((off_us, on_us), blocks, strict=True))
    tails = 100 * np.array([(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    low, high = np.percentile(on - off, tails).tolist()
    log_low, log_high = np.percentile(np.log(on / off), tails).tolist()
    return WithinRun(
        low_us=low,
        high_us=high,
        log_half_width=(log_high - log_low) / 2,
        off_block=blocks[0],
        on_block=blocks[1],
    )


def block_length(series: FloatArray) -> int:
    """Steps of a block: BLOCK_PER_AUTOCORRELATION autocorrelation times, at least one step."""
    return max(1, int(np.ceil(BLOCK_PER_AUTOCORRELATION * autocorrelation_time(series))))


def autocorrelation_time(series: FloatArray) -> float:
    """The integrated autocorrelation time, 1 + 2 Σ ρ(k): how many steps are worth one independent one.

    The sum ends at the first lag that is WINDOW_PER_AUTOCORRELATION times the sum up to it. 1 for independent
    or alternating steps, and for a series that does not change.
    """
    centred = series - series.mean() if len(series) else series
    # Twice the length: the transform is circular, the correlation must not be.
    spectrum = np.fft.rfft(centred, 2 * len(series)) if len(series) else np.zeros(1)
    covariance = np.fft.irfft(np.abs(spectrum) ** 2)[: len(series)] if len(series) else np.zeros(0)
    if not len(covariance) or covariance[0] <= len(series) * np.finfo(np.float64).eps * np.max(series) ** 2:
        return 1.0
    times = 2 * np.cumsum(covariance / covariance[0]) - 1
    ended = np.flatnonzero(np.arange(len(times)) >= WINDOW_PER_AUTOCORRELATION * times)
    return max(1.0, float(times[ended[0]] if len(ended) else times.max()))


def _block_means(series: FloatArray, block: int, random: np.random.Generator) -> FloatArray:
    """Means of DRAWS series of the same length, put together from overlapping blocks (Künsch, 1989)."""
    total = np.concatenate(([0.0], np.cumsum(series)))
    whole, rest = divmod(len(series), block)
    sums = np.zeros(DRAWS)
    for length, count in ((block, whole), (rest, 1 if rest else 0)):
        begins = random.integers(0, len(series) - length + 1, (DRAWS, count))
        sums += (total[begins + length] - total[begins]).sum(axis=1)
    means: FloatArray = sums / len(series)
    return means
