"""What bad or sparse recordings do to the shares: nothing, or something that is said."""

from dataclasses import replace

import pytest
from simulator import OFF, ON, Load, Pair, Recorder, Run, Truth, truth_of
from simulator.attributed import attributed, errors_of, shares_of
from simulator.faults import coarse_clock, lose_rows, spoil_durations
from simulator.recording import SimulatedTrace

from cctrace.analyzers.attribution.result import CAUSES, Attribution

TOLERANCE = 0.02
"""Errors of shares that are allowed, of the off arm's step."""
WORKER = Load(
    execution="graph",
    readback="worker",
    kernels=60,
    kernel_us=60.0,
    dispatch_us=5.0,
    schedule_us=900.0,
    process_us=700.0,
    token_bytes=256,
)
OVERLAP = replace(WORKER, readback="overlap")
EAGER = Load(kernels=120, kernel_us=14.0, dispatch_us=3.0)


def recorded(load: Load, off: Recorder | None = None, on: Recorder | None = None) -> Pair:
    first = Run(load, OFF, steps=64, seed=11, recorder=off or Recorder())
    return Pair(first, replace(first, costs=ON, seed=23, recorder=on or off or Recorder()))


def worst(result: Attribution, truth: Truth) -> float:
    """Largest error of the four causes, of the off arm's step."""
    errors = errors_of(shares_of(result), truth)
    return max(abs(errors[cause]) for cause in CAUSES) / truth.off_us


def damaged(pair: Pair, damage: object) -> tuple[SimulatedTrace, SimulatedTrace]:
    assert callable(damage)
    off, on = pair.traces()
    return damage(off, 1), damage(on, 2)


@pytest.mark.parametrize("load", [WORKER, OVERLAP, EAGER], ids=["worker", "overlap", "eager"])
def test_lost_kernel_rows_move_no_share(load: Load) -> None:
    pair = recorded(load)
    traces = damaged(pair, lambda trace, seed: lose_rows(trace, "kernel", 0.005, seed))
    assert worst(attributed(*traces), truth_of(pair)) <= TOLERANCE


@pytest.mark.parametrize("load", [WORKER, OVERLAP, EAGER], ids=["worker", "overlap", "eager"])
def test_a_clock_of_a_microsecond_moves_no_share(load: Load) -> None:
    pair = recorded(load)
    traces = damaged(pair, lambda trace, _: coarse_clock(trace, 1000))
    assert worst(attributed(*traces), truth_of(pair)) <= TOLERANCE


@pytest.mark.parametrize("load", [WORKER, OVERLAP, EAGER], ids=["worker", "overlap", "eager"])
def test_rows_that_end_before_they_begin_are_left_out_and_counted(load: Load) -> None:
    pair = recorded(load)
    off, on = pair.traces()
    off, on = spoil_durations(off, (0, -1, -(10**9))), spoil_durations(on, (0, -(10**6)))
    result = attributed(off, on)
    assert worst(result, truth_of(pair)) <= TOLERANCE
    assert [note for note in result.notes if "3 GPU rows of the off arm and 2 of the on arm" in note]
    assert not any("GPU rows of the off arm" in note for note in attributed(*pair.traces()).notes)


def test_one_row_that_is_left_out_is_one_row() -> None:
    off, on = recorded(EAGER).traces()

    notes = attributed(spoil_durations(off, (-1,)), on).notes

    assert [
        note for note in notes if note.startswith("1 GPU row of the off arm and 0 of the on arm are left")
    ]


def test_hand_overs_that_were_not_recorded_are_inferred() -> None:
    pair = recorded(WORKER, Recorder(hand_overs=False))
    assert worst(attributed(*pair.traces()), truth_of(pair)) <= TOLERANCE


@pytest.mark.parametrize("load", [WORKER, OVERLAP], ids=["worker", "overlap"])
@pytest.mark.parametrize("level", ["stamps", "none"])
def test_without_rows_of_kernels_the_large_causes_are_still_found(load: Load, level: str) -> None:
    pair = recorded(load, Recorder(gpu=level))  # type: ignore[arg-type]
    result, truth = attributed(*pair.traces()), truth_of(pair)
    assert result.kind_of_input == {"stamps": "graphs", "none": "host-only"}[level]
    assert any("GPU times are" in note for note in result.notes)
    assert worst(result, truth) <= 2 * TOLERANCE


def test_collectives_in_graphs_that_have_one_row_are_not_told_from_other_work() -> None:
    load = replace(OVERLAP, execution="pieces", pieces=4, ranks=2, collectives=20)
    result = attributed(*recorded(load, Recorder(gpu="stamps")).traces())
    assert result.shares is not None
    assert result.residual is not None
    assert result.shares.nvlink is None
    assert result.shares.nvlink_unknown_because
    assert result.residual.gpu_holds_nvlink


def test_collectives_of_ranks_end_together_and_count_from_the_last_one() -> None:
    load = replace(OVERLAP, execution="pieces", pieces=4, ranks=2, collectives=20)
    only_nvlink = replace(OFF, peer_us=30.0)
    pair = recorded(load)
    pair = replace(pair, on=replace(pair.on, costs=only_nvlink))
    truth = truth_of(pair)
    assert truth.shares["nvlink"] > 5 * TOLERANCE * truth.off_us
    assert worst(attributed(*pair.traces()), truth) <= TOLERANCE


@pytest.mark.parametrize("load", [OVERLAP, EAGER], ids=["overlap", "eager"])
def test_what_the_recorder_takes_is_no_toll(load: Load) -> None:
    pair = recorded(load, Recorder(tax_us=1.0), Recorder(tax_us=4.0))
    assert worst(attributed(*pair.traces()), truth_of(pair)) <= TOLERANCE


def test_distorted_host_times_give_no_shares() -> None:
    result = attributed(*recorded(EAGER, Recorder(distorted=True)).traces())
    assert result.shares is None
    assert any("distorted" in reason for reason in result.refused_because)
