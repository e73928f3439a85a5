"""The simulator that the other tests believe."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from simulator import OFF, ON, PLAYERS, Load, Pair, Recorder, Run, changed, mixed, simulate, truth_of
from simulator.machine import GpuWork, Machine, Stream

from cctrace.trace import open_trace

few = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
SMALL = Load(kernels=12, kernel_us=20.0, schedule_us=80.0, process_us=60.0)
ALL = replace(ON, cpu=1.2, gpu=1.05, peer_us=3.0)

loads = st.builds(
    Load,
    execution=st.sampled_from(["eager", "graph", "pieces"]),
    pieces=st.integers(2, 4),
    readback=st.sampled_from(["sync", "overlap", "worker"]),
    worker_waits=st.sampled_from(["host", "stream"]),
    forward=st.sampled_from(["scheduler", "worker"]),
    ranks=st.integers(1, 2),
    collectives=st.integers(0, 4),
    kernels=st.integers(4, 12),
    kernel_us=st.floats(5.0, 50.0),
    inputs_aside=st.booleans(),
    host_allocs=st.integers(0, 1),
    prefill_every=st.sampled_from([0, 3]),
    prefill_kernels=st.just(8),
    schedule_us=st.floats(20.0, 200.0),
)


@few
@given(loads, st.sets(st.sampled_from(PLAYERS)))
def test_true_shares_add_up(load: Load, players: set[str]) -> None:
    off = Run(load, OFF, steps=12)
    truth = truth_of(Pair(off, replace(off, costs=mixed(OFF, ALL, players))))
    assert sum(truth.shares.values()) == pytest.approx(truth.delta_us, abs=1e-6)
    assert all(truth.shares[one] == 0.0 for one in PLAYERS if one not in players)


@few
@given(loads, st.sampled_from(["nodes", "stamps", "none"]))
def test_traces_are_whole_and_every_wait_lasts_until_what_it_waits_for(load: Load, level: str) -> None:
    run = Run(load, ON, steps=10, recorder=Recorder(gpu=level))  # type: ignore[arg-type]
    rows = simulate(run).trace().table.to_pandas()
    assert (rows.duration_ns >= 0).all()
    calls = rows[rows.source == "interposer"]
    for _, lane in calls.groupby("lane"):
        assert (lane.start_ns.to_numpy()[1:] >= (lane.start_ns + lane.duration_ns).to_numpy()[:-1]).all()
    if level != "nodes":
        assert set(rows.kind[rows.source != "interposer"]) <= {"range", "step", "graph"}
        return
    gpu = rows[rows.source == "cupti"]
    joined = gpu.merge(calls, on=["pid", "correlation"], suffixes=("", "_call"))
    assert len(joined) == len(gpu)
    assert (joined.start_ns > joined.start_ns_call).all()
    copies = joined[joined.kind == "copy"]
    done = copies.start_ns + copies.duration_ns
    assert (copies.start_ns_call + copies.duration_ns_call >= done).all()


def test_a_written_trace_is_a_trace(tmp_path: Path) -> None:
    trace = simulate(Run(SMALL, OFF, steps=10)).trace(cc_mode="off")
    opened = open_trace(trace.write(tmp_path / "off.parquet"))
    assert opened.num_rows == trace.table.num_rows
    assert opened.metadata.acceptance.security.cc_mode == "off"
    assert [lane.rows for lane in opened.lanes] == [lane.rows for lane in trace.metadata.lanes]
    assert sum(lane.rows or 0 for lane in opened.lanes) == opened.num_rows


def test_the_same_seed_gives_the_same_run_and_another_one_another() -> None:
    first, second, other = (simulate(Run(SMALL, steps=10, seed=seed)).period_us for seed in (1, 1, 2))
    assert (first == second).all()
    assert (first != other).any()


def test_noise_stays_with_its_place_when_a_cost_changes() -> None:
    """A copy that blocks changes when things happen, but not how long each kernel takes."""
    kernels = []
    for costs in (OFF, replace(OFF, copies_block=True)):
        rows = simulate(Run(SMALL, costs, steps=10)).trace().table.to_pandas()
        kernels.append(rows.duration_ns[rows.kind == "kernel"].to_numpy())
    assert (abs(kernels[0] - kernels[1]) <= 1).all()


def test_a_recorder_costs_what_it_says() -> None:
    host_bound = replace(SMALL, kernel_us=1.0)
    bare, slowed = (
        simulate(Run(host_bound, steps=12, noise=0.0, recorder=Recorder(tax_us=tax))) for tax in (0.0, 3.0)
    )
    calls_per_step = SMALL.kernels + SMALL.input_copies + 3  # copy back, event, synchronization
    assert slowed.mean_us() == pytest.approx(bare.mean_us() + 3.0 * calls_per_step, rel=0.01)


def test_a_queue_of_one_place_keeps_the_host_from_running_ahead() -> None:
    load = replace(SMALL, kernel_us=100.0, dispatch_us=1.0)
    free, held = (
        simulate(Run(load, replace(OFF, depth=depth), steps=10, noise=0.0)).trace().table.to_pandas()
        for depth in (0, 1)
    )
    longest = [rows.duration_ns[rows.operation == "kernel"].max() / 1e3 for rows in (free, held)]
    assert longest[0] < 5.0
    assert longest[1] > 90.0


@pytest.mark.parametrize("player", PLAYERS)
def test_each_player_switches_its_own_costs(player: str) -> None:
    assert changed(OFF, mixed(OFF, ALL, [player])) == (player,)


def test_a_collective_that_lacks_a_rank_is_an_error() -> None:
    machine = Machine(ranks=2)
    machine.submit(Stream(), GpuWork(1.0, meeting="all-reduce"), 0.0)
    with pytest.raises(RuntimeError, match="lack a rank"):
        machine.run()
