"""How often pairs without any effect are called different."""

import numpy as np
import pytest
from series import FloatArray, autoregressive

from cctrace.analyzers.statistics import MeasuredPair, statistics_of, within_run

EXPERIMENTS = 400
STEPS = 200


def arm(random: np.random.Generator, drift: float) -> FloatArray:
    """One run: its own level, and steps that remember the one before."""
    return autoregressive(random, STEPS, 0.7, mean=4000.0 * float(np.exp(random.normal(0.0, drift))))


def pair(random: np.random.Generator, drift: float) -> MeasuredPair:
    off, on = arm(random, drift), arm(random, drift)
    return MeasuredPair(float(off.mean()), float(on.mean()), {}, within_run(off, on))


@pytest.mark.parametrize("drift", [0.0, 0.005, 0.01])
@pytest.mark.parametrize("pairs", [1, 2, 3, 5])
def test_at_most_one_in_twenty_null_comparisons_is_called_a_difference(pairs: int, drift: float) -> None:
    random = np.random.default_rng((pairs, round(drift * 1000)))
    verdicts = [
        statistics_of([pair(random, drift) for _ in range(pairs)]).verdict.verdict for _ in range(EXPERIMENTS)
    ]
    # 5 % of 400 are 20; three standard deviations of such a count are 13.
    assert verdicts.count("difference") <= 20 + 13


def test_a_real_effect_is_found() -> None:
    random = np.random.default_rng(9)
    found = 0
    for _ in range(100):
        pairs = [pair(random, 0.01) for _ in range(5)]
        slower = [MeasuredPair(one.off_us, 1.05 * one.on_us, {}) for one in pairs]
        found += statistics_of(slower).verdict.verdict == "difference"
    assert found >= 95


def test_quiet_null_runs_are_called_equivalent() -> None:
    random = np.random.default_rng(10)
    verdicts = [statistics_of([pair(random, 0.001) for _ in range(5)]).verdict.verdict for _ in range(100)]
    assert verdicts.count("equivalent") >= 95
