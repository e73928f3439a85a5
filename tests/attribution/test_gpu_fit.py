"""GPU times that no row tells, from what the host waited for."""

import numpy as np
import pytest
from timelines import Call, timeline

from cctrace.analyzers.attribution.copy_cost import CopyRows
from cctrace.analyzers.attribution.device import COPY_US, DELAY_US, device_work
from cctrace.analyzers.attribution.gpu_work import BOUNDED, KNOWN, DeviceWork
from cctrace.analyzers.attribution.own_cost import SYNC_OWN_US, own_costs
from cctrace.analyzers.attribution.rows import DeviceRows
from cctrace.analyzers.attribution.timeline import Timeline

NO_ROWS = DeviceRows(
    kind=np.zeros(0, np.int8),
    name=np.zeros(0, np.int64),
    start_ns=np.zeros(0, np.int64),
    end_ns=np.zeros(0, np.int64),
    stream=np.zeros(0, np.int64),
    correlation=np.zeros(0, np.int64),
    names=(),
    quarantined=0,
)


def work(one: Timeline) -> DeviceWork:
    nothing = np.full(len(one), np.nan)
    cost, _ = own_costs(one, one, (CopyRows(nothing, nothing),) * 2, 1.0)
    return device_work(one, cost, NO_ROWS, 0)[0]


def steps(kernels: int, apart: float, wait: float, count: int = 6) -> Timeline:
    """Steps that submit kernels `apart` and then wait for the stream."""
    calls, now = [], 0.0
    for step in range(count):
        for _ in range(kernels):
            calls.append(Call("kernel", now, now + 3.0, step=step, stream=1))
            now += apart
        calls.append(Call("stream-sync", now, now + 2.0 + wait, step=step, stream=1))
        now += 2.0 + wait + 50.0
    # One wait that is satisfied shows what a synchronization costs.
    calls.append(Call("stream-sync", now, now + 2.0, step=count, stream=1))
    return timeline(calls)


def test_a_long_wait_tells_how_long_the_work_took() -> None:
    found = work(steps(kernels=10, apart=5.0, wait=1000.0))
    assert (found.state == KNOWN).all()
    # Submitted within 50 µs, and done 1000 µs after the last: ten kernels of equal weight from the first on.
    whole = found.duration[:10].sum()
    assert whole == pytest.approx(50.0 + 1000.0 - DELAY_US, abs=5.0)
    assert np.ptp(found.duration[:10]) == pytest.approx(0.0)


def test_a_host_that_never_waits_gives_a_bound_only() -> None:
    found = work(steps(kernels=10, apart=40.0, wait=0.0))
    assert (found.state == BOUNDED).all()
    assert found.longest.max() <= 40.0


def test_a_short_wait_is_the_latency_of_the_last_kernel() -> None:
    found = work(steps(kernels=10, apart=40.0, wait=12.0))
    assert (found.state.reshape(-1, 10)[:, :9] == BOUNDED).all()
    assert (found.state.reshape(-1, 10)[:, 9] == KNOWN).all()
    # From when the GPU could see it to the return, less what a synchronization costs by itself.
    assert found.duration.reshape(-1, 10)[0, 9] == pytest.approx(40.0 + 14.0 - DELAY_US, abs=SYNC_OWN_US)


def test_a_wait_is_shared_out_by_what_work_can_take() -> None:
    calls, now = [], 0.0
    for step in range(6):
        calls.append(Call("copy h2d", now, now + 3.0, step=step, stream=1, size=64, memory="pinned"))
        calls.append(Call("graph", now + 5.0, now + 9.0, step=step, stream=1))
        calls.append(Call("kernel", now + 12.0, now + 15.0, step=step, stream=1))
        calls.append(Call("stream-sync", now + 20.0, now + 3020.0, step=step, stream=1))
        now += 3100.0
    found = work(timeline(calls))
    copy, graph, kernel = (
        found.duration[found.kind == 2],
        found.duration[found.kind == 1],
        found.duration[found.kind == 0],
    )
    assert copy.max() < 20 * (COPY_US + 1)
    assert graph.min() > 90 * kernel.max()
    assert (copy + graph + kernel)[0] == pytest.approx(3000.0, abs=30.0)


def test_a_copy_stream_hands_on_what_it_shows_of_the_stream_it_waits_for() -> None:
    calls, now = [], 0.0
    for step in range(6):
        first = len(calls)
        calls.append(Call("graph", now, now + 5.0, step=step, stream=1))
        calls.append(Call("event-record", now + 6.0, now + 7.0, step=step, stream=1))
        calls.append(Call("stream-wait", now + 8.0, now + 9.0, step=step, stream=2, refers=first + 1))
        calls.append(Call("copy d2h", now + 10.0, now + 14.0, step=step, stream=2, size=64, memory="pinned"))
        calls.append(Call("stream-sync", now + 20.0, now + 2020.0, step=step, stream=2))
        now += 2100.0
    found = work(timeline(calls))
    assert found.duration[found.kind == 1] == pytest.approx(np.full(6, 2010.0), abs=15.0)


def test_nothing_is_said_of_work_that_nobody_waits_for() -> None:
    calls = [Call("kernel", 10.0 * n, 10.0 * n + 3.0, step=n, stream=1) for n in range(10)]
    found = work(timeline(calls))
    assert not (found.state == KNOWN).any()
    assert np.isnan(found.duration).all()
