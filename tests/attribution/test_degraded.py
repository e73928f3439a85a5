"""What is missing in a recording, and what an attribution makes of it."""

from dataclasses import replace

import pyarrow as pa
import pytest
from simulator import ON, Load, Pair, Recorder, Run, Truth, simulate, truth_of
from simulator.attributed import attributed, errors_of, shares_of
from simulator.faults import lose_lane, lose_rows, spoil_durations
from simulator.recording import SimulatedTrace
from simulator.scenarios import pair_of, parallel, serving

from cctrace.analyzers.attribution.engine import attribute
from cctrace.analyzers.attribution.kernel_times import kernel_times_of
from cctrace.analyzers.attribution.result import Attribution
from cctrace.analyzers.loading import load
from cctrace.errors import UnusableInputError
from cctrace.trace import open_trace

ALLOWED = 0.02
"""Errors of shares, of the off arm's step."""


def recorded(pair: Pair, recorder: Recorder) -> Pair:
    return Pair(replace(pair.off, recorder=recorder), replace(pair.on, recorder=recorder))


def worst(result: Attribution, truth: Truth, *without: str) -> float:
    errors = errors_of(shares_of(result), truth)
    return max(abs(error) for name, error in errors.items() if name not in without) / truth.off_us


@pytest.fixture(scope="module")
def overlap() -> tuple[Pair, Truth]:
    pair = pair_of(serving(16))
    return pair, truth_of(pair)


@pytest.mark.parametrize(("gpu", "kind"), [("nodes", "kernels"), ("stamps", "graphs"), ("none", "host-only")])
def test_every_kind_of_input_gives_the_shares(overlap: tuple[Pair, Truth], gpu: str, kind: str) -> None:
    pair, truth = overlap
    result = attributed(*recorded(pair, Recorder(gpu=gpu)).traces())  # type: ignore[arg-type]
    assert result.kind_of_input == kind
    # Without rows, GPU time that a copy spends and one that a kernel spends look the same.
    without = () if gpu == "nodes" else ("gpu",)
    assert worst(result, truth, *without) < ALLOWED


def test_rows_that_are_lost_move_little(overlap: tuple[Pair, Truth]) -> None:
    pair, truth = overlap
    off, on = pair.traces()
    result = attributed(lose_rows(off, "kernel", 0.005), lose_rows(on, "kernel", 0.005, seed=2))
    assert worst(result, truth) < ALLOWED


def test_durations_that_cannot_be_are_left_out_and_counted(overlap: tuple[Pair, Truth]) -> None:
    pair, truth = overlap
    off, on = pair.traces()
    result = attributed(spoil_durations(off, (0, -5_000, -1)), on)
    assert worst(result, truth) < ALLOWED
    assert any("3 GPU rows" in note for note in result.notes)


def test_hand_overs_that_are_not_recorded_are_inferred() -> None:
    pair = pair_of(serving(32, readback="worker"))
    truth = truth_of(pair)
    seen = attributed(*pair.traces())
    inferred = attributed(*recorded(pair, Recorder(hand_overs=False)).traces())
    assert worst(seen, truth) < ALLOWED
    assert worst(inferred, truth) < ALLOWED


def test_a_thread_that_is_not_recorded_makes_no_false_claim() -> None:
    pair = pair_of(serving(32, readback="worker"))
    off, on = recorded(pair, Recorder(hand_overs=False)).traces()
    result = attributed(lose_lane(off, "copy-worker"), lose_lane(on, "copy-worker"))
    # Nothing says any more that the scheduler waited: its time is host time, and no cause's.
    if result.shares is not None:
        shares = shares_of(result)
        assert abs(shares["pcie"]) + abs(shares["nvlink"]) < ALLOWED * result.off_step_us


class TestCollectives:
    """Two ranks whose collectives cost more in the on arm."""

    pair = pair_of(parallel(2), ON)

    def test_rows_of_kernels_tell_nvlink(self) -> None:
        truth = truth_of(self.pair)
        assert truth.shares["nvlink"] > 0.003 * truth.off_us
        result = attributed(*self.pair.traces())
        assert result.shares is not None
        assert result.shares.nvlink is not None
        assert result.shares.nvlink.share_us == pytest.approx(truth.shares["nvlink"], rel=0.05)

    def test_without_them_it_lies_in_gpu_and_the_result_says_so(self) -> None:
        truth = truth_of(self.pair)
        result = attributed(*recorded(self.pair, Recorder(gpu="stamps")).traces())
        assert result.shares is not None
        assert result.residual is not None
        assert result.shares.nvlink is None
        assert "NVLink" in (result.shares.nvlink_unknown_because or "")
        assert result.residual.gpu_holds_nvlink
        assert result.residual.gpu_us == pytest.approx(truth.shares["nvlink"], rel=0.2)

    @pytest.mark.parametrize("gpu", ["stamps", "none"])
    def test_kernel_times_of_another_recording_tell_it_again(self, gpu: str, tmp_path: object) -> None:
        truth = truth_of(self.pair)
        result = with_kernel_times(recorded(self.pair, Recorder(gpu=gpu)), tmp_path)  # type: ignore[arg-type]
        assert result.kind_of_input == "kernels"
        assert result.shares is not None
        assert result.shares.nvlink is not None
        # What kernels of the two runs take longer by chance is in it as well.
        allowed = 0.002 * truth.off_us
        assert result.shares.nvlink.share_us == pytest.approx(truth.shares["nvlink"], abs=allowed)


def with_kernel_times(pair: Pair, folder: object) -> Attribution:
    nodes = simulate(replace(pair.off, recorder=Recorder(distorted=True), seed=77)).trace(cc_mode="off")
    off, on = pair.traces()
    loaded = [
        load(open_trace(trace.write(f"{folder}/{name}.parquet")))
        for name, trace in (("off", off), ("on", on), ("nodes", nodes))
    ]
    return attribute(loaded[1], loaded[0], kernel_times_of(loaded[2]))


def test_a_recording_without_kernel_rows_has_no_kernel_times(tmp_path: object) -> None:
    trace = simulate(Run(Load(kernels=20), steps=30, recorder=Recorder(gpu="none"))).trace()
    with pytest.raises(UnusableInputError, match="no kernel times"):
        kernel_times_of(load(open_trace(trace.write(f"{tmp_path}/none.parquet"))))


def test_a_recorder_that_takes_longer_in_one_arm_is_no_toll(overlap: tuple[Pair, Truth]) -> None:
    pair, truth = overlap
    taxed = Pair(
        replace(pair.off, recorder=Recorder(tax_us=2.0)), replace(pair.on, recorder=Recorder(tax_us=5.0))
    )
    result = attributed(*taxed.traces())
    assert worst(result, truth) < ALLOWED
    assert any("recording made a step" in note for note in result.notes)


def test_arms_of_different_work_have_nothing_in_common() -> None:
    marks = Recorder(marks=False)
    off = simulate(Run(Load(execution="graph", kernels=40), steps=40, recorder=marks)).trace(cc_mode="off")
    on = simulate(Run(Load(execution="eager", kernels=160), steps=40, recorder=marks)).trace(cc_mode="on")
    result = attributed(off, on)
    assert result.shares is None
    assert result.refused_because
    assert result.headline.startswith("Cannot attribute, because")


def test_events_without_numbers_are_said_to_be_missing(overlap: tuple[Pair, Truth]) -> None:
    def without_refs(trace: SimulatedTrace) -> SimulatedTrace:
        column = trace.table.schema.get_field_index("ref")
        empty = pa.nulls(trace.table.num_rows, trace.table.schema.field(column).type)
        return trace.with_table(trace.table.set_column(column, "ref", empty))

    off, on = (without_refs(trace) for trace in recorded(overlap[0], Recorder(gpu="stamps")).traces())
    result = attributed(off, on)
    # The scheduler seems never to wait: the replay cannot give the recorded steps, and no shares are shown.
    assert result.shares is None
    assert any("synchronizations with events" in note for note in result.notes)
