from itertools import pairwise

import pytest
from fake_gpu import Clock

from cctrace.collectors.calibrate.sampling import (
    MIN_ROUNDS,
    Effort,
    Probe,
    Quantity,
    Spread,
    Turn,
    collect,
    sizes,
    spread,
)


def effort(rounds: int, limit_s: float) -> Effort:
    return Effort(rounds=rounds, limit_s=limit_s, bursts=1, singles=1, size_step=4)


def turns(clock: Clock, names: str, us: float, called: list[str]) -> list[Probe]:
    def turn(name: str) -> Probe:
        def measure() -> Turn:
            called.append(name)
            begin = clock()
            clock.spend(us)
            return Turn({Quantity("launch", name): [clock() - begin]})

        return measure

    return [turn(name) for name in names]


def test_median_and_percentiles_in_microseconds() -> None:
    found = spread([float(number) * 1000 for number in range(101)])
    assert (found.value, found.low, found.high) == pytest.approx((50.0, 10.0, 90.0))


def test_one_sample_has_no_spread() -> None:
    assert spread([2500.0]) == spread([2500.0, 2500.0])


def test_what_python_costs_is_taken_off() -> None:
    less = Spread(2.0, 1.9, 4.0).less(Spread(1.5, 1.45, 1.6))
    assert (less.value, less.low, less.high) == pytest.approx((0.5, 0.4, 2.5))


def test_what_is_left_is_never_negative_and_never_finer_than_what_was_taken_off() -> None:
    bare = Spread(1.5, 1.4, 1.8)
    for raw in (Spread(1.2, 1.1, 1.3), Spread(1.85, 1.8, 1.86)):
        less = raw.less(bare)
        assert less.low == 0.0
        assert 0.0 <= less.value <= less.high
        assert less.high == pytest.approx(0.4)


def test_each_round_measures_everything_once_in_another_order() -> None:
    called: list[str] = []
    clock = Clock()
    collect(turns(clock, "abcdefgh", 1.0, called), effort(5, 100.0), clock)
    rounds = ["".join(called[index : index + 8]) for index in range(0, 40, 8)]
    assert all(sorted(one) == list("abcdefgh") for one in rounds)
    assert len(set(rounds)) == 5


def test_a_clock_that_drifts_meets_all_alike() -> None:
    clock = Clock(drift=1.0)  # after a second, everything takes twice as long
    found = collect(turns(clock, "abcd", 1000.0, []), effort(200, 100.0), clock)
    middles = [spread(samples).value for samples in found.samples.values()]
    first = spread(found.samples[Quantity("launch", "a")])
    assert first.high > 1.5 * first.low
    assert max(middles) / min(middles) < 1.01


def test_time_ends_the_rounds_but_not_before_there_is_a_spread() -> None:
    clock = Clock()
    some = collect(turns(clock, "ab", 0.5e6, []), effort(100, 10.0), clock)
    assert (some.rounds, some.planned) == (10, 100)
    slow = collect(turns(clock, "ab", 60e6, []), effort(100, 10.0), clock)
    assert slow.rounds == MIN_ROUNDS


def test_progress_ends_at_all_turns() -> None:
    clock = Clock()
    seen: list[tuple[int, int]] = []
    collect(
        turns(clock, "abc", 1.0, []), effort(4, 10.0), clock, lambda done, all_: seen.append((done, all_))
    )
    assert seen[0] == (1, 12)
    assert seen[-1] == (12, 12)


@pytest.mark.parametrize(("step", "count"), [(4, 11), (16, 6)])
def test_sizes_begin_and_end_where_they_should(step: int, count: int) -> None:
    found = sizes(64, 64 << 20, step)
    assert (found[0], found[-1], len(found)) == (64, 64 << 20, count)
    assert all(one < other for one, other in pairwise(found))
