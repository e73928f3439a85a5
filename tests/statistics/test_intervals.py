"""Intervals of few values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cctrace.analyzers.statistics.intervals import MAX_COUNT, count_for, t_interval, t_quantile

numbers = st.floats(-1e6, 1e6, allow_nan=False)


@pytest.mark.parametrize(
    ("degrees", "quantile"), [(1, 12.706), (2, 4.303), (4, 2.776), (9, 2.262), (29, 2.045), (1000, 1.962)]
)
def test_quantiles_are_those_of_the_printed_tables(degrees: int, quantile: float) -> None:
    assert t_quantile(degrees) == pytest.approx(quantile, abs=5e-4)


def test_an_interval_worked_out_by_hand() -> None:
    interval = t_interval([1.0, 2.0, 3.0])
    assert interval is not None
    assert (interval.mean, interval.deviation, interval.count) == (2.0, 1.0, 3)
    assert interval.half_width == pytest.approx(4.303 / 3**0.5, abs=1e-3)
    assert not interval.excludes_zero


@pytest.mark.parametrize("values", [[], [3.0]])
def test_one_value_has_no_spread(values: list[float]) -> None:
    assert t_interval(values) is None


def test_95_of_100_intervals_hold_the_mean() -> None:
    random = np.random.default_rng(5)
    held = 0
    for values in random.normal(7.0, 2.0, (1000, 4)):
        interval = t_interval(values)
        assert interval is not None
        held += interval.low <= 7.0 <= interval.high
    assert 930 <= held <= 970


@given(st.lists(numbers, min_size=2, max_size=12), numbers, st.sampled_from([-1.0, 0.5, 3.0]))
def test_intervals_move_and_stretch_with_the_values(values: list[float], shift: float, scale: float) -> None:
    first = t_interval(values)
    second = t_interval([scale * x + shift for x in values])
    assert first is not None
    assert second is not None
    close = {"rel": 1e-6, "abs": 1e-6 * (1 + max(map(abs, [*values, shift])))}
    assert second.mean == pytest.approx(scale * first.mean + shift, **close)
    assert second.half_width == pytest.approx(abs(scale) * first.half_width, **close)


@given(st.floats(1e-4, 10.0), st.floats(1e-2, 1.0))
def test_the_count_is_the_smallest_that_is_enough(deviation: float, wanted: float) -> None:
    def half_width(count: int) -> float:
        return float(t_quantile(count - 1) * deviation / count**0.5)

    count = count_for(deviation, wanted, least=3)
    if count is None:
        assert half_width(MAX_COUNT) > wanted
        return
    assert half_width(count) <= wanted
    assert count == 3 or half_width(count - 1) > wanted
