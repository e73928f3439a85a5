"""Whole attributions: what they say, and how."""

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from simulator import OFF, ON, Load, Recorder, Run, simulate
from simulator.attributed import attributed
from simulator.scenarios import pair_of, serving

from cctrace.analyzers.attribution.breakdown import MAX_MODEL_ERROR, ClassEffects, Knowledge, breakdown
from cctrace.analyzers.attribution.result import CAUSES, PLAYERS, Attribution
from cctrace.analyzers.results import result_schema
from cctrace.cli import main


@pytest.fixture(scope="module")
def overlap() -> Attribution:
    return attributed(*pair_of(serving(16)).traces())


def test_the_document_follows_its_schema(overlap: Attribution) -> None:
    document = json.loads(json.dumps(overlap.to_json(), allow_nan=False))
    jsonschema.validate(document, result_schema(Attribution, "attribution"))
    shares = ("share_us", "share_pct_of_off", "alone_us", "saved_if_removed_us", "hidden_us", "ci_us")
    for cause in CAUSES:
        assert set(shares) <= set(document["shares"][cause])
    assert {"host_us", "gpu_us", "model_error_us"} <= set(document["residual"])
    whole = ("off_step_us", "on_step_us", "delta_us", "denominator", "verdict", "comparability", "labels")
    assert set(whole) <= set(document)
    assert set(document["phases"]) >= {"decode", "prefill", "mixed"}


def test_three_counterfactuals_and_the_raw_toll_are_told_apart(overlap: Attribution) -> None:
    assert overlap.shares is not None
    launch, lost = overlap.shares.launch, overlap.shares.overlap
    # Alone a toll hides behind the GPU; where overlap is lost it shows.
    assert abs(launch.alone_us) < 5 < launch.saved_if_removed_us
    assert launch.alone_us <= launch.share_us <= launch.saved_if_removed_us < launch.raw_toll_us
    assert launch.hidden_us == pytest.approx(launch.raw_toll_us - launch.share_us)
    assert lost.share_us > 0.9 * overlap.delta_us


def test_places_say_where_and_what_they_save(overlap: Attribution) -> None:
    (decode,) = overlap.classes
    first = decode.sites[0]
    assert (first.cause, first.category, first.bytes) == ("overlap", "copy d2h", 128)
    assert first.thread == "scheduler 4200"
    assert first.saved_if_removed_us == pytest.approx(overlap.delta_us, rel=0.1)
    assert first.on_us > 100 * first.off_us
    assert [site.saved_if_removed_us for site in decode.sites] == sorted(
        (site.saved_if_removed_us for site in decode.sites), reverse=True
    )


def test_labels_of_both_arms_are_carried() -> None:
    pair = pair_of(Load(kernels=20))
    off, on = pair.traces()
    on = replace(on, metadata=replace(on.metadata, labels=("emulated", "devtools")))
    assert attributed(off, on).labels == ("emulated", "devtools")


def test_distorted_host_times_are_refused() -> None:
    pair = pair_of(Load(kernels=20))
    distorted = replace(pair.on, recorder=Recorder(distorted=True))
    result = attributed(simulate(pair.off).trace(cc_mode="off"), simulate(distorted).trace(cc_mode="on"))
    assert result.shares is None
    assert "CUPTI distorted the host times" in result.refused_because[0]
    assert result.delta_us == pytest.approx(result.on_step_us - result.off_step_us)


def effects(error: float = 0.0, count: int = 100, off: float = 1000.0, on: float = 1500.0) -> ClassEffects:
    """A class in which launch takes everything, whose replay misses the on arm by `error`."""
    share = np_array(on - off + error)
    return ClassEffects(count, count, count, off, on, off, on + error, share, share, share, share)


def np_array(launch: float) -> np.ndarray:

    values = np.zeros(len(PLAYERS))
    values[PLAYERS.index("launch")] = launch
    return values


KNOWN = Knowledge(None)


@pytest.mark.parametrize(("error", "refused"), [(0.9, False), (1.1, True), (-1.1, True)])
def test_a_replay_that_misses_the_measured_steps_is_refused(error: float, refused: bool) -> None:
    one = breakdown("decode", [effects(error * MAX_MODEL_ERROR * 1000.0)], (100, 100), KNOWN)
    assert bool(one.refused_because) == refused
    assert (one.shares is None) == (one.residual is None) == refused
    if refused:
        assert f"{22} µs {'longer' if error > 0 else 'shorter'}" in one.refused_because[0]


def test_what_the_replay_misses_is_model_error() -> None:
    one = breakdown("decode", [effects(-10.0)], (100, 100), KNOWN)
    assert one.residual is not None
    assert one.residual.model_error_us == pytest.approx(10.0)
    assert one.residual.total_us == pytest.approx(10.0)


def test_another_mix_of_steps_is_a_part_of_its_own() -> None:
    decode, prefill = effects(), replace(effects(off=9000.0, on=9500.0), off_count=10, on_count=25)
    one = breakdown("all steps", [decode, prefill], (110, 125), KNOWN)
    assert one.shares is not None
    assert one.residual is not None
    assert one.residual.schedule_mix_us > 500
    total = sum(getattr(one.shares, cause).share_us for cause in CAUSES) + one.residual.total_us
    assert total == pytest.approx(one.delta_us)
    assert one.residual.model_error_us == pytest.approx(0.0)


def test_what_cannot_be_told_is_null_and_lies_in_the_residual() -> None:
    one = breakdown("decode", [effects()], (100, 100), Knowledge("no rows of kernels"))
    assert one.shares is not None
    assert one.residual is not None
    assert one.shares.nvlink is None
    assert one.shares.nvlink_unknown_because == "no rows of kernels"
    assert one.residual.gpu_holds_nvlink


def test_a_damaged_file_is_one_clear_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Run(Load(kernels=20), OFF, steps=40)
    on = simulate(replace(run, costs=ON)).trace(cc_mode="on").write(tmp_path / "on.parquet")
    (tmp_path / "off.parquet").write_bytes(on.read_bytes()[:5000])
    monkeypatch.setattr("sys.argv", ["cctrace", "diff", str(on), str(tmp_path / "off.parquet")])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    assert "Traceback" not in capsys.readouterr().err
