"""Sweeps as they are published, and what they are known to mean."""

import pytest
from attributions import attribution

from cctrace.analyzers.findings import SweepPoint, Trend, trends_of
from cctrace.analyzers.findings.trends import sweep_point
from cctrace.trace import Acceptance, Metadata
from cctrace.trace.acceptance import Load, Results


def sweep(
    losses: dict[int, float],
    axis: str = "concurrency",
    busy: dict[int, tuple[float, float]] | None = None,
    nvlink: dict[int, float] | None = None,
) -> Trend:
    points = [
        SweepPoint(
            concurrency=float(where) if axis == "concurrency" else 32.0,
            input_len=float(where) if axis == "input_len" else 1024.0,
            loss_pct=loss,
            off_utilization_pct=(busy or {}).get(where, (None, None))[0],
            on_utilization_pct=(busy or {}).get(where, (None, None))[1],
            nvlink_pct=(nvlink or {}).get(where),
            overlap_pct=None,
        )
        for where, loss in losses.items()
    ]
    (trend,) = trends_of(points)
    return trend


def test_the_published_overlap_sweep_is_the_readback() -> None:
    trend = sweep({16: 34.4, 32: 34.6, 64: 38.9}, busy={64: (74.0, 57.0)})

    assert trend.diagnosis == "read-back"
    assert trend.change_pct == pytest.approx(4.5)
    assert trend.agreement == 1
    assert "D2H worker" in (trend.remedy or "")


def test_a_loss_that_falls_with_concurrency_is_a_fixed_toll() -> None:
    published = {1: 18.40, 4: 16.74, 8: 15.14, 16: 13.85, 32: 9.84, 64: 7.36, 128: 4.80, 256: 2.83}

    assert sweep(published).diagnosis == "fixed toll"


def test_input_length_with_a_growing_nvlink_share_is_nvlink() -> None:
    losses = {4096: 9.0, 16384: 12.0, 32768: 14.5}

    assert sweep(losses, "input_len", nvlink={4096: 3.0, 16384: 6.0, 32768: 9.0}).diagnosis == "nvlink"
    assert sweep(losses, "input_len", nvlink={4096: 3.0, 16384: 3.0, 32768: 3.1}).diagnosis == "unexplained"
    assert sweep(losses, "input_len").diagnosis == "cannot tell"


def test_input_length_that_lowers_the_loss_is_no_nvlink() -> None:
    assert sweep({4096: 11.1, 16384: 5.0, 32768: 1.9}, "input_len").diagnosis == "fixed toll"


def test_a_rise_with_a_busy_gpu_is_not_the_readback() -> None:
    busy = {16: (90.0, 89.0), 32: (91.0, 90.0), 64: (92.0, 91.0)}

    assert sweep({16: 2.0, 32: 4.0, 64: 6.0}, busy=busy).diagnosis == "unexplained"
    assert sweep({16: 2.0, 32: 4.0, 64: 6.0}).diagnosis == "cannot tell"


@pytest.mark.parametrize(
    ("losses", "diagnosis"),
    [
        ({16: 2.0, 64: 9.0}, "cannot tell"),
        ({16: 2.0, 32: 2.9, 64: 3.1}, "no trend"),
        ({4: 2.0, 8: 2.6, 16: 5.3, 32: 6.3, 64: 6.2, 128: 7.5, 256: 4.6}, "no trend"),
    ],
)
def test_two_points_noise_and_ups_and_downs_are_no_trend(losses: dict[int, float], diagnosis: str) -> None:
    assert sweep(losses).diagnosis == diagnosis


def test_a_point_prefers_what_the_load_client_measured() -> None:
    def run(tokens: float | None, busy: float) -> Metadata:
        results = Results(output_throughput=tokens, utilization=busy)
        return Metadata(acceptance=Acceptance(load=Load(concurrency=16, input_len=1024), results=results))

    said = attribution()
    measured = sweep_point(said, run(3828.0, 74.0), run(2513.0, 57.0))
    from_steps = sweep_point(said, run(None, 74.0), run(2513.0, 57.0))

    assert measured.loss_pct == pytest.approx(34.4, abs=0.1)
    assert (measured.concurrency, measured.input_len) == (16, 1024)
    assert (measured.off_utilization_pct, measured.on_utilization_pct) == (74.0, 57.0)
    assert from_steps.loss_pct == pytest.approx(100 * (1 - said.off_step_us / said.on_step_us))
    assert measured.nvlink_pct == pytest.approx(said.shares.nvlink.share_pct_of_off)  # type: ignore[union-attr]


def test_a_sweep_of_one_point_says_nothing() -> None:
    point = sweep_point(attribution(), Metadata(), Metadata())

    assert trends_of([point, point]) == ()
