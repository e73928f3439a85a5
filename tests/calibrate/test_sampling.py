from collections.abc import Callable
from itertools import pairwise

import pytest
from fake_gpu import Clock

from cctrace.collectors.calibrate.sampling import (
    MIN_ROUNDS,
    Effort,
    Probe,
    Quantity,
    Samples,
    collect,
    sizes,
    spread,
)


def effort(rounds: int, limit_s: float) -> Effort:
    return Effort(rounds=rounds, limit_s=limit_s, bursts=1, singles=1, size_step=4)


def turns(clock: Clock, names: str, us: float, called: list[str]) -> list[Probe]:
    def turn(name: str) -> Callable[[], Samples]:
        def measure() -> Samples:
            called.append(name)
            begin = clock()
            clock.spend(us)
            return {Quantity("launch", name): [clock() - begin]}

        return measure

    return [Probe(turn(name)) for name in names]


def test_median_and_percentiles_in_microseconds() -> None:
    found = spread([float(number) * 1000 for number in range(101)])
    assert (found.value, found.low, found.high) == pytest.approx((50.0, 10.0, 90.0))


def test_one_sample_has_no_spread() -> None:
    assert spread([2500.0]) == spread([2500.0, 2500.0])


def test_the_binding_never_makes_a_time_negative() -> None:
    less = spread([1000.0, 2000.0, 4000.0]).less(1.5)
    assert (less.value, less.low) == pytest.approx((0.5, 0.0))


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
