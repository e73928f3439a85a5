import numpy as np
import pytest
from converted import Convert
from spool_builder import SpoolBuilder

from cctrace.collectors.spool.gpu_clock import fit_clock
from cctrace.collectors.spool.layout import Flag, Kind, Operation
from cctrace.collectors.spool.stamps import Pairs, losses_before, match_pairs

T = 10**12
GPU_OFFSET = 1_790_000_000_000_000_000
"""%globaltimer counts from 1970, CLOCK_MONOTONIC from the start of the machine."""
EXEC, OTHER, STREAM = 0x7F1000, 0x7F2000, 0x7F3000


def gpu_time(monotonic_ns: int) -> int:
    return monotonic_ns + GPU_OFFSET


class Gpu:
    """A GPU whose graphs carry stamps: writes launches, runs and clock readings into a spool."""

    def __init__(self, spool: SpoolBuilder) -> None:
        self.spool = spool
        self.index = 0
        for second in range(20):
            at = T + second * 10**9
            spool.add(Kind.GPU_CLOCK, start_ns=at, object=gpu_time(at), bytes=20_000, device=0)

    def bind(self, handle: int, tag: int, at: int) -> None:
        self.spool.add(Kind.BINDING, start_ns=at, object=handle, bytes=tag, tid=self.spool.pid)

    def launch(self, handle: int, at: int) -> None:
        self.spool.call(Operation.GRAPH, at, 4000, object=handle, stream=STREAM)

    def run(self, tag: int, begin: int, end: int, *, lost: bool = False, eager: bool = False) -> None:
        for time, last in ((begin, False), (end, True)):
            if not lost:
                self.spool.stamp(tag, gpu_time(time), self.index, end=last, eager=eager)
            self.index += 1


def unmatched(converted) -> dict[str, int]:
    (process,) = converted.metadata.collector.processes
    return dict(process.unmatched)


def test_each_replay_is_joined_with_its_launch(to_trace: Convert) -> None:
    spool = SpoolBuilder()
    gpu = Gpu(spool)
    gpu.bind(EXEC, 1, T)
    gpu.bind(OTHER, 2, T)
    begins = []
    for i in range(50):
        at = T + 10**6 + i * 100_000
        gpu.launch(EXEC if i % 2 else OTHER, at)
        gpu.run(1 if i % 2 else 2, at + 7000, at + 60_000)
        begins.append(at + 7000)
    converted = to_trace(spool)
    graphs, launches = converted.kind("graph"), converted.kind("submit")
    assert graphs.start_ns.tolist() == begins
    assert graphs.duration_ns.tolist() == [53_000] * 50
    assert graphs.correlation.tolist() == launches.correlation.tolist()
    assert graphs.graph_id.tolist() == launches.graph_id.tolist() == [0, 1] * 25
    assert set(graphs.source) == {"stamps"}
    assert set(graphs.stream) == set(launches.stream) == {1}
    assert graphs.name.isna().all()
    lane = converted.trace.lanes[graphs.lane[0]]
    assert (lane.kind, lane.stream, lane.device, lane.rows) == ("stream", 1, 0, 50)
    assert unmatched(converted) == {}
    (clock,) = converted.metadata.clock.gpu
    assert (clock.readings, clock.kept, clock.residual_ns) == (20, 20, 0.0)


def test_a_gpu_that_lags_behind_the_host(to_trace: Convert) -> None:
    """Launches are issued ahead of the runs: a run begins after later launches."""
    spool = SpoolBuilder()
    gpu = Gpu(spool)
    gpu.bind(EXEC, 1, T)
    for i in range(30):
        gpu.launch(EXEC, T + 10**6 + i * 10_000)
        gpu.run(1, T + 10**6 + 5000 + i * 50_000, T + 10**6 + 54_000 + i * 50_000)
    converted = to_trace(spool)
    assert converted.kind("graph").correlation.tolist() == converted.kind("submit").correlation.tolist()


def test_lost_stamps_leave_their_launches_alone(to_trace: Convert) -> None:
    spool = SpoolBuilder()
    gpu = Gpu(spool)
    gpu.bind(EXEC, 1, T)
    for i in range(40):
        at = T + 10**6 + i * 100_000
        gpu.launch(EXEC, at)
        gpu.run(1, at + 5000, at + 60_000, lost=10 <= i < 15)
    converted = to_trace(spool)
    launches = converted.kind("submit")
    assert launches.correlation.isna().tolist() == [10 <= i < 15 for i in range(40)]
    joined = launches.dropna(subset="correlation").reset_index()
    graphs = converted.kind("graph")
    assert graphs.correlation.tolist() == joined.correlation.tolist()
    assert ((graphs.start_ns - joined.start_ns) == 5000).all()
    assert unmatched(converted) == {"stamped launches without a replay": 5}


def test_an_updated_graph_carries_the_stamps_of_its_new_source(to_trace: Convert) -> None:
    spool = SpoolBuilder()
    gpu = Gpu(spool)
    gpu.bind(EXEC, 1, T)
    gpu.launch(EXEC, T + 10**6)
    gpu.run(1, T + 10**6 + 5000, T + 10**6 + 9000)
    gpu.bind(EXEC, 2, T + 2 * 10**6)
    gpu.launch(EXEC, T + 3 * 10**6)
    gpu.run(2, T + 3 * 10**6 + 5000, T + 3 * 10**6 + 9000)
    gpu.bind(EXEC, 0, T + 4 * 10**6)  # now a graph without stamps
    gpu.launch(EXEC, T + 5 * 10**6)
    converted = to_trace(spool)
    assert converted.kind("submit").correlation.fillna(-1).tolist() == [1, 2, -1]
    assert converted.kind("graph").correlation.tolist() == [1, 2]
    assert unmatched(converted) == {}


def test_runs_inside_other_graphs_are_counted_and_not_invented(to_trace: Convert) -> None:
    spool = SpoolBuilder()
    gpu = Gpu(spool)
    gpu.bind(EXEC, 1, T)
    spool.call(Operation.GRAPH, T + 100, object=EXEC, stream=STREAM, flags=Flag.CAPTURED)  # a child graph
    for i in range(10):
        at = T + 10**6 + i * 10**6
        gpu.launch(EXEC, at)
        gpu.run(1, at + 5000, at + 60_000)
    gpu.run(1, T + 10**8, T + 10**8 + 10)
    gpu.run(1, T + 2 * 10**8, T + 2 * 10**8 + 10)
    converted = to_trace(spool)
    graphs = converted.kind("graph")
    assert len(graphs) == 9  # the last launch might have caused any of three runs
    assert (graphs.start_ns.diff().dropna() == 10**6).all()
    assert unmatched(converted) == {
        "graph replays without a launch": 3,
        "stamped launches without a replay": 1,
    }


def test_a_window_that_begins_late(to_trace: Convert) -> None:
    """Replays go on outside of the recorded window, and their stamps are read."""
    spool = SpoolBuilder()
    gpu = Gpu(spool)
    gpu.bind(EXEC, 1, T)
    for i in range(30):
        at = T + 10**6 + i * 100_000
        if 10 <= i < 25:
            gpu.launch(EXEC, at)
        gpu.run(1, at + 5000, at + 60_000)
    converted = to_trace(spool)
    graphs, launches = converted.kind("graph"), converted.kind("submit")
    assert graphs.correlation.tolist() == launches.correlation.tolist()
    assert (graphs.start_ns - launches.start_ns == 5000).all()
    assert unmatched(converted) == {"graph replays without a launch": 15}


def test_a_run_that_was_not_read_back_before_the_end(to_trace: Convert) -> None:
    spool = SpoolBuilder()
    gpu = Gpu(spool)
    gpu.bind(EXEC, 1, T)
    for i in range(5):
        gpu.launch(EXEC, T + i * 10**6)
        if i < 3:
            gpu.run(1, T + i * 10**6 + 5000, T + i * 10**6 + 9000)
    spool.stamp(1, gpu_time(T + 3 * 10**6 + 5000), gpu.index, end=False)
    converted = to_trace(spool)
    assert converted.kind("submit").correlation.fillna(-1).tolist() == [1, 2, 3, -1, -1]
    assert unmatched(converted) == {"single stamps": 1, "stamped launches without a replay": 2}


def test_failed_and_unstamped_launches_take_no_run(to_trace: Convert) -> None:
    spool = SpoolBuilder()
    gpu = Gpu(spool)
    gpu.bind(EXEC, 1, T)
    spool.call(Operation.GRAPH, T + 1000, object=EXEC, stream=STREAM, result=700)
    gpu.launch(OTHER, T + 10**6)
    gpu.launch(EXEC, T + 2 * 10**6)
    gpu.run(1, T + 2 * 10**6 + 5000, T + 2 * 10**6 + 9000)
    assert to_trace(spool).kind("submit").correlation.fillna(-1).tolist() == [-1, -1, 1]


def test_sampled_eager_steps_are_gpu_ranges(to_trace: Convert) -> None:
    spool = SpoolBuilder()
    gpu = Gpu(spool)
    for i in range(3):
        gpu.run(100 + i, T + i * 10**6, T + i * 10**6 + 5 * 10**5, eager=True)
    converted = to_trace(spool)
    ranges = converted.kind("range")
    assert ranges.name.tolist() == ["gpu step"] * 3
    assert ranges.source.tolist() == ["stamps"] * 3
    assert ranges.duration_ns.tolist() == [5 * 10**5] * 3
    assert ranges.tid.isna().all()
    assert converted.trace.lanes[-1].name == "sampled steps"


def test_stamps_without_a_clock_give_no_row(to_trace: Convert) -> None:
    spool = SpoolBuilder()
    spool.stamp(1, gpu_time(T), 0, end=False)
    spool.stamp(1, gpu_time(T + 5), 1, end=True)
    converted = to_trace(spool)
    assert len(converted.frame) == 0
    assert unmatched(converted) == {"stamps without a clock reading": 2}


@pytest.mark.parametrize(
    ("at_s", "shown"),
    [
        ([0], False),
        ([0, 0.01], True),  # no rate: their middle is the mapping
        ([0, 10], False),  # a line through two points
        ([0, 40], False),
        ([0, 20, 40], False),  # a support point each
        ([0, 5, 10], True),
    ],
)
def test_a_residual_is_only_given_where_readings_can_show_one(at_s: list[float], shown: bool) -> None:
    host = (T + np.array(at_s) * 1e9).astype(np.uint64)
    noise = np.array([0, 700, 100], dtype=np.uint64)[: len(at_s)]
    clock = fit_clock(host, host + np.uint64(GPU_OFFSET) + noise, np.full(len(at_s), 20_000, dtype=np.uint64))
    assert clock is not None
    assert clock.kept == len(at_s)
    if shown:
        assert clock.residual_ns is not None
        assert 0 < clock.residual_ns < 700
    else:
        assert clock.residual_ns is None


def test_the_clock_map_follows_drift_and_ignores_bad_readings() -> None:
    rng = np.random.default_rng(3)
    host = T + np.arange(300) * 10**9 + rng.integers(0, 10**7, 300)
    gap = rng.gamma(3, 3000, 300) + 15_000
    true = host + GPU_OFFSET + (12e-6 * (host - T)).astype(np.int64)
    gpu = true + (rng.uniform(-0.5, 0.5, 300) * (gap - 14_000)).astype(np.int64)
    slow = rng.choice(300, 25, replace=False)
    gap[slow] += 400_000
    gpu[slow] += 200_000
    interrupted = rng.choice(300, 5, replace=False)
    gpu[interrupted] += 3_000_000
    clock = fit_clock(host.astype(np.uint64), gpu.astype(np.uint64), gap.astype(np.uint64))
    assert clock is not None
    probe = T + rng.integers(0, 300 * 10**9, 1000)
    mapped = clock.to_monotonic(
        (probe + GPU_OFFSET + (12e-6 * (probe - T)).astype(np.int64)).astype(np.uint64)
    )
    assert np.abs(mapped - probe).max() < 5_000
    assert np.median(np.abs(mapped - probe)) < 1_500
    assert clock.drift_ppm == pytest.approx(12, abs=0.1)


@pytest.mark.parametrize("readings", [1, 2])
def test_the_clock_map_of_few_readings(readings: int) -> None:
    host = np.array([T, T + 10**10], dtype=np.uint64)[:readings]
    clock = fit_clock(host, host + np.uint64(GPU_OFFSET), np.array([20_000] * readings, dtype=np.uint64))
    assert clock is not None
    assert clock.to_monotonic(np.array([GPU_OFFSET + T + 5 * 10**9], dtype=np.uint64)).tolist() == [
        T + 5 * 10**9
    ]


def test_no_reading_no_clock() -> None:
    none = np.zeros(0, dtype=np.uint64)
    assert fit_clock(none, none, none) is None
    damaged = np.array([2**64 - 1], dtype=np.uint64)
    assert fit_clock(damaged, damaged, damaged) is None


def test_losses_are_gaps_in_the_numbering() -> None:
    ring = np.array([0, 1, 2, 5, 6, 9], dtype=np.uint64)
    assert losses_before(ring, ring).tolist() == [0, 0, 0, 1, 1, 2]
    second = (np.uint64(1) << np.uint64(40)) + ring
    both = np.concatenate((ring, second))
    assert losses_before(both, both).tolist() == [0, 0, 0, 1, 1, 2] * 2
    assert losses_before(ring + np.uint64(3), ring + np.uint64(3)).tolist() == [1, 1, 1, 2, 2, 3]


def test_nothing_to_match() -> None:
    none = np.zeros(0, dtype=np.int64)
    pairs = Pairs(none.astype(np.uint64), none, none, none.astype(np.uint64))
    assert match_pairs(pairs, none, none).tolist() == []
    one = Pairs(np.ones(1, np.uint64), np.array([5]), np.array([6]), np.zeros(1, np.uint64))
    assert match_pairs(one, none, np.zeros(1, dtype=np.intp)).tolist() == [-1]


@pytest.mark.parametrize("seed", range(8))
def test_random_losses_never_join_a_run_with_a_later_launch(seed: int) -> None:
    """A free-running GPU with random queueing; stamps are lost in blocks. The truth is known for each run."""
    rng = np.random.default_rng(seed)
    count = 400
    launch = np.cumsum(rng.gamma(2, 30_000, count)).astype(np.int64)
    begin = np.empty(count, dtype=np.int64)
    free = 0
    for i in range(count):
        begin[i] = max(launch[i] + 6000, free)
        free = begin[i] + int(rng.gamma(3, 15_000))
    kept = np.ones(count, dtype=bool)
    for at in rng.integers(20, count - 20, 4):
        kept[at : at + rng.integers(1, 15)] = False
    index = (2 * np.arange(count, dtype=np.uint64))[kept]
    ring = np.sort(np.concatenate((index, index + np.uint64(1))))
    pairs = Pairs(np.ones(int(kept.sum()), np.uint64), begin[kept], begin[kept] + 1, index)
    found = match_pairs(pairs, launch, losses_before(ring, index))
    truth = np.flatnonzero(kept)
    assert (launch[found[found >= 0]] <= begin[kept][found >= 0]).all()
    assert np.mean(found == truth) > 0.95


@pytest.mark.parametrize("readings", [1, 2])
@pytest.mark.parametrize("ppm", [-40.0, 10.0])
def test_a_drifting_clock_with_readings_at_start_and_end_only(
    to_trace: Convert, readings: int, ppm: float
) -> None:
    """A killed process has no reading of its end: launches and their runs then tell the rate."""
    rng = np.random.default_rng(0)

    def drifting(monotonic_ns: int) -> int:
        return gpu_time(monotonic_ns) + int((monotonic_ns - T) * ppm * 1e-6)

    spool = SpoolBuilder()
    end = T + 60 * 10**9
    for at in (T, end)[:readings]:
        spool.add(Kind.GPU_CLOCK, start_ns=at, object=drifting(at), bytes=20_000, device=0)
    spool.add(Kind.BINDING, start_ns=T, object=EXEC, bytes=1, tid=spool.pid)
    delays = []
    for i, at in enumerate(range(T + 10**6, end, 6_000_000)):
        delay = 5000 + int(rng.gamma(1, 3000))
        spool.call(Operation.GRAPH, at, 4000, object=EXEC, stream=STREAM)
        spool.stamp(1, drifting(at + delay), 2 * i, end=False)
        spool.stamp(1, drifting(at + delay + 4_000_000), 2 * i + 1, end=True)
        delays.append(delay)
    converted = to_trace(spool)
    graphs, launches = converted.kind("graph"), converted.kind("submit")
    assert graphs.correlation.tolist() == launches.correlation.tolist()
    found = (graphs.start_ns - launches.start_ns).to_numpy()
    assert np.abs(found - delays).max() < (1000 if readings == 2 else 10_000)
    (clock,) = converted.metadata.clock.gpu
    assert clock.drift_ppm == pytest.approx(ppm, abs=0.2)
    assert clock.drift_source == ("readings" if readings == 2 else "launches")


def test_a_drifting_clock_moves_no_run_to_another_launch(to_trace: Convert) -> None:
    """A reading at the start, while other programs had the GPU: at the end runs seem to begin too early."""
    spool = SpoolBuilder()
    end = T + 30 * 10**9
    for at, off in ((T, 0), (end, 70_000)):
        spool.add(Kind.GPU_CLOCK, start_ns=at, object=gpu_time(at) + off, bytes=20_000, device=0)
    spool.add(Kind.BINDING, start_ns=T, object=EXEC, bytes=1, tid=spool.pid)
    begins = range(T + 10**6, end, 2_500_000)
    for i, at in enumerate(begins):
        spool.call(Operation.GRAPH, at, 4000, object=EXEC, stream=STREAM)
        spool.stamp(1, gpu_time(at + 5000), 2 * i, end=False)
        spool.stamp(1, gpu_time(at + 2_400_000), 2 * i + 1, end=True)

    converted = to_trace(spool)

    graphs, launches = converted.kind("graph"), converted.kind("submit")
    assert graphs.correlation.tolist() == launches.correlation.tolist()
    assert unmatched(converted) == {}


def test_a_clock_reading_that_is_off_is_corrected_by_the_launches(to_trace: Convert) -> None:
    """The readings were off by 9 µs, less than their gap: runs would begin before they were launched."""
    spool = SpoolBuilder()
    for at in (T, T + 2 * 10**9):
        spool.add(Kind.GPU_CLOCK, start_ns=at, object=gpu_time(at - 9000), bytes=20_000, device=0)
    spool.add(Kind.BINDING, start_ns=T, object=EXEC, bytes=1, tid=spool.pid)
    for i in range(200):
        at = T + 10**6 + i * 10**7
        spool.call(Operation.GRAPH, at, 4000, object=EXEC, stream=STREAM)
        spool.stamp(1, gpu_time(at + 3000 - 9000 - 9000), 2 * i, end=False)
        spool.stamp(1, gpu_time(at + 50_000 - 9000 - 9000), 2 * i + 1, end=True)
    converted = to_trace(spool)
    graphs, launches = converted.kind("graph"), converted.kind("submit")
    assert (graphs.start_ns - launches.start_ns == 0).all()
    assert set(graphs.duration_ns) == {47_000}
    assert converted.metadata.clock.gpu[0].moved_ns == 6000
