"""One quantile of many numbers is that of numpy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from cctrace.analyzers import quantile as module
from cctrace.analyzers.quantile import MANY, quantile

COUNT = MANY + 4097
MANY_NUMBERS = {
    "noise": lambda random: random.integers(3000, 9000, COUNT),
    "sorted": lambda _: np.arange(COUNT),
    "all equal": lambda _: np.full(COUNT, 5),
    "two values": lambda random: np.where(random.random(COUNT) < 0.5, 3, 1 << 40),
    "a few long ones": lambda random: np.where(
        random.random(COUNT) < 1e-5, 1 << 50, random.integers(0, 9, COUNT)
    ),
    "floats": lambda random: random.lognormal(3, 2, COUNT),
}


@given(
    arrays(st.sampled_from([np.int32, np.int64]), st.integers(1, 60), elements=st.integers(0, 1 << 30)),
    st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]),
)
def test_it_is_that_of_numpy(values: np.ndarray, share: float) -> None:
    before = values.copy()

    assert quantile(values, share) == pytest.approx(float(np.quantile(values, share)), rel=1e-12)
    assert (values == before).all()


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.999, 1.0])
@pytest.mark.parametrize("name", MANY_NUMBERS)
def test_it_is_that_of_numpy_for_a_million_numbers(name: str, share: float) -> None:
    values = MANY_NUMBERS[name](np.random.default_rng(3))

    assert quantile(values, share) == pytest.approx(float(np.quantile(values, share)), rel=1e-12)


def test_a_sample_that_leads_astray_changes_nothing() -> None:
    values = np.arange(COUNT) + 10**9
    values[:: COUNT // module.SAMPLE] = 7

    assert quantile(values, 0.5) == np.quantile(values, 0.5)
