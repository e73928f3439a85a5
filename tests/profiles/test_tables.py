"""Interpolation over size."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cctrace.profiles.model import SizeTable
from cctrace.profiles.tables import at, interpolate

SIZES = st.lists(st.integers(1, 2**36), min_size=1, max_size=32, unique=True).map(sorted)


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[int], list[float]]:
    """Ascending sizes and times that do not fall."""
    sizes = draw(SIZES)
    times = st.one_of(st.just(0.0), st.floats(1e-3, 1e6))
    return sizes, sorted(draw(st.lists(times, min_size=len(sizes), max_size=len(sizes))))


@given(tables())
def test_exact_at_the_nodes(table: tuple[list[int], list[float]]) -> None:
    sizes, times = table
    np.testing.assert_allclose(interpolate(sizes, times, sizes), times, rtol=1e-12)


@given(tables(), st.lists(st.integers(0, 2**38), min_size=2, max_size=50))
def test_never_falls_with_the_size(table: tuple[list[int], list[float]], wanted: list[int]) -> None:
    result = interpolate(*table, sorted(wanted))
    assert np.all(np.isfinite(result))
    assert np.all(np.diff(result) >= -1e-9 * result[1:])


@given(tables(), st.integers(1, 2**36))
def test_between_two_nodes_the_time_is_between_theirs(
    table: tuple[list[int], list[float]], size: int
) -> None:
    sizes, times = table
    time = float(interpolate(sizes, times, size))
    if sizes[0] <= size <= sizes[-1]:
        left = np.searchsorted(sizes, size, side="right") - 1
        right = np.searchsorted(sizes, size, side="left")
        assert times[left] * (1 - 1e-12) <= time <= times[right] * (1 + 1e-12)


@given(tables(), st.floats(0.0, 1.0))
def test_below_the_first_node_the_time_is_constant(table: tuple[list[int], list[float]], part: float) -> None:
    sizes, times = table
    assert float(interpolate(sizes, times, part * sizes[0])) == times[0]


@given(tables(), st.floats(1.0, 1e3))
def test_above_the_last_node_the_rate_is_constant(
    table: tuple[list[int], list[float]], times_as: float
) -> None:
    sizes, times = table
    assert float(interpolate(sizes, times, times_as * sizes[-1])) == pytest.approx(
        times_as * times[-1], rel=1e-9
    )


def test_a_power_law_between_the_nodes() -> None:
    # 4 at 100, 16 at 10000: the square root of the size, times 0.4 and 0.16; half the way in logarithms is 8.
    assert float(interpolate([100, 10_000], [4.0, 16.0], 1000)) == pytest.approx(8.0)
    # From zero there is no power law.
    assert float(interpolate([100, 200], [0.0, 16.0], 150)) == pytest.approx(8.0)


def test_any_shape() -> None:
    table = SizeTable(bytes=(64, 128), value=(1, 2), low=(0, 1), high=(2, 4), source="x")
    sizes = np.array([[1, 64], [128, 256]])
    np.testing.assert_allclose(at(table, sizes), [[1, 1], [2, 4]])
    np.testing.assert_allclose(at(table, sizes, "high"), [[2, 2], [4, 8]])
    assert at(table, []).shape == (0,)
