"""What holds for any pair of recordings, tried on simulated ones whose truth is known."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from simulator import OFF, ON, Costs, Load, Pair, Run, mixed, simulate, truth_of
from simulator.attributed import attributed, errors_of, shares_of

from cctrace.analyzers.attribution.result import CAUSES, Attribution, Breakdown

STEPS = 64
TOLERANCE = 0.02
"""Errors of shares that are allowed, of the off arm's step."""
SLOWER = replace(ON, cpu=1.1, gpu=1.03)
few = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])

loads = st.builds(
    Load,
    execution=st.sampled_from(["eager", "graph", "pieces"]),
    pieces=st.integers(2, 5),
    readback=st.sampled_from(["sync", "overlap", "worker"]),
    worker_waits=st.sampled_from(["host", "stream"]),
    kernels=st.integers(20, 40),
    kernel_us=st.floats(30.0, 90.0),
    around=st.integers(0, 4),
    input_copies=st.integers(0, 3),
    inputs_aside=st.booleans(),
    dispatch_us=st.floats(1.0, 8.0),
    schedule_us=st.floats(200.0, 1200.0),
    process_us=st.floats(100.0, 800.0),
    token_bytes=st.sampled_from([64, 256, 4096]),
    input_bytes=st.sampled_from([256, 1024, 4096]),
)
seeds = st.integers(1, 10_000)
player_sets = st.sets(st.sampled_from(["launch", "pcie", "overlap", "host", "gpu"]), min_size=1)


def pair_of(load: Load, costs: Costs, seed: int, noise: float = 0.02) -> Pair:
    off = Run(load, OFF, steps=STEPS, seed=seed, noise=noise)
    return Pair(off, replace(off, costs=costs, seed=seed + 10_000))


def assert_sums(one: Breakdown) -> None:
    assert one.delta_us == pytest.approx(one.on_step_us - one.off_step_us, abs=1e-6)
    if one.refused_because:
        assert one.shares is None
        assert one.residual is None
        return
    assert one.residual is not None
    rest = one.residual
    parts = rest.host_us + rest.gpu_us + rest.schedule_mix_us + rest.model_error_us
    assert rest.total_us == pytest.approx(parts, abs=1e-6)
    causes = sum(value for name, value in shares_of(one).items() if name in CAUSES)
    assert one.delta_us == pytest.approx(causes + rest.total_us, abs=1e-6)


def parts_of(result: Attribution) -> list[Breakdown]:
    return [result, *result.classes, *(phase for _, phase in result.phases.found())]


@few
@given(loads, player_sets, seeds, st.sampled_from([0, 5]), st.sampled_from([(16,), (16, 64)]))
def test_shares_and_residual_add_up_to_the_difference(
    load: Load, players: set[str], seed: int, prefill_every: int, batches: tuple[int, ...]
) -> None:
    load = replace(load, prefill_every=prefill_every, prefill_kernels=30, batches=batches)
    result = attributed(*pair_of(load, mixed(OFF, SLOWER, players), seed).traces())
    for part in parts_of(result):
        assert_sums(part)


@few
@given(loads, seeds)
def test_a_recording_beside_itself_has_no_shares_but_zeros(load: Load, seed: int) -> None:
    trace = simulate(Run(load, OFF, steps=STEPS, seed=seed)).trace()
    result = attributed(trace, trace)
    assert result.delta_us == 0.0
    assert max(map(abs, shares_of(result).values())) < 1e-9
    assert result.residual is not None
    assert result.residual.model_error_us == pytest.approx(0.0, abs=1e-9)


@few
@given(loads, seeds)
def test_two_runs_without_an_effect_show_none(load: Load, seed: int) -> None:
    pair = pair_of(load, OFF, seed)
    result = attributed(*pair.traces())
    assert max(map(abs, shares_of(result).values())) <= TOLERANCE * result.off_step_us


@few
@given(loads, player_sets, seeds)
def test_the_order_of_rows_does_not_matter(load: Load, players: set[str], seed: int) -> None:
    traces = pair_of(load, mixed(OFF, SLOWER, players), seed).traces()
    assert attributed(*traces, shuffled=True).to_json() == attributed(*traces).to_json()


@few
@given(loads, player_sets, seeds)
def test_the_replay_gives_back_both_arms(load: Load, players: set[str], seed: int) -> None:
    result = attributed(*pair_of(load, mixed(OFF, SLOWER, players), seed).traces())
    assert result.model is not None
    assert abs(result.model.off_error_us) <= 0.01 * result.off_step_us
    assert abs(result.model.on_error_us) <= 0.01 * result.off_step_us


@pytest.mark.parametrize("player", ["launch", "pcie", "overlap", "host", "gpu"])
@few
@given(loads, seeds)
def test_one_cause_alone_is_that_cause(player: str, load: Load, seed: int) -> None:
    load = replace(load, host_allocs=2) if player == "pcie" else load
    pair = pair_of(load, mixed(OFF, replace(SLOWER, host_alloc_us=60.0), [player]), seed)
    result, truth = attributed(*pair.traces()), truth_of(pair)
    errors = errors_of(shares_of(result), truth)
    assert max(map(abs, errors.values())) <= TOLERANCE * truth.off_us, errors


@few
@given(loads, player_sets, seeds)
def test_several_causes_have_the_shares_of_the_simulator(load: Load, players: set[str], seed: int) -> None:
    pair = pair_of(load, mixed(OFF, SLOWER, players), seed)
    result, truth = attributed(*pair.traces()), truth_of(pair)
    errors = errors_of(shares_of(result), truth)
    assert max(abs(errors[cause]) for cause in CAUSES) <= TOLERANCE * truth.off_us, errors


@few
@given(loads, player_sets, seeds)
def test_a_scheduler_a_worker_and_a_copy_worker_are_explained_or_refused(
    load: Load, players: set[str], seed: int
) -> None:
    pair = pair_of(replace(load, forward="worker", wake_us=5.0), mixed(OFF, SLOWER, players), seed)
    result, truth = attributed(*pair.traces()), truth_of(pair)
    if result.refused_because:
        assert result.model is not None
        assert result.model.worst_pct_of_off > 2.0
        return
    errors = errors_of(shares_of(result), truth)
    assert max(abs(errors[cause]) for cause in CAUSES) <= TOLERANCE * truth.off_us, errors


@few
@given(loads, player_sets, seeds)
def test_prefill_and_decode_are_told_apart(load: Load, players: set[str], seed: int) -> None:
    load = replace(load, prefill_every=5, prefill_kernels=30, prefill_kernel_us=60.0)
    result = attributed(*pair_of(load, mixed(OFF, SLOWER, players), seed).traces())
    found = dict(result.phases.found())
    assert set(found) == {"decode", "prefill"}
    weight = sum(one.off_weight for one in found.values())
    assert weight == pytest.approx(1.0)
    together = sum(one.off_weight * one.off_step_us for one in found.values())
    assert together == pytest.approx(result.off_step_us, rel=1e-9)
