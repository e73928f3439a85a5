import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cctrace.analyzers.downsample import LEVEL_VALUES, MAX_POINTS, MIN_POINTS, extremes, levels

values = st.lists(
    st.one_of(st.just(float("nan")), st.floats(-1e9, 1e9), st.integers(0, 3).map(float)), max_size=300
)


@given(values, st.integers(2, 40), st.booleans())
def test_the_extreme_values_are_among_the_chosen_ones(
    numbers: list[float], points: int, whole_steps: bool
) -> None:
    y = np.array(numbers, np.float64)
    steps = np.arange(len(y))
    x = steps if whole_steps else np.cumsum(1.0 + np.abs(np.sin(steps)) ** 9)

    chosen = extremes(x, y, points)

    known = np.flatnonzero(np.isfinite(y))
    assert set(chosen.tolist()) <= set(known.tolist())
    assert (np.diff(chosen) > 0).all()
    assert len(chosen) <= max(points, MIN_POINTS)
    if len(known):
        assert y[chosen].max() == y[known].max()
        assert y[chosen].min() == y[known].min()


def test_few_points_are_all_chosen() -> None:
    y = np.array([3.0, np.nan, 1.0, 1.0])

    assert extremes(np.arange(4), y).tolist() == [0, 2, 3]


def test_a_single_odd_step_of_a_million_is_chosen() -> None:
    y = np.full(1_000_000, 5.0)
    y[777_777], y[123_456] = 9.0, 1.0

    chosen = extremes(np.arange(len(y)), y)

    assert len(chosen) <= MAX_POINTS
    assert {123_456, 777_777} <= set(chosen.tolist())


def test_stretches_of_time_are_equally_long_however_many_steps_they_hold() -> None:
    # The first nine tenths of the time hold a tenth of the steps.
    x = np.concatenate((np.linspace(0, 9, 1000), np.linspace(9, 10, 9001)[1:]))
    y = np.random.default_rng(1).random(len(x))

    chosen = extremes(x, y, 200)

    assert (x[chosen] < 9).mean() == pytest.approx(0.9, abs=0.03)


def test_many_steps_at_one_time_are_no_reason_to_fail() -> None:
    y = np.arange(100.0)

    assert {0, 99} <= set(extremes(np.zeros(100), y, 10).tolist())


def test_the_level_follows_a_change_and_ignores_a_single_odd_step() -> None:
    y = np.repeat([10.0, 20.0], 500)
    y[250] = 900.0

    x, level = levels(np.arange(1000), y)

    assert (x[0], x[-1]) == (0, 999)
    assert (np.diff(x) >= 0).all()
    assert level[x < 480].tolist() == [10.0] * int((x < 480).sum())
    assert level[x > 520].tolist() == [20.0] * int((x > 520).sum())


def test_the_level_of_few_steps_is_their_median() -> None:
    y = np.array([1.0, np.nan, 5.0, 2.0])
    assert len(y) < LEVEL_VALUES

    x, level = levels(np.arange(4), y)

    assert (x[0], x[-1]) == (0, 3)
    assert set(level.tolist()) == {2.0}


def test_there_is_no_level_of_nothing() -> None:
    x, level = levels(np.arange(3), np.full(3, np.nan))

    assert (len(x), len(level)) == (0, 0)
