"""Replays of programs that are short enough to be computed by hand."""

import numpy as np
import pytest
from small_programs import DeviceOp, HostOp, end_of_step, mixes, program

from cctrace.analyzers.attribution.costs import NEVER
from cctrace.analyzers.attribution.replay import replay
from cctrace.analyzers.attribution.timeline import HAND_OVER, JOIN

NOTHING: tuple[str, ...] = ()


def test_host_time_adds_up_and_every_player_switches_its_own() -> None:
    small = program(
        [
            HostOp("kernel", own={"off": 4.0, "launch": 12.0}, gap={"off": 10.0, "host": 1.0}, stream=1),
            HostOp("host-alloc", own={"off": 20.0, "pcie": 5.0}),
            end_of_step(gap=6.0),
        ]
    )
    periods = replay(small, mixes(NOTHING, ["launch"], ["host"], ["pcie"], ["launch", "host", "pcie"]))
    assert periods[:, 0].tolist() == [40.0, 52.0, 41.0, 45.0, 58.0]


def test_a_synchronization_waits_for_the_stream_and_hides_a_toll_behind_it() -> None:
    # The kernel is submitted at 10, starts at 13 and ends at 113; the host comes to the wait at 14.
    small = program(
        [
            HostOp("kernel", own={"off": 4.0, "launch": 12.0}, gap=10.0, stream=1),
            HostOp("stream-sync", own=1.0, post=2.0, stream=1),
            end_of_step(gap=5.0),
        ],
        [DeviceOp(owner=0, duration=100.0, delay=3.0)],
    )
    assert replay(small, mixes(NOTHING, ["launch"]))[:, 0].tolist() == [120.0, 120.0]


def test_a_stream_runs_one_after_the_other_and_starves_where_the_host_is_slower() -> None:
    def step(gap: float) -> float:
        host = [HostOp("kernel", own=4.0, gap=gap, stream=1) for _ in range(3)]
        host += [HostOp("stream-sync", own=0.0, post=0.0, stream=1), end_of_step()]
        device = [DeviceOp(owner=number, duration=20.0, delay=3.0) for number in range(3)]
        return float(replay(program(host, device), mixes(NOTHING))[0, 0])

    assert step(gap=1.0) == 1 + 3 + 3 * 20
    assert step(gap=100.0) == 3 * 104 - 4 + 3 + 20


def test_a_copy_that_blocks_in_the_on_arm_only_is_lost_overlap() -> None:
    # The copy is queued behind a kernel of 500 µs. Blocking, the host goes on when both are done.
    small = program(
        [
            HostOp("kernel", own=5.0, gap=10.0, stream=1),
            HostOp("copy d2h", own=5.0, gap=10.0, stream=1, post={"off": NEVER, "overlap": -NEVER + 1.0}),
            end_of_step(gap=100.0),
        ],
        [DeviceOp(owner=0, duration=500.0), DeviceOp(owner=1, duration=2.0)],
    )
    asynchronous, blocking = replay(small, mixes(NOTHING, ["overlap"]))[:, 0].tolist()
    assert asynchronous == 130.0
    assert blocking == 10 + 500 + 2 + 1 + 100


def test_an_event_is_waited_for_as_it_was_when_it_was_recorded() -> None:
    # What is submitted after the record does not delay the host.
    small = program(
        [
            HostOp("kernel", own=5.0, stream=1),
            HostOp("event-record", own=1.0, stream=1),
            HostOp("kernel", own=5.0, stream=1),
            HostOp("event-sync", own=1.0, post=2.0, needs=1),
            end_of_step(),
        ],
        [DeviceOp(owner=0, duration=50.0), DeviceOp(owner=2, duration=1000.0)],
    )
    assert replay(small, mixes(NOTHING))[0, 0] == 52.0


def test_a_stream_waits_for_another_one() -> None:
    small = program(
        [
            HostOp("kernel", own=5.0, stream=1),
            HostOp("event-record", own=1.0, stream=1),
            HostOp("stream-wait", own=1.0, stream=2, needs=1),
            HostOp("copy d2h", own=3.0, stream=2),
            HostOp("stream-sync", own=1.0, post=0.0, stream=2),
            end_of_step(),
        ],
        [DeviceOp(owner=0, duration=300.0), DeviceOp(owner=3, duration=7.0, stream=2)],
    )
    assert replay(small, mixes(NOTHING))[0, 0] == 307.0


def test_a_thread_waits_for_what_another_one_hands_over() -> None:
    # Thread 1 works 80 µs after the hand-over at 10; thread 0 comes to its wait at 30 and wakes up 4 µs late.
    small = program(
        [
            HostOp(HAND_OVER, gap=10.0),
            HostOp(JOIN, thread=1, post=0.0, needs=0),
            HostOp("memset", own={"off": 80.0, "launch": -70.0}, thread=1, stream=3),
            HostOp(HAND_OVER, thread=1),
            HostOp(JOIN, gap=20.0, post=4.0, needs=3),
            end_of_step(gap=1.0),
        ]
    )
    assert replay(small, mixes(NOTHING, ["launch"]))[:, 0].tolist() == [10 + 80 + 4 + 1, 31.0]


def test_a_collective_begins_when_its_last_rank_has_come_to_it() -> None:
    rank = 1000
    small = program(
        [
            HostOp("kernel", own=5.0, stream=1),
            HostOp("kernel", own=5.0, gap=40.0, thread=rank, stream=9),
            HostOp("stream-sync", own=1.0, post=0.0, stream=1),
            end_of_step(),
        ],
        [
            DeviceOp(owner=0, duration={"off": 10.0, "nvlink": 6.0}, meeting=0),
            DeviceOp(owner=1, duration={"off": 10.0, "nvlink": 6.0}, stream=9, meeting=0),
        ],
    )
    assert replay(small, mixes(NOTHING, ["nvlink"]))[:, 0].tolist() == [50.0, 56.0]


def test_a_collective_of_which_another_rank_lacks_its_part_couples_nothing() -> None:
    small = program(
        [
            HostOp("kernel", own=5.0, stream=1),
            HostOp("stream-sync", own=1.0, post=0.0, stream=1),
            end_of_step(),
        ],
        [DeviceOp(owner=0, duration=10.0, meeting=0)],
    )
    assert replay(small, mixes(NOTHING))[0, 0] == 10.0


def test_the_launch_player_chooses_how_work_is_submitted() -> None:
    # Off: one graph. On: two pieces, the second of which is submitted 200 µs later. The GPU work is the same.
    small = program(
        [
            HostOp("graph", own=6.0, gap=10.0, stream=1, only="off"),
            HostOp("graph", own=6.0, gap=0.0, stream=1, only="on"),
            HostOp("memset", own=200.0, stream=1, only="on"),
            HostOp("graph", own=6.0, gap=0.0, stream=1, only="on"),
            HostOp("stream-sync", own=1.0, post=0.0, stream=1),
            end_of_step(),
        ],
        [
            DeviceOp(owner=0, on_owner=1, duration=100.0),
            DeviceOp(owner=0, on_owner=3, duration=100.0),
        ],
    )
    whole, pieces = replay(small, mixes(NOTHING, ["launch"]))[:, 0].tolist()
    assert whole == 10 + 200
    assert pieces == 10 + 6 + 200 + 100


def test_what_one_step_leaves_on_the_gpu_the_next_one_finds() -> None:
    # Each step submits 100 µs of work and waits for the work of the step before: the GPU sets the pace.
    host: list[HostOp] = []
    records: list[int] = []
    for step in range(5):
        host.append(HostOp("kernel", own=5.0, gap=20.0, stream=1, step=step))
        host.append(HostOp("event-record", own=1.0, stream=1, step=step))
        records.append(len(host) - 1)
        if step:
            host.append(HostOp("event-sync", own=1.0, post=0.0, needs=records[step - 1], step=step))
        host.append(end_of_step(step=step))
    device = [DeviceOp(owner=number - 1, duration={"off": 100.0, "gpu": 10.0}) for number in records]
    periods = replay(program(host, device), mixes(NOTHING, ["gpu"]))
    assert periods[0, 2:].tolist() == [100.0] * 3
    assert periods[1, 2:].tolist() == [110.0] * 3


def test_periods_of_all_steps_add_up_to_the_end_of_the_last() -> None:
    random = np.random.default_rng(3)
    host: list[HostOp] = []
    for step in range(40):
        host.append(HostOp("kernel", own=float(random.uniform(1, 9)), gap=3.0, stream=1, step=step))
        host.append(HostOp("stream-sync", own=1.0, post=0.5, stream=1, step=step))
        host.append(end_of_step(step=step))
    device = [DeviceOp(owner=3 * step, duration=float(random.uniform(1, 30))) for step in range(40)]
    small = program(host, device)
    assert replay(small, mixes(NOTHING)).min() > 0
    one_by_one = [replay(small, mixes(NOTHING, ["launch"]))[row] for row in (0, 1)]
    assert one_by_one[0] == pytest.approx(one_by_one[1])
