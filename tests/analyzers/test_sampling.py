"""Some of many stand for all of them, whatever repeats among these."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cctrace.analyzers.sampling import spread_out


@given(st.integers(0, 300), st.integers(1, 300))
def test_they_are_different_ones_in_order_from_everywhere(count: int, most: int) -> None:
    found = spread_out(count, most)

    assert len(found) == min(count, most)
    assert (np.diff(found) > 0).all()
    assert all(0 <= one < count for one in found.tolist())
    assert np.diff(found, prepend=-1, append=count).max() <= 2 * -(-count // most) + 1


@pytest.mark.parametrize("every", [2, 3, 8, 16, 50])
def test_what_repeats_is_met_as_often_as_among_all(every: int) -> None:
    found = spread_out(every * 4000, 4000)

    parts = np.bincount(found % every, minlength=every) / len(found)

    assert parts == pytest.approx(1 / every, abs=5 * (1 / every / 4000) ** 0.5)


def test_they_are_the_same_each_time() -> None:
    assert (spread_out(10_000, 99) == spread_out(10_000, 99)).all()
