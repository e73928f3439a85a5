"""The cost of the VM, and of the GPU's confidential computing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cctrace.analyzers.statistics import MeasuredPair, split_by_tee

steps = st.floats(100.0, 1e5)


def sets_of(*runs: tuple[float, float, float]) -> tuple[list[MeasuredPair], list[MeasuredPair]]:
    vm = [MeasuredPair(off, tee, {"host": tee - off, "launch": 0.0}) for off, tee, _ in runs]
    gpu = [MeasuredPair(tee, on, {"launch": on - tee}) for _, tee, on in runs]
    return vm, gpu


@given(st.lists(st.tuples(steps, steps, steps), min_size=1, max_size=5))
def test_the_parts_add_up_to_the_difference(runs: list[tuple[float, float, float]]) -> None:
    split = split_by_tee(*sets_of(*runs))
    delta = sum(on - off for off, _, on in runs) / len(runs)
    assert split.vm_us + split.gpu_us == pytest.approx(delta, abs=1e-6)


def test_each_part_has_its_interval() -> None:
    split = split_by_tee(*sets_of((4000, 4080, 6080), (4010, 4092, 6090), (3990, 4068, 6070)))
    assert split.runs == 3
    assert (split.vm_us, split.gpu_us) == pytest.approx((80.0, 2000.0))
    assert split.vm_interval is not None
    assert split.gpu_interval is not None
    assert split.vm_interval.low < 80 < split.vm_interval.high
    assert split.gpu_interval.half_width < 10


def test_causes_that_both_comparisons_know_are_split_too() -> None:
    split = split_by_tee(*sets_of((4000, 4080, 6080)))
    assert [(part.name, part.vm_us, part.gpu_us) for part in split.parts] == [("launch", 0.0, 2000.0)]


def test_one_set_has_no_intervals() -> None:
    split = split_by_tee(*sets_of((4000, 4080, 6080)))
    assert split.vm_interval is split.gpu_interval is None


def test_sets_must_be_whole() -> None:
    vm, gpu = sets_of((4000, 4080, 6080), (4000, 4080, 6080))
    with pytest.raises(ValueError, match="both comparisons"):
        split_by_tee(vm, gpu[:1])
    with pytest.raises(ValueError, match="both comparisons"):
        split_by_tee([], [])
