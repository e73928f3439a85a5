"""What one pair of runs says about itself."""

import numpy as np
import pytest
from series import autoregressive

from cctrace.analyzers.statistics.bootstrap import autocorrelation_time, block_length, within_run


@pytest.mark.parametrize("memory", [0.0, 0.5, 0.8])
def test_the_autocorrelation_time_of_a_known_process(memory: float) -> None:
    random = np.random.default_rng(1)
    measured = np.mean([autocorrelation_time(autoregressive(random, 4000, memory)) for _ in range(10)])
    assert measured == pytest.approx((1 + memory) / (1 - memory), rel=0.12)


@pytest.mark.parametrize(
    "series",
    [np.zeros(0), np.ones(1), np.full(50, 4159.0), np.tile([1.0, 2.0], 40)],
    ids=["none", "one step", "all alike", "alternating"],
)
def test_series_without_memory_count_step_by_step(series: np.ndarray) -> None:
    assert autocorrelation_time(series) == 1.0
    assert block_length(series) == 3


def test_blocks_are_three_autocorrelation_times_long() -> None:
    series = autoregressive(np.random.default_rng(2), 3000, 0.8)
    assert block_length(series) >= 3 * autocorrelation_time(series)


def test_the_interval_holds_the_difference_of_the_means() -> None:
    random = np.random.default_rng(3)
    off, on = autoregressive(random, 600, 0.6), 1.1 * autoregressive(random, 500, 0.6)
    interval = within_run(off, on)
    assert interval is not None
    assert interval.low_us < on.mean() - off.mean() < interval.high_us
    assert 0 < interval.log_half_width < 0.01


def test_the_same_runs_give_the_same_interval() -> None:
    off = autoregressive(np.random.default_rng(4), 300, 0.5)
    assert within_run(off, off + 5) == within_run(off, off + 5)


def test_memory_widens_the_interval() -> None:
    random = np.random.default_rng(5)
    short, long = (
        within_run(autoregressive(random, 900, memory), autoregressive(random, 900, memory))
        for memory in (0.0, 0.8)
    )
    assert short is not None
    assert long is not None
    assert long.log_half_width > 2 * short.log_half_width


def test_it_covers_what_it_claims_for_runs_that_differ_in_nothing_but_their_steps() -> None:
    random = np.random.default_rng(6)
    covered = 0
    for _ in range(200):
        interval = within_run(autoregressive(random, 500, 0.6), autoregressive(random, 500, 0.6))
        assert interval is not None
        covered += interval.low_us <= 0 <= interval.high_us
    # Block bootstraps are a little narrow at this length; 0.95 less three standard errors is 0.90.
    assert covered >= 0.88 * 200


@pytest.mark.parametrize("steps", [0, 1, 10, 17])
def test_short_runs_give_no_interval(steps: int) -> None:
    long = autoregressive(np.random.default_rng(7), 500, 0.0)
    assert within_run(long[:steps], long) is None
    assert within_run(long, long[:steps]) is None


def test_a_run_that_only_drifts_gives_no_interval() -> None:
    drifting = np.linspace(4000.0, 4400.0, 100)
    assert within_run(drifting, drifting) is None
