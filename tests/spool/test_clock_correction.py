"""A GPU's clock whose readings were disturbed by other programs, tied by launches and waits instead."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from converted import Convert, Converted
from hypothesis import given, settings
from hypothesis import strategies as st
from spool_builder import SpoolBuilder

from cctrace.collectors.spool.clock_bounds import NOISE_NS, Bounds, correct
from cctrace.collectors.spool.layout import Kind, Operation
from cctrace.trace.metadata import GpuClock

T = 10**12
SECOND = 10**9
GPU_OFFSET = 1_790_000_000_000_000_000
MAIN, SIDE = 0x7F3000, 0x7F4000
GRAPHS, EVENTS = 0x7F1000, 0x7F9000
DRIFT_PPM = 1.35
GOOD_NS, DISTURBED_NS = 20_000, 3_000_000
"""Gap of a reading of an idle GPU, and of one while other programs had it."""
ERRORS = pytest.mark.parametrize(
    "error_ns", [-1_490_000, 1_490_000], ids=["runs-seem-late", "runs-seem-early"]
)


def steady(since_ns: int) -> int:
    return round(since_ns * DRIFT_PPM * 1e-6)


class Program:
    """Writes what a program does with its GPU, whose clock drifts, and remembers when runs really began."""

    def __init__(self, drift: Callable[[int], int] = steady) -> None:
        self.spool = SpoolBuilder()
        self.rng, self.waking = np.random.default_rng(7), np.random.default_rng(8)
        self.drift = drift
        self.begins: list[int] = []

    def gpu_time(self, at: int) -> int:
        return at + GPU_OFFSET + self.drift(at - T)

    def reading(self, at: int, gap: int = GOOD_NS, error: int = 0) -> None:
        self.spool.add(Kind.GPU_CLOCK, start_ns=at, object=self.gpu_time(at) + error, bytes=gap, device=0)

    def bind(self, graphs: int = 1) -> None:
        for tag in range(1, graphs + 1):
            self.spool.add(Kind.BINDING, start_ns=T, object=GRAPHS + tag, bytes=tag, tid=self.spool.pid)

    def launch(self, at: int, tag: int = 1) -> None:
        self.spool.call(Operation.GRAPH, at, 4000, object=GRAPHS + tag, stream=MAIN)

    def run(self, begin: int, end: int, tag: int = 1) -> None:
        index = 2 * len(self.begins)
        self.spool.stamp(tag, self.gpu_time(begin), index, end=False)
        self.spool.stamp(tag, self.gpu_time(end), index + 1, end=True)
        self.begins.append(begin)

    def event(self, operation: Operation, at: int, event: int, stream: int) -> None:
        self.spool.call(operation, at, 1000, object=EVENTS + event, stream=stream)

    def begin_after(self, launch: int) -> int:
        """An idle GPU begins soon after the launch."""
        return launch + 4000 + int(self.rng.gamma(1, 3000))

    def wake_after(self, end: int) -> int:
        """A wait ends soon after the run."""
        return end + 12_000 + int(self.waking.gamma(1, 3000))


def host_bound(program: Program, steps: range, *, pieces: int = 1, waits: bool = True) -> None:
    """Launches pieces into an idle GPU, one after the other, and waits for the last one."""
    program.bind(pieces)
    for at in steps:
        end = at
        for tag in range(1, pieces + 1):
            launch = at + (tag - 1) * 500_000
            begin = program.begin_after(launch)
            end = begin + 400_000
            program.launch(launch, tag)
            program.run(begin, end, tag)
        if waits:
            start, wakes = end - 300_000, program.wake_after(end)
            program.spool.call(Operation.STREAM_SYNC, start, wakes - start, stream=MAIN)


def overlapped(program: Program, until: int, *, idle_before: bool, waits: bool = True) -> None:
    """Launches ahead of a busy GPU; copies results back beside it, and waits for that a step later."""
    program.bind()
    begin, ended, ahead = T + 10**6, 0, 5000 if idle_before else 600_000
    step = 0
    while begin < until:
        at = begin - ahead
        ran, copied, copied_before = (EVENTS + number for number in (step % 2, 2 + step % 2, 3 - step % 2))
        program.launch(at)
        program.run(begin, begin + 10**7)
        program.spool.call(Operation.EVENT_RECORD, at + 6000, 1000, object=ran, stream=MAIN)
        program.spool.call(Operation.STREAM_WAIT, at + 8000, 1000, object=ran, stream=SIDE)
        program.spool.call(Operation.EVENT_RECORD, at + 10_000, 1000, object=copied, stream=SIDE)
        if step and waits:
            start, wakes = at + 20_000, program.wake_after(ended)
            program.spool.call(Operation.EVENT_SYNC, start, wakes - start, object=copied_before)
        ended = begin + 10**7
        begin, ahead = ended + 2000, 500_000 + int(program.rng.gamma(2, 20_000))
        step += 1


def clock_of(converted: Converted) -> GpuClock:
    (clock,) = converted.metadata.clock.gpu
    return clock


def late_by(converted: Converted, program: Program) -> npt.NDArray[np.int64]:
    """By how much each replay seems to begin too late, ns. Each one is joined with its own launch."""
    graphs, calls = converted.kind("graph"), converted.kind("submit")
    launches = calls[calls.operation == "graph"]
    assert graphs.correlation.tolist() == launches.correlation.tolist()
    late: npt.NDArray[np.int64] = graphs.start_ns.to_numpy() - np.array(program.begins)
    return late


@ERRORS
@pytest.mark.parametrize("pieces", [1, 13])
def test_a_program_that_waits_for_each_step(to_trace: Convert, error_ns: int, pieces: int) -> None:
    program = Program()
    end = T + 30 * SECOND
    program.reading(T)
    program.reading(end, DISTURBED_NS, error_ns)
    host_bound(program, range(T + 10**6, end, 2 * 10**7 * (1 + pieces // 4)), pieces=pieces)

    converted = to_trace(program.spool)

    assert np.abs(late_by(converted, program)).max() < 10_000
    assert clock_of(converted).drift_ppm == pytest.approx(DRIFT_PPM, abs=0.2)
    assert clock_of(converted).drift_source == "launches"


@ERRORS
@pytest.mark.parametrize("first_gap", [GOOD_NS, DISTURBED_NS])
@pytest.mark.parametrize("idle_before", [True, False])
def test_a_busy_gpu_whose_results_are_copied_back_beside_it(
    to_trace: Convert, error_ns: int, first_gap: int, idle_before: bool
) -> None:
    """Its launches lie far ahead of the runs; the waits are for another stream, which waits for the runs."""
    program = Program()
    end = T + 30 * SECOND
    program.reading(T, first_gap, first_gap // 3)
    program.reading(end, DISTURBED_NS, error_ns)
    overlapped(program, end, idle_before=idle_before)

    converted = to_trace(program.spool)

    assert np.abs(late_by(converted, program)).max() < 20_000
    assert clock_of(converted).drift_ppm == pytest.approx(DRIFT_PPM, abs=0.2)
    assert clock_of(converted).drift_source == "launches"


@ERRORS
def test_a_busy_gpu_without_waits_is_held_by_its_good_reading(to_trace: Convert, error_ns: int) -> None:
    program = Program()
    end = T + 30 * SECOND
    program.reading(T)
    program.reading(end, DISTURBED_NS, error_ns)
    overlapped(program, end, idle_before=False, waits=False)

    converted = to_trace(program.spool)

    assert np.abs(late_by(converted, program)).max() < 20_000
    assert clock_of(converted).drift_source == "launches"


@ERRORS
@pytest.mark.parametrize(("seconds", "first_gap"), [(30, GOOD_NS), (5, DISTURBED_NS)])
def test_launches_alone(to_trace: Convert, error_ns: int, seconds: int, first_gap: int) -> None:
    program = Program()
    end = T + seconds * SECOND
    program.reading(T, first_gap, -error_ns if first_gap == DISTURBED_NS else 0)
    program.reading(end, DISTURBED_NS, error_ns)
    host_bound(program, range(T + 10**6, end, 10**7), waits=False)

    converted = to_trace(program.spool)

    assert np.abs(late_by(converted, program)).max() < 10_000
    assert clock_of(converted).drift_source == "launches"


def test_good_readings_stay_as_they_are(to_trace: Convert) -> None:
    end = T + 30 * SECOND
    starts = []
    for waits in (True, False):
        program = Program()
        program.reading(T, error=5000)
        program.reading(end, error=-4000)
        host_bound(program, range(T + 10**6, end, 10**7), waits=waits)
        converted = to_trace(program.spool)
        starts.append(converted.kind("graph").start_ns.tolist())
        assert clock_of(converted).drift_source == "readings"
        assert clock_of(converted).drift_ppm == pytest.approx(DRIFT_PPM - 9000 / 30_000, abs=0.01)
    assert starts[0] == starts[1]


@pytest.mark.parametrize("error_ns", [-100_000, 100_000], ids=["waits-object", "launches-object"])
def test_a_short_reading_that_launches_or_waits_contradict(to_trace: Convert, error_ns: int) -> None:
    program = Program()
    end = T + 30 * SECOND
    program.reading(T)
    program.reading(end, GOOD_NS, error_ns)
    host_bound(program, range(T + 10**6, end, 10**7))

    converted = to_trace(program.spool)

    assert np.abs(late_by(converted, program)).max() < 10_000
    assert clock_of(converted).drift_source == "launches"


@ERRORS
def test_a_rate_that_changes_during_three_minutes(to_trace: Convert, error_ns: int) -> None:
    def warming(since_ns: int) -> int:
        return steady(since_ns) + round(max(0, since_ns - 90 * SECOND) * 1.3e-6)

    program = Program(warming)
    end = T + 180 * SECOND
    program.reading(T)
    program.reading(end, DISTURBED_NS, error_ns)
    host_bound(program, range(T + 10**6, end, 5 * 10**7))

    converted = to_trace(program.spool)

    assert np.abs(late_by(converted, program)).max() < 20_000
    assert clock_of(converted).drift_source == "launches"


@ERRORS
def test_too_short_for_a_rate(to_trace: Convert, error_ns: int) -> None:
    """Nothing tells how wrong the readings are, but hardly a run may begin before its launch."""
    program = Program()
    end = T + 2 * SECOND
    program.reading(T, DISTURBED_NS)
    program.reading(end, DISTURBED_NS, error_ns)
    host_bound(program, range(T + 10**6, end, 10**7))

    converted = to_trace(program.spool)

    assert late_by(converted, program).max() < 2 * abs(error_ns)
    early = converted.kind("graph").start_ns < converted.kind("submit").start_ns
    assert np.mean(early) <= 0.01
    assert clock_of(converted).drift_source == "readings"


def test_a_damaged_reading_corrects_nothing(to_trace: Convert) -> None:
    program = Program()
    end = T + 30 * SECOND
    program.reading(T)
    program.reading(end)
    program.spool.add(Kind.GPU_CLOCK, start_ns=end, object=2**64 - 1, bytes=2**64 - 1, device=0)
    host_bound(program, range(T + 10**6, end, 10**7))

    converted = to_trace(program.spool)

    assert np.abs(late_by(converted, program)).max() < 1000
    assert clock_of(converted).drift_source == "readings"


def test_a_wait_for_the_context_of_another_gpu_tells_nothing(to_trace: Convert) -> None:
    program = Program()
    end = T + 30 * SECOND
    program.reading(T)
    program.reading(end, DISTURBED_NS, 1_490_000)
    host_bound(program, range(T + 10**6, end, 10**7), waits=False)
    for at in range(T + 10**6, end, 10**7):
        program.spool.call(Operation.CONTEXT_SYNC, at + 20_000, 1000, device=1)

    converted = to_trace(program.spool)

    assert np.abs(late_by(converted, program)).max() < 10_000
    assert clock_of(converted).drift_source == "launches"


def test_a_late_window_that_holds_as_many_runs_as_launches(to_trace: Convert) -> None:
    """Ten runs are of launches before the window, and ten launches were not read back."""
    program = Program()
    program.reading(T)
    program.reading(T + SECOND)
    program.bind()
    for step in range(30):
        at = T + 10**6 + step * 3 * 10**6
        if step >= 10:
            program.launch(at)
        if step < 20:
            program.run(at + 5000, at + 60_000)

    converted = to_trace(program.spool)

    graphs, launches = converted.kind("graph"), converted.kind("submit")
    assert graphs.correlation.tolist() == launches.correlation[:10].tolist()
    assert launches.correlation[10:].isna().all()


NONE = Bounds(np.zeros(0), np.zeros(0))


def test_a_wait_after_the_last_launch_counts() -> None:
    """Launches come nearer and nearer to their runs: a line along them would pass the last wait."""
    at = np.arange(10.0) * SECOND
    launches, last = Bounds(at, np.linspace(-500_000, 0, 10)), Bounds(at[-1:] + SECOND, np.zeros(1))
    found = correct(launches, Bounds(at, np.full(10, 10.0**7)).and_also(last), NONE, NONE)
    assert found is not None
    assert found(last.at) <= NOISE_NS
    assert (found(at) >= launches.limit - NOISE_NS).all()


def test_the_tightest_launch_of_a_second_need_not_be_its_last_one() -> None:
    """At 50 ppm the last one seems 40 µs tighter than one that began 0.8 s before."""
    at = np.arange(10) * SECOND + np.array([[0.1], [0.9]]) * SECOND
    slack = np.where(np.arange(10) < 5, [[0], [20_000]], [[20_000], [0]])
    true = 50e-6 * at
    launches = Bounds(at.ravel(), (true - slack).ravel())
    found = correct(launches, NONE, NONE, NONE)
    assert found is not None
    assert np.abs(found(at) - true).max() < 5000


def test_bounds_may_come_in_any_order() -> None:
    rng = np.random.default_rng(0)
    at = np.arange(200.0) * SECOND
    limit, order = 1e-6 * at - rng.gamma(1, 10_000, 200), rng.permutation(200)
    found = correct(Bounds(at, limit), NONE, NONE, NONE)
    again = correct(Bounds(at[order], limit[order]), NONE, NONE, NONE)
    assert found is not None
    assert again is not None
    assert again(at).tolist() == found(at).tolist()


def test_launches_that_contradict_waits_correct_nothing() -> None:
    at = np.arange(10.0) * SECOND
    launches, waits = Bounds(at, np.full(10, 10_000.0)), Bounds(at, np.full(10, -10_000.0))
    assert correct(launches, waits, NONE, NONE) is None


@st.composite
def slacks(draw: st.DrawFn, seconds: int) -> npt.NDArray[np.float64]:
    """Slack of two bounds a second, ns: anything, but hardly any for one in the first and in the last one."""
    slack = np.array(draw(st.lists(st.floats(0, 5e6), min_size=2 * seconds, max_size=2 * seconds)))
    for second in (0, seconds - 1):
        slack[2 * second + draw(st.integers(0, 1))] = draw(st.floats(0, 3000))
    return slack


@given(st.data(), st.integers(5, 80), st.floats(-50e-6, 50e-6), st.floats(-3e6, 3e6))
@settings(deadline=None, max_examples=150)
def test_a_correction_keeps_to_all_bounds_and_to_the_truth_where_they_are_tight(
    data: st.DataObject, seconds: int, rate: float, offset: float
) -> None:
    slack = [data.draw(slacks(seconds)) for _ in range(2)]
    at = [(np.arange(2 * seconds) + data.draw(st.floats(0.2, 0.8))) * SECOND / 2 for _ in range(2)]
    true = [offset + rate * times for times in at]
    launches, waits = Bounds(at[0], true[0] - slack[0]), Bounds(at[1], true[1] + slack[1])

    found = correct(launches, waits, NONE, NONE)

    assert found is not None
    assert (found(at[0]) >= launches.limit - NOISE_NS).all()
    assert (found(at[1]) <= waits.limit + NOISE_NS).all()
    for side in range(2):
        tight = slack[side] <= 3000
        assert np.abs(found(at[side]) - true[side])[tight].max() <= 3000 + 2 * NOISE_NS
