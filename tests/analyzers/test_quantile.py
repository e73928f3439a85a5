"""One quantile of many numbers is that of numpy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from cctrace.analyzers.quantile import quantile


@given(
    arrays(st.sampled_from([np.int32, np.int64]), st.integers(1, 60), elements=st.integers(0, 1 << 30)),
    st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]),
)
def test_it_is_that_of_numpy(values: np.ndarray, share: float) -> None:
    before = values.copy()

    assert quantile(values, share) == pytest.approx(float(np.quantile(values, share)), rel=1e-12)
    assert (values == before).all()
