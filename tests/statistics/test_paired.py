"""What several pairs say together."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from series import autoregressive

from cctrace.analyzers.statistics import MeasuredPair, statistics_of, within_run

steps = st.floats(100.0, 1e5)
some_pairs = st.lists(st.tuples(steps, steps), min_size=2, max_size=8)


def pairs_of(*steps_us: tuple[float, float]) -> list[MeasuredPair]:
    return [
        MeasuredPair(off, on, {"launch": 0.25 * (on - off), "host": 0.75 * (on - off)})
        for off, on in steps_us
    ]


def test_difference_and_parts_have_paired_intervals() -> None:
    found = statistics_of(pairs_of((4000, 6000), (4040, 6080), (3960, 5990)))
    assert found.pairs == 3
    assert found.delta_us is not None
    assert found.delta_us.mean == pytest.approx(2023.333, abs=1e-3)
    # s of 2000, 2040, 2030 is 20.82; t(0.975, 2) is 4.303.
    assert found.delta_us.half_width == pytest.approx(4.303 * 20.817 / 3**0.5, rel=1e-3)
    assert {part.name for part in found.parts} == {"launch", "host"}
    assert sum(part.mean for part in found.parts) == pytest.approx(found.delta_us.mean)
    assert found.verdict.verdict == "difference"


def test_what_drifts_with_both_arms_does_not_widen_the_interval() -> None:
    drifting = statistics_of(pairs_of((4000, 4400), (4800, 5280), (4400, 4840)))
    assert drifting.growth is not None
    assert drifting.growth.mean == pytest.approx(0.1)
    assert drifting.growth.half_width == pytest.approx(0.0, abs=1e-9)


@given(some_pairs)
def test_swapped_arms_give_the_opposite(values: list[tuple[float, float]]) -> None:
    there = statistics_of(pairs_of(*values))
    back = statistics_of(pairs_of(*((on, off) for off, on in values)))
    assert there.growth is not None
    assert back.throughput_loss is not None
    # Growth of the one is the negative loss of the other: the same ratio, with the same denominator.
    assert back.throughput_loss.mean == pytest.approx(-there.growth.mean, rel=1e-6, abs=1e-9)
    assert back.throughput_loss.low == pytest.approx(-there.growth.high, rel=1e-6, abs=1e-9)
    assert there.delta_us is not None
    assert back.delta_us is not None
    assert back.delta_us.mean == pytest.approx(-there.delta_us.mean, rel=1e-9, abs=1e-6)
    if len(values) >= 3:
        assert back.verdict.pairs_needed == there.verdict.pairs_needed


@given(some_pairs)
def test_growth_and_loss_are_the_same_ratio(values: list[tuple[float, float]]) -> None:
    found = statistics_of(pairs_of(*values))
    assert found.growth is not None
    assert found.throughput_loss is not None
    for name in ("mean", "low", "high"):
        growth, loss = getattr(found.growth, name), getattr(found.throughput_loss, name)
        if 1e-3 < 1 + growth < 1e3:  # beyond, one of the two has lost its digits
            assert (1 + growth) * (1 - loss) == pytest.approx(1.0, rel=1e-9)


def test_a_part_that_some_pairs_cannot_tell_has_the_pairs_that_can() -> None:
    pairs = pairs_of((4000, 6000), (4000, 6010), (4000, 6020))
    known = [MeasuredPair(4000, 6000, {"nvlink": 5.0}), *pairs]
    by_name = {part.name: part for part in statistics_of(known).parts}
    assert by_name["launch"].count == 3
    assert "nvlink" not in by_name


def test_one_pair_has_no_intervals_but_a_within_run_spread() -> None:
    random = np.random.default_rng(1)
    off, on = autoregressive(random, 400, 0.5), autoregressive(random, 400, 0.5, mean=4400.0)
    pair = MeasuredPair(float(off.mean()), float(on.mean()), {}, within_run(off, on))
    found = statistics_of([pair])
    assert found.delta_us is found.growth is found.throughput_loss is None
    assert found.parts == ()
    assert found.within_run is not None
    assert found.within_run.low_us < 400 < found.within_run.high_us
    assert found.verdict.verdict == "difference"
    assert found.verdict.pairs_needed is None


def test_several_pairs_show_their_own_spread_instead() -> None:
    random = np.random.default_rng(2)
    off, on = autoregressive(random, 400, 0.5), autoregressive(random, 400, 0.5)
    pair = MeasuredPair(4000.0, 4010.0, {}, within_run(off, on))
    assert statistics_of([pair, pair]).within_run is None


@pytest.mark.parametrize("steps_us", [[], [(0.0, 10.0)], [(10.0, -1.0), (10.0, 12.0)]])
def test_what_is_no_pair_is_refused(steps_us: list[tuple[float, float]]) -> None:
    with pytest.raises(ValueError, match="step times above zero"):
        statistics_of(pairs_of(*steps_us))


def test_a_result_is_json() -> None:
    document = statistics_of(pairs_of((4000, 6000), (4040, 6080), (3960, 5990))).to_json()
    assert document["verdict"]["verdict"] == "difference"
    assert document["delta_us"]["count"] == 3
    assert math.isfinite(document["growth"]["low"])
