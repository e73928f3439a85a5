"""GPU rows whose clock, or whose replay, is not the one of the calls."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from timelines import Call, timeline

from cctrace.analyzers.attribution.copy_cost import CopyRows
from cctrace.analyzers.attribution.device import device_work
from cctrace.analyzers.attribution.gpu_work import KNOWN, DeviceWork
from cctrace.analyzers.attribution.own_cost import own_costs
from cctrace.analyzers.attribution.rows import GPU_KINDS, DeviceRows
from cctrace.analyzers.attribution.timeline import Timeline
from cctrace.analyzers.columns import FloatArray

STRETCHES, STEPS = 6, 5
APART_US = 2e6
"""From one stretch to the next."""
LATENCY_US, GRAPH_US, RETURN_US = 4.0, 1000.0, 6.0
STEP_US = 1100.0


def program(tail: Callable[[int], float] = lambda stretch: 0.0) -> tuple[Timeline, FloatArray]:
    """(steps of one graph that the host waits for, when each graph begins); `tail`: work behind it, µs."""
    calls, begins = [], []
    for stretch in range(STRETCHES):
        for number in range(STEPS):
            at, step = stretch * APART_US + number * STEP_US, stretch * 100 + number
            calls.append(Call("graph", at, at + 3.0, step=step, stream=1))
            begins.append(at + LATENCY_US)
            done = begins[-1] + GRAPH_US + tail(stretch)
            calls.append(Call("stream-sync", at + 5.0, done + RETURN_US, step=step, stream=1))
    # One wait that is satisfied shows what a synchronization costs.
    last = STRETCHES * APART_US
    calls.append(Call("stream-sync", last, last + 2.0, step=STRETCHES * 100, stream=1))
    one = timeline(calls)
    graphs = np.array([call.what == "graph" for call in calls])
    return replace(one, correlation=np.where(graphs, np.cumsum(graphs), -1)), np.array(begins)


def work(one: Timeline, begin: FloatArray) -> DeviceWork:
    start = (begin * 1e3).astype(np.int64)
    rows = DeviceRows(
        kind=np.full(len(start), GPU_KINDS.index("graph"), np.int8),
        name=np.full(len(start), -1, np.int64),
        start_ns=start,
        end_ns=start + int(GRAPH_US * 1e3),
        stream=np.full(len(start), 1, np.int64),
        correlation=np.arange(1, len(start) + 1, dtype=np.int64),
        names=(),
        quarantined=0,
    )
    nothing = np.full(len(one), np.nan)
    cost, _ = own_costs(one, one, (CopyRows(nothing, nothing),) * 2, 1.0)
    return device_work(one, cost, rows, 0)[0]


def test_times_that_agree_with_the_host_are_kept() -> None:
    one, begin = program()
    assert np.allclose(work(one, begin).begin, begin, atol=0.001)


def test_work_behind_a_graph_is_no_error_of_the_clock() -> None:
    one, begin = program(tail=lambda stretch: 300.0 + 40.0 * stretch)
    assert np.allclose(work(one, begin).begin, begin, atol=0.001)


@pytest.mark.parametrize("ppm", [10.0, -25.0])
def test_a_clock_that_drifts_is_tied_to_calls_and_returns(ppm: float) -> None:
    """The reading at the start was wrong, the one at the end right."""
    one, begin = program()
    off = ppm * 1e-6 * (begin - begin[-1])
    assert np.abs(off).max() > 90.0

    found = work(one, begin + off)

    assert np.abs(found.begin - begin).max() < 5.0
    assert np.allclose(found.duration, GRAPH_US)


def test_rows_of_the_next_replay_are_left_out() -> None:
    one, begin = program()

    found = work(one, begin + STEP_US)

    assert np.isnan(found.begin).all()
    # The waits tell the same.
    assert (found.state == KNOWN).all()
    assert np.abs(found.duration - GRAPH_US).max() < 10.0
