"""Attributions of the shipped recordings of the verification suite, beside what their programs lost."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

pytest.importorskip("numpy")

from groundtruth import measuring, shares
from groundtruth.shares import CAUSES, Found
from groundtruth.truth import Range, truth_of

FOLDER = Path(__file__).resolve().parents[2] / "sample_traces" / "groundtruth"
pytestmark = pytest.mark.skipif(
    not any(FOLDER.glob("*.parquet")), reason="sample_traces/ holds no trace (they are not checked out)"
)
BAR_PCT = 2.0
"""Of the step without costs."""


@cache
def found() -> tuple[Found, ...]:
    results = measuring.load(FOLDER / "results")
    pairs = shares.pairs(results, FOLDER, ())
    return tuple(one for one in (shares.found_in(*pair) for pair in pairs) if one is not None)


def test_every_recording_is_compared() -> None:
    zero = {path.name for path in FOLDER.glob("*-zero.parquet")}
    arms = {path.stem for path in FOLDER.glob("*.parquet") if path.name not in zero}
    assert {f"{one.scenario}-{one.arm}" for one in found()} == arms


def test_each_share_is_what_was_lost() -> None:
    for one in found():
        assert one.shares is not None, one.replay.refused_because
        for cause in CAUSES:
            assert abs(one.error(cause, one.shares[cause])) < BAR_PCT, (one.scenario, one.arm, cause)


def test_what_the_gpu_hides_is_no_share() -> None:
    hidden = [one for one in found() if one.truth.delta_us.high < 10]
    assert len(hidden) >= 3
    for one in hidden:
        assert one.shares is not None
        assert max(map(abs, one.shares.values())) < BAR_PCT / 100 * one.truth.off_us.middle


def test_shares_and_residual_are_the_difference_and_the_model_is_right() -> None:
    for one in found():
        assert one.shares is not None
        residual = one.replay.residual
        assert residual is not None
        assert sum(one.shares.values()) + residual.total_us == pytest.approx(one.replay.delta_us, abs=0.1)
        assert abs(residual.model_error_us) < BAR_PCT / 100 * one.replay.off_step_us


def test_simpler_methods_are_further_off() -> None:
    for one in found():
        if one.truth.shares["overlap"].low > 0:
            assert one.score(one.shares) < min(one.score(one.sums), one.score(one.path)) / 10


@pytest.mark.parametrize("arm", ["zero", "launch+pcie+overlap"])
@pytest.mark.parametrize("scenario", ["server-graph-overlap", "server-graph-worker"])
def test_halves_of_a_recording_do_not_differ(scenario: str, arm: str, tmp_path: Path) -> None:
    first, second = shares.halves(FOLDER / f"{scenario}-{arm}.parquet", tmp_path)
    one = shares.decode_of(second, first)
    of_causes = shares.shares_of(one)
    assert of_causes is not None, one.refused_because
    assert max(map(abs, of_causes.values())) < BAR_PCT / 100 * one.off_step_us


# --- the truth


def result(**arms: list[list[float]]) -> dict[str, object]:
    """A result with the step times (ms) of the rounds of each process of each arm."""
    return {
        "scenario": {"name": "any", "step": "step_ms"},
        "arms": {
            name.replace("_", "+"): [{"rounds": {"work": {"step_ms": rounds}}} for rounds in processes]
            for name, processes in arms.items()
        },
    }


def test_the_truth_is_the_mean_over_the_orders_of_causes() -> None:
    measured = result(zero=[[1.0]], launch=[[1.0]], overlap=[[1.5]], launch_overlap=[[1.7]])
    truth = truth_of(measured, "launch+overlap", CAUSES)
    assert truth is not None
    # Launch costs nothing first, and 200 µs after overlap; overlap 500 first, and 700 after launch.
    assert truth.shares["launch"].middle == pytest.approx(100)
    assert truth.shares["overlap"].middle == pytest.approx(600)
    assert truth.shares["pcie"] == Range(0, 0)
    assert truth.delta_us.middle == pytest.approx(700)


def test_rounds_and_processes_that_differ_make_a_range() -> None:
    measured = result(zero=[[1.0, 1.0], [1.0, 1.0]], overlap=[[1.4, 1.6], [1.5, 1.7]])
    truth = truth_of(measured, "overlap", CAUSES)
    assert truth is not None
    assert truth.shares["overlap"].low == pytest.approx(400)  # the fastest round
    assert truth.shares["overlap"].high == pytest.approx(600)  # the mean of the slower process
    assert truth.shares["overlap"].distance(500) == 0
    assert truth.shares["overlap"].distance(350) == pytest.approx(-50)
    assert truth.shares["overlap"].distance(650) == pytest.approx(50)


def test_without_an_arm_of_fewer_causes_there_is_no_truth() -> None:
    measured = result(zero=[[1.0]], launch=[[1.0]], launch_overlap=[[1.7]])
    assert truth_of(measured, "launch+overlap", CAUSES) is None
