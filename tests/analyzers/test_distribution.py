import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cctrace.analyzers.distribution import MAX_BINS, curve, histogram, quantiles

samples = st.lists(
    st.lists(st.one_of(st.floats(1e-3, 1e7), st.integers(1, 90).map(float)), max_size=200),
    min_size=1,
    max_size=2,
)


@given(samples, st.booleans(), st.booleans())
def test_every_value_is_in_a_bin_or_beyond_the_last_one(
    numbers: list[list[float]], whole: bool, even_ratios: bool
) -> None:
    arrays = [np.array(one, np.float64) for one in numbers]

    found = histogram(arrays, whole=whole, even_ratios=even_ratios)

    if not any(map(len, arrays)):
        assert found is None
        return
    assert found is not None
    assert (np.diff(found.edges) > 0).all()
    assert len(found.edges) <= MAX_BINS + 2
    for sample, shares, beyond in zip(arrays, found.shares, found.beyond, strict=True):
        assert len(shares) == len(found.edges) - 1
        if len(sample):
            assert shares.sum() + beyond / len(sample) == pytest.approx(1)


def test_both_samples_have_the_same_bins() -> None:
    random = np.random.default_rng(1)
    off, on = random.normal(100, 3, 3000), random.normal(150, 3, 500)

    found = histogram([off, on])

    assert found is not None
    middle = (found.edges[1:] + found.edges[:-1]) / 2
    assert middle[np.argmax(found.shares[0])] == pytest.approx(100, abs=3)
    assert middle[np.argmax(found.shares[1])] == pytest.approx(150, abs=3)
    assert np.ptp(np.diff(found.edges)) == pytest.approx(0, abs=1e-9)


def test_a_value_far_out_is_counted_and_does_not_widen_the_bins() -> None:
    found = histogram([np.append(np.linspace(10, 11, 999), 5000.0)])

    assert found is not None
    assert found.edges[-1] < 12
    # 0.5 % of the steps may lie beyond, and some of them do not.
    assert found.beyond == (1,)


def test_counts_have_bins_of_their_own() -> None:
    found = histogram([np.array([7.0, 7.0, 8.0, 9.0])], whole=True)

    assert found is not None
    assert found.edges.tolist() == [6.5, 7.5, 8.5, 9.5]
    assert found.shares[0].tolist() == [0.5, 0.25, 0.25]


def test_bins_of_equal_ratio_leave_out_what_has_no_logarithm() -> None:
    found = histogram([np.array([0.0, 1.0, 10.0, 100.0])], even_ratios=True)

    assert found is not None
    ratios = found.edges[1:] / found.edges[:-1]
    assert np.ptp(ratios) == pytest.approx(0, abs=1e-9)
    assert found.shares[0].sum() == pytest.approx(1)


def test_the_curve_of_many_values_keeps_both_tails() -> None:
    values = np.random.default_rng(2).permutation(np.arange(1.0, 100_001.0))

    x, share = curve(values)

    assert len(x) < 500
    assert (x[0], x[-1]) == (1.0, 100_000.0)
    assert share.tolist() == (x / 100_000).tolist()
    assert {99_991.0, 99_999.0} <= set(x.tolist())


def test_quantiles_leave_out_what_is_not_known() -> None:
    found = quantiles(np.array([np.nan, *range(101)], np.float64))

    assert found is not None
    assert (found.count, found.median, found.p10, found.p99, found.largest) == (101, 50, 10, 99, 100)
    assert quantiles(np.array([np.nan])) is None
