from dataclasses import replace

import numpy as np
import pytest
from trace_builder import Load, build

from cctrace.analyzers.calls import calls_from
from cctrace.analyzers.submissions import MIN_OWN_COST_CALLS, own_cost_ns
from cctrace.analyzers.waiting import copy_limit_ns, not_slow, waited_in_effect


@pytest.mark.parametrize(
    ("size", "launch_us", "call_us"),
    [
        (64, 5.0, 26.0),  # H200, CC off, first copy after a pause
        (4096, 8.0, 28.4),  # H20, CC on, to the host
        (65536, 8.0, 34.9),
        (1 << 20, 15.7, 700.0),  # H100, SEV-SNP, CC on: 1.5 GB/s
        (64 << 20, 15.7, 7094.7),  # H20, CC on
    ],
)
def test_measured_copies_that_do_not_wait_are_within_the_limit(
    size: int, launch_us: float, call_us: float
) -> None:
    limit = copy_limit_ns(np.array([size]), launch_us * 1e3)

    assert call_us * 1e3 < limit[0]


@pytest.mark.parametrize(("size", "call_us"), [(64, 100.0), (4096, 500.0), (1 << 20, 2000.0)])
def test_copies_that_drain_a_decode_step_are_beyond_the_limit(size: int, call_us: float) -> None:
    assert copy_limit_ns(np.array([size]), 15_700.0)[0] < call_us * 1e3


def test_synchronizations_and_blocking_copies_always_wait() -> None:
    calls = calls_from(build(Load(steps=3)).table)
    to_host = calls.forms.is_copy & (calls.forms.copy_kind == 1)
    blocking = replace(calls, forms=replace(calls.forms, blocking=to_host))
    by_contract = blocking.blocking

    waited = waited_in_effect(blocking)

    assert by_contract.sum() == 3
    assert waited[by_contract].all()
    assert waited[blocking.is_blocking_wait].all()
    assert not waited[blocking.is_operation("kernel", "memset", "event-record")].any()


def test_a_launch_that_waited_for_the_queue_says_nothing_on_own_cost() -> None:
    duration = np.r_[np.full(50, 4_000), np.full(60, 400_000)]

    assert own_cost_ns(duration, np.zeros(110, np.bool_)) == 4_000
    assert not_slow(duration).sum() == 50


def test_too_few_calls_have_no_own_cost() -> None:
    few = np.full(MIN_OWN_COST_CALLS - 1, 4_000)

    assert own_cost_ns(few, np.zeros(len(few), np.bool_)) is None
    assert own_cost_ns(np.full(9, 4_000), np.ones(9, np.bool_)) is None
